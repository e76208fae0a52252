"""`RowCache`: columns computed from the rows of a view, updated only for changed rows.

For intermediate results of plugins: an operation over 5,000 rows costs some 3 us, a division 10,
while one placed pod changes one row. The value of a row may depend on that row and on the key
alone. The view is `Nodes`, whose log has the rows with changed allocatable or requested amounts, or
a tracker's own columns with their own log. The framework caches the results of `filter` and `score`
(`Plugin.key`).
"""

from collections.abc import Callable, Hashable
from typing import Any, Generic, Protocol, Self, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.base.arrays import Rows
from scheduler.state.counts.touched import Touched

KeyT = TypeVar("KeyT", bound=Hashable)
ViewT = TypeVar("ViewT", bound="RowView")
Columns = tuple[NDArray[Any], ...]

# Above this share of all rows everything is recomputed.
_MOST_CHANGED = 0.25


class RowView(Protocol):
    """Rows with a log of their changes; `Nodes` is one."""

    @property
    def size(self) -> int:
        """Return the number of rows."""

    @property
    def amounts_touched(self) -> Touched | None:
        """Return the log of changed rows; None for a hypothetical view or a part of the rows."""

    def only(self, rows: Rows, /) -> Self:
        """Return a view of these rows, in this order."""


class _Entry(msgspec.Struct):
    log: Touched
    mark: int
    columns: Columns


class RowCache(Generic[KeyT, ViewT]):
    """The columns of the keys used most recently, read-only.

    `work(key, view)` returns new columns. For a hypothetical or partial view, and for another table
    than before, all columns are recomputed.
    """

    def __init__(self, work: Callable[[KeyT, ViewT], Columns], most: int = 64) -> None:
        self._work = work
        self._most = most
        self._entries: dict[KeyT, _Entry] = {}

    def columns(self, key: KeyT, view: ViewT) -> Columns:
        """Return the columns for `key`; later updates do not change them."""
        log = view.amounts_touched
        if log is None:
            return self._work(key, view)
        # Moved to the end: the least recently used key is dropped first.
        entry = self._entries.pop(key, None)
        changed = None
        if entry is not None and entry.log is log and len(entry.columns[0]) == view.size:
            changed = log.since(entry.mark)
        if entry is None or changed is None or len(changed) > 1 + _MOST_CHANGED * view.size:
            if len(self._entries) >= self._most:
                self._entries.pop(next(iter(self._entries)))
            entry = _Entry(log, log.mark, _sealed(self._work(key, view)))
        elif changed:
            rows = np.array(changed, dtype=np.intp)
            columns = tuple(column.copy() for column in entry.columns)
            for column, values in zip(columns, self._work(key, view.only(rows)), strict=True):
                column[rows] = values
            entry.columns = _sealed(columns)
        entry.mark = log.mark
        self._entries[key] = entry
        return entry.columns


def _sealed(columns: Columns) -> Columns:
    for column in columns:
        column.flags.writeable = False
    return columns
