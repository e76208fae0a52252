"""`RowCounts`: the number of counted objects on each row, and in each domain of a topology key.

Most are on few rows, so the numbers are kept by row and become a column only if they are many:
thousands of workloads of a few pods each must not cost a column each. Expensive sums per domain are
cached until a number changes.
"""

import numpy as np

from scheduler.base.arrays import IntColumn, Rows
from scheduler.state.domains import Domains

# From this number of rows on, a dense column takes less memory than a dict; below half of it, the
# dict does.
DENSE = 256


class RowCounts:
    """Numbers per row, 0 by default; only their owner (a tracker) writes."""

    __slots__ = ("_by_row", "_column", "_sums")

    def __init__(self) -> None:
        self._by_row: dict[int, int] = {}
        self._column: IntColumn | None = None
        self._sums: dict[str, tuple[Rows, IntColumn]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_row)

    def add(self, row: int, number: int) -> None:
        """Add to one row; `number` may be negative, the sum must not become negative."""
        number_of_pods = self._by_row.get(row, 0) + number
        if number_of_pods:
            self._by_row[row] = number_of_pods
        else:
            del self._by_row[row]
            if len(self._by_row) < DENSE // 2:
                self._slim()
        if self._column is not None:
            if row >= len(self._column):
                self._column = _grown(self._column, row + 1)
            self._column[row] += number
        for slots, sums in self._sums.values():
            if row < len(slots):  # else the sums are of an older table and will be redone
                sums[slots[row]] += number

    def column(self, size: int) -> IntColumn:
        """Return the numbers of the first `size` rows; read-only, and good until the next
        change.
        """
        if self._column is None:
            column = np.zeros(max(size, max(self._by_row, default=-1) + 1), dtype=np.int64)
            if self._by_row:
                rows, numbers = self._entries()
                column[rows] = numbers
            if len(self._by_row) < DENSE:
                return column[:size]
            self._column = column
        elif len(self._column) < size:
            self._column = _grown(self._column, size)
        return self._column[:size]

    def sums(self, domains: Domains) -> IntColumn:
        """Return the sum per slot of `domains`, whose slots must be those of all rows."""
        if not self._by_row:
            return np.zeros(domains.size, dtype=np.int64)
        if self._column is None and len(self._by_row) < DENSE < domains.size:
            return self.sums_at(domains.slots, domains)
        kept = self._sums.get(domains.key)
        if kept is None or kept[0] is not domains.slots:
            kept = self._sums[domains.key] = (domains.slots, self.sums_at(domains.slots, domains))
        return kept[1].copy()

    def sums_at(self, slots: Rows, domains: Domains) -> IntColumn:
        """Return the sum per slot, where `slots` has the slot of each row; for masked slots."""
        if self._column is None and len(self._by_row) < DENSE:
            if not self._by_row:
                return np.zeros(domains.size, dtype=np.int64)
            rows, weights = self._entries()
            inside = rows < len(slots)
            where, weights = slots[rows[inside]], weights[inside]
        else:
            where, weights = slots, self.column(len(slots))
        # The sums are exact: far below 2**53.
        return np.bincount(where, weights=weights, minlength=domains.size).astype(np.int64)

    def _slim(self) -> None:
        """Free the memory that few rows do not need."""
        if self._column is not None:
            self._column = None
            self._sums = {key: kept for key, kept in self._sums.items() if len(kept[1]) <= DENSE}

    def _entries(self) -> tuple[Rows, IntColumn]:
        count = len(self._by_row)
        return (
            np.fromiter(self._by_row, dtype=np.intp, count=count),
            np.fromiter(self._by_row.values(), dtype=np.int64, count=count),
        )


def _grown(column: IntColumn, size: int) -> IntColumn:
    bigger = np.zeros(max(size, 2 * len(column)), dtype=np.int64)
    bigger[: len(column)] = column
    return bigger
