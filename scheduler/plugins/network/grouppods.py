"""`GroupPods`: the placed pods of one AppGroup, as cells of a workload and a row with their number.

Written by `NetworkTracker`; a hypothetical is a copy. Cells lie in arrays, so that whatever is asked of
all pods of a group is a few operations on columns. Where a row stands is not kept here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from scheduler.base.arrays import FloatColumn, IntColumn, IntMatrix, Rows
from scheduler.plugins.network.dependencies import Need
from scheduler.plugins.network.links import FloatMatrix

_FEW = 8


class Wanted:
    """A workload's needs in a group's numbers.

    The workloads that are needed have a slot each; those that are not share the last one. `weights`
    counts the needs of each slot: per limit a row of those that the workload depends on, then one of
    those that depend on it. `ties` counts both ends for all limits, by workload.
    """

    def __init__(self, needs: Sequence[Need], pods: GroupPods) -> None:
        self.needs = needs
        self.width = len(pods.numbers)
        ties = [0.0] * self.width
        slot_of: dict[int, int] = {}
        asked = []
        for need in needs:
            number = pods.numbers.get(need.workload)
            if number is not None:
                asked.append((need, slot_of.setdefault(number, len(slot_of))))
                ties[number] += 1
        last = len(slot_of)
        by_limit: dict[int, tuple[list[float], list[float]]] = {}
        for need, slot in asked:
            if need.limit not in by_limit:
                by_limit[need.limit] = ([0.0] * (last + 1), [0.0] * (last + 1))
            by_limit[need.limit][need.is_dependent][slot] += 1
        self.numbers = tuple(slot_of)
        self.limits = tuple(by_limit)
        rows = [row for both in by_limit.values() for row in both]
        self.weights: FloatMatrix = np.array(rows).reshape(-1, last + 1)
        self.ties: FloatColumn = np.array(ties)
        slots = [slot_of.get(number, last) for number in range(self.width)]
        self._slots: Rows = np.array(slots, dtype=np.intp)
        self._offsets, self._size = self._slots, 1

    def ends(self, pods: GroupPods, places: Rows, size: int) -> FloatMatrix:
        """Return the numbers of ties: a row per limit; columns for places there, then for places back.

        `places` has one entry per cell, `size` is the number of all places.
        """
        if self._size != size:
            self._offsets, self._size = self._slots * size, size
        flat = self._offsets.take(pods.works)
        flat += places
        height = self.weights.shape[1]
        numbers = np.bincount(flat, pods.counts, height * size).reshape(height, size)
        ends: FloatMatrix = (self.weights @ numbers).reshape(-1, 2 * size)
        return ends

    def ties_by_direction(self, works: Rows) -> tuple[FloatColumn, FloatColumn]:
        """Return the needs of each cell's workload: of those depended on, and of dependents."""
        there, back = (self.weights[end::2].sum(axis=0)[self._slots[works]] for end in (0, 1))
        return there, back


class GroupPods:
    """Counts pods by workload and row; workloads are numbered as they appear."""

    __slots__ = ("_at", "_cells", "_counts", "_size", "_wanted", "numbers", "totals", "version")

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.totals: list[int] = []
        self._at: dict[tuple[int, int], int] = {}  # (workload's number, row) → its cell
        self._cells: IntMatrix = np.zeros((2, _FEW), dtype=np.int64)
        self._counts: FloatColumn = np.zeros(_FEW)
        self._size = 0
        self._wanted: dict[tuple[str, str], Wanted] = {}
        self.version = 0

    def __bool__(self) -> bool:
        return bool(self._size)

    @property
    def works(self) -> Rows:
        """Return the number of each cell's workload."""
        return self._cells[0, : self._size]

    @property
    def rows(self) -> Rows:
        """Return the row of each cell."""
        return self._cells[1, : self._size]

    @property
    def counts(self) -> FloatColumn:
        """Return the number of pods of each cell, never 0; floats, which sums go quickly with."""
        return self._counts[: self._size]

    def add(self, workload: str, row: int, count: int) -> None:
        """Count pods of a workload on a row; `count` is negative for those that go."""
        self.version += 1
        number = self.numbers.get(workload)
        if number is None:
            number = self.numbers[workload] = len(self.numbers)
            self.totals.append(0)
        self.totals[number] += count
        key = (number, row)
        at = self._at.get(key)
        if at is None:
            self._append(key, count)
            return
        held = self._counts.item(at) + count
        if held:
            self._counts[at] = held
        else:
            self._drop(key, at)

    def total(self, workload: str) -> int:
        """Return the number of pods of a workload."""
        number = self.numbers.get(workload)
        return self.totals[number] if number is not None else 0

    def of(self, workload: str) -> tuple[Rows, IntColumn]:
        """Return the rows of a workload's pods, each once, and the numbers there."""
        cells = np.flatnonzero(self.works == self.numbers.get(workload, -1))
        return self.rows[cells], self.counts[cells].astype(np.int64)

    def wanted(self, workload: str, needs: Sequence[Need], *, kind: str) -> Wanted:
        """Return the needs of a workload by number; those of one kind are remembered."""
        found = self._wanted.get((workload, kind))
        if found is None or found.needs is not needs or found.width != len(self.numbers):
            found = self._wanted[workload, kind] = Wanted(needs, self)
        return found

    def by_workload(self, bins: Rows, size: int) -> FloatMatrix:
        """Count pods by workload and bin; `bins` has one entry per cell."""
        height = len(self.numbers)
        counts = np.bincount(self.works * size + bins, self.counts, height * size)
        return counts.astype(np.float64, copy=False).reshape(height, size)

    def beside(self, edges: Iterable[tuple[int, int]]) -> Iterator[tuple[int, float]]:
        """Yield row and number of pairs for pods on one row whose workloads an edge connects.

        An edge is two numbers of workloads; a row may be yielded several times.
        """
        ends: dict[int, list[int]] = {}
        for origin, destination in edges:
            ends.setdefault(origin, []).append(destination)
        counts = self.counts.tolist()
        for (number, row), at in self._at.items():
            for other in ends.get(number, ()):
                there = self._at.get((other, row))
                if there is not None:
                    yield row, counts[at] * counts[there]

    def cells(self) -> Iterator[tuple[str, int, int]]:
        """Yield workload, row and number of pods."""
        names = list(self.numbers)
        columns = (self.works.tolist(), self.rows.tolist(), self.counts.tolist())
        for number, row, count in zip(*columns, strict=True):
            yield names[number], row, int(count)

    def copy(self) -> GroupPods:
        """Return an independent copy."""
        twin = GroupPods()
        twin.numbers, twin.totals = dict(self.numbers), list(self.totals)
        twin._at, twin._size = dict(self._at), self._size
        twin._cells, twin._counts = self._cells.copy(), self._counts.copy()
        twin._wanted = dict(self._wanted)
        return twin

    def _append(self, key: tuple[int, int], count: int) -> None:
        at = self._size
        if at == len(self._counts):
            self._cells = np.concatenate((self._cells, np.zeros_like(self._cells)), axis=1)
            self._counts = np.concatenate((self._counts, np.zeros_like(self._counts)))
        self._cells[0, at], self._cells[1, at] = key
        self._counts[at] = count
        self._at[key] = at
        self._size += 1

    def _drop(self, key: tuple[int, int], at: int) -> None:
        """Take a cell out; the last one takes its place."""
        del self._at[key]
        self._size = last = self._size - 1
        if at != last:
            self._cells[:, at] = self._cells[:, last]
            self._counts[at] = self._counts[last]
            self._at[self._cells.item(0, at), self._cells.item(1, at)] = at
