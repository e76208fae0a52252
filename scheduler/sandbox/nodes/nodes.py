"""The simulated machines: a record per Node object, with Lease, Ready condition and resources.

Every Node in the store gets one as soon as it appears, also those that a user created. Leases are
renewed in slots: a slot has the nodes with the same number modulo `_SLOTS`, so ten thousand nodes
need a few timers and no burst.

    trellis.dev/simulate-stopped: "true"    the kubelet is dead: no lease, no pod starts or stops
    trellis.dev/simulate-ready: "false"     the kubelet reports NotReady
"""

from collections.abc import Iterable
from typing import Final, Protocol

from scheduler.base.clock import Clock, rfc3339_micro
from scheduler.sandbox.api.status import Object
from scheduler.sandbox.controllers.workqueue import Interest, WorkQueue
from scheduler.sandbox.kinds.kinds import LEASES, NODES, Resource
from scheduler.sandbox.nodes.podfit import Usage
from scheduler.sandbox.nodes.podlifecycle import PREFIX
from scheduler.sandbox.nodes.shape import node_address, ready_conditions
from scheduler.sandbox.store.collection import DELETED, StoreChange
from scheduler.sandbox.store.store import ObjectStore

STOPPED: Final = PREFIX + "stopped"
READY: Final = PREFIX + "ready"
LEASE_NAMESPACE: Final = "kube-node-lease"
LEASE_DURATION_S: Final = 40

_SLOTS: Final = 40
_SLOT: Final = "slot:"
_BLOCKS: Final = 1 << 15


class Alignment(Protocol):
    """The NUMA part of a machine, if it has one."""

    report_after_s: float

    def admit(self, pod: Object) -> bool:
        """Admit a pod, or reject it."""

    def release(self, uid: str) -> None:
        """Release a pod that ended or was deleted."""

    def report(self, name: str, resource: Resource) -> Object:
        """Return the current report of an agent on the node."""


class Machine:
    """The simulated state of one node: addresses, the pods' amounts, and whether its kubelet
    runs.
    """

    __slots__ = ("_free", "_next", "_prefix", "address", "alive", "numa", "number", "usage")

    def __init__(self, number: int, address: str) -> None:
        block = number % _BLOCKS
        self.number = number
        self.address = address
        self.alive = True
        self.usage = Usage()
        self.numa: Alignment | None = None
        self._prefix = f"10.{128 + (block >> 8)}.{block & 255}."
        self._next = 1
        self._free: list[str] = []

    def take_address(self) -> str:
        """Return an address for a pod; released ones are used again."""
        if self._free:
            return self._free.pop()
        found = self._next
        self._next = found + 1 if found < 254 else 1
        return f"{self._prefix}{found}"

    def give_back(self, address: str) -> None:
        """Release the address of a deleted pod."""
        if address:
            self._free.append(address)


