"""A snapshot as the page shows it: sections of small records by key, which are quick to compare.

Called by `trellis ui` after each read of the cluster. `units` is the tree of `tree.py` flattened,
`pods` has the node of each pod or its pending reason, `measures` has further data about nodes,
`ways` (listed paths) and `applications` are the network. A measurement is shown with its time.
Amounts are CPU in milli and whole units of everything else; times are seconds since the epoch.
`merged` adds a user's trial objects to a snapshot.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from scheduler.base.clock import parse_rfc3339
from scheduler.base.errors import InputError
from scheduler.engine.attempt.failure import POD_SCHEDULED
from scheduler.groups.description.past import bound_at
from scheduler.objects.groups.appgroup import GROUP_LABEL, WORKLOAD_LABEL, AppGroup
from scheduler.objects.pod import Pod
from scheduler.objects.reports.nodemetric import NodeMetric
from scheduler.objects.reports.numa import NodeResourceTopology, Zone
from scheduler.snapshot.snapshot import Snapshot
from scheduler.snapshot.tree import (
    LastTree,
    ListedPath,
    TreeUnit,
    group_name,
    levels_of,
    listed_paths,
    tree,
)
from scheduler.state.resources import amounts, pod_requests
from scheduler.state.store import object_key

_SHOWN = ("cpu", "memory")

# The record of an object, valid while it is the same object.
Kept = dict[str, tuple[object, dict[str, Any]]]
Sections = dict[str, dict[str, Any]]


def sections(snapshot: Snapshot, now: float, notices: Sequence[str] = ()) -> Sections:
    """Return the page's sections of a snapshot that was taken at `now`."""
    return DrawnView().sections(snapshot, now, notices)


def with_origin(shown: Sections, origin: Mapping[str, str]) -> Sections:
    """Return sections whose `about` states the cluster, context, version, profile and leader."""
    return {**shown, "about": {"about": {**shown["about"]["about"], **origin}}}


class DrawnView:
    """Draw one picture after the other, and reuse unchanged parts: of 100,000 pods few are new.

    Without reuse a picture of them takes 0.6 s, and a daemon with a small CPU budget for pictures
    would show one in half a minute.
    """

    def __init__(self) -> None:
        self._tree = LastTree()
        self._units: dict[str, tuple[TreeUnit, dict[str, Any]]] = {}
        self._pods: dict[str, tuple[Pod, str, dict[str, Any]]] = {}
        self._measured: Kept = {}

    def sections(self, snapshot: Snapshot, now: float, notices: Sequence[str] = ()) -> Sections:
        """Return the page's sections of a snapshot that was taken at `now`.

        Records are not changed later.
        """
        levels = levels_of(snapshot.nodes)
        units = self._units_of(tree(snapshot, levels, self._tree))
        priced = listed_paths(snapshot)
        depth = _depth(levels, {path.level for path in priced})
        return {
            "about": {"about": {"at": now, "notices": list(notices)}},
            "units": units,
            "pods": self._pods_of(snapshot),
            "measures": measures(snapshot, self._measured),
            "ways": dict(map(_path, priced)),
            "applications": dict(_applications(snapshot, units, depth)),
        }

    def _units_of(self, root: TreeUnit) -> dict[str, dict[str, Any]]:
        """Return the units below the whole cluster, parents first; a key is the path of names."""
        found: dict[str, tuple[TreeUnit, dict[str, Any]]] = {}

        def add(unit: TreeUnit, key: str) -> None:
            known = self._units.get(key)
            if known is None or known[0] is not unit:
                known = (unit, _unit(unit, key))
            found[key] = known
            for child in unit.children:
                # Neither label values nor names of nodes contain a slash; label values do not
                # contain "~" either.
                name = child.name or "~"
                add(child, f"{key}/{name}" if key != "/" else name)

        add(root, "/")
        self._units = found
        return {key: record for key, (_, record) in found.items()}

    def _pods_of(self, snapshot: Snapshot) -> dict[str, dict[str, Any]]:
        before, kept = self._pods, {}
        for pod in (*snapshot.bound, *snapshot.unbound):
            known = before.get(pod.metadata.uid)
            if known is None or known[0] is not pod:
                known = (pod, pod.key, _pod(pod))
            kept[pod.metadata.uid] = known
        self._pods = kept
        return {key: record for _, key, record in kept.values()}


def merged(snapshot: Snapshot, wanted: Snapshot) -> Snapshot:
    """Return `snapshot` with the objects of `wanted` added, or replacing those with their names.

    A pod that is bound in `snapshot` and unbound in `wanted` is scheduled again. InputError when
    `wanted` has pods on nodes that are in neither.
    """
    nodes = {node.metadata.name: node for node in (*snapshot.nodes, *wanted.nodes)}
    lost = [pod.key for pod in wanted.bound if pod.spec.node_name not in nodes]
    if lost:
        raise InputError("sits on a node that is not there", where=f"Pod {lost[0]}")
    objects = {
        (kind, object_key(obj)): (kind, obj) for kind, obj in (*snapshot.objects, *wanted.objects)
    }
    named = {pod.key for pod in (*wanted.bound, *wanted.unbound)}
    stay = [pod for pod in snapshot.bound if pod.key not in named]
    wait = [pod for pod in snapshot.unbound if pod.key not in named]
    return replace(
        snapshot,
        nodes=tuple(nodes.values()),
        objects=tuple(objects.values()),
        bound=(*stay, *wanted.bound),
        unbound=(*wait, *wanted.unbound),
        given=snapshot.given | wanted.given,
    )


