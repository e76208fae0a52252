"""`RowCache`: columns worked out from the amounts of nodes, redone only for rows that changed.

For plugins whose arithmetic over all nodes is dear (an operation over 5,000 rows costs some 3 us, a
division 10) while one placed pod changes one row. A plugin gives its rule twice: `columns` for whole
columns, `cells` for single rows in plain numbers, which for a few rows is several times cheaper than
numpy; a property test of the plugin holds the two together. What it works out for a row may depend
on that row's allocatable and requested amounts and on the key alone.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
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


class _Entry(msgspec.Struct):
    log: Touched
    mark: int
    columns: Columns
    layout: tuple[int, int]
    cell: Cell


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

    def columns(self, key: KeyT, nodes: Nodes) -> Columns:
        """Return the columns for `key`; the next call writes to them, so hand out copies only."""
        log = nodes.amounts_touched
        if log is None:
            return self._columns(key, nodes)
        entry = self._entries.pop(key, None)
        if entry is None or entry.log is not log:
            if len(self._entries) >= self._most:
                self._entries.pop(next(iter(self._entries)))
            entry = self._fresh(key, nodes, log)
        elif entry.mark != log.mark:
            changed = log.since(entry.mark)
            if changed is None or len(changed) > max(_FEW, _MOST_CHANGED * nodes.size):
                entry = self._fresh(key, nodes, log)
            else:
                self._catch_up(key, nodes, entry, changed)
                entry.mark = log.mark
        self._entries[key] = entry  # moved to the end: the least recently used one goes first
        return entry.columns

    def _fresh(self, key: KeyT, nodes: Nodes, log: Touched) -> _Entry:
        columns = self._columns(key, nodes)
        return _Entry(log, log.mark, columns, nodes.layout, self._cells(key, nodes))

    def _catch_up(self, key: KeyT, nodes: Nodes, entry: _Entry, changed: list[int]) -> None:
        if entry.layout != nodes.layout:
            entry.layout, entry.cell = nodes.layout, self._cells(key, nodes)
            entry.columns = tuple(np.resize(column, nodes.size) for column in entry.columns)
        if len(changed) <= _FEW:
            for row in changed:
                for column, value in zip(entry.columns, entry.cell(row), strict=True):
                    column[row] = value
            return
        rows = np.array(changed, dtype=np.intp)
        fresh = self._columns(key, nodes.only(rows))
        for column, values in zip(entry.columns, fresh, strict=True):
            column[rows] = values
