"""`GroupPods`: the placed pods of one AppGroup, as counts by workload and row.

Written by `NetworkTracker`; a hypothetical view is a copy. Counts are arrays, so that a query over
all pods of a group is a few operations on columns. The places of rows are not stored here.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

import numpy as np

from scheduler.framework import FloatColumn, IntColumn, IntMatrix, Rows
from scheduler.plugins.network.links import FloatMatrix
from scheduler.plugins.network.need import Need
from scheduler.plugins.network.prices import Tied

_FEW = 8


@lru_cache(maxsize=16)
def _ends(size: int) -> IntMatrix:
    """Return the index of the first column of outgoing paths, and that of incoming ones."""
    return np.array([[0], [size]])


class WorkloadNeeds:
    """A workload's needs in a group's numbers.

    `weights` counts the needs by workload: per limit a row of those that the workload depends on,
    then one of those that depend on it; the last row has both ends for all limits. `numbers` are
    the workloads with needs.
    """

    __slots__ = ("limits", "needs", "numbers", "weights")

    def __init__(self, needs: Sequence[Need], pods: "GroupPods") -> None:
        self.needs = needs
        width = len(pods.numbers)
        ties = [0.0] * width
        by_limit: dict[int, tuple[list[float], list[float]]] = {}
        for need in needs:
            number = pods.numbers.get(need.workload)
            if number is None:
                continue
            both = by_limit.get(need.limit)
            if both is None:
                both = by_limit[need.limit] = ([0.0] * width, [0.0] * width)
            both[need.is_dependent][number] += 1
            ties[number] += 1
        self.numbers = [number for number, count in enumerate(ties) if count]
        self.limits = tuple(by_limit)
        rows = [row for both in by_limit.values() for row in both]
        self.weights: FloatMatrix = np.array([*rows, ties])

    def by_cell(self, pods: "GroupPods") -> FloatMatrix:
        """Return the numbers of ties to each cell's pods, in the rows of `weights`."""
        ties: FloatMatrix = self.weights.take(pods.works, axis=1)
        ties *= pods.counts
        return ties

    def tied(self, by_cell: FloatMatrix, places: Rows, size: int) -> list[Tied]:
        """Return the numbers of ties for each limit by the column of `Prices`, without those that
        are 0.

        `places` has one entry per cell, `size` is the number of all places.
        """
        columns = (_ends(size) + places).ravel()
        found = []
        for number, limit in enumerate(self.limits):
            counts = by_cell[2 * number : 2 * number + 2].ravel()
            used = counts.nonzero()[0]
            found.append(Tied(limit, columns.take(used), counts.take(used)))
        return found


class Numbering:
    """Numbers for workloads, and dependencies between these numbers.

    All groups with equal workloads share the numbering of an AppGroup, which is never extended.
    """

    __slots__ = ("numbers", "wanted")

    def __init__(self, workloads: Iterable[str] = ()) -> None:
        self.numbers = {name: number for number, name in enumerate(dict.fromkeys(workloads))}
        self.wanted: dict[tuple[str, str], WorkloadNeeds] = {}

    def add(self, workload: str) -> int:
        """Assign the next number to a workload."""
        number = self.numbers[workload] = len(self.numbers)
        self.wanted.clear()
        return number


class GroupPods:
    """Counts pods by workload and row; workloads that `numbering` does not know get the next
    numbers.
    """

    __slots__ = (
        "_at",
        "_cells",
        "_counts",
        "_is_own",
        "_numbering",
        "_size",
        "numbers",
        "totals",
        "version",
    )

    def __init__(self, numbering: Numbering | None = None) -> None:
        self._is_own = numbering is None
        self._numbering = numbering if numbering is not None else Numbering()
        self.numbers: Mapping[str, int] = self._numbering.numbers
        self.totals = [0] * len(self.numbers)
        self._at: dict[tuple[int, int], int] = {}  # (workload's number, row) → its cell
        self._cells: IntMatrix = np.zeros((2, _FEW), dtype=np.int64)
        self._counts: FloatColumn = np.zeros(_FEW)
        self._size = 0
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
        """Count pods of a workload on a row; `count` is negative for removed ones."""
        self.version += 1
        number = self.numbers.get(workload)
        if number is None:
            number = self._number(workload)
        self.totals[number] += count
        key = (number, row)
        at = self._at.get(key)
        if at is None:
            self._append(key, count)
            return
        current = self._counts.item(at) + count
        if current:
            self._counts[at] = current
        else:
            self._drop(key, at)

    def total(self, workload: str) -> int:
        """Return the number of pods of a workload."""
        number = self.numbers.get(workload)
        return self.totals[number] if number is not None else 0

    def of(self, workload: str) -> tuple[Rows, IntColumn]:
        """Return the rows of a workload's pods, each once, and the numbers of pods there."""
        cells = np.flatnonzero(self.works == self.numbers.get(workload, -1))
        return self.rows[cells], self.counts[cells].astype(np.int64)

    def wanted(self, workload: str, needs: Sequence[Need], *, kind: str) -> WorkloadNeeds:
        """Return the needs of a workload by number; equal needs are cached."""
        known = self._numbering.wanted
        found = known.get((workload, kind))
        if found is None or found.needs is not needs:
            found = known[workload, kind] = WorkloadNeeds(needs, self)
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

    def copy(self) -> "GroupPods":
        """Return an independent copy."""
        twin = GroupPods(self._numbering)
        self._is_own = False  # shared by two groups: the one that needs another number copies it
        twin.totals = list(self.totals)
        twin._at, twin._size = dict(self._at), self._size
        twin._cells, twin._counts = self._cells.copy(), self._counts.copy()
        return twin

    def renumbered(self, numbering: Numbering) -> "GroupPods":
        """Return the same pods in other numbers."""
        twin = GroupPods(numbering)
        for workload, row, count in self.cells():
            twin.add(workload, row, count)
        return twin

    def _number(self, workload: str) -> int:
        if not self._is_own:
            self._numbering, self._is_own = Numbering(self.numbers), True
            self.numbers = self._numbering.numbers
        self.totals.append(0)
        return self._numbering.add(workload)

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
        """Remove an entry; the last entry moves to its position."""
        del self._at[key]
        self._size = last = self._size - 1
        if at != last:
            self._cells[:, at] = self._cells[:, last]
            self._counts[at] = self._counts[last]
            self._at[self._cells.item(0, at), self._cells.item(1, at)] = at
