"""`Kept`: what was worked out for a pod row by row, kept for its likes.

Replicas ask for the same, and between two of them a few rows changed: one where a pod landed, some
with new reports. Those are looked at again: a few one by one in plain numbers, if there is a rule for
that, and else on a view of just them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.base.arrays import BoolColumn
from scheduler.framework.nodes import Nodes
from scheduler.plugins.numa.zoneview import ZoneView
from scheduler.state.touched import Touched

KeyT = TypeVar("KeyT", bound=Hashable)
ScalarT = TypeVar("ScalarT", np.bool_, np.int64)

_MOST_KEPT = 64
_MOST_ALONE = 16
_MOST_CHANGED = 256
# Of so small a part of all rows nothing is kept: it is quicker to work out just these.
_FEW = 0.1


class _Entry(msgspec.Struct, Generic[ScalarT]):
    log: Touched
    mark: int
    column: NDArray[ScalarT]


class Kept(Generic[KeyT, ScalarT]):
    """The columns of the keys asked about of late.

    `work` returns a column for a key; an entry may depend on the key and on that row of the view.
    `alone` returns the entry of one row.
    """

    def __init__(
        self,
        work: Callable[[ZoneView, KeyT], NDArray[ScalarT]],
        alone: Callable[[ZoneView, KeyT, int], bool] | None = None,
    ) -> None:
        self._work: Callable[[ZoneView, KeyT], NDArray[ScalarT]] = work
        self._alone = alone
        self._entries: dict[KeyT, _Entry[ScalarT]] = {}

    def column(
        self, sight: ZoneView, nodes: Nodes, key: KeyT, among: BoolColumn | None = None
    ) -> NDArray[ScalarT]:
        """Return the column for a key, which the next call may write to.

        Only the rows `among` are asked about, if given. A view of a few rows, or a hypothetical one,
        is worked out afresh.
        """
        is_whole = nodes.amounts_touched is not None
        if is_whole:
            entry = self._entries.pop(key, None)
            if entry is not None and self._catches_up(entry, sight, nodes, key):
                self._entries[key] = entry
                return entry.column
        if among is not None and np.count_nonzero(among) < _FEW * sight.size:
            return self._few(sight, nodes, key, among)
        column = self._work(sight, key)
        if is_whole:
            if len(self._entries) >= _MOST_KEPT:
                self._entries.pop(next(iter(self._entries)))
            self._entries[key] = _Entry(sight.touched, sight.touched.mark, column)
        return column

    def _catches_up(self, entry: _Entry[ScalarT], sight: ZoneView, nodes: Nodes, key: KeyT) -> bool:
        """Redo the rows that changed; False if everything must be redone."""
        log = sight.touched
        if entry.log is not log or len(entry.column) != sight.size:
            return False
        changed = log.since(entry.mark)
        if changed is None or len(changed) > _MOST_CHANGED:
            return False
        if self._alone is not None and len(changed) <= _MOST_ALONE:
            for row in changed:
                entry.column[row] = self._alone(sight, key, row)
        elif changed:
            rows = np.array(changed, dtype=np.intp)
            entry.column[rows] = self._work(sight.only(nodes.only(rows)), key)
        entry.mark = log.mark
        return True

    def _few(self, sight: ZoneView, nodes: Nodes, key: KeyT, among: BoolColumn) -> NDArray[ScalarT]:
        rows = np.flatnonzero(among)
        few = self._work(sight.only(nodes.only(rows)), key)
        column = np.zeros(sight.size, dtype=few.dtype)
        column[rows] = few
        return column
