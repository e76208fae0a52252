"""Devices for several pods of a group: the number of equivalent pods per node, and one joint
choice.

The claims of all pods of one node are searched as if one pod had them all, so a device that one of
them does not need is left to another. Nodes that share devices are searched one after the other; a
node that fails comes first in the next try. Nothing is reserved on return.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import msgspec
import numpy as np

from scheduler.base.arrays import BoolColumn, IntColumn, IntMatrix
from scheduler.framework.cycle import Cycle
from scheduler.framework.nodes import Nodes
from scheduler.framework.together import (
    AssignedMember,
    Inventory,
    MemberConflict,
    MemberDemand,
    RowCapacity,
)
from scheduler.objects.claims import AllocationResult, ResourceClaim, ResourceClaimSpec
from scheduler.objects.pod import Pod
from scheduler.plugins.dynamicresources.allocation.candidates import Candidates, SearchError
from scheduler.plugins.dynamicresources.allocation.pools import DeviceId
from scheduler.plugins.dynamicresources.allocation.requests import AllocationPlan, RequestedDevices
from scheduler.plugins.dynamicresources.allocation.search import ChosenDevice
from scheduler.plugins.dynamicresources.catalog import DeviceCatalog
from scheduler.plugins.dynamicresources.filtering import (
    NO_DEVICES,
    ClaimGroup,
    Filtering,
    groups_of,
)
from scheduler.plugins.dynamicresources.outcomes import FITS, MOST_ALTERNATIVES, ClaimKind, Outcomes
from scheduler.plugins.dynamicresources.podclaims import PODGROUPS, ClaimLookup, identity
from scheduler.plugins.dynamicresources.state import Agreed, Allocated, PodDevices
from scheduler.plugins.nodeselection import any_of

# How often nodes that share devices are tried in another order.
MOST_ORDERS: Final = 8

# The claims of a pod to allocate on a node, in order; and the allocation of a claim.
Wanted = Callable[[Cycle, str, PodDevices], list[Allocated]]
Granting = Callable[
    [Cycle, ResourceClaim, ClaimKind, int, Sequence[ChosenDevice], str], AllocationResult
]


class Joint:
    """Joint results for several pods.

    `wanted` and `grant` are the plugin's functions for one pod.
    """

    def __init__(
        self,
        catalog: DeviceCatalog,
        outcomes: Outcomes,
        filtering: Filtering,
        claims: ClaimLookup,
        wanted: Wanted,
        grant: Granting,
    ) -> None:
        self._catalog = catalog
        self._outcomes = outcomes
        self._filtering = filtering
        self._claims = claims
        self._wanted = wanted
        self._grant = grant

    def row_capacity(
        self, cycle: Cycle, nodes: Nodes, demand: MemberDemand, devices: PodDevices
    ) -> RowCapacity:
        """Return how many pods with such claims each feasible row has devices for.

        Claims that other members name as well are allocated once for all of them.
        """
        most = demand.most
        slots = np.full(nodes.size, most, dtype=np.int64)
        others = _named_by_others(cycle.pod, demand.members)
        own = [
            claim.metadata.name not in others
            and self._claims.user(cycle.pod, claim).resource != PODGROUPS
            for claim in devices.unallocated
        ]
        costs = np.zeros((most, nodes.size), dtype=np.int64)
        extended: list[bytes] = []
        for group in groups_of(cycle.pod, nodes, devices):
            # The claim for extended resources is created for the pod.
            mine = own
            if group.extended is not None:
                mine = [*own, True]
                extended.append(msgspec.json.encode(group.extended.spec))
            if any(mine):
                slots[group.rows] = self._number(nodes, group, mine, costs)[group.rows]
        shared = [c for c, is_own in zip(devices.unallocated, own, strict=True) if not is_own]
        kind = (
            tuple(msgspec.json.encode(claim.spec) for claim in devices.unallocated),
            tuple(identity(claim) for claim in shared),
            tuple(extended),
        )
        shared_domain = self._shared_domain(nodes, shared) if shared else None

        def inventory(rows: BoolColumn) -> Inventory:
            return self._inventory(cycle.pod, nodes, devices, rows)

        has_open = bool(devices.unallocated or extended)
        has_choice = any(map(_choices, (claim.spec for claim in devices.unallocated)))
        found = inventory if has_open else None
        return RowCapacity(slots, kind, shared_domain, found, costs if has_choice else None)

    def _inventory(
        self, pod: Pod, nodes: Nodes, devices: PodDevices, rows: BoolColumn
    ) -> Inventory:
        """Return the rows' inventory of the devices that a pod's open claims request."""
        groups = []
        for group in groups_of(pod, nodes, devices):
            here = np.flatnonzero(rows & group.rows).tolist()
            plan = self._outcomes.kind_of(group.specs).plan
            groups.append(RequestedOnNodes(plan, group.names, [nodes.name(row) for row in here]))
        return inventory_of(self._catalog, groups)

    def assign_together(self, assigned: Sequence[AssignedMember]) -> MemberConflict | None:
        """Choose devices for all these pods, or return some that cannot share their node."""
        by_node: dict[str, list[AssignedMember]] = defaultdict(list)
        for member in assigned:
            by_node[member.node].append(member)
        order = list(by_node)
        failed = ""
        for _ in range(MOST_ORDERS):
            found = _Try(self._catalog, self._outcomes, self._wanted, self._grant)
            late = found.run(order, by_node)
            if late is None:
                return None
            if order[0] == late:
                return self._conflict(by_node[late], is_alone=True)
            failed = late
            order.remove(failed)
            order.insert(0, failed)
        return self._conflict(by_node[failed], is_alone=False)

    def _conflict(self, assigned: Sequence[AssignedMember], *, is_alone: bool) -> MemberConflict:
        first = assigned[0]
        nodes: Nodes = first.state.nodes
        row = nodes.row(first.node)
        rows = np.zeros(nodes.size, dtype=np.bool_)
        if row is not None:
            rows[row] = True
            if is_alone:
                column = self._catalog.situations()[: nodes.size]
                rows |= column == column[row]
        return MemberConflict(
            tuple(one.cycle.pod for one in assigned), first.node, NO_DEVICES, rows
        )

    def _number(
        self, nodes: Nodes, group: ClaimGroup, own: Sequence[bool], costs: IntMatrix
    ) -> IntColumn:
        """Return by row how many times the pod's own claims fit, shared ones once.

        Writes what the used alternatives lack compared with the first ones, by number and row.
        """
        slots = np.zeros(nodes.size, dtype=np.int64)
        left = nodes.feasible & group.rows
        column = self._filtering.situations(nodes)
        specs, names = list(group.specs), list(group.names)
        for number in range(1, len(costs) + 1):
            if number > 1:
                specs += [one for one, mine in zip(group.specs, own, strict=True) if mine]
                names += [one for one, mine in zip(group.names, own, strict=True) if mine]
            kind = self._outcomes.kind_of(specs)
            found = self._outcomes.on(kind, names, left, nodes.name, column)
            left = left & (found.outcomes == FITS)
            if not left.any():
                break
            slots[left] = number
            costs[number - 1, left] = MOST_ALTERNATIVES * sum(map(_choices, specs))
            costs[number - 1, left] -= found.scores[left]
        return slots

    def _shared_domain(self, nodes: Nodes, shared: Sequence[ResourceClaim]) -> IntColumn:
        """Return by row a number that is equal where devices for shared claims can be used in
        common.
        """
        numbers: dict[object, int] = {}
        by_situation: dict[int, object] = {}
        shared_domain = np.full(nodes.size, -1, dtype=np.int64)
        column = self._filtering.situations(nodes)
        kind = self._outcomes.kind_of([claim.spec for claim in shared])
        names = [claim.key for claim in shared]
        for row in np.flatnonzero(nodes.feasible).tolist():
            situation = int(column[row])
            if situation not in by_situation:
                by_situation[situation] = self._place(kind, names, nodes.name(row))
            place = by_situation[situation]
            key = ("node", row) if place is None else place
            shared_domain[row] = numbers.setdefault(key, len(numbers))
        return shared_domain

    def _place(self, kind: ClaimKind, names: Sequence[str], node: str) -> object:
        """Return a key for the nodes that can use the devices found on one node.

        None: only that node.
        """
        try:
            found = self._outcomes.search(kind, names, node) or []
        except SearchError:
            return None
        slots = [one.slot for chosen in found for one in chosen]
        if any(slot.node_name or slot.device.binds_to_node for slot in slots):
            return None
        return tuple(sorted(msgspec.json.encode(slot.node_selector) for slot in slots))


class _Try:
    """One attempt: nodes in some order, each with the devices that the nodes before it left."""

    def __init__(
        self, catalog: DeviceCatalog, outcomes: Outcomes, wanted: Wanted, grant: Granting
    ) -> None:
        self._catalog = catalog
        self._outcomes = outcomes
        self._wanted = wanted
        self._grant = grant
        self._found: dict[str, Allocated] = {}
        self._agreed: list[tuple[AssignedMember, tuple[str, ...]]] = []

    def run(self, order: Iterable[str], by_node: dict[str, list[AssignedMember]]) -> str | None:
        """Search all nodes and set the pods' states.

        Return the first node that fails, else None.
        """
        # Before any search: a claim that members on several nodes share is reserved by the first.
        claims = {
            identity(claim): claim
            for assigned in by_node.values()
            for member in assigned
            for claim in member.state.unallocated
        }
        kept = [(claim, self._catalog.pending(claim)) for claim in claims.values()]
        try:
            for node in order:
                if not self._settled(node, by_node[node]):
                    return node
        finally:
            for uid in self._found:
                self._catalog.release(uid)
            for claim, pending in kept:
                self._catalog.restore(claim, pending)
        for member, uids in self._agreed:
            member.state.agreed = Agreed(member.node, tuple(self._found[uid] for uid in uids))
        return None

    def _settled(self, node: str, assigned: Sequence[AssignedMember]) -> bool:
        """Choose devices for the pods of one node and count them as used; False if impossible."""
        open_ones: dict[str, tuple[AssignedMember, Allocated]] = {}
        for member in assigned:
            wanted = self._wanted(member.cycle, node, member.state)
            for one in wanted:
                uid = identity(one.claim)
                settled = self._found.get(uid)
                if settled is None:
                    open_ones.setdefault(uid, (member, one))
                elif not _reaches(settled.allocation, member, node):
                    return False
            self._agreed.append((member, tuple(identity(one.claim) for one in wanted)))
        if not open_ones:
            return True
        kind = self._outcomes.kind_of([one.claim.spec for _, one in open_ones.values()])
        names = [one.claim.key for _, one in open_ones.values()]
        try:
            found = self._outcomes.search(kind, names, node)
        except SearchError:
            return False
        if found is None:
            return False
        for place, (uid, (member, one)) in enumerate(open_ones.items()):
            allocation = self._grant(member.cycle, one.claim, kind, place, found[place], node)
            self._found[uid] = Allocated(one.claim, allocation, one.extended)
            pod = member.cycle.pod.metadata.uid
            self._catalog.reserve(one.claim, pod, allocation.devices.results)
        return True


def _named_by_others(pod: Pod, members: Iterable[Pod]) -> set[str]:
    """Return those of a pod's claims that other members name as well."""
    mine = {one.resource_claim_name for one in pod.spec.resource_claims} - {None}
    return {
        one.resource_claim_name
        for other in (members if mine else ())
        for one in other.spec.resource_claims
        if other.metadata.uid != pod.metadata.uid and one.resource_claim_name in mine
        if one.resource_claim_name is not None
    }