def _unit(unit: TreeUnit, key: str) -> dict[str, Any]:
    return {
        "parent": (key.rpartition("/")[0] or "/") if key != "/" else None,
        "level": unit.level,
        "name": unit.name,
        "nodes": unit.nodes,
        "closed": unit.closed,
        "pods": unit.pods,
        "room": {name: [room.requested, room.allocatable] for name, room in unit.capacity.items()},
        "groups": unit.groups,
    }


def _depth(levels: Sequence[str], priced: Collection[str]) -> int:
    """Return the position of the level for drawing applications: the lowest one with path costs
    between its units.
    """
    return max((at for at, level in enumerate(levels) if level in priced), default=0)


def _path(path: ListedPath) -> tuple[str, dict[str, Any]]:
    return (
        f"{path.topology} {path.level} {path.origin} {path.destination}",
        {
            "topology": path.topology,
            "level": path.level,
            "origin": path.origin,
            "destination": path.destination,
            "cost": path.cost,
            "capacity": path.capacity,
            "allocated": path.allocated,
        },
    )


def _is_node(record: dict[str, Any]) -> bool:
    return bool(record["level"] == "node")


def _pod(pod: Pod) -> dict[str, Any]:
    """Return the pod's node, of a member with the time of its binding, or for a pending pod the
    start of its wait, its requests, and its last message.
    """
    record: dict[str, Any] = {}
    if group := group_name(pod):
        record["group"] = group
    if pod.spec.node_name:
        record["node"] = pod.spec.node_name
        if group and (bound := bound_at(pod)) is not None:
            record["since"] = bound
        if pod.spec.priority:
            record["priority"] = pod.spec.priority
        return record
    created = pod.metadata.creation_timestamp
    condition = next((one for one in pod.status.conditions if one.type == POD_SCHEDULED), None)
    record |= {
        "since": parse_rfc3339(created) if created else None,
        "priority": pod.spec.priority or 0,
        "scheduler": pod.spec.scheduler_name,
        "asks": dict(pod_requests(pod)),
    }
    if pod.spec.scheduling_gates:
        record["gates"] = [gate.name for gate in pod.spec.scheduling_gates]
    if condition is not None and condition.message:
        record["message"] = condition.message
    return record


def _applications(
    snapshot: Snapshot, units: Mapping[str, dict[str, Any]], depth: int
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each AppGroup: its workloads with their pods by unit of `depth`, and its dependencies.

    Pods count for the AppGroup of their own namespace first, as in the plugin.
    """
    applications = [obj for _, obj in snapshot.objects if isinstance(obj, AppGroup)]
    if not applications:
        return  # 20,000 pods need not be searched for members
    zone_of = {
        record["name"]: key.split("/")[depth] for key, record in units.items() if _is_node(record)
    }
    there: dict[tuple[str, str, str], Counter[str]] = {}
    for pod in (*snapshot.bound, *snapshot.unbound):
        labels = pod.metadata.labels
        if application := labels.get(GROUP_LABEL):
            member = (pod.metadata.namespace, application, labels.get(WORKLOAD_LABEL, ""))
            unit = zone_of.get(pod.spec.node_name, "") if pod.spec.node_name else ""
            there.setdefault(member, Counter())[unit] += 1
    for group in applications:
        members = group.spec.members
        namespace, name = group.metadata.namespace, group.metadata.name
        yield (
            f"{namespace}/{name}",
            {
                "workloads": {
                    member.workload.label: dict(
                        there.get((namespace, name, member.workload.label), {})
                    )
                    for member in members
                },
                "dependencies": [
                    {
                        "from": member.workload.label,
                        "to": other.workload.label,
                        "bandwidth": other.min_bandwidth,
                        "cost": other.max_network_cost,
                    }
                    for member in members
                    for other in member.dependencies
                ],
            },
        )


def measures(snapshot: Snapshot, kept: Kept) -> dict[str, dict[str, Any]]:
    """Return by node its `load` and its `zones`, where known.

    `kept` is the result of the last call.
    """
    now: Kept = {}
    found: dict[str, dict[str, Any]] = {}
    for kind, obj in snapshot.objects:
        if kind not in ("NodeMetric", "NodeResourceTopology"):
            continue
        name = obj.metadata.name
        before = kept.get(f"{kind} {name}")
        # Objects are not changed but replaced.
        record = before[1] if before is not None and before[0] is obj else _record(obj)
        now[f"{kind} {name}"] = (obj, record)
        if record:
            found[name] = {**found.get(name, {}), **record}
    kept.clear()
    kept.update(now)
    return found


def _record(obj: object) -> dict[str, Any]:
    if isinstance(obj, NodeMetric):
        return _load(obj)
    if isinstance(obj, NodeResourceTopology):
        zones = [[zone.name, _taken(zone)] for zone in obj.zones if zone.type == "Node"]
        return {"zones": zones} if zones else {}
    return {}


def _load(metric: NodeMetric) -> dict[str, Any]:
    report = metric.status.node_metric
    if report is None:
        return {}
    used = _amounts(report.node_usage.resources)
    at = parse_rfc3339(metric.status.update_time)
    return {"load": {name: used[name] for name in _SHOWN if name in used}, "measured": at}


def _taken(zone: Zone) -> dict[str, list[int]]:
    """Return of each resource the used and the total amount."""
    there = _amounts({one.name: one.allocatable for one in zone.resources})
    free = _amounts({one.name: one.free for one in zone.resources})
    return {name: [max(0, all_ - free.get(name, all_)), all_] for name, all_ in there.items()}


def _amounts(listed: Mapping[str, Any]) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, value in listed.items():
        try:
            found |= amounts({name: value})
        except InputError:
            continue  # an invalid quantity of a reporter; the plugin reports it
    return found
