"""The filter of PodTopologySpread: counts per domain, their minimum, and the domains above the
skew.

Counts are kept per domain, not per row: a hypothetical pod changes one number, and a view of a few
rows uses the same numbers.
"""

from collections.abc import Sequence

import numpy as np

from scheduler.framework import BoolColumn, Cycle, IntColumn, Nodes, Pod, Rejected, reject
from scheduler.plugins.spread.constraints import SpreadConstraint
from scheduler.plugins.spread.inclusion import Inclusion, Mask, labelled
from scheduler.state.counts.podcounts import PodCounts
from scheduler.state.domains import Domains

REASON = "node(s) didn't match pod topology spread constraints"
REASON_LABEL = f"{REASON} (missing required label)"


class Counted:
    """One constraint with the matching pods per domain of the nodes that it includes."""

    __slots__ = ("constraint", "domains", "included", "present", "sums")

    def __init__(
        self, constraint: SpreadConstraint, domains: Domains, included: Mask, counts: PodCounts
    ) -> None:
        self.constraint = constraint
        self.domains = domains
        self.included = included
        if included is None:
            self.present = domains.present
        else:
            slots = domains.slots * included
            self.present = np.bincount(slots, minlength=domains.size) > 0
            self.present[0] = False
        self.sums = _sums(constraint, domains, included, counts)

    def move(self, pod: Pod, row: int, sign: int) -> None:
        """Count a pod that is added to (1) or removed from (-1) a row."""
        if (self.included is None or self.included[row]) and self.constraint.counts(pod):
            self.sums[self.domains.slots[row]] += sign

    def over(self) -> BoolColumn:
        """Return the slots whose domains cannot take the pod; never slot 0."""
        constraint, sums = self.constraint, self.sums
        most = self._least() + constraint.max_skew - constraint.matches_self
        over = sums > most
        over[0] = False
        return over

    def copy(self) -> "Counted":
        """Return an independent copy."""
        twin = Counted.__new__(Counted)
        twin.constraint, twin.domains = self.constraint, self.domains
        twin.included, twin.present = self.included, self.present
        twin.sums = self.sums.copy()
        return twin

    def _least(self) -> int:
        """Return the smallest count of a domain, 0 if there are fewer domains than `minDomains`."""
        of_domains = self.sums[self.present]
        if len(of_domains) < max(self.constraint.min_domains, 1):
            return 0
        return int(of_domains.min())


class SpreadState:
    """The filter's state; hypothetical pods update it one by one."""

    __slots__ = ("counted", "labelled")

    def __init__(self, counted: Sequence[Counted], labelled: Mask) -> None:
        self.counted = tuple(counted)
        self.labelled = labelled

    def move(self, pod: Pod, row: int, sign: int) -> None:
        """Count a pod that is added to (1) or removed from (-1) a row."""
        for counted in self.counted:
            counted.move(pod, row, sign)

    def copy(self) -> "SpreadState":
        """Return an independent copy."""
        return SpreadState([counted.copy() for counted in self.counted], self.labelled)


def spread_state(
    cycle: Cycle,
    nodes: Nodes,
    constraints: Sequence[SpreadConstraint],
    inclusion: Inclusion,
    counts: PodCounts,
) -> SpreadState:
    """Count for all constraints; only nodes that have all their topology keys take part."""
    keys = tuple(dict.fromkeys(constraint.key for constraint in constraints))
    with_labels = labelled(nodes, keys)
    state = SpreadState(
        [
            Counted(
                constraint,
                nodes.domains(constraint.key),
                inclusion.mask(cycle, nodes, constraint, with_labels),
                counts,
            )
            for constraint in constraints
        ],
        with_labels,
    )
    for placed, row, sign in nodes.moves():
        state.move(placed.pod, row, sign)
    return state


def rejected(nodes: Nodes, state: SpreadState) -> Rejected | None:
    """Return the rows that the constraints reject, with the reason of the first that rejects."""
    passed: BoolColumn | None = None
    unlabelled: BoolColumn | None = None
    uneven: BoolColumn | None = None
    for counted in state.counted:
        slots = nodes.domains(counted.constraint.key).slots
        if state.labelled is not None:
            missing = slots == 0 if passed is None else passed & (slots == 0)
            unlabelled = missing if unlabelled is None else unlabelled | missing
            passed = ~missing if passed is None else passed & ~missing
        over = counted.over()
        if over.any():
            bad = over.take(slots, mode="clip") if passed is None else passed & over.take(slots)
            uneven = bad if uneven is None else uneven | bad
            passed = ~bad if passed is None else passed & ~bad
    return _as_rejected(unlabelled, uneven)


def _as_rejected(unlabelled: BoolColumn | None, uneven: BoolColumn | None) -> Rejected | None:
    found: Rejected | None = None
    if unlabelled is not None:
        found = reject(unlabelled, REASON_LABEL, final=True)
    if uneven is not None:
        found = reject(uneven, REASON) if found is None else found | reject(uneven, REASON)
    return found


def _sums(
    constraint: SpreadConstraint, domains: Domains, included: Mask, counts: PodCounts
) -> IntColumn:
    if constraint.selection is None:
        return np.zeros(domains.size, dtype=np.int64)
    counted = counts.count(constraint.selection)
    if included is None:
        return counted.sums(domains)
    return counted.sums_at(domains.slots * included, domains)
