"""Trees of groups of scheduling.k8s.io as plain objects, by short helpers."""

from __future__ import annotations

from typing import Any

from scheduler.testing import node
from tests.unit.simulate.asking import pod

Manifest = dict[str, Any]
RACK, ZONE = "example.com/rack", "example.com/zone"
API = "scheduling.k8s.io/v1alpha3"


def rack(name: str, cpus: list[int], zone: str = "", **labels: str) -> list[Manifest]:
    """Return the nodes of a rack, named NAME-0, NAME-1 …; an empty name gives no rack."""
    own = ({RACK: name} if name else {}) | ({ZONE: zone} if zone else {}) | labels
    return [
        node(f"{name or 'lone'}-{at}", cpu=str(cpu), memory="64Gi", pods="110", labels=own)
        for at, cpu in enumerate(cpus)
    ]


def composite(name: str, least: int | None = None, parent: str = "", **more: Any) -> Manifest:
    """Return a CompositePodGroup, basic without a number."""
    gang = {"basic": {}} if least is None else {"gang": {"minGroupCount": least}}
    return _group("CompositePodGroup", name, gang, parent, more)


def leaf(name: str, least: int | None = None, parent: str = "", **more: Any) -> Manifest:
    """Return a PodGroup, basic without a number."""
    gang = {"basic": {}} if least is None else {"gang": {"minCount": least}}
    return _group("PodGroup", name, gang, parent, more)


def _group(kind: str, name: str, policy: Manifest, parent: str, more: dict[str, Any]) -> Manifest:
    annotations = more.pop("annotations", {})
    spec: Manifest = {"schedulingPolicy": policy, "priority": more.pop("priority", 0)}
    spec["workloadRef"] = {"workloadName": more.pop("workload", "w"), "templateName": "t"}
    if parent:
        spec["parentCompositePodGroupName"] = parent
    if key := more.pop("key", ""):
        spec["schedulingConstraints"] = {"topology": [{"key": key}]}
    if mode := more.pop("mode", ""):
        spec["disruptionMode"] = {mode: {}}
    meta = {
        "name": name,
        "namespace": "default",
        "uid": f"{kind}-{name}",
        "annotations": annotations,
    }
    return {"apiVersion": API, "kind": kind, "metadata": meta, "spec": spec | more}


def pods(
    group: str, count: int, cpu: int = 1, *, on: str = "", first: int = 0, **spec: Any
) -> list[Manifest]:
    """Return members of a PodGroup, GROUP-0, GROUP-1 …, pending or on a node."""
    own: Manifest = {"schedulingGroup": {"podGroupName": group}, "priority": 0} | spec
    if on:
        own["nodeName"] = on
    return [
        pod(f"{group}-{at}", requests={"cpu": str(cpu)}, spec=own)
        for at in range(first, first + count)
    ]


def replica(name: str, parent: str, workers: int, *, key: str = RACK) -> list[Manifest]:
    """Return a PodGroup of a head (2 CPUs) and workers (1 CPU), all placed in one rack."""
    head, *_ = pods(name, 1, 2)
    others = pods(name, workers, 1, first=1)
    return [leaf(name, workers + 1, parent, key=key), head, *others]