class SimulatedNodes:
    """The controller of nodes; `machines` is read by the kubelets."""

    def __init__(self, store: ObjectStore, *, renew_interval_s: float = 10.0) -> None:
        self.work_queue = WorkQueue()
        self.machines: dict[str, Machine] = {}
        self._store = store
        self._clock: Clock = store.clock
        self._interval_s = renew_interval_s
        self._slots: list[set[str]] = [set() for _ in range(_SLOTS)]
        self._next_number = 0
        # Extended resources with a changed capacity and no answer yet, by node.
        self._advertised: dict[str, set[str]] = {}

    def interests(self) -> list[Interest]:
        """Nodes only."""
        return [(NODES, self._observe)]

    def act(self, key: str, now: float) -> None:
        """Renew the leases of a slot, or update one node."""
        if key.startswith(_SLOT):
            self._renew(int(key[len(_SLOT) :]), now)
        else:
            self._tend(key, now)

    def _observe(self, change: StoreChange) -> None:
        node = change.stored.obj
        name = node["metadata"]["name"]
        machine = self.machines.get(name)
        if change.type == DELETED:
            if machine is not None:
                del self.machines[name]
                self._advertised.pop(name, None)
                self._slots[machine.number % _SLOTS].discard(name)
            return
        if machine is None:
            machine = self._add(name, node)
            self.work_queue.add(name)
        elif change.previous is not None:
            advertised = _advertised(change.previous.obj, node)
            if advertised:
                self._advertised.setdefault(name, set()).update(advertised)
            if advertised or _notes(change.previous.obj) != _notes(node):
                self.work_queue.add(name)
        machine.alive = _notes(node).get(STOPPED) != "true"

    def _add(self, name: str, node: Object) -> Machine:
        number = self._next_number
        self._next_number += 1
        machine = Machine(number, _address(node) or node_address(number))
        self.machines[name] = machine
        slot = number % _SLOTS
        self._slots[slot].add(name)
        # The golden ratio spreads the slots over the interval however few of them are in use.
        offset_s = self._interval_s * (slot * 0.618034 % 1.0)
        self.work_queue.add_at(f"{_SLOT}{slot}", self._clock.now() + offset_s)
        return machine

    def _tend(self, name: str, now: float) -> None:
        stored = self._store.find(NODES, "", name)
        machine = self.machines.get(name)
        if stored is None or machine is None or not machine.alive:
            return
        self._write_lease(name, stored.uid, rfc3339_micro(now))
        node = stored.obj
        allocatable = _allocatable(node, self._advertised.pop(name, ()))
        status = _reported_status(node, machine, self._store.now())
        if allocatable is not None:
            status = {**(status or node["status"]), "allocatable": allocatable}
        if status is not None:
            self._store.update(NODES, {**stored.obj, "status": status}, subresource="status")

    def _renew(self, slot: int, now: float) -> None:
        names = self._slots[slot]
        if not names:
            return
        stamp = rfc3339_micro(now)
        leases = self._store.collection(LEASES).items
        for name in sorted(names):
            machine = self.machines[name]
            if not machine.alive:
                continue
            current = leases.get(f"{LEASE_NAMESPACE}/{name}")
            if current is None:
                self.work_queue.add(name)
                continue
            spec = {**current.obj["spec"], "renewTime": stamp}
            self._store.replace(LEASES, current, {**current.obj, "spec": spec})
        self.work_queue.add_at(f"{_SLOT}{slot}", now + self._interval_s)

    def _write_lease(self, name: str, uid: str, stamp: str) -> None:
        current = self._store.find(LEASES, LEASE_NAMESPACE, name)
        if current is not None:
            spec = {**current.obj["spec"], "renewTime": stamp}
            self._store.replace(LEASES, current, {**current.obj, "spec": spec})
            return
        owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}
        lease = {
            "metadata": {"name": name, "ownerReferences": [owner]},
            "spec": {
                "holderIdentity": name,
                "leaseDurationSeconds": LEASE_DURATION_S,
                "renewTime": stamp,
            },
        }
        self._store.create(LEASES, lease, LEASE_NAMESPACE)


def _advertised(old: Object, new: Object) -> set[str]:
    """Return the extended resources whose capacity alone was changed, as by a PATCH of the
    status.
    """
    before, after = old.get("status") or {}, new.get("status") or {}
    found = set()
    for name in {*(before.get("capacity") or {}), *(after.get("capacity") or {})}:
        changes = [
            (before.get(key) or {}).get(name) != (after.get(key) or {}).get(name)
            for key in ("capacity", "allocatable")
        ]
        if "/" in name and "kubernetes.io/" not in name and changes == [True, False]:
            found.add(name)
    return found


def _allocatable(node: Object, advertised: Iterable[str]) -> Object | None:
    """Return the kubelet's allocatable amounts for advertised capacities; None if unchanged.

    The kubelet reserves no extended resources; removed ones are dropped.
    """
    status = node.get("status") or {}
    current, capacity = status.get("allocatable") or {}, status.get("capacity") or {}
    found = {name: amount for name, amount in current.items() if name not in advertised}
    found |= {name: capacity[name] for name in advertised if name in capacity}
    return found if found != current else None


def _notes(node: Object) -> dict[str, str]:
    return node["metadata"].get("annotations") or {}


def _address(node: Object) -> str:
    for entry in (node.get("status") or {}).get("addresses") or ():
        if entry["type"] == "InternalIP":
            return str(entry["address"])
    return ""


def _reported_status(node: Object, machine: Machine, now: str) -> Object | None:
    """Return the status that the kubelet would report now; None if unchanged."""
    status = node.get("status") or {}
    ready = _notes(node).get(READY) != "false"
    current = {found["type"]: found for found in status.get("conditions") or ()}
    wanted = "True" if ready else "False"
    has_address = bool(status.get("addresses"))
    if (
        has_address
        and current.get("Ready", {}).get("status") == wanted
        and not _has_unknown(current)
    ):
        return None
    conditions = []
    for fresh in ready_conditions(now):
        if fresh["type"] == "Ready" and not ready:
            fresh |= {
                "status": "False",
                "reason": "KubeletNotReady",
                "message": f"the annotation {READY} says so",
            }
        old = current.pop(fresh["type"], None)
        if old is not None and old["status"] == fresh["status"]:
            fresh["lastTransitionTime"] = old.get("lastTransitionTime", now)
        conditions.append(fresh)
    new = {**status, "conditions": [*current.values(), *conditions]}
    if not has_address:
        new["addresses"] = [
            {"type": "InternalIP", "address": machine.address},
            {"type": "Hostname", "address": node["metadata"]["name"]},
        ]
    return new


def _has_unknown(current: dict[str, Object]) -> bool:
    return any(condition["status"] == "Unknown" for condition in current.values())
