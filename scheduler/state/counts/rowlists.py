"""`RowLists`: some pods of each row, side by side in one long list, with their numbers as columns.

Gathers the pods of hundreds of rows with numpy instead of iterating over them. A row is loaded when
it is first requested, and again after it was dropped.
"""

from collections.abc import Callable, Collection, Sequence
from itertools import chain

import numpy as np

from scheduler.base.arrays import IntColumn, IntMatrix, Rows
from scheduler.base.clock import parse_rfc3339
from scheduler.state.podindex import Placed
from scheduler.state.resources import CPU, EPHEMERAL, MEMORY

# The start of a pod that has not started yet: later than any other.
NOT_STARTED = 2**62

# The fields stored for each pod, in this order, before the amounts.
PRIORITY, START, SHAPE, FIRST_AMOUNT = range(4)
AMOUNTS = (CPU, MEMORY, EPHEMERAL)
_FIELDS = FIRST_AMOUNT + len(AMOUNTS)

_UNKNOWN = -1
_LEAST_OUTDATED = 1024
# The initial value of an empty list; an array without entries is never written to.
_NO_ROWS: IntColumn = np.zeros(0, dtype=np.int64)
_NO_NUMBERS: IntMatrix = np.zeros((_FIELDS, 0), dtype=np.int64)


class RowLists:
    """The pods that `load(row)` returns, for the rows requested so far.

    Several rows are loaded at once; `order(index, fields)`, if given, returns the order of their
    pods, where `index` is the row of each: it must keep rows contiguous. `priority` is the column
    of that name. The pods of a row are contiguous from `_first` on. A forgotten row is appended
    again at the end; when more than half of the list is out of date, all rows are forgotten.
    """

    def __init__(
        self,
        load: Callable[[int], Collection[Placed]],
        order: Callable[[Rows, IntMatrix], Rows] | None = None,
        priority: Callable[[Placed], int] = lambda placed: placed.pod.priority,
    ) -> None:
        self._load = load
        self._order = order
        self._priority = priority
        self.clear()

    def clear(self) -> None:
        """Drop all rows."""
        self._first = _NO_ROWS
        self._count = _NO_ROWS
        self._pods: list[Placed] = []
        self._numbers = _NO_NUMBERS
        self._outdated = 0

    def forget(self, row: int) -> None:
        """Drop a row; it is loaded again on demand."""
        if row < len(self._first) and self._first[row] != _UNKNOWN:
            self._first[row] = _UNKNOWN
            self._outdated += int(self._count[row])

    @property
    def pods(self) -> Sequence[Placed]:
        """Return the list that the numbers of `on` point into; it is only ever added to."""
        return self._pods

    def on(self, rows: Rows) -> tuple[Rows, IntColumn, IntMatrix]:
        """Return the numbers of the pods of `rows`, row by row, how many each has, and their
        fields.

        The fields are [field, pod], as named above.
        """
        if self._outdated > max(_LEAST_OUTDATED, len(self._pods) // 2):
            self.clear()
        if len(rows):
            self._grow(int(rows.max()) + 1)
        unknown = rows[self._first[rows] == _UNKNOWN]
        if len(unknown):
            self._write(unknown)
        counts = self._count[rows]
        numbers = spans(self._first[rows], counts)
        return numbers, counts, self._numbers[:, numbers]

    def pods_on(self, row: int) -> list[Placed]:
        """Return the pods of one row."""
        numbers, _, _ = self.on(np.array([row], dtype=np.intp))
        return [self._pods[number] for number in numbers.tolist()]

    def _write(self, rows: Rows) -> None:
        loaded = [self._load(row) for row in rows.tolist()]
        counts = np.array([len(pods) for pods in loaded], dtype=np.int64)
        pods = list(chain.from_iterable(loaded))
        fields = _fields(pods, self._priority)
        if self._order is not None:
            order = self._order(np.repeat(np.arange(len(rows)), counts), fields)
            pods, fields = [pods[number] for number in order.tolist()], fields[:, order]
        first, end = len(self._pods), len(self._pods) + len(pods)
        if end > self._numbers.shape[1]:
            wider = np.zeros((_FIELDS, 2 * end), dtype=np.int64)
            wider[:, :first] = self._numbers[:, :first]
            self._numbers = wider
        self._numbers[:, first:end] = fields
        self._pods += pods
        self._first[rows], self._count[rows] = first + counts.cumsum() - counts, counts

    def _grow(self, size: int) -> None:
        more = size - len(self._first)
        if more > 0:
            unknown = np.full(more, _UNKNOWN, dtype=np.int64)
            self._first = np.concatenate((self._first, unknown))
            self._count = np.concatenate((self._count, np.zeros(more, dtype=np.int64)))


def start_of(placed: Placed) -> int:
    """Return when a pod started, in seconds since the epoch; `NOT_STARTED` if it has not."""
    start = parse_rfc3339(placed.pod.status.start_time)
    return NOT_STARTED if start is None else int(start)


def spans(first: IntColumn, counts: IntColumn) -> Rows:
    """Return the numbers `first[i]` and on, `counts[i]` of them, for each i in turn."""
    offsets = np.repeat(first - counts.cumsum() + counts, counts)
    numbers: Rows = np.arange(len(offsets)) + offsets
    return numbers


def _fields(pods: Sequence[Placed], priority: Callable[[Placed], int]) -> IntMatrix:
    fields = np.empty((_FIELDS, len(pods)), dtype=np.int64)
    fields[PRIORITY] = list(map(priority, pods))
    fields[START] = list(map(start_of, pods))
    fields[SHAPE] = [placed.shape.id for placed in pods]
    requests = [placed.requests for placed in pods]
    for place, name in enumerate(AMOUNTS, start=FIRST_AMOUNT):
        fields[place] = [amounts.get(name, 0) for amounts in requests]
    return fields
