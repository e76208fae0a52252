"""The filter of InterPodAffinity: the domains with pods that attract or repel the incoming one.

Counts are kept per domain, not per row: a hypothetical pod changes a few numbers, and a view of a
few rows uses the same numbers.
"""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import msgspec
import numpy as np

from scheduler.framework import BoolColumn, IntColumn, Nodes, Pod, Rejected, reject
from scheduler.plugins.affinity.terms import Labels, Term
from scheduler.state.counts.podcounts import PodCounts
from scheduler.state.counts.rowcounts import RowCounts
from scheduler.state.selection import Selection

REASON_AFFINITY = "node(s) didn't match pod affinity rules"
REASON_ANTI = "node(s) didn't match pod anti-affinity rules"
REASON_EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"

Sums: TypeAlias = dict[str, IntColumn]

_NO_PODS = RowCounts()


class AffinityState(msgspec.Struct, eq=False):
    """Numbers of pods per topology key and domain; slot 0 of each means no domain.

    `near` counts the pods that match all required terms of the incoming pod, `far` those that match
    one of its anti-affinity terms, `repelling` the terms of placed pods that select it. `own` and
    `avoided` are the selections behind the first two.
    """

    pod: Pod
    scope: Labels
    nodes: Nodes
    own: Selection | None = None
    is_first: bool = False
    avoided: tuple[tuple[str, Selection], ...] = ()
    near: Sums = {}
    far: Sums = {}
    repelling: Sums = {}

    def attract(self, terms: Sequence[Term], own: Selection | None, counts: PodCounts) -> None:
        """Take in the required affinity: `own` are the pods that match all terms at once."""
        meta = self.pod.metadata
        self.own = own
        self.is_first = own is not None and own.matches(meta.namespace, meta.labels)
        holders = None if own is None else counts.count(own)
        for key in {term.key: None for term in terms}:
            self._add(self.near, key, holders)

    def avoid(self, key: str, selection: Selection, counts: PodCounts) -> None:
        """Add one anti-affinity term."""
        self.avoided += ((key, selection),)
        self._add(self.far, key, counts.count(selection))

    def repel(self, term: Term, holders: RowCounts) -> None:
        """Add an anti-affinity term of placed pods that selects the incoming one."""
        self._add(self.repelling, term.key, holders)

    def is_repelled(self) -> bool:
        """Return whether a placed pod's term keeps the pod off some node."""
        return any(sums[1:].any() for sums in self.repelling.values())

    def move(self, pod: Pod, anti_affinity: Iterable[Term], row: int, sign: int) -> None:
        """Count a pod with its anti-affinity terms that is added to (1) or removed from
        (-1) a row.
        """
        meta = pod.metadata
        if self.own is not None and self.own.matches(meta.namespace, meta.labels):
            for key in self.near:
                self._count(self.near, key, row, sign)
        for key, selection in self.avoided:
            if selection.matches(meta.namespace, meta.labels):
                self._count(self.far, key, row, sign)
        for term in anti_affinity:
            if term.matches(self.pod, self.scope):
                self._count(self.repelling, term.key, row, sign)

    def is_meant(self, pod: Pod, anti_affinity: Iterable[Term]) -> bool:
        """Return whether a pod with these anti-affinity terms changes one of these counts."""
        meta = pod.metadata
        selections = [selection for _, selection in self.avoided]
        if self.own is not None:
            selections.append(self.own)
        return any(one.matches(meta.namespace, meta.labels) for one in selections) or any(
            term.matches(self.pod, self.scope) for term in anti_affinity
        )

    def copy(self) -> "AffinityState":
        """Return an independent copy."""
        twin = AffinityState(self.pod, self.scope, self.nodes)
        twin.own, twin.is_first, twin.avoided = self.own, self.is_first, self.avoided
        twin.near, twin.far = _copied(self.near), _copied(self.far)
        twin.repelling = _copied(self.repelling)
        return twin

    def _add(self, sums: Sums, key: str, holders: RowCounts | None) -> None:
        domains = self.nodes.domains(key)
        found = (holders or _NO_PODS).sums(domains)
        found[0] = 0
        sums[key] = sums[key] + found if key in sums else found

    def _count(self, sums: Sums, key: str, row: int, sign: int) -> None:
        domains = self.nodes.domains(key)
        if key not in sums:
            sums[key] = np.zeros(domains.size, dtype=np.int64)
        slot = domains.slots[row]
        if slot:
            sums[key][slot] += sign


def rejected(nodes: Nodes, state: AffinityState) -> Rejected | None:
    """Return the rows that affinity, anti-affinity or placed pods' anti-affinity reject."""
    found: Rejected | None = None
    if state.near:
        found = reject(_far_from_all(nodes, state), REASON_AFFINITY, final=True)
    for sums, reason in ((state.far, REASON_ANTI), (state.repelling, REASON_EXISTING)):
        rows = _in_any(nodes, sums)
        if rows is not None:
            one = reject(rows, reason)
            found = one if found is None else found.otherwise(one)
    return found


def _far_from_all(nodes: Nodes, state: AffinityState) -> BoolColumn:
    """Return the rows that violate required affinity: no label, or no match in the domain."""
    # The first pod whose affinity term selects itself may run anywhere: no such pod exists yet.
    may_be_first = state.is_first and not any(sums.any() for sums in state.near.values())
    far: BoolColumn | None = None
    for key, sums in state.near.items():
        slots = nodes.domains(key).slots
        rows = slots == 0 if may_be_first else (sums <= 0).take(slots, mode="clip")
        far = rows if far is None else far | rows
    return np.zeros(nodes.size, dtype=np.bool_) if far is None else far


def _in_any(nodes: Nodes, sums: Sums) -> BoolColumn | None:
    """Return the rows in a domain with a number above 0, or None."""
    found: BoolColumn | None = None
    for key, numbers in sums.items():
        existing = numbers > 0
        if existing.any():
            rows = existing.take(nodes.domains(key).slots, mode="clip")
            found = rows if found is None else found | rows
    return found


def _copied(sums: Sums) -> Sums:
    return {key: column.copy() for key, column in sums.items()}
