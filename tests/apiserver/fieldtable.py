"""Make scheduler/objects/types.json from a kube-apiserver's own OpenAPI document.

Facts only: the field names of the served kinds, their types and how lists merge; no descriptions.
Used by the case that compares the file with a real API server, and by hand for a new Kubernetes
version:

    python -m tests.apiserver.fieldtable openapi-v2.json GO_MODULES/k8s.io >
"""

import json
import re
import sys
from pathlib import Path

from scheduler.sandbox.kinds.kinds import BUILT_IN, RELEASES, of_release

_PREFIXES = (
    "io.k8s.api.",
    "io.k8s.apimachinery.pkg.apis.",
    "io.k8s.apiextensions-apiserver.pkg.apis.",
)
_LEAVES = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "quantity",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "intstr",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": "time",
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime": "microtime",
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1": "any",
    "io.k8s.apimachinery.pkg.runtime.RawExtension": "any",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON": "any",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps": "any",
}
_SINCE_1_37 = tuple(row for row in of_release(RELEASES[1]) if row not in BUILT_IN)
_EXTRA = ("Scale", "DeleteOptions", "Status", "Eviction", "TokenRequest")


def build_since(document, before):
    """Return the additions of a later release to the table `before`: its kinds of groups, Jobs'
    fields about them, rules that taint devices, and fields of pods whose gates are off.
    """
    table = build(document, _SINCE_1_37)
    job, spec = (dict(before["types"][name]) for name in ("batch.v1.Job", "batch.v1.JobSpec"))
    spec["scheduling"] = table["types"]["batch.v1.JobSpec"]["scheduling"]
    job["spec"] = job["spec"].replace("batch.v1.JobSpec", "batch.v1.JobSpec~1.37")
    new = {name: each for name, each in table["types"].items() if name not in before["types"]}
    reached, todo = {}, ["batch.v1.JobSchedulingConfiguration"]
    added = ("scheduling.", "resource.")
    todo += [name for name in table["kinds"].values() if name.startswith(added)]
    while todo:
        name = todo.pop()
        if name in new and name not in reached:
            reached[name] = new[name]
            todo += map(_behind, new[name].values())
    kinds = {kind: name for kind, name in table["kinds"].items() if name in reached}
    return {
        "kinds": {**kinds, "batch/v1/Job~1.37": "batch.v1.Job~1.37"},
        "types": {
            **dict(sorted(reached.items())),
            "batch.v1.Job~1.37": job,
            "batch.v1.JobSpec~1.37": spec,
        },
        "gated": gated(table["types"], before["types"]),
    }


def gated(types, before):
    """Return the fields that a later release adds to the types of a pod, by type: an API server
    with its default gates drops them.
    """
    found, todo = {}, ["core.v1.PodSpec"]
    while todo:
        name = todo.pop()
        if name in found or name not in before:
            continue
        found[name] = sorted(types[name].keys() - before[name].keys())
        todo += [_behind(code) for code in types[name].values()]
    return {name: fields for name, fields in sorted(found.items()) if fields}


def _behind(code):
    """Return the type of a field, or of its values if it is a list or a map."""
    return re.sub(r"^[\[\]{}]*|[ !].*$", "", code)


def build(document, rows=BUILT_IN):
    """The table {"kinds": {"group/version/Kind": type}, "types": {type: {field: code}}}."""
    definitions = document["definitions"]
    wanted = {(row.group, row.version, row.kind) for row in rows}
    kinds, todo = {}, []
    for name, definition in definitions.items():
        for gvk in definition.get("x-kubernetes-group-version-kind", ()):
            key = (gvk["group"], gvk["version"], gvk["kind"])
            if key in wanted or (gvk["kind"] in _EXTRA and name.startswith("io.k8s.api.")):
                kinds["/".join(key)] = _short(name)
                todo.append(name)
    types: dict[str, dict[str, str]] = {}
    while todo:
        name = todo.pop()
        if _short(name) in types or name in _LEAVES:
            continue
        fields = types[_short(name)] = {}
        definition = definitions[name]
        required = definition.get("required", ())
        for field, schema in sorted(definition.get("properties", {}).items()):
            code = _code(schema, todo)
            fields[field] = code + _merging(schema) + ("!" if field in required else "")
    return {"kinds": dict(sorted(kinds.items())), "types": dict(sorted(types.items()))}


_STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(
    r'^\s*(?:(\w+)\s+)?(\S+)\s+`json:"([^"]*)".*?protobuf:"\w+,(\d+),', re.MULTILINE
)


def wire(table, modules):
    """Field numbers {type: "number=name ..."}: `*` keeps zeros, `+` names a struct that is
    inlined.
    """
    numbers = {}
    todo = list(table["types"])
    sources = {}
    while todo:
        name = todo.pop()
        package, _, struct = name.rpartition(".")
        if package not in sources:
            sources[package] = _structs(modules, package)
        fields = sources[package].get(struct)
        if fields is None or name in numbers:
            continue
        parts = []
        for kind, tag, number in fields:
            json_name, *options = tag.split(",")
            if "inline" in options:
                if kind.rpartition(".")[2] == "TypeMeta":
                    continue
                inner = f"{package}.{kind}"
                parts.append(f"{number}=+{inner}")
                todo.append(inner)
            else:
                keeps = kind.startswith("*") or "omitempty" not in options
                parts.append(f"{number}={'*' if keeps else ''}{json_name}")
        numbers[name] = " ".join(parts)
    return dict(sorted(numbers.items()))


def _structs(modules, package):
    group, _, version = package.partition(".")
    roots = {
        "meta": "apimachinery@*/pkg/apis",
        "apiextensions": "apiextensions-apiserver@*/pkg/apis",
    }
    short = {"rbac": "rbac", "apiextensions": "apiextensions"}.get(group, group)
    found = sorted(
        modules.glob(f"{roots.get(group, 'api@*')}/{short.split('.')[0]}/{version}/types.go")
    )
    if not found:
        return {}
    text = found[0].read_text(encoding="utf-8")
    return {
        struct: [(kind, tag, number) for _, kind, tag, number in _FIELD.findall(body)]
        for struct, body in _STRUCT.findall(text)
    }


def _code(schema, todo):
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/definitions/")
        if name in _LEAVES:
            return _LEAVES[name]
        todo.append(name)
        return _short(name)
    kind = schema.get("type", "any")
    if kind == "array":
        return "[]" + _code(schema["items"], todo)
    if kind == "object":
        inner = schema.get("additionalProperties")
        return "{}" + _code(inner, todo) if inner else "any"
    if kind == "string" and schema.get("format") == "byte":
        return "bytes"
    if kind == "integer":
        return "int64" if schema.get("format") == "int64" else "int32"
    return {"boolean": "bool"}.get(kind, kind)


def _merging(schema):
    text = ""
    strategy = schema.get("x-kubernetes-patch-strategy")
    if strategy:
        text += f" patch={strategy}"
    if "x-kubernetes-patch-merge-key" in schema:
        text += f" key={schema['x-kubernetes-patch-merge-key']}"
    if "x-kubernetes-list-type" in schema:
        text += f" list={schema['x-kubernetes-list-type']}"
    if "x-kubernetes-list-map-keys" in schema:
        text += f" keys={','.join(schema['x-kubernetes-list-map-keys'])}"
    if "x-kubernetes-map-type" in schema:
        text += f" map={schema['x-kubernetes-map-type']}"
    return text


def _short(name):
    for prefix in _PREFIXES:
        if name.startswith(prefix):
            return name.removeprefix(prefix)
    return name


def shipped(name):
    """A table as it lies in the package."""
    file = Path(__file__).parents[2] / "scheduler" / "objects" / name
    return json.loads(file.read_text(encoding="utf-8"))


def render(table):
    """Return the file's text: one type per line, so that a new version shows as a small diff."""
    parts = ["{", '"kinds": {']
    parts.append(",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in table["kinds"].items()))
    parts += ["},", '"types": {']
    parts.append(",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in table["types"].items()))
    parts += ["},", '"wire": {']
    parts.append(",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in table["wire"].items()))
    if "gated" in table:
        parts += ["},", '"gated": {']
        lines = (f"{json.dumps(k)}: {json.dumps(v)}" for k, v in table["gated"].items())
        parts.append(",\n".join(lines))
    parts += ["}", "}", ""]
    return "\n".join(parts)


if __name__ == "__main__":
    is_later = sys.argv[1] == "--since-1.37"
    *_, openapi, modules = sys.argv
    read = json.loads(Path(openapi).read_text(encoding="utf-8"))
    made = build_since(read, shipped("types.json")) if is_later else build(read)
    made["wire"] = wire(made, Path(modules))
    sys.stdout.write(render(made))
