"""Agents that report the NUMA zones of simulated nodes, and the zones of a node by its annotation.

    trellis.dev/simulate-numa: zones=4 policy=single-numa-node scope=pod report-after=30s

The node's allocatable amounts are divided evenly between its zones: CPUs, memory, huge pages and
devices. A report is written `report-after` a change of the node's pods, with the state at that
time; so a scheduler's data is up to that old. `devices=0,2` puts devices into these zones only.
"""

from collections.abc import Iterator, Mapping
from typing import Final, cast

from scheduler.objects.reports.numaplacement import METADATA, VECTOR, encode
from scheduler.objects.reports.podfingerprint import fingerprint, mark_of
from scheduler.sandbox.api.status import Object
from scheduler.sandbox.controllers.workqueue import Interest, WorkQueue
from scheduler.sandbox.kinds.kinds import NODES, Resource
from scheduler.sandbox.nodes.alignment import POLICIES, SCOPES, Aligner, Policy, Scope
from scheduler.sandbox.nodes.durations import seconds
from scheduler.sandbox.nodes.nodes import SimulatedNodes
from scheduler.sandbox.nodes.podfit import milli
from scheduler.sandbox.nodes.podlifecycle import PREFIX
from scheduler.sandbox.store.collection import DELETED, StoreChange
from scheduler.sandbox.store.store import ObjectStore

NUMA: Final = PREFIX + "numa"
GROUP, VERSION, PLURAL = "topology.node.k8s.io", "v1alpha2", "noderesourcetopologies"
_MOST_ZONES: Final = 8


class Numa:
    """The NUMA part of one machine: its zones, and the pods that its kubelet admitted."""

    def __init__(self, aligner: Aligner, report_after_s: float) -> None:
        self.aligner = aligner
        self.report_after_s = report_after_s
        self.pods: dict[str, tuple[str, str]] = {}

    def admit(self, pod: Object) -> bool:
        """Admit a pod, or reject it."""
        meta = pod["metadata"]
        if not self.aligner.admit(meta["uid"], pod):
            return False
        self.pods[meta["uid"]] = (meta["namespace"], meta["name"])
        return True

    def release(self, uid: str) -> None:
        """Release a pod that ended or was deleted."""
        self.aligner.release(uid)
        self.pods.pop(uid, None)

    def report(self, name: str, resource: Resource) -> Object:
        """Return the current report of an agent on the node."""
        aligner = self.aligner
        text = fingerprint(mark_of(*pod) for pod in self.pods.values())
        zone_of = {
            (*self.pods[uid], taken.container): min(taken.amounts)
            for uid, all_taken in aligner.current.items()
            for taken in all_taken
            if taken.container and taken.amounts
        }
        metadata, vectors = encode(zone_of, len(aligner.zones))
        zones = [_zone(aligner, number) for number in range(len(aligner.zones))]
        for number, vector in vectors.items():
            zones[number]["attributes"] = [{"name": VECTOR, "value": vector}]
        return {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": name},
            "attributes": [
                {"name": "topologyManagerPolicy", "value": aligner.policy},
                {"name": "topologyManagerScope", "value": aligner.scope},
                {"name": "nodeTopologyPodsFingerprint", "value": text},
                {"name": METADATA, "value": metadata},
            ],
            "zones": zones,
        }


class TopologyAgents:
    """The controller that writes the reports; also creates a machine's NUMA part with its node."""

    def __init__(self, store: ObjectStore, nodes: SimulatedNodes) -> None:
        self.work_queue = WorkQueue()
        self._store = store
        self._nodes = nodes

    def interests(self) -> list[Interest]:
        """Return its interests: nodes; the kubelets report changes of pods."""
        return [(NODES, self._observe)]

    def changed(self, node: str) -> None:
        """Enqueue a node whose pods changed."""
        machine = self._nodes.machines.get(node)
        if machine is not None and machine.numa is not None:
            after_s = machine.numa.report_after_s
            self.work_queue.add_at(node, self._store.clock.now() + after_s)

    def act(self, key: str, _now: float) -> None:
        """Write the report of one node; do nothing without the CRD."""
        machine = self._nodes.machines.get(key)
        resource = self._store.kinds.find(GROUP, VERSION, PLURAL)
        if resource is None or machine is None or machine.numa is None or not machine.alive:
            return
        report = machine.numa.report(key, resource)
        current = self._store.find(resource, "", key)
        if current is None:
            self._store.create(resource, report)
        else:
            self._store.update(resource, {**report, "metadata": current.obj["metadata"]})

    def _observe(self, change: StoreChange) -> None:
        node = change.stored.obj
        name = node["metadata"]["name"]
        machine = self._nodes.machines.get(name)
        if change.type == DELETED or machine is None:
            return
        if machine.numa is None:
            machine.numa = numa_of(node)
            if machine.numa is not None:
                self.work_queue.add(name)


def numa_of(node: Object) -> Numa | None:
    """Return the NUMA part of a node by its annotation; None without one, or if it is invalid."""
    text = (node["metadata"].get("annotations") or {}).get(NUMA)
    if not text:
        return None
    words = dict(word.partition("=")[::2] for word in text.split())
    count = words.get("zones", "")
    policy, scope = words.get("policy", "single-numa-node"), words.get("scope", "container")
    after_s = seconds(words.get("report-after", "0s"))
    readable = count.isdecimal() and 1 <= int(count) <= _MOST_ZONES and after_s is not None
    if not readable or after_s is None or policy not in POLICIES or scope not in SCOPES:
        return None
    devices = {int(number) for number in words.get("devices", "").split(",") if number.isdecimal()}
    zones = list(zones_of(node["status"].get("allocatable") or {}, int(count), devices))
    return Numa(Aligner(zones, cast("Policy", policy), cast("Scope", scope)), after_s)


def zones_of(
    allocatable: Mapping[str, str], count: int, devices: set[int]
) -> Iterator[dict[str, int]]:
    """Yield the amounts of each zone in thousandths: equal shares in whole units, the remainder in
    the first zone.
    """
    for number in range(count):
        zone: dict[str, int] = {}
        for name, text in allocatable.items():
            is_device = "/" in name and "kubernetes.io/" not in name
            in_zones = is_device or name in ("cpu", "memory") or name.startswith("hugepages-")
            if not in_zones:
                continue
            holders = sorted(devices) if is_device and devices else list(range(count))
            if number in holders:
                share, rest = divmod(milli(text) // 1000, len(holders))
                zone[name] = 1000 * (share + (rest if number == holders[0] else 0))
        yield zone


def _zone(aligner: Aligner, number: int) -> Object:
    zone = aligner.zones[number]
    count = len(aligner.zones)
    return {
        "name": f"node-{number}",
        "type": "Node",
        "costs": [
            {"name": f"node-{other}", "value": 10 if other == number else 21}
            for other in range(count)
        ],
        "resources": [
            {
                "name": name,
                "capacity": _text(amount),
                "allocatable": _text(amount),
                "available": _text(zone.free[name]),
            }
            for name, amount in zone.capacity.items()
        ],
    }


def _text(thousandths: int) -> str:
    return str(thousandths // 1000) if thousandths % 1000 == 0 else f"{thousandths}m"
