"""`DeviceCatalog`: the devices of all nodes, those in use, and pending allocations.

Updated by every change of a slice, claim or node; DynamicResources reads it, and adds allocations
that are decided and not yet written (`pending`). Nodes with equivalent devices in equal use share a
situation, a number: a result for one of them is valid for all. Pending allocations are not derived
from the cluster: a copy, or a rebuilt catalog, has none.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from scheduler.base.arrays import IdColumn
from scheduler.base.meters import Meters
from scheduler.framework.handle import Handle
from scheduler.objects.claims import DeviceResult, ResourceClaim
from scheduler.objects.devices import DeviceTaintRule, ResourceSlice
from scheduler.objects.node import Node
from scheduler.plugins.dynamicresources.allocation.contents import Contents
from scheduler.plugins.dynamicresources.allocation.inuse import InUse
from scheduler.plugins.dynamicresources.allocation.pools import PoolView
from scheduler.plugins.dynamicresources.allocation.rules import TAINT_RULES
from scheduler.plugins.dynamicresources.allocation.slices import SLICE, DeviceSlices, NodePools
from scheduler.plugins.dynamicresources.allocation.tainting import RULE, tainted
from scheduler.plugins.dynamicresources.podclaims import CLAIM, extended_for, identity
from scheduler.state.change import Change

if TYPE_CHECKING:
    from scheduler.state.cluster import Cluster

# Situations are renumbered above this number: nodes are added and removed, and each use creates
# another one.
MOST_SITUATIONS = 65536


class Pending(msgspec.Struct, frozen=True):
    """The pending allocation of a claim (by `namespace/name`): `pods` (uids), and the devices.

    Each pod has the version from which on the API server's state is used for it, None while it
    writes.
    """

    claim: str
    pods: Mapping[str, str | None]
    results: tuple[DeviceResult, ...]


class DeviceCatalog:
    """Pools of nodes, devices in use, and the situation of each row of the node table."""

    kinds: tuple[str, ...] = (SLICE, CLAIM, RULE)
    follows = frozenset((SLICE, CLAIM, RULE, "Node"))

    def __init__(self, follows_rules: bool = False) -> None:
        self._cluster: Cluster | None = None
        self._follows_rules = follows_rules
        # Set by `measure`; unit tests of the plugin measure nothing.
        self.meters: Meters | None = None
        self.contents = Contents()
        # Set by a plugin that chooses among shareable devices: from the free milli of each and the
        # milli requested it returns the order of trying them. None: the order in which they are
        # published.
        self.order: Callable[[Sequence[int], int], Sequence[int]] | None = None
        # Changes with each change of the devices in use.
        self.version = 0
        self._clear()

    def _clear(self) -> None:
        self.version += 1
        self.in_use = InUse()
        self.slices = DeviceSlices(self.contents)
        self._tainted: dict[str, ResourceSlice] = {}  # slices with taints of rules, by name
        self._pending: dict[str, Pending] = {}  # claim uid → allocation
        self._shown: set[str] = set()  # claims that have devices by the API server
        self._extended: dict[str, str] = {}  # pod uid → key of its claim for extended resources
        self._rows: dict[str, int] = {}
        self._stale: dict[str, None] = {}  # nodes whose situation must be recomputed
        self._situations: dict[Any, int] = {}
        self._column = np.full(0, -1, dtype=np.int32)
        # Changes when situations are renumbered, or the use of devices that several nodes share has
        # changed.
        self.epoch = 0

    def rebuild(self, cluster: "Cluster") -> None:
        """Rebuild from `cluster`; no allocation is pending afterwards."""
        epoch = self.epoch
        self._clear()
        self.epoch = epoch + 1
        self._cluster = cluster
        for one in cluster.store.of(SLICE).values():
            self._slice(None, one)
        for claim in cluster.store.of(CLAIM).values():
            self._count(None, claim)
        self._rows = dict(cluster.table.rows)
        self._stale = dict.fromkeys(self._rows)

    def apply(self, change: Change) -> None:
        """Apply one change."""
        if change.kind == SLICE:
            self._touch(self._slice(change.old, change.new))
        elif change.kind == RULE:
            self._taint()
        elif change.kind == CLAIM:
            self._count(change.old, change.new)
        elif change.kind == "Node":
            self._node(change)

    def columns(self) -> Mapping[str, Any]:
        """Return devices in use and the pools of all nodes, for invariants and dumps."""
        return {
            "in use": {"/".join(key): count for key, count in sorted(self.in_use.whole.items())},
            "shared": {"/".join(key): one.state for key, one in sorted(self.in_use.shared.items())},
            "nodes": {
                name: [
                    ("/".join(view.id), view.fault, len(view.slots)) for view in self.pools(name)
                ]
                for name in sorted(self._rows)
            },
        }

    def measure(self, meters: Meters) -> None:
        """Register counters of the plugin, and gauges of existing and used devices."""
        self.meters = meters
        meters.devices_published.read_from(lambda: _by_labels(self.slices.published()))
        meters.devices_in_use.read_from(lambda: _by_labels(self.in_use.counts()))

    # Queries.

    def claim(self, key: str) -> ResourceClaim | None:
        """Return a claim by `namespace/name`."""
        found = self._cluster.store.of(CLAIM).get(key) if self._cluster is not None else None
        return found if isinstance(found, ResourceClaim) else None

    def allocations(self) -> Iterator[tuple[str, tuple[DeviceResult, ...]]]:
        """Yield the owners of devices: the uid of a claim's first pod, or the consumer's name."""
        claims = self._cluster.store.of(CLAIM).values() if self._cluster is not None else ()
        for claim in claims:
            if results := _results(claim):
                first = next(iter(claim.status.reserved_for), None)
                if first is None:
                    yield f"claim {claim.key}", results
                elif first.resource == "pods":
                    yield first.uid, results
                else:
                    yield f"{claim.metadata.namespace}/{first.name}", results
        for uid, pending in self._pending.items():
            if uid not in self._shown:
                yield next(iter(pending.pods), f"claim {pending.claim}"), pending.results

    def extended_claim(self, pod_uid: str) -> ResourceClaim | None:
        """Return the claim that was created for a pod's extended resources, None without one."""
        key = self._extended.get(pod_uid)
        return self.claim(key) if key is not None else None

    def pending(self, claim: ResourceClaim) -> Pending | None:
        """Return the pending allocation of a claim, or None."""
        return self._pending.get(identity(claim))

    def pools(self, node: str) -> tuple[PoolView, ...]:
        """Return the pools of a node in the order of allocation."""
        return self._node_pools(node).views

    def situations(self) -> IdColumn:
        """Return the situation of each row of the node table (or more), -1 for rows without a
        node.
        """
        if self._stale:
            self._catch_up()
        if self._cluster is not None:
            self._grow(self._cluster.table.size)
        return self._column

    def distinguish(self, attributes: Iterable[str] | None) -> None:
        """Distinguish devices that differ in these attributes (None: in any)."""
        if self.contents.names(attributes):
            self.slices.renumber()
            self._situations.clear()
            self._stale = dict.fromkeys(self._rows)
            self.epoch += 1

    # Allocations that are decided and not written.

    def reserve(self, claim: ResourceClaim, pod: str, results: tuple[DeviceResult, ...]) -> None:
        """Count devices as used by a claim until the API server reports its allocation.

        Pods of a group that share a claim reserve the same for it.
        """
        pods: dict[str, str | None] = {pod: None}
        pending = self._pending.get(identity(claim))
        if pending is not None and pending.results == results:
            pods = {**pending.pods, **pods}
        self._put(identity(claim), Pending(claim.key, pods, results))

    def settle(self, claim_uid: str, pod: str, version: str) -> None:
        """Use the API server's state for a pod, from a version of the claim on.

        Before that its devices stay reserved, whatever the watch reports: this process must still
        write a claim that another writer allocated and freed again.
        """
        pending = self._pending.get(claim_uid)
        if pending is not None and pod in pending.pods:
            pods = {**pending.pods, pod: version}
            self._put(claim_uid, msgspec.structs.replace(pending, pods=pods))
            self._forget_shown(claim_uid, self.claim(pending.claim))

    def move(self, claim_uid: str, claim: ResourceClaim) -> None:
        """Move the reservation under a uid to the claim that was created for it."""
        pending = self._pending.get(claim_uid)
        if pending is not None:
            self._put(claim_uid, None)
            self._put(identity(claim), msgspec.structs.replace(pending, claim=claim.key))

    def release(self, claim_uid: str, pod: str = "") -> None:
        """Release the pending allocation of a claim, if there is one.

        With a `pod` (a uid), only if no other pod depends on it.
        """
        pending = self._pending.get(claim_uid)
        if pending is not None:
            others = {uid: done for uid, done in pending.pods.items() if uid != pod} if pod else {}
            left = msgspec.structs.replace(pending, pods=others) if others else None
            self._put(claim_uid, left)

    def restore(self, claim: ResourceClaim, pending: Pending | None) -> None:
        """Restore the pending allocation of a claim, replacing later reservations."""
        self._put(identity(claim), pending)

    def _put(self, claim_uid: str, pending: Pending | None) -> None:
        """Replace the reservation of a claim; an allocation in the API server takes precedence."""
        before = self._pending.pop(claim_uid, None)
        if before is not None and claim_uid not in self._shown:
            self._unuse(before.results)
        self._shown.discard(claim_uid)
        if pending is not None:
            self._pending[claim_uid] = pending
            if _results(self._stored(claim_uid, pending)):
                self._shown.add(claim_uid)
            else:
                self._use(pending.results)

    def _stored(self, claim_uid: str, pending: Pending) -> ResourceClaim | None:
        found = self.claim(pending.claim)
        return found if found is not None and identity(found) == claim_uid else None

    # Applying changes.

    def _slice(self, old: ResourceSlice | None, new: ResourceSlice | None) -> frozenset[str] | None:
        """Take in a change of a slice, with the taints of rules; return the nodes it matters to."""
        if old is not None:
            old = self._tainted.pop(old.metadata.name, old)
        if new is not None and (rules := self._rules()):
            patched = tainted(new, rules)
            if patched is not new:
                self._tainted[new.metadata.name] = patched
            new = patched
        return self.slices.replace(old, new)

    def _rules(self) -> Sequence[DeviceTaintRule]:
        if not self._follows_rules or self._cluster is None:
            return ()
        return tuple(self._cluster.store.of(RULE).values())

    def _taint(self) -> None:
        """Evaluate all slices again after a change of a taint rule."""
        if not self._follows_rules or self._cluster is None:
            return
        rules = self._rules()
        for name, one in self._cluster.store.of(SLICE).items():
            before = self._tainted.get(name, one)
            if tainted(one, rules) != before:
                self._touch(self._slice(one, one))

    def _count(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        before = _results(old)
        after = _results(new)
        if before is not after and before != after:
            self._unuse(before)
            self._use(after)
        if old is not None and (new is None or identity(new) != identity(old)):
            self.release(identity(old))
        if new is not None and identity(new) in self._pending:
            self._put(identity(new), self._pending[identity(new)])
            self._forget_shown(identity(new), new)
        if old is not None:
            for uid in extended_for(old):
                self._extended.pop(uid, None)
        if new is not None:
            self._extended.update((uid, new.key) for uid in extended_for(new))

    def _forget_shown(self, claim_uid: str, claim: ResourceClaim | None) -> None:
        """Drop the pods whose writes are complete by the API server's state."""
        pending = self._pending[claim_uid]
        if claim is not None and identity(claim) == claim_uid:
            left = {pod: done for pod, done in pending.pods.items() if not _shows(claim, done)}
            if len(left) < len(pending.pods):
                self._put(claim_uid, msgspec.structs.replace(pending, pods=left) if left else None)

    def _use(self, results: Iterable[DeviceResult]) -> None:
        self.in_use.add(results)
        self._used(results)

    def _unuse(self, results: Iterable[DeviceResult]) -> None:
        self.in_use.remove(results)
        self._used(results)

    def _used(self, results: Iterable[DeviceResult]) -> None:
        self.version += 1
        for pool in {(one.driver, one.pool) for one in results}:
            nodes = self.slices.users(pool)
            if nodes is None:
                self.epoch += 1
            else:
                self._touch(nodes)

    def _touch(self, nodes: Iterable[str] | None) -> None:
        """Recompute nodes whose slices have changed; None means all of them."""
        if nodes is None:
            self._stale = dict.fromkeys(self._rows)
            self.epoch += 1
        else:
            self._stale.update(dict.fromkeys(n for n in nodes if n in self._rows))

    def _node(self, change: Change) -> None:
        name = change.node.metadata.name
        if change.verb == "delete":
            row = self._rows.pop(name, None)
            self._stale.pop(name, None)
            self.slices.forget(name)
            if row is not None and row < len(self._column):
                self._column[row] = -1
        elif self._cluster is not None:
            is_new = name not in self._rows
            self._rows[name] = self._cluster.table.rows[name]
            if is_new or (self.slices.has_selectors and _labels(change.old) != _labels(change.new)):
                self.slices.forget(name)
                self._stale[name] = None

    def _node_pools(self, name: str) -> NodePools:
        row = self._rows.get(name)
        node = None
        if row is not None and self._cluster is not None:
            node = self._cluster.table.nodes[row]
        return self.slices.of(name, node)

    def _catch_up(self) -> None:
        if len(self._situations) > MOST_SITUATIONS:
            self._situations.clear()
            self._stale = dict.fromkeys(self._rows)
            self.epoch += 1
        stale, self._stale = self._stale, {}
        if stale:
            self._grow(1 + max(self._rows[name] for name in stale))
        in_use = self.in_use
        for name in stale:
            pools = self._node_pools(name)
            key = (pools.layout, *pools.usage(in_use))
            self._column[self._rows[name]] = self._situations.setdefault(key, len(self._situations))

    def _grow(self, size: int) -> None:
        if len(self._column) < size:
            grown = np.full(max(size, 2 * len(self._column)), -1, dtype=np.int32)
            grown[: len(self._column)] = self._column
            self._column = grown


def device_catalog(handle: Handle) -> DeviceCatalog:
    """Return the catalog that all plugins of a profile share."""
    if handle.feature_gates.get(TAINT_RULES):
        return handle.tracker(DeviceCatalog, True)
    return handle.tracker(DeviceCatalog)


def _by_labels(counts: Mapping[tuple[str, ...], int]) -> dict[tuple[str, ...], float]:
    return {labels: float(number) for labels, number in counts.items()}


def _results(claim: ResourceClaim | None) -> tuple[DeviceResult, ...]:
    allocation = claim.status.allocation if claim is not None else None
    return allocation.devices.results if allocation is not None else ()


def _shows(claim: ResourceClaim, version: str | None) -> bool:
    """Return whether a claim has at least this resource version, compared as a number (KEP-5504).

    Manifests in files may lack versions: there, every claim with an allocation counts.
    """
    if version is None:
        return False
    shown = claim.metadata.resource_version
    if shown.isdecimal() and version.isdecimal():
        return int(shown) >= int(version)
    return claim.status.allocation is not None


def _labels(node: Node | None) -> Mapping[str, str] | None:
    return node.metadata.labels if node is not None else None
