"""`Victims`: the pods on some rows that are less important than a preemptor."""

from __future__ import annotations

from scheduler.base.arrays import Rows
from scheduler.framework.crowd import ListedCrowd
from scheduler.plugins.preemption.importance import PodsByImportance
from scheduler.state.rowlists import PRIORITY, SHAPE, START


class Victims(ListedCrowd):
    """Who would leave, row by row, the most important first; rows without anybody are left out.

    `priority`, `start` (seconds since the epoch, or `NOT_STARTED`) and `shape_ids` are per pod.
    """

    def __init__(self, ranks: PodsByImportance, rows: Rows, priority: int) -> None:
        super().__init__(
            ranks.lists, rows, lambda _, fields: fields[PRIORITY] < priority, drops_empty=True
        )
        self.below = priority
        self.priority = self.fields[PRIORITY]
        self.start = self.fields[START]
        self.shape_ids = self.fields[SHAPE]