def _choices(spec: ResourceClaimSpec) -> int:
    """Return how many requests of a claim have alternatives."""
    return sum(bool(request.first_available) for request in spec.devices.requests)


def _reaches(allocation: AllocationResult, member: AssignedMember, node: str) -> bool:
    nodes: Nodes = member.state.nodes
    row, terms = nodes.row(node), any_of(allocation.node_selector)
    return terms is None or (row is not None and bool(terms.mask(nodes)[row]))


class RequestedOnNodes(msgspec.Struct, frozen=True):
    """Claims of a plan (`names` are theirs) to be served by some nodes."""

    plan: AllocationPlan
    names: Sequence[str]
    nodes: Sequence[str]


def inventory_of(catalog: DeviceCatalog, groups: Iterable[RequestedOnNodes]) -> Inventory:
    """Return the number of the nodes' devices that match the claims, and their users.

    A device counts once, for any number of nodes that can use it, if any request would accept it
    while free. Constraints and counters between devices are left out. For the text of a rejection.
    """
    used: dict[DeviceId, bool] = {}
    for one in groups:
        for device in _matching(catalog, one):
            used[device] = catalog.in_use.has(device)
    taken = {device for device, is_used in used.items() if is_used}
    return Inventory("devices", len(used) - len(taken), len(used), _users(catalog, taken))


