"""Custom resources: definitions become rows of the kinds table, and their objects are validated.

`Definitions` listens to the store's CustomResourceDefinitions, those of the sandbox and those that
a user applies; `defaults.py` gets the rules of a custom resource from it. A definition is
established at once, at its creation.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scheduler.sandbox.api.status import (
    Cause,
    Object,
    invalid,
    invalid_value,
    not_supported,
    required,
)
from scheduler.sandbox.kinds.kinds import CUSTOMRESOURCEDEFINITIONS, Resource
from scheduler.sandbox.kinds.schema import Schema, shape_of
from scheduler.sandbox.kinds.typetable import TypeShape
from scheduler.sandbox.store.collection import DELETED

if TYPE_CHECKING:
    from scheduler.sandbox.store.store import ObjectStore

CLEANUP = "customresourcecleanup.apiextensions.k8s.io"


@dataclass(frozen=True, slots=True)
class ServedVersion:
    """The rules of one version of a definition for its objects."""

    resource: Resource
    schema: Schema
    columns: tuple[Object, ...]
    scale: Object | None
    shape: TypeShape


class Definitions:
    """The custom resources of a store, updated with its CustomResourceDefinitions."""

    def __init__(self, store: "ObjectStore") -> None:
        self._store = store
        self._served: dict[tuple[str, str], ServedVersion] = {}
        self._watch = store.watch(CUSTOMRESOURCEDEFINITIONS, wake=self._follow)

    def of(self, resource: Resource) -> ServedVersion | None:
        """Return the rules of a custom resource, None for built-in kinds."""
        return self._served.get((resource.storage, resource.version))

    def _follow(self) -> None:
        for change in self._watch.changes():
            if change.previous is not None:
                self._drop(change.previous.obj)
            if change.type != DELETED:
                self._add(change.stored.obj)
            else:
                self._store.wake(change.stored.obj["metadata"]["name"])

    def _drop(self, definition: Object) -> None:
        for version in definition["spec"]["versions"]:
            served = self._served.pop((definition["metadata"]["name"], version["name"]), None)
            if served is not None:
                self._store.kinds.remove(served.resource)

    def _add(self, definition: Object) -> None:
        spec = definition["spec"]
        for version in spec["versions"]:
            if not version.get("served"):
                continue
            served = _compile(spec, version)
            self._served[served.resource.storage, version["name"]] = served
            self._store.kinds.add(served.resource)


def _compile(spec: Object, version: Object) -> ServedVersion:
    names = spec["names"]
    sub = version.get("subresources") or {}
    resource = Resource(
        group=spec["group"],
        version=version["name"],
        kind=names["kind"],
        plural=names["plural"],
        singular=names["singular"],
        namespaced=spec["scope"] == "Namespaced",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        subresources=tuple(name for name in ("status", "scale") if name in sub),
        custom=True,
        selectable=tuple(
            entry["jsonPath"].lstrip(".") for entry in version.get("selectableFields") or ()
        ),
    )
    schema = Schema(
        version["schema"]["openAPIV3Schema"],
        preserve_unknown=bool(spec.get("preserveUnknownFields")),
    )
    columns = tuple(version.get("additionalPrinterColumns") or ())
    return ServedVersion(resource, schema, columns, sub.get("scale"), shape_of(schema.document))


def prepare_definition(obj: Object, now: str) -> None:
    """Default, check and establish a new definition in place; 422 when it is not acceptable."""
    spec = obj.setdefault("spec", {})
    names = spec.setdefault("names", {})
    kind = str(names.get("kind", ""))
    names.setdefault("singular", kind.lower())
    names.setdefault("listKind", f"{kind}List")
    spec.setdefault("conversion", {"strategy": "None"})
    check_definition(obj)
    unevaluated = _unevaluated(spec)
    finalizers = list(obj["metadata"].get("finalizers") or ())
    obj["metadata"]["finalizers"] = [*finalizers, CLEANUP]
    obj["status"] = {
        "conditions": [
            _condition("NamesAccepted", "NoConflicts", "no conflicts found", now),
            _condition(
                "Established", "InitialNamesAccepted", "the initial names have been accepted", now
            ),
            *_reported_unevaluated(unevaluated, now),
        ],
        "acceptedNames": dict(names),
        "storedVersions": [item["name"] for item in spec["versions"] if item.get("storage")],
    }


def _unevaluated(spec: Object) -> list[str]:
    """Yield the locations of CEL rules in the schemas, which the sandbox does not evaluate."""
    return [
        f"{version['name']}: {path}"
        for version in spec["versions"]
        for path in Schema(version["schema"]["openAPIV3Schema"]).unevaluated
    ]


def _reported_unevaluated(paths: list[str], now: str) -> list[Object]:
    if not paths:
        return []
    text = "the sandbox does not evaluate x-kubernetes-validations at " + ", ".join(paths)
    return [{**_condition("RulesEvaluated", "SandboxLimit", text, now), "status": "False"}]


def _condition(type_: str, reason: str, message: str, now: str) -> Object:
    return {
        "type": type_,
        "status": "True",
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    }


def check_definition(obj: Object) -> None:
    """Reject with 422 a definition that could not be served."""
    spec, name = obj["spec"], obj["metadata"].get("name", "")
    names = spec.get("names") or {}
    causes = [required(f"spec.names.{part}") for part in ("plural", "kind") if not names.get(part)]
    if not spec.get("group"):
        causes.append(required("spec.group"))
    wanted = f"{names.get('plural', '')}.{spec.get('group', '')}"
    if name != wanted:
        causes.append(
            invalid_value("metadata.name", name, 'must be spec.names.plural+"."+spec.group')
        )
    if spec.get("scope") not in ("Namespaced", "Cluster"):
        scope = spec.get("scope", "")
        causes.append(not_supported("spec.scope", scope, ("Cluster", "Namespaced")))
    causes += _check_versions(spec.get("versions") or [])
    if causes:
        raise invalid(CUSTOMRESOURCEDEFINITIONS, name, causes)


def _check_versions(versions: list[Object]) -> list[Cause]:
    causes: list[Cause] = []
    stored = [version for version in versions if version.get("storage")]
    if len(stored) != 1:
        causes.append(
            invalid_value(
                "spec.versions",
                _Shown("[]"),
                "must have exactly one version marked as storage version",
            )
        )
    for index, version in enumerate(versions):
        path = f"spec.versions[{index}].schema.openAPIV3Schema"
        document = (version.get("schema") or {}).get("openAPIV3Schema")
        if document is None:
            causes.append(required(path, "schemas are required"))
            continue
        causes += _structural(document, path)
        if causes:
            continue
        try:
            Schema(document)
        except ValueError as fault:
            causes.append(invalid_value(path, _Shown("{}"), str(fault)))
    return causes


def _structural(schema: Any, path: str) -> list[Cause]:
    """Every node of a structural schema has a type, unless it is int-or-string or free."""
    causes: list[Cause] = []
    free = schema.get("x-kubernetes-int-or-string") or schema.get(
        "x-kubernetes-preserve-unknown-fields"
    )
    if "type" not in schema and not free:
        causes.append(required(f"{path}.type", "must not be empty for specified object fields"))
    for name, inner in (schema.get("properties") or {}).items():
        causes += _structural(inner, f"{path}.properties[{name}]")
    if isinstance(schema.get("items"), dict):
        causes += _structural(schema["items"], f"{path}.items")
    extra = schema.get("additionalProperties")
    if isinstance(extra, dict):
        causes += _structural(extra, f"{path}.additionalProperties")
    return causes


class _Shown:
    def __init__(self, text: str) -> None:
        self._text = text

    def __str__(self) -> str:
        return self._text


def prepare_custom(served: ServedVersion, obj: Object, old: Object | None) -> None:
    """Prune, default and check an object of a custom resource in place; 422 with every fault."""
    resource, schema = served.resource, served.schema
    schema.prune(obj)
    schema.fill(obj)
    causes = schema.check(obj)
    if old is not None and not obj["metadata"].get("resourceVersion"):
        causes.append(_no_version())
    if causes:
        raise invalid(resource, obj["metadata"].get("name", ""), causes)


def _no_version() -> Cause:
    text = "Invalid value: 0x0: must be specified for an update"
    return Cause("FieldValueInvalid", "metadata.resourceVersion", text)
