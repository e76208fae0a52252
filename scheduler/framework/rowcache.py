"""`RowCache`: columns worked out from the amounts of nodes, redone only for rows that changed.

For plugins whose arithmetic over all nodes is dear (an operation over 5,000 rows costs some 3 us, a
division 10) while one placed pod changes one row. A plugin gives its rule twice: `columns` for whole
columns, `cells` for single rows in plain numbers, which for a few rows is several times cheaper than
numpy; a property test of the plugin holds the two together. What it works out for a row may depend
on that row's allocatable and requested amounts and on the key alone.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from sys import getrefcount
from typing import Any, Generic, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.framework.nodes import Nodes
from scheduler.state.touched import Touched

KeyT = TypeVar("KeyT", bound=Hashable)
Columns = tuple[NDArray[Any], ...]
Cell = Callable[[int], tuple[int | bool, ...]]

# Up to here rows are redone one by one; past this share of all rows everything is.
_FEW = 16
_MOST_CHANGED = 0.25
# A column that nobody else holds: twice in its entry, once each in `_own` and in the call that counts.
_OWN_REFERENCES = 4


class _Entry(msgspec.Struct):
    log: Touched
    mark: int
    columns: Columns
    layout: tuple[int, int]
    cell: Cell
    # The only column, if there is but one.
    single: NDArray[Any] | None


class RowCache(Generic[KeyT]):
    """What a plugin works out from amounts, for the keys asked for of late.

    `columns(key, nodes)` returns new columns; `cells(key, nodes)` returns a function from a row to
    the entries of these columns, which is used as long as the arrays of `nodes` stay the same. A hypothetical or partial view is worked out afresh, and so is a
    table that is not the one of last time.
    """

    def __init__(
        self,
        columns: Callable[[KeyT, Nodes], Columns],
        cells: Callable[[KeyT, Nodes], Cell],
        most: int = 64,
    ) -> None:
        self._columns = columns
        self._cells = cells
        self._most = most
        self._entries: dict[KeyT, _Entry] = {}
        # Pods of a kind come one after the other: the key and entry of the last question.
        self._last: tuple[KeyT, _Entry] | None = None

    def columns(self, key: KeyT, nodes: Nodes) -> Columns:
        """Return the columns for `key`; the next call writes to them, so hand out copies only."""
        log = nodes.amounts_touched
        if log is None:
            return self._columns(key, nodes)
        last = self._last
        entry = last[1] if last is not None and last[0] is key else self._entry(key)
        if entry is None or entry.log is not log:
            entry = self._fresh(key, nodes, log)
        else:
            mark = log.mark
            if entry.mark != mark:
                changed = log.since(entry.mark)
                if changed is None or len(changed) > max(_FEW, _MOST_CHANGED * nodes.size):
                    entry = self._fresh(key, nodes, log)
                else:
                    self._catch_up(key, nodes, entry, changed)
                    entry.mark = mark
        self._last = (key, entry)
        return entry.columns

    def lend(self, key: KeyT, nodes: Nodes) -> NDArray[Any]:
        """Return the only column for `key`, to hand out: whoever keeps it keeps it as it is now.

        It cannot be written to. The cache goes on with a copy if anybody still holds it, or a part
        of it, when it changes.
        """
        column = self.columns(key, nodes)[0]
        column.flags.writeable = False
        return column

    def _entry(self, key: KeyT) -> _Entry | None:
        """Return what is known for a key, moved to the end: who was not used for longest goes first."""
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._entries[key] = entry
        return entry

    def _fresh(self, key: KeyT, nodes: Nodes, log: Touched) -> _Entry:
        self._entries.pop(key, None)
        if len(self._entries) >= self._most:
            self._entries.pop(next(iter(self._entries)))
        columns = self._columns(key, nodes)
        single = columns[0] if len(columns) == 1 else None
        cell = self._cells(key, nodes)
        entry = _Entry(log, log.mark, columns, nodes.layout, cell, single)
        self._entries[key] = entry
        return entry

    def _catch_up(self, key: KeyT, nodes: Nodes, entry: _Entry, changed: list[int]) -> None:
        if entry.layout != nodes.layout:
            entry.layout, entry.cell = nodes.layout, self._cells(key, nodes)
            entry.columns = tuple(np.resize(column, nodes.size) for column in entry.columns)
            entry.single = entry.columns[0] if entry.single is not None else None
        if len(changed) <= _FEW:
            if entry.single is not None:
                _write(entry, changed)
                return
            for row in changed:
                for column, value in zip(entry.columns, entry.cell(row), strict=True):
                    column[row] = value
            return
        _own(entry)
        rows = np.array(changed, dtype=np.intp)
        fresh = self._columns(key, nodes.only(rows))
        for column, values in zip(entry.columns, fresh, strict=True):
            column[rows] = values


def _write(entry: _Entry, changed: list[int]) -> None:
    """Redo these rows of a single column."""
    _own(entry)
    column, cell = entry.single, entry.cell
    if column is not None:
        for row in changed:
            column[row] = cell(row)[0]


def _own(entry: _Entry) -> None:
    """Make sure that nobody else sees what is written to a column that was lent."""
    column = entry.single
    if column is None or column.flags.writeable:
        return
    if getrefcount(column) > _OWN_REFERENCES:
        entry.single = column.copy()
        entry.columns = (entry.single,)
    else:
        column.flags.writeable = True
