"""`TiesState`: the placed pods that an incoming pod is tied to, as numbers per tie.

What pre-filter returns. Hypothetical pods change a few numbers; verdicts and costs are worked out
from them for places at once, and from there for rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from scheduler.base.arrays import FloatColumn, IntColumn, Rows
from scheduler.plugins.network.bookings import Amounts
from scheduler.plugins.network.links import FloatMatrix
from scheduler.plugins.network.lookup import Ties
from scheduler.plugins.network.places import Places
from scheduler.plugins.network.prices import Verdicts
from scheduler.plugins.network.tracker import NetworkTracker

Moves = dict[str, dict[int, int]]  # workload → row (or place) → pods more than there are


class Standing(NamedTuple):
    """The pods tied to, one entry per tie and row: where they are and how many."""

    rows: Rows
    places: Rows
    counts: IntColumn


class TiesState:
    """The ties of one pod, with the pods that hypothetically moved."""

    __slots__ = ("_standing", "_verdicts", "moved", "moved_elsewhere", "ties", "tracker")

    def __init__(self, ties: Ties, tracker: NetworkTracker) -> None:
        self.ties = ties
        self.tracker = tracker
        self.moved: Moves = {}
        self.moved_elsewhere: dict[str, Moves] = {}
        self._verdicts: Verdicts | None = None
        self._standing: Standing | None = None

    @property
    def has_moved(self) -> bool:
        """Whether pods have moved hypothetically."""
        return bool(self.moved or self.moved_elsewhere)

    @property
    def places(self) -> Places:
        """Return where the rows stand."""
        return self.tracker.places

    def move(self, group: str, workload: str, row: int, sign: int) -> None:
        """Count a pod of a group that lands on (1) or leaves (-1) a row, hypothetically."""
        if group == self.ties.group:
            moves = self.moved
        else:
            moves = self.moved_elsewhere.setdefault(group, {})
        by_row = moves.setdefault(workload, {})
        by_row[row] = by_row.get(row, 0) + sign
        self._verdicts = self._standing = None

    def copy(self) -> TiesState:
        """Return an independent copy."""
        twin = TiesState(self.ties, self.tracker)
        twin.moved = {workload: dict(rows) for workload, rows in self.moved.items()}
        twin.moved_elsewhere = {
            group: {workload: dict(rows) for workload, rows in moves.items()}
            for group, moves in self.moved_elsewhere.items()
        }
        return twin

    def counts(self, workload: str) -> dict[int, int]:
        """Return the pods of a workload of the group by place."""
        pods = self.tracker.pods(self.ties.group).get(workload)
        counts = dict(pods.by_place) if pods is not None else {}
        for row, number in self.moved.get(workload, {}).items():
            place = self.places.of(row)
            counts[place] = counts.get(place, 0) + number
        return {place: count for place, count in counts.items() if count > 0}

    def by_place(self, workload: str) -> tuple[Rows, IntColumn]:
        """Return the places of a workload's pods, each once, and the numbers there."""
        held = self.tracker.pods(self.ties.group).get(workload)
        if held is not None and workload not in self.moved:
            _, _, places, numbers = held.arrays()
            return places, numbers
        counts = self.counts(workload)
        return (
            np.fromiter(counts, np.intp, len(counts)),
            np.fromiter(counts.values(), np.int64, len(counts)),
        )

    def booked_more(self) -> Iterator[Amounts]:
        """Yield how the hypothetical moves of each group change what is booked."""
        if self.has_moved:
            for group, moves in {**self.moved_elsewhere, self.ties.group: self.moved}.items():
                yield self.tracker.bookings.changed_by(group, self._by_place(moves))

    def verdicts(self) -> Verdicts:
        """Return the numbers per place, as if no tied pod stood on the very same node."""
        if self._verdicts is None:
            self._verdicts = self._judge()
        return self._verdicts

    def standing(self) -> Standing:
        """Return the tied pods by row, for what differs on their own nodes."""
        if self._standing is None:
            pods = self.tracker.pods(self.ties.group)
            rows, counts = [], []
            for need in self.ties.needs:
                held = pods.get(need.workload)
                if need.workload in self.moved:
                    by_row = self._rows_of(need.workload)
                    rows.append(np.fromiter(by_row, np.intp, len(by_row)))
                    counts.append(np.fromiter(by_row.values(), np.int64, len(by_row)))
                elif held is not None:
                    own_rows, own_counts, _, _ = held.arrays()
                    rows.append(own_rows)
                    counts.append(own_counts)
            all_rows: Rows = np.concatenate(rows) if rows else np.zeros(0, np.intp)
            all_counts: IntColumn = np.concatenate(counts) if counts else np.zeros(0, np.int64)
            self._standing = Standing(all_rows, self.places.rows[all_rows], all_counts)
        return self._standing

    def by_row(self) -> Iterator[tuple[int, int, bool]]:
        """Yield row, number of pods and whether they are dependents, per tie and row of its pods."""
        for need in self.ties.needs:
            for row, count in self._rows_of(need.workload).items():
                if count > 0:
                    yield row, count, need.is_dependent

    def accumulated(self, cost: FloatMatrix) -> IntColumn:
        """Return per place the sum of `cost`, a matrix over places there and back, over all tied pods."""
        counts = sum(self._ends(cost.shape[1]).values())
        total: IntColumn = (cost @ counts).astype(np.int64)
        return total

    def _judge(self) -> Verdicts:
        prices = self.ties.table.matrices(self.places)
        return prices.judge(self._ends(2 * len(self.places)))

    def _ends(self, columns: int) -> dict[int, FloatColumn]:
        """Return for each limit the number of tied pods per column of `Prices`."""
        found: dict[int, FloatColumn] = {}
        for need in self.ties.needs:
            places, numbers = self.by_place(need.workload)
            counts = found.get(need.limit)
            if counts is None:
                counts = found[need.limit] = np.zeros(columns)
            counts[places + columns // 2 if need.is_dependent else places] += numbers
        return found

    def _rows_of(self, workload: str) -> dict[int, int]:
        held = self.tracker.pods(self.ties.group).get(workload)
        by_row = dict(held.by_row) if held is not None else {}
        for row, number in self.moved.get(workload, {}).items():
            by_row[row] = by_row.get(row, 0) + number
        return by_row

    def _by_place(self, moves: Moves) -> Moves:
        found: Moves = {}
        for workload, rows in moves.items():
            places: dict[int, int] = defaultdict(int)
            for row, number in rows.items():
                places[self.places.of(row)] += number
            found[workload] = dict(places)
        return found