def _matching(catalog: DeviceCatalog, group: RequestedOnNodes) -> Iterator[DeviceId]:
    """Yield the devices of the nodes that a request of the claims selects and tolerates."""
    all_requested = [
        requested
        for claim in group.plan.claims
        for all_requested in claim.requests
        for requested in all_requested
    ]
    # Selectors depend on a device's content alone, not on the node.
    selected: dict[int, bool] = {}
    for node in group.nodes:
        found = Candidates(group.names, catalog.pools(node), catalog.in_use)
        for place, slot in enumerate(found.slots):
            if not slot.is_here:
                continue
            if slot.content not in selected:
                selected[slot.content] = any(
                    _selects(found, requested, place) for requested in all_requested
                )
            if selected[slot.content]:
                yield slot.id


def _selects(found: Candidates, requested: RequestedDevices, place: int) -> bool:
    device = found.slots[place].device
    try:
        return found.is_selectable(requested, place) and requested.tolerates(device.taints)
    except SearchError:
        return False


def _users(catalog: DeviceCatalog, taken: set[DeviceId]) -> Counter[str]:
    users: Counter[str] = Counter()
    for user, results in catalog.allocations():
        number = len({(one.driver, one.pool, one.device) for one in results} & taken)
        if number:
            users[user] += number
    return users
