"""`Victims`: the pods on some rows that are less important than a preemptor."""

from __future__ import annotations

import numpy as np

from scheduler.base.arrays import Rows
from scheduler.framework.crowd import Crowd
from scheduler.plugins.preemption.importance import (
    AMOUNTS,
    FIRST_AMOUNT,
    PRIORITY,
    SHAPE,
    START,
    PodsByImportance,
)
from scheduler.state.podindex import Placed


class Victims(Crowd):
    """Who would leave, row by row, the most important first; rows without anybody are left out.

    `priority`, `start` (seconds since the epoch, or `NOT_STARTED`) and `shape_ids` are per pod.
    """

    def __init__(self, ranks: PodsByImportance, rows: Rows, priority: int) -> None:
        numbers, counts, fields = ranks.on(rows)
        lower = np.flatnonzero(fields[PRIORITY] < priority)
        if len(lower) < len(numbers):
            upto = np.searchsorted(lower, counts.cumsum())
            counts = np.diff(upto, prepend=0)
            numbers, fields = numbers[lower], fields[:, lower]
        if not counts.all():
            held = np.flatnonzero(counts)
            rows, counts = rows[held], counts[held]
        pods = ranks.pods

        def find(pod: int) -> Placed:
            return pods[int(numbers[pod])]

        amounts = {name: fields[FIRST_AMOUNT + place] for place, name in enumerate(AMOUNTS)}
        super().__init__(rows, counts, find, amounts)
        self.priority = fields[PRIORITY]
        self.start = fields[START]
        self.shape_ids = fields[SHAPE]
