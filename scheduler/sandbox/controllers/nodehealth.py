"""Node lifecycle: nodes without lease renewals become Unknown, and conditions become taints.

A node whose lease was not renewed for the grace period gets Ready=Unknown and the taint
`unreachable`; one that reports Ready=False gets `not-ready`; a cordoned one `unschedulable`.
`taintevictions.py` evicts pods for these taints.
"""

from typing import Final

from scheduler.sandbox.api.status import Object
from scheduler.sandbox.controllers.events import record
from scheduler.sandbox.controllers.pods import condition_of
from scheduler.sandbox.controllers.workqueue import Interest, WorkQueue
from scheduler.sandbox.kinds.kinds import LEASES, NODES, PODS
from scheduler.sandbox.nodes.nodes import LEASE_NAMESPACE
from scheduler.sandbox.nodes.podstatus import without_readiness
from scheduler.sandbox.store.collection import DELETED, StoreChange
from scheduler.sandbox.store.store import ObjectStore

GRACE_S: Final = 40.0
_CHECK_EVERY_S: Final = 5.0
_CHECK: Final = "/check"
_UNKNOWN: Final = "NodeStatusUnknown"
_READY_TAINTS: Final = {
    "False": "node.kubernetes.io/not-ready",
    "Unknown": "node.kubernetes.io/unreachable",
}
_PRESSURE_TAINTS: Final = {
    "MemoryPressure": "node.kubernetes.io/memory-pressure",
    "DiskPressure": "node.kubernetes.io/disk-pressure",
    "PIDPressure": "node.kubernetes.io/pid-pressure",
    "NetworkUnavailable": "node.kubernetes.io/network-unavailable",
}
_UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
_OWN: Final = frozenset({*_READY_TAINTS.values(), *_PRESSURE_TAINTS.values(), _UNSCHEDULABLE})


class NodeHealth:
    """The controller of the health of nodes."""

    def __init__(self, store: ObjectStore, *, grace_s: float = GRACE_S) -> None:
        self.work_queue = WorkQueue()
        self._store = store
        self._grace_s = grace_s
        self._heartbeats: dict[str, float] = {}
        self.work_queue.add_at(_CHECK, store.clock.now() + _CHECK_EVERY_S)

    def interests(self) -> list[Interest]:
        """Nodes and their leases."""
        return [(NODES, self._observe_node), (LEASES, self._observe_lease)]

    def act(self, key: str, now: float) -> None:
        """Find nodes without renewals, or update the taints of one node."""
        if key == _CHECK:
            for name in self._heartbeats:
                if self._is_silent(name, now):
                    self.work_queue.add(name)
            self.work_queue.add_at(_CHECK, now + _CHECK_EVERY_S)
            return
        stored = self._store.find(NODES, "", key)
        if stored is None:
            return
        if self._is_silent(key, now) and _ready(stored.obj) != "Unknown":
            self._lose(key, stored.obj)
            stored = self._store.get(NODES, "", key)
        self._taint(stored.obj)

    def _observe_node(self, change: StoreChange) -> None:
        name = change.stored.name
        if change.type == DELETED:
            self._heartbeats.pop(name, None)
            return
        self.work_queue.add(name)

    def _observe_lease(self, change: StoreChange) -> None:
        if change.type != DELETED and change.stored.namespace == LEASE_NAMESPACE:
            self._heartbeats[change.stored.name] = self._store.clock.now()

    def _is_silent(self, name: str, now: float) -> bool:
        # A node that never had a lease is ignored: its kubelet may be elsewhere.
        return now - self._heartbeats.get(name, now) > self._grace_s

    def _lose(self, name: str, node: Object) -> None:
        """Mark a node without renewals: its conditions become Unknown, its pods unready."""
        now = self._store.now()
        status = node.get("status") or {}
        conditions = [
            {
                **condition,
                "status": "Unknown",
                "reason": _UNKNOWN,
                "message": "Kubelet stopped posting node status.",
                "lastTransitionTime": now,
            }
            for condition in status.get("conditions") or ()
            if condition["type"] in ("Ready", *_PRESSURE_TAINTS)
        ]
        changed = {**node, "status": {**status, "conditions": conditions}}
        self._store.update(NODES, changed, subresource="status")
        record(
            self._store,
            node,
            "node-controller",
            "NodeNotReady",
            f"Node {name} status is now: NodeNotReady",
        )
        for pod in self._store.list(PODS):
            if pod.obj["spec"].get("nodeName") == name:
                fresh = without_readiness(pod.obj, now)
                self._store.update(PODS, {**pod.obj, "status": fresh}, subresource="status")

    def _taint(self, node: Object) -> None:
        spec = node.get("spec") or {}
        current = spec.get("taints") or []
        wanted = _wanted(node)
        present = {(taint["key"], taint["effect"]) for taint in current if taint["key"] in _OWN}
        if present == set(wanted):
            return
        now = self._store.now()
        taints = [
            taint
            for taint in current
            if taint["key"] not in _OWN or (taint["key"], taint["effect"]) in wanted
        ]
        for key, effect in wanted:
            if (key, effect) not in present:
                taints.append({"key": key, "effect": effect, "timeAdded": now})
        spec = {**spec, "taints": taints}
        if not taints:
            del spec["taints"]
        self._store.update(NODES, {**node, "spec": spec})


def _wanted(node: Object) -> list[tuple[str, str]]:
    """Return the taints for the conditions and `spec.unschedulable`."""
    found = []
    for condition in (node.get("status") or {}).get("conditions") or ():
        if condition["type"] == "Ready" and condition["status"] in _READY_TAINTS:
            key = _READY_TAINTS[condition["status"]]
            found += [(key, "NoSchedule"), (key, "NoExecute")]
        elif condition["status"] == "True" and condition["type"] in _PRESSURE_TAINTS:
            found.append((_PRESSURE_TAINTS[condition["type"]], "NoSchedule"))
    if (node.get("spec") or {}).get("unschedulable"):
        found.append((_UNSCHEDULABLE, "NoSchedule"))
    return found


def _ready(node: Object) -> str:
    found = condition_of(node, "Ready")
    return "" if found is None else str(found["status"])
