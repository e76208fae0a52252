"""Filter nodes by a pod's devices: claims to allocate, and claims already allocated.

Nodes that serve different extended resources themselves need different claims for the rest; within
such a group the check works on columns (see `outcomes`). Messages are kube-scheduler's.
"""

from collections.abc import Iterator
from functools import reduce
from operator import or_

import msgspec
import numpy as np

from scheduler.base.arrays import BoolColumn, IntColumn
from scheduler.framework.cycle import Cycle
from scheduler.framework.nodes import Nodes
from scheduler.framework.status import Rejected, reject
from scheduler.objects.claims import ResourceClaim, ResourceClaimSpec
from scheduler.objects.devices import IMPLICIT_PREFIX
from scheduler.objects.pod import Pod
from scheduler.plugins.dynamicresources.binding import has_failed
from scheduler.plugins.dynamicresources.catalog import DeviceCatalog
from scheduler.plugins.dynamicresources.extended import (
    IN_MEMORY_NAME,
    ExtendedClaim,
    extended_claim,
)
from scheduler.plugins.dynamicresources.outcomes import (
    FITS,
    INCOMPLETE,
    INVALID,
    LACKING,
    ClaimKind,
    Outcomes,
)
from scheduler.plugins.dynamicresources.state import PodDevices
from scheduler.plugins.nodeselection import any_of
from scheduler.state.resources import is_extended

LEFTOVER = "cannot schedule extended resource claim"
NOT_PROVIDED = "cannot fit resource"
NO_DEVICES = "cannot allocate all claims"
INVALID_POOLS = "invalid resource pools were encountered"
INCOMPLETE_POOLS = "resource pools are currently being updated"
TEXTS = {LACKING: NO_DEVICES, INVALID: INVALID_POOLS, INCOMPLETE: INCOMPLETE_POOLS}
NOT_HERE = "resourceclaim not available on the node"


class ClaimGroup(msgspec.Struct, frozen=True):
    """Rows that need the same claims allocated: their specs, and names for messages.

    `extended` is the claim for extended resources among them, the last one.
    """

    rows: BoolColumn
    specs: tuple[ResourceClaimSpec, ...]
    names: tuple[str, ...]
    extended: ExtendedClaim | None = None


class Filtering:
    """Filter and score columns of nodes."""

    def __init__(
        self, catalog: DeviceCatalog, outcomes: Outcomes, binding_timeout_s: float
    ) -> None:
        self._catalog = catalog
        self._outcomes = outcomes
        self._binding_timeout_s = binding_timeout_s

    def rejected(self, cycle: Cycle, nodes: Nodes, devices: PodDevices) -> Rejected | None:
        """Return the rows that do not fit the pod; ValueError for an error that ends the attempt.

        Records the claims whose current allocation excludes nodes, for post-filter.
        """
        if devices.leftover is not None:
            return reject(nodes.exists, LEFTOVER, final=True)
        found: list[Rejected] = []
        left = nodes.feasible.copy()
        lacking = _lacking(cycle, nodes, devices)
        if lacking.any():
            found.append(reject(lacking, NOT_PROVIDED, final=True))
            left &= ~lacking
        for group in groups_of(cycle.pod, nodes, devices):
            if not group.specs:
                continue
            among = left & group.rows
            result = self._outcomes.on(
                self.kind_of(group), group.names, among, nodes.name, self.situations(nodes)
            )
            if result.error:
                raise ValueError(result.error)
            for outcome, text in TEXTS.items():
                rows = among & (result.outcomes == outcome)
                if rows.any():
                    found.append(reject(rows, text, final=True))
            left &= ~group.rows | (result.outcomes == FITS)
        elsewhere = self._elsewhere(cycle, nodes, devices, left)
        if elsewhere.any():
            found.append(reject(elsewhere, NOT_HERE, final=True))
        return reduce(or_, found) if found else None

    def scores(self, cycle: Cycle, nodes: Nodes, devices: PodDevices) -> IntColumn:
        """Return the score of the alternatives used on each feasible row."""
        scores = np.zeros(nodes.size, dtype=np.int64)
        earlier = sum(score_of_allocated(claim) for claim in devices.claims)
        for group in groups_of(cycle.pod, nodes, devices):
            if not group.specs:
                continue  # kube-scheduler: without anything to allocate all scores are 0
            among = nodes.feasible & group.rows
            result = self._outcomes.on(
                self.kind_of(group), group.names, among, nodes.name, self.situations(nodes)
            )
            scores[among] = result.scores[among] + earlier
        return scores

    def kind_of(self, group: ClaimGroup) -> ClaimKind:
        """Return the kind of a group's claims."""
        return self._outcomes.kind_of(group.specs)

    def situations(self, nodes: Nodes) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
        """Return the situation of each row."""
        return nodes.part(self._catalog.situations())[: nodes.size]

    def _elsewhere(
        self, cycle: Cycle, nodes: Nodes, devices: PodDevices, left: BoolColumn
    ) -> BoolColumn:
        """Return the rows of `left` where an allocated claim cannot be used."""
        elsewhere = np.zeros(nodes.size, dtype=np.bool_)
        for place, claim in enumerate(devices.claims):
            allocation = claim.status.allocation
            if allocation is None:
                continue
            terms = any_of(allocation.node_selector)
            here = nodes.exists if terms is None else terms.mask(nodes)
            if has_failed(claim, cycle.now, self._binding_timeout_s):
                here = np.zeros(nodes.size, dtype=np.bool_)
            away = left & ~here
            if away.any():
                devices.unavailable.add(place)
                elsewhere |= away
        return elsewhere


