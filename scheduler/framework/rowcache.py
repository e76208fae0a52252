"""`RowCache`: columns worked out from the amounts of nodes, redone only for rows that changed.

For plugins whose arithmetic over all nodes is dear while one placed pod changes one row. What they
work out for a row may depend on that row's allocatable and requested amounts and on the key alone.
Columns that were handed out are never written to again.
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

# Past this share of changed rows, working all of them out anew is cheaper.
_MOST_CHANGED = 0.25


class _Entry(msgspec.Struct):
    log: Touched
    mark: int
    columns: Columns


class RowCache(Generic[KeyT]):
    """What `compute(key, nodes)` returns, for the keys asked for of late.

    A hypothetical or partial view is computed afresh; so is a table that is not the last one's.
    """

    def __init__(self, compute: Callable[[KeyT, Nodes], Columns], most: int = 64) -> None:
        self._compute = compute
        self._most = most
        self._entries: dict[KeyT, _Entry] = {}

    def columns(self, key: KeyT, nodes: Nodes) -> Columns:
        """Return the columns for `key`, read-only."""
        log = nodes.amounts_touched
        if log is None:
            return self._compute(key, nodes)
        entry = self._entries.pop(key, None)
        if entry is None or entry.log is not log:
            entry = _Entry(log, log.mark, _frozen(self._compute(key, nodes)))
            if len(self._entries) >= self._most:
                self._entries.pop(next(iter(self._entries)))
        elif entry.mark != log.mark:
            entry.columns = self._caught_up(key, nodes, entry.columns, log.since(entry.mark))
            entry.mark = log.mark
        self._entries[key] = entry  # moved to the end: the least recently used one goes first
        return entry.columns

    def _caught_up(
        self, key: KeyT, nodes: Nodes, columns: Columns, changed: list[int] | None
    ) -> Columns:
        size = nodes.size
        if changed is None or len(changed) > _MOST_CHANGED * size:
            return _frozen(self._compute(key, nodes))
        rows = np.array(changed, dtype=np.intp)
        fresh = self._compute(key, nodes.only(rows))
        caught_up = []
        for old, values in zip(columns, fresh, strict=True):
            column = np.empty(size, dtype=old.dtype)
            column[: len(old)] = old
            column[rows] = values
            caught_up.append(column)
        return _frozen(tuple(caught_up))


def _frozen(columns: Columns) -> Columns:
    for column in columns:
        column.flags.writeable = False
    return columns
