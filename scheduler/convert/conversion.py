"""Objects in older formats → the same in the current one; every change is named.

AppGroup and NetworkTopology had several groups and spellings before the current ones; scheduler
configurations had `kind: Policy` and other plugin names. Pure: plain data in, plain data out.
Current objects and other kinds are returned unchanged.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any, Final, NamedTuple

import msgspec

from scheduler.base.errors import InputError
from scheduler.config.names import NOT_HERE, OLD_ARGS, OLD_NAMES
from scheduler.convert.oldpolicy import TableReference, configuration_of
from scheduler.objects.network import NETPERF_COSTS, USER_DEFINED

Json = dict[str, Any]

APP_GROUP: Final = "appgroup.diktyo.x-k8s.io/v1alpha1"
NETWORK_TOPOLOGY: Final = "networktopology.diktyo.x-k8s.io/v1alpha1"
OLD_GROUPS: Final = frozenset(
    (
        "scheduling.sigs.k8s.io",
        "diktyo.k8s.io",
        "appgroup.diktyo.k8s.io",
        "networktopology.diktyo.k8s.io",
    )
)
# Older dependencies had no limit, and an absent one is 0 now.
NO_LIMIT: Final = 10_000
_OF_A_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_MEASURED: Final = frozenset(("metricProvider", "configmapName"))
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class Converted(NamedTuple):
    """An object in the current format (None: it is not needed any more) and the changes."""

    object: Json | None
    changes: tuple[str, ...]


def convert_all(items: Iterable[tuple[Mapping[str, Any], str]]) -> Sequence[Converted]:
    """Return the current form of related objects, each with its location.

    A scheduler policy could not name its NetworkTopology: it is the only one among them.
    """
    given = list(items)
    done = [None if obj.get("kind") == "Policy" else convert(obj, at) for obj, at in given]
    costs = _costs(one.object for one in done if one is not None)
    return [
        convert(obj, at, costs) if one is None else one
        for one, (obj, at) in zip(done, given, strict=True)
    ]


def convert(
    obj: Mapping[str, Any],
    where: str,
    costs: TableReference = TableReference(),  # noqa: B008 - a tuple
) -> Converted:
    """Return the current form of an object; InputError names an unreadable part."""
    rewrite = _REWRITES.get(str(obj.get("kind")))
    if rewrite is None:
        return Converted(dict(obj), ())
    work = _Work(deepcopy(dict(obj)), where, costs)
    found = rewrite(work)
    return Converted(found, tuple(work.changes))


def _costs(objects: Iterable[Json | None]) -> TableReference:
    """Return the table of the only NetworkTopology.

    The usual name when there are none or several.
    """
    found = [one for one in objects if one is not None and one.get("kind") == "NetworkTopology"]
    if len(found) != 1:
        return TableReference()
    meta, spec = found[0].get("metadata") or {}, found[0].get("spec") or {}
    tables = spec.get("weights") or []
    measured = NETPERF_COSTS if _MEASURED & spec.keys() else USER_DEFINED
    weights = tables[0].get("name") if tables else measured
    return TableReference(
        str(meta.get("namespace") or "default"), str(meta.get("name")), str(weights), is_given=True
    )


class _Work(msgspec.Struct, eq=False):
    """An object that is being rewritten, and the changes so far."""

    obj: Json
    where: str
    costs: TableReference
    changes: list[str] = []

    def note(self, text: str) -> None:
        self.changes.append(text)

    def version(self, today: str) -> None:
        before = self.obj.get("apiVersion")
        if before != today:
            self.note(f"apiVersion: {before} is {today} today")
            self.obj["apiVersion"] = today

    def mapping(self, at: Mapping[str, Any], key: str, path: str) -> Json:
        found = at.get(key)
        if found is None:
            return {}
        if not isinstance(found, dict):
            raise InputError(f"{path}: expected a mapping", where=self.where)
        return found

    def mappings(self, at: Mapping[str, Any], key: str, path: str) -> list[Json]:
        found = at.get(key)
        if found is None:
            return []
        if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
            raise InputError(f"{path}: expected a list of mappings", where=self.where)
        return found

    def rename(self, at: Json, old: str, new: str, path: str) -> None:
        if old in at and new not in at:
            at[new] = at.pop(old)
            self.note(f"{path}.{old}: is called {new} today")

    def legal_name(self, at: Json, key: str, path: str) -> None:
        name = at.get(key)
        if isinstance(name, str) and name and not _OF_A_NAME.fullmatch(name):
            legal = _HUMP.sub("-", name).lower().replace("_", "-")
            if _OF_A_NAME.fullmatch(legal):
                at[key] = legal
                self.note(f'{path}.{key}: "{name}" is no legal name, written as "{legal}"')


def _app_group(work: _Work) -> Json:
    obj = work.obj
    work.version(APP_GROUP)
    work.legal_name(work.mapping(obj, "metadata", "metadata"), "name", "metadata")
    spec = obj.setdefault("spec", {})
    if not isinstance(spec, dict):
        raise InputError("spec: expected a mapping", where=work.where)
    for old in ("Pods", "pods"):
        if old in spec and not spec.get("workloads"):
            members = work.mappings(spec, old, f"spec.{old}")
            spec["workloads"] = [
                _member(work, one, f"spec.{old}[{at}]") for at, one in enumerate(members)
            ]
            del spec[old]
            work.note(f"spec.{old}: are spec.workloads today, with a selector each")
    workloads = work.mappings(spec, "workloads", "spec.workloads")
    for at, one in enumerate(workloads):
        path = f"spec.workloads[{at}]"
        _complete(work, work.mapping(one, "workload", f"{path}.workload"), f"{path}.workload")
        needs = work.mappings(one, "dependencies", f"{path}.dependencies")
        for place, need in enumerate(needs):
            inner = f"{path}.dependencies[{place}].workload"
            _complete(work, work.mapping(need, "workload", inner), inner)
    if not spec.get("topologySortingAlgorithm"):
        spec["topologySortingAlgorithm"] = "KahnSort"
        work.note("spec.topologySortingAlgorithm: KahnSort, which is what none meant")
    if not spec.get("numMembers"):
        spec["numMembers"] = max(1, len(workloads))
        work.note("spec.numMembers: the number of workloads")
    return _without_status(work)


def _member(work: _Work, member: Json, path: str) -> Json:
    """Return a workload from a pod of the early design, whose dependencies had several forms."""
    name, kind = member.get("name"), member.get("type") or "Pod"
    if not isinstance(name, str) or not name:
        raise InputError(f"{path}.name is missing", where=work.where)
    raw = member.get("dependencies") or []
    found: list[Json] = []
    for one in raw if isinstance(raw, list) else [raw]:
        if not isinstance(one, dict):
            raise InputError(f"{path}.dependencies: expected mappings", where=work.where)
        named = one.get("podAffinity", one.get("name"))
        names = named if isinstance(named, list) else [named]
        for other in names:
            if not isinstance(other, str) or not other:
                text = f"{path}.dependencies: each needs a name or podAffinity"
                raise InputError(text, where=work.where)
            need = {"workload": _reference(other, one.get("type") or kind)}
            kept = {key: one[key] for key in ("minBandwidth", "maxNetworkCost") if key in one}
            found.append({**need, "maxNetworkCost": NO_LIMIT, **kept})
            if "podAffinity" in one:
                work.note(f"{path}.dependencies.podAffinity: {other} is a dependency today")
            if "maxNetworkCost" not in kept:
                work.note(f"{path}.dependencies: {other} had no limit, written as {NO_LIMIT}")
    workload: Json = {"workload": _reference(name, kind)}
    return {**workload, "dependencies": found} if found else workload


def _reference(name: str, kind: Any) -> Json:
    return {"kind": kind, "name": name, "selector": name}


def _complete(work: _Work, reference: Json, path: str) -> None:
    name = reference.get("name") or reference.get("selector")
    if not isinstance(name, str):
        raise InputError(f"{path}: a name or a selector is missing", where=work.where)
    if "selector" not in reference:
        reference["selector"] = name
        work.note(f"{path}.selector: pods carry it as a label, so far the name {name} stood for it")
    reference.setdefault("name", name)
    reference.setdefault("kind", "Deployment")


def _network_topology(work: _Work) -> Json:
    obj = work.obj
    work.version(NETWORK_TOPOLOGY)
    work.legal_name(work.mapping(obj, "metadata", "metadata"), "name", "metadata")
    spec = work.mapping(obj, "spec", "spec")
    work.rename(spec, "configMapName", "configmapName", "spec")
    work.legal_name(spec, "configmapName", "spec")
    _provider(work, spec)
    for at, table in enumerate(work.mappings(spec, "weights", "spec.weights")):
        path = f"spec.weights[{at}]"
        work.rename(table, "costList", "topologyList", path)
        for one, level in enumerate(work.mappings(table, "topologyList", path)):
            inner = f"{path}.topologyList[{one}]"
            work.rename(level, "originCosts", "originList", inner)
            for place, origin in enumerate(work.mappings(level, "originList", inner)):
                work.rename(origin, "costs", "costList", f"{inner}.originList[{place}]")
    return _without_status(work)


def _provider(work: _Work, spec: Json) -> None:
    """Rewrite the metric provider, which was a list in one text; move a token to a Secret."""
    path, listed = "spec.metricProvider", spec.get("metricProvider")
    if isinstance(listed, list):
        if len(listed) != 1:
            raise InputError(
                f"{path}: expected one provider, found {len(listed)}", where=work.where
            )
        spec["metricProvider"] = listed[0]
        work.note(f"{path}: is no list today")
    provider = work.mapping(spec, "metricProvider", path)
    if "token" not in provider:
        return
    del provider["token"]
    if "secretRef" in provider:
        work.note(f"{path}.token: left out, secretRef names the Secret that counts")
        return
    meta = work.mapping(work.obj, "metadata", "metadata")
    name = f"{meta.get('name', 'metrics')}-token"[:253]
    provider["secretRef"] = {"name": name, "key": "token"}
    work.note(
        f"{path}.token: left out, a token stands in no object today. Make the Secret that "
        "secretRef "
        f"names: kubectl create secret generic {name} -n {meta.get('namespace', 'default')} "
        "--from-literal=token=..., and let the daemon read it (the chart's rbac.secrets)"
    )


def _without_status(work: _Work) -> Json:
    if work.obj.pop("status", None) is not None:
        work.note("status: left out, the operator writes it")
    return work.obj


def _definition(work: _Work) -> Json | None:
    spec = work.mapping(work.obj, "spec", "spec")
    names = work.mapping(spec, "names", "spec.names")
    if spec.get("group") in OLD_GROUPS and names.get("kind") in ("AppGroup", "NetworkTopology"):
        work.note(f"the definition of {names['kind']} is left out: apply the one in crds/")
        return None
    return work.obj


def _configuration(work: _Work) -> Json:
    for at, profile in enumerate(work.mappings(work.obj, "profiles", "profiles")):
        path = f"profiles[{at}]"
        for point, lists in work.mapping(profile, "plugins", f"{path}.plugins").items():
            where = f"{path}.plugins.{point}"
            if not isinstance(lists, dict):
                raise InputError(f"{where}: expected a mapping", where=work.where)
            for key in ("enabled", "disabled"):
                for entry in work.mappings(lists, key, f"{where}.{key}"):
                    _rename_plugin(work, entry, f"{where}.{key}")
                _leave_out(work, lists, key, f"{where}.{key}")
        _leave_out(work, profile, "pluginConfig", f"{path}.pluginConfig")
        for entry in work.mappings(profile, "pluginConfig", f"{path}.pluginConfig"):
            _rename_plugin(work, entry, f"{path}.pluginConfig")
            args = work.mapping(entry, "args", f"{path}.pluginConfig.args")
            for old, new in OLD_ARGS.get(str(entry.get("name")), {}).items():
                work.rename(args, old, new, f"{path}.pluginConfig.args")
    return work.obj


def _leave_out(work: _Work, holder: Json, key: str, path: str) -> None:
    """Remove plugins that are built in, or that do not exist here, from a list."""
    entries = holder.get(key) or []
    gone = [one.get("name") for one in entries if one.get("name") in NOT_HERE]
    if gone:
        holder[key] = [one for one in entries if one.get("name") not in NOT_HERE]
        for name in gone:
            work.note(f"{path}: {NOT_HERE[name].replace('take it out of the file', 'taken out')}")


def _rename_plugin(work: _Work, entry: Json, path: str) -> None:
    name = entry.get("name")
    if name in OLD_NAMES:
        entry["name"] = OLD_NAMES[name]
        work.note(f"{path}: the plugin {name} is called {OLD_NAMES[name]} today")


def _policy(work: _Work) -> Json:
    found, changes = configuration_of(work.obj, work.where, work.costs)
    work.changes += changes
    return found


_REWRITES: Final[Mapping[str, Callable[[_Work], Json | None]]] = {
    "AppGroup": _app_group,
    "NetworkTopology": _network_topology,
    "CustomResourceDefinition": _definition,
    "KubeSchedulerConfiguration": _configuration,
    "Policy": _policy,
}