def _lacking(cycle: Cycle, nodes: Nodes, devices: PodDevices) -> BoolColumn:
    """Return the feasible rows without an extended resource that no device class serves.

    Only for a pod with another one that a class serves, as in kube-scheduler: the profile's fit
    may ignore the resource.
    """
    rows = np.zeros(nodes.size, dtype=np.bool_)
    if not devices.served:
        return rows
    for name, amount in cycle.shape.requests.items():
        is_of_devices = is_extended(name) or name.startswith(IMPLICIT_PREFIX)
        if not amount or not is_of_devices or name in devices.served:
            continue
        for row in np.flatnonzero(nodes.feasible & (nodes.allocatable(name) <= 0)).tolist():
            node = nodes.node(row)
            rows[row] |= node is None or name not in node.status.allocatable
    return rows


def groups_of(pod: Pod, nodes: Nodes, devices: PodDevices) -> Iterator[ClaimGroup]:
    """Yield the rows of `nodes` by the claims that they need allocated."""
    claims = devices.unallocated
    specs = tuple(claim.spec for claim in claims)
    names = tuple(claim.key for claim in claims)
    served = sorted(devices.served)
    if not served:
        yield ClaimGroup(nodes.exists, specs, names)
        return
    pattern = np.zeros(nodes.size, dtype=np.int64)
    for place, resource in enumerate(served):
        pattern |= (nodes.allocatable(resource) <= 0).astype(np.int64) << place
    for number in np.unique(pattern).tolist():
        lacking = [name for place, name in enumerate(served) if number >> place & 1]
        rows = nodes.exists & (pattern == number)
        if not lacking:
            # The node serves all of them; kube-scheduler 1.36 creates an empty claim, and fails.
            yield ClaimGroup(rows, specs, names)
            continue
        extended = extended_claim(pod, lacking, devices.served)
        name = f"{pod.metadata.namespace}/{IN_MEMORY_NAME}"
        yield ClaimGroup(rows, (*specs, extended.spec), (*names, name), extended)


def score_of_allocated(claim: ResourceClaim) -> int:
    """Return the score of the alternatives in a claim's existing allocation."""
    allocation = claim.status.allocation
    if allocation is None:
        return 0
    taken = {one.request for one in allocation.devices.results}
    return sum(
        8 - index
        for request in claim.spec.devices.requests
        for index, one in enumerate(request.first_available)
        if f"{request.name}/{one.name}" in taken
    )
