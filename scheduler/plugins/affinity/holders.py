"""`TermHolders`: the terms of placed pods, each distinct one with its holders per row.

An incoming pod is compared only with terms that one of its labels selects. A term of many pods (the
replicas of a workload) is evaluated once.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from scheduler.framework import PerShape, Placed, Pod, Versioned
from scheduler.plugins.affinity.terms import Term, pod_terms
from scheduler.state.counts.rowcounts import RowCounts
from scheduler.state.counts.rowtracker import RowTracker
from scheduler.state.selection import SelectionIndex

ANTI = "required anti-affinity"
NEAR = "required affinity"
PREFERRED = "preferred"


class ExistingTerm(msgspec.Struct, frozen=True, cache_hash=True):
    """A term of placed pods; `weight` is that of a preferred one, negative for anti-affinity."""

    kind: str
    term: Term
    weight: int = 0


class TermHolders(RowTracker):
    """Counts the pods with each term by row."""

    def __init__(self) -> None:
        super().__init__()
        self._existing_terms: PerShape[tuple[ExistingTerm, ...]] = PerShape(existing_terms)
        self._holders: dict[ExistingTerm, RowCounts] = {}
        self._repelling: SelectionIndex[ExistingTerm] = SelectionIndex()
        self._scoring: SelectionIndex[ExistingTerm] = SelectionIndex()

    def clear(self) -> None:
        """Drop all pods."""
        self._holders.clear()
        self._repelling.clear()
        self._scoring.clear()

    @property
    def repelling_terms(self) -> Versioned:
        """Return a version that changes when a required anti-affinity term appears, or its last pod
        goes.
        """
        return self._repelling

    @property
    def scoring_terms(self) -> Versioned:
        """Return a version that changes when a scoring term appears, or its last pod goes."""
        return self._scoring

    def passes_over(self, placed: Placed) -> bool:
        """Return whether pods of such a spec hold no terms."""
        return placed.pod.spec.affinity is None

    def hold(self, placed: Placed, row: int) -> None:
        """Count a pod's terms on a row."""
        for existing in self._terms(placed):
            holders = self._holders.get(existing)
            if holders is None:
                holders = self._holders[existing] = RowCounts()
                self._index(existing).add(existing.term.place(), existing)
            holders.add(row, 1)

    def release(self, placed: Placed, row: int) -> None:
        """Stop counting a pod's terms on a row."""
        for existing in self._terms(placed):
            holders = self._holders[existing]
            holders.add(row, -1)
            if not holders:
                del self._holders[existing]
                self._index(existing).remove(existing.term.place(), existing)

    def repelling(
        self, pod: Pod, namespace_labels: Mapping[str, str]
    ) -> list[tuple[ExistingTerm, RowCounts]]:
        """Return the required anti-affinity terms that select `pod`, with the pods that have
        them.
        """
        return self._meaning(self._repelling, pod, namespace_labels)

    def scoring(
        self, pod: Pod, namespace_labels: Mapping[str, str]
    ) -> list[tuple[ExistingTerm, RowCounts]]:
        """Return the required affinity terms and the preferred terms that select `pod`."""
        return self._meaning(self._scoring, pod, namespace_labels)

    def columns(self) -> Mapping[str, Any]:
        """Return the holders of each term per row."""
        size = 1 + max(self._rows.values(), default=-1)
        return {repr(existing): holders.column(size) for existing, holders in self._holders.items()}

    def _meaning(
        self, index: SelectionIndex[ExistingTerm], pod: Pod, namespace_labels: Mapping[str, str]
    ) -> list[tuple[ExistingTerm, RowCounts]]:
        if not index:
            return []
        meta = pod.metadata
        return [
            (existing, self._holders[existing])
            for existing in index.candidates(meta.namespace, meta.labels)
            if existing.term.matches(pod, namespace_labels)
        ]

    def _terms(self, placed: Placed) -> tuple[ExistingTerm, ...]:
        return () if placed.pod.spec.affinity is None else self._existing_terms.of(placed)

    def _index(self, existing: ExistingTerm) -> SelectionIndex[ExistingTerm]:
        return self._repelling if existing.kind == ANTI else self._scoring


def existing_terms(pod: Pod) -> tuple[ExistingTerm, ...]:
    """Return the terms of a placed pod, without those that can select no pod."""
    terms = pod_terms(pod)
    existing: Iterable[ExistingTerm] = (
        *(ExistingTerm(ANTI, term) for term in terms.anti_affinity),
        *(ExistingTerm(NEAR, term) for term in terms.affinity),
        *(ExistingTerm(PREFERRED, term, weight) for term, weight in terms.preferred),
    )
    return tuple(one for one in existing if one.term.expressions is not None)
