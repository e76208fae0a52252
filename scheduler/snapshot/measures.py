"""Measurements of nodes beyond requests: load from NodeMetrics, and used amounts of NUMA zones.

For the page's colours. Amounts are CPU in milli and whole units of everything else, times seconds
since the epoch. Nothing is filtered: an old report is shown with its time.
"""

from collections.abc import Mapping
from typing import Any

from scheduler.base.clock import parse_rfc3339
from scheduler.base.errors import InputError
from scheduler.objects.nodemetric import NodeMetric
from scheduler.objects.numa import NodeResourceTopology, Zone
from scheduler.snapshot.snapshot import Snapshot
from scheduler.state.resources import amounts

# The record of an object, valid while it is the same object.
Kept = dict[str, tuple[object, dict[str, Any]]]

_SHOWN = ("cpu", "memory")


def measures(world: Snapshot, kept: Kept) -> dict[str, dict[str, Any]]:
    """Return by node its `load` and its `zones`, where known.

    `kept` is the result of the last call.
    """
    now: Kept = {}
    found: dict[str, dict[str, Any]] = {}
    for kind, obj in world.objects:
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
