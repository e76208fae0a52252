"""`TermHolders`: the terms of placed pods, each distinct one with its holders per row.

An incoming pod meets only the terms that one of its labels leads to. A term that many pods hold
(the replicas of a workload) is looked at once.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from scheduler.framework import PerShape, Placed, Pod, Versioned
from scheduler.plugins.affinity.terms import Term, pod_terms
from scheduler.state.rowcounts import RowCounts
from scheduler.state.rowtracker import RowTracker
from scheduler.state.selection import SelectionIndex

ANTI = "required anti-affinity"
NEAR = "required affinity"
PREFERRED = "preferred"


class HeldTerm(msgspec.Struct, frozen=True, cache_hash=True):
    """A term as placed pods hold it; `weight` is that of a preferred one, negative for "far"."""

    kind: str
    term: Term
    weight: int = 0


class TermHolders(RowTracker):
    """Counts who holds which term where."""

    def __init__(self) -> None:
        super().__init__()
        self._held: PerShape[tuple[HeldTerm, ...]] = PerShape(held_by)
        self._holders: dict[HeldTerm, RowCounts] = {}
        self._repelling: SelectionIndex[HeldTerm] = SelectionIndex()
        self._scoring: SelectionIndex[HeldTerm] = SelectionIndex()

    def clear(self) -> None:
        """Forget all pods."""
        self._holders.clear()
        self._repelling.clear()
        self._scoring.clear()

    @property
    def repelling_terms(self) -> Versioned:
        """Return what moves when a required anti-affinity term comes or goes with its last
        holder.
        """
        return self._repelling

    @property
    def scoring_terms(self) -> Versioned:
        """Return what moves when a required affinity or a preferred term comes or goes."""
        return self._scoring

    def passes_over(self, placed: Placed) -> bool:
        """Return whether pods of such a spec hold no terms."""
        return placed.pod.spec.affinity is None

    def hold(self, placed: Placed, row: int) -> None:
        """Count a pod's terms on a row."""
        for held in self._terms(placed):
            holders = self._holders.get(held)
            if holders is None:
                holders = self._holders[held] = RowCounts()
                self._index(held).add(held.term.place(), held)
            holders.add(row, 1)

    def release(self, placed: Placed, row: int) -> None:
        """Stop counting a pod's terms on a row."""
        for held in self._terms(placed):
            holders = self._holders[held]
            holders.add(row, -1)
            if not holders:
                del self._holders[held]
                self._index(held).remove(held.term.place(), held)

    def repelling(
        self, pod: Pod, namespace_labels: Mapping[str, str]
    ) -> list[tuple[HeldTerm, RowCounts]]:
        """Return the required anti-affinity terms that mean `pod`, with their holders."""
        return self._meaning(self._repelling, pod, namespace_labels)

    def scoring(
        self, pod: Pod, namespace_labels: Mapping[str, str]
    ) -> list[tuple[HeldTerm, RowCounts]]:
        """Return the required affinity and the preferred terms that mean `pod`."""
        return self._meaning(self._scoring, pod, namespace_labels)

    def columns(self) -> Mapping[str, Any]:
        """Return the holders of each term per row."""
        size = 1 + max(self._rows.values(), default=-1)
        return {repr(held): holders.column(size) for held, holders in self._holders.items()}

    def _meaning(
        self, index: SelectionIndex[HeldTerm], pod: Pod, namespace_labels: Mapping[str, str]
    ) -> list[tuple[HeldTerm, RowCounts]]:
        if not index:
            return []
        meta = pod.metadata
        return [
            (held, self._holders[held])
            for held in index.candidates(meta.namespace, meta.labels)
            if held.term.matches(pod, namespace_labels)
        ]

    def _terms(self, placed: Placed) -> tuple[HeldTerm, ...]:
        return () if placed.pod.spec.affinity is None else self._held.of(placed)

    def _index(self, held: HeldTerm) -> SelectionIndex[HeldTerm]:
        return self._repelling if held.kind == ANTI else self._scoring


def held_by(pod: Pod) -> tuple[HeldTerm, ...]:
    """Return the terms that a pod holds; those that mean no pod at all are left out."""
    terms = pod_terms(pod)
    held: Iterable[HeldTerm] = (
        *(HeldTerm(ANTI, term) for term in terms.anti_affinity),
        *(HeldTerm(NEAR, term) for term in terms.affinity),
        *(HeldTerm(PREFERRED, term, weight) for term, weight in terms.preferred),
    )
    return tuple(one for one in held if one.term.expressions is not None)
