"""`PodCounts`: for any selection of pods, how many placed ones match it on each row.

A selection is counted at its first use and then follows every change: a pod that is added or
removed touches only the selections that match it. Pods of one shape are equal for every selection,
so they form a cohort with the list of selections that count it. Selections without recent use are
dropped.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from scheduler.state.counts.rowcounts import RowCounts
from scheduler.state.counts.rowtracker import RowTracker
from scheduler.state.podindex import Placed
from scheduler.state.selection import Selection, SelectionIndex, pairs_of
from scheduler.state.shapes import Shape

MOST_SELECTIONS = 8192

_Key = tuple[Shape, bool]


class _Cohort:
    """The placed pods of one shape (terminating or not): their rows, and the selections that count
    them.
    """

    __slots__ = ("counted_by", "is_terminating", "labels", "namespace", "rows")

    def __init__(self, placed: Placed) -> None:
        meta = placed.pod.metadata
        self.namespace, self.labels = meta.namespace, meta.labels
        self.is_terminating = placed.pod.is_terminating
        self.rows: dict[int, int] = {}
        self.counted_by: dict[RowCounts, None] = {}

    def matches(self, selection: Selection) -> bool:
        return selection.matches(self.namespace, self.labels, is_terminating=self.is_terminating)


class PodCounts(RowTracker):
    """Counts placed pods by selection and row."""

    def __init__(self) -> None:
        super().__init__()
        self.clear()

    def clear(self) -> None:
        """Drop all pods and selections."""
        self._cohorts: dict[_Key, _Cohort] = {}
        self._by_namespace: dict[str, dict[_Cohort, None]] = {}
        # Label key → value → cohorts; only for keys that some selection names.
        self._by_label: dict[str, dict[str, dict[_Cohort, None]]] = {}
        self._counts: dict[Selection, RowCounts] = {}
        self._selections: SelectionIndex[Selection] = SelectionIndex()

    def count(self, selection: Selection) -> RowCounts:
        """Return the matching pods per row, kept up to date until the next `count` or `rebuild`."""
        counts = self._counts.pop(selection, None)
        if counts is None:
            while len(self._counts) >= MOST_SELECTIONS:
                self._drop(next(iter(self._counts)))
            counts = self._begin(selection)
        # moved to the end: the least recently used one is dropped first
        self._counts[selection] = counts
        return counts

    def hold(self, placed: Placed, row: int) -> None:
        """Count a pod on a row."""
        key = (placed.shape, placed.pod.is_terminating)
        cohort = self._cohorts.get(key)
        if cohort is None:
            cohort = self._cohorts[key] = self._found(placed)
        cohort.rows[row] = cohort.rows.get(row, 0) + 1
        for counts in cohort.counted_by:
            counts.add(row, 1)

    def release(self, placed: Placed, row: int) -> None:
        """Stop counting a pod on a row."""
        key = (placed.shape, placed.pod.is_terminating)
        cohort = self._cohorts[key]
        for counts in cohort.counted_by:
            counts.add(row, -1)
        cohort.rows[row] -= 1
        if not cohort.rows[row]:
            del cohort.rows[row]
            if not cohort.rows:
                self._dissolve(key, cohort)

    def columns(self) -> Mapping[str, Any]:
        """Return how many pods of each namespace and set of labels are on each row."""
        size = 1 + max((row for c in self._cohorts.values() for row in c.rows), default=-1)
        columns: dict[str, Any] = {}
        for cohort in self._cohorts.values():
            name = f"{cohort.namespace} {sorted(cohort.labels.items())} {cohort.is_terminating}"
            column = columns.setdefault(name, np.zeros(size, dtype=np.int64))
            for row, number in cohort.rows.items():
                column[row] += number
        return columns

    def _found(self, placed: Placed) -> _Cohort:
        """Create a cohort and find the selections that count it."""
        cohort = _Cohort(placed)
        for index, value in self._entries(cohort):
            index.setdefault(value, {})[cohort] = None
        if self._counts:
            for selection in self._selections.candidates(cohort.namespace, cohort.labels):
                if cohort.matches(selection):
                    cohort.counted_by[self._counts[selection]] = None
        return cohort

    def _dissolve(self, key: _Key, cohort: _Cohort) -> None:
        del self._cohorts[key]
        for index, value in self._entries(cohort):
            del index[value][cohort]
            if not index[value]:
                del index[value]

    def _entries(self, cohort: _Cohort) -> Iterable[tuple[dict[str, dict[_Cohort, None]], str]]:
        """Yield each index that contains the cohort, with the cohort's key in it."""
        yield self._by_namespace, cohort.namespace
        for label, index in self._by_label.items():
            if label in cohort.labels:
                yield index, cohort.labels[label]

    def _begin(self, selection: Selection) -> RowCounts:
        counts = RowCounts()
        self._selections.add(selection, selection)
        for cohort in self._matching(selection):
            cohort.counted_by[counts] = None
            for row, number in cohort.rows.items():
                counts.add(row, number)
        return counts

    def _drop(self, selection: Selection) -> None:
        counts = self._counts.pop(selection)
        self._selections.remove(selection, selection)
        for cohort in self._matching(selection):
            del cohort.counted_by[counts]

    def _matching(self, selection: Selection) -> list[_Cohort]:
        return [cohort for cohort in self._near(selection) if cohort.matches(selection)]

    def _near(self, selection: Selection) -> Iterable[_Cohort]:
        """Return cohorts that include all pods of a selection."""
        pairs = pairs_of(selection.expressions)
        if pairs:
            index = self._label_index(pairs[0][0])
            return [cohort for _, value in pairs for cohort in index.get(value, ())]
        if selection.namespaces is None:
            return self._cohorts.values()
        return [c for name in selection.namespaces for c in self._by_namespace.get(name, ())]

    def _label_index(self, label: str) -> dict[str, dict[_Cohort, None]]:
        index = self._by_label.get(label)
        if index is None:
            index = self._by_label[label] = {}
            for cohort in self._cohorts.values():
                if label in cohort.labels:
                    index.setdefault(cohort.labels[label], {})[cohort] = None
        return index
