"""`Verdicts`: on which nodes a request fits into one zone, kept from one pod to its likes.

Replicas ask for the same, and between two of them a few rows changed: one where a pod landed, some
with new reports. Those are looked at again, by the same rule on a view of just them.
"""

from __future__ import annotations

import msgspec
import numpy as np

from scheduler.base.arrays import BoolColumn
from scheduler.framework.nodes import Nodes
from scheduler.plugins.numa.demand import Needs
from scheduler.plugins.numa.filtering import fit
from scheduler.plugins.numa.sight import Sight
from scheduler.state.touched import Touched

_MOST_KEPT = 64
_MOST_CHANGED = 256


class _Entry(msgspec.Struct):
    log: Touched
    mark: int
    misfits: BoolColumn


class Verdicts:
    """The columns of the requests asked about of late."""

    def __init__(self) -> None:
        self._entries: dict[tuple[Needs, bool], _Entry] = {}

    def misfits(
        self, sight: Sight, nodes: Nodes, needs: Needs, *, is_guaranteed: bool
    ) -> BoolColumn:
        """Return the rows without a zone for `needs`; the next call may write to the column.

        A view of a few rows, or a hypothetical one, is worked out afresh.
        """
        if nodes.amounts_touched is None:
            return fit(sight, needs, is_guaranteed=is_guaranteed).misfits(sight.size)
        key = (needs, is_guaranteed)
        log = sight.touched
        entry = self._entries.pop(key, None)
        changed = None
        if entry is not None and entry.log is log and len(entry.misfits) == sight.size:
            changed = log.since(entry.mark)
        if entry is None or changed is None or len(changed) > _MOST_CHANGED:
            if len(self._entries) >= _MOST_KEPT:
                self._entries.pop(next(iter(self._entries)))
            column = fit(sight, needs, is_guaranteed=is_guaranteed).misfits(sight.size)
            entry = _Entry(log, log.mark, column)
        elif changed:
            rows = np.array(changed, dtype=np.intp)
            few = sight.only(nodes.only(rows))
            entry.misfits[rows] = fit(few, needs, is_guaranteed=is_guaranteed).misfits(few.size)
            entry.mark = log.mark
        self._entries[key] = entry
        return entry.misfits
