"""`PodsByImportance`: the pods of each row, the most important first, with their numbers as columns.

Worked out when preemption first asks about a row, and forgotten when a pod there changes. More
important is who has the higher priority, then who started earlier.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from scheduler.base.arrays import IntMatrix, Rows
from scheduler.base.clock import parse_rfc3339
from scheduler.framework.crowd import Crowd
from scheduler.state.podindex import Placed
from scheduler.state.resources import CPU, EPHEMERAL, MEMORY
from scheduler.state.rowtracker import RowTracker

# The start of a pod that has not started yet: later than any other.
NOT_STARTED = 2**62

_AMOUNTS = (CPU, MEMORY, EPHEMERAL)
_PRIORITY, _START, _SHAPE, _FIRST_AMOUNT = range(4)
_FIELDS = _FIRST_AMOUNT + len(_AMOUNTS)


class Ranked:
    """The pods of one row in order of importance; `numbers` is [field, pod]."""

    __slots__ = ("numbers", "pods")

    def __init__(self, pods: Iterable[Placed]) -> None:
        placed = list(pods)
        starts = [start_of(one) for one in placed]

        def rank(number: int) -> tuple[int, int, int]:
            start = starts[number]
            # kube-scheduler: of pods that have not started, the one that came last goes first.
            order = -number if start == NOT_STARTED else number
            return -placed[number].pod.priority, start, order

        ranks = sorted(range(len(placed)), key=rank)
        self.pods = tuple(placed[number] for number in ranks)
        self.numbers: IntMatrix = np.array(
            [_numbers(placed[number], starts[number]) for number in ranks], dtype=np.int64
        ).T.reshape(_FIELDS, len(placed))


class PodsByImportance(RowTracker):
    """Keeps the pods of rows in order of importance."""

    def hold(self, placed: Placed, row: int) -> None:
        """Forget a row that a pod came to."""
        del placed
        self._ranked.pop(row, None)

    def release(self, placed: Placed, row: int) -> None:
        """Forget a row that a pod left."""
        del placed
        self._ranked.pop(row, None)

    def is_same(self, before: Placed, after: Placed) -> bool:
        """Take every new version of a pod in: victims are these records."""
        return before is after

    def clear(self) -> None:
        """Forget everything."""
        self._ranked: dict[int, Ranked] = {}

    def on(self, row: int) -> Ranked:
        """Return the pods of a row."""
        ranked = self._ranked.get(row)
        if ranked is None:
            cluster = self._cluster
            pods = () if cluster is None else cluster.pods.on(cluster.table.name(row)).values()
            ranked = self._ranked[row] = Ranked(pods)
        return ranked

    def columns(self) -> Mapping[str, Any]:
        """Return the names of the pods per row."""
        return {
            name: [placed.pod.key for placed in self.on(row).pods]
            for name, row in sorted(self._rows.items())
        }

    def __init__(self) -> None:
        super().__init__()
        self.clear()


class Victims(Crowd):
    """The pods on rows that are less important than a preemptor, in order of importance per row.

    `priority`, `start` (seconds since the epoch, or `NOT_STARTED`) and `shape_ids` are per pod. Rows
    without such pods are left out.
    """

    def __init__(self, ranks: PodsByImportance, rows: Rows, priority: int) -> None:
        groups = [ranks.on(row) for row in rows.tolist()]
        sizes = np.fromiter((len(group.pods) for group in groups), np.int64, len(groups))
        ends = sizes.cumsum()
        numbers = np.concatenate(
            [np.zeros((_FIELDS, 0), dtype=np.int64), *(group.numbers for group in groups)], axis=1
        )
        lower = np.flatnonzero(numbers[_PRIORITY] < priority)
        upto = np.searchsorted(lower, ends)
        counts = np.diff(upto, prepend=0)
        held = np.flatnonzero(counts)
        numbers = numbers[:, lower]
        first = (ends - sizes)[held]
        standing = [groups[place].pods for place in held.tolist()]

        def find(pod: int) -> Placed:
            place = int(self.index[pod])
            return standing[place][int(lower[pod] - first[place])]

        amounts = {name: numbers[_FIRST_AMOUNT + n] for n, name in enumerate(_AMOUNTS)}
        super().__init__(rows[held], counts[held], find, amounts)
        self.priority = numbers[_PRIORITY]
        self.start = numbers[_START]
        self.shape_ids = numbers[_SHAPE]


def start_of(placed: Placed) -> int:
    """Return when a pod started, in seconds since the epoch."""
    start = parse_rfc3339(placed.pod.status.start_time)
    return NOT_STARTED if start is None else int(start)


def _numbers(placed: Placed, start: int) -> tuple[int, ...]:
    amounts = (placed.requests.get(name, 0) for name in _AMOUNTS)
    return placed.pod.priority, start, placed.shape.id, *amounts
