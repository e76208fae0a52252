"""`DryRunCache`: dry runs of rows, cached for the next preemptor of the same shape.

Preemptors often arrive in groups of one shape, and each changes a row or two: its victims are
removed and it is nominated there. The dry run of a row depends on the row's node, its pods, its
nominations and the budgets; only rows where one of them changed are examined again. A property test
compares it with new dry runs.
"""

from collections.abc import Callable, Iterable

import numpy as np

from scheduler.framework import BoolColumn, IntMatrix, Rows
from scheduler.plugins.preemption.choice import CRITERIA, TieBreak, harms_of, least_harm, uids
from scheduler.plugins.preemption.dryrun import Block, Walk
from scheduler.state.counts.touched import Touched

MOST_SHAPES = 8

_NO_ROWS: Rows = np.zeros(0, dtype=np.intp)

# Returns the candidates among some rows, or None if there are no pods to evict on any of them.
Examine = Callable[[Rows], Block | None]
# A row, the uids of its victims, the most important first, and how many violate a budget.
Chosen = tuple[int, tuple[str, ...], int]


class DryRuns:
    """The dry runs of one shape of preemptors."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.marks: tuple[int, ...] = ()
        self._is_known: BoolColumn = np.zeros(size, dtype=np.bool_)
        self._is_candidate: BoolColumn = np.zeros(size, dtype=np.bool_)
        self._harms: IntMatrix = np.zeros((CRITERIA, size), dtype=np.int64)
        # By row the uids of the victims, in order: the pods themselves must be free to go.
        self._victims: dict[int, tuple[str, ...]] = {}

    def forget(self, rows: Iterable[int]) -> None:
        """Examine these rows again at the next visit."""
        for row in rows:
            self._is_known[row] = self._is_candidate[row] = False
            self._victims.pop(row, None)

    def choose(self, walk: Walk, examine: Examine, break_tie: TieBreak) -> Chosen | None:
        """Return the best candidate of the walk and its victims; None without any."""
        kept: list[Rows] = [_NO_ROWS]
        for visited in walk.blocks():
            unknown = visited[~self._is_known[visited]]
            if len(unknown):
                self._take_in(unknown, examine(unknown))
            candidates = visited[self._is_candidate[visited]]
            kept.append(candidates[walk.admits(self._harms[0][candidates])])
        rows = np.concatenate(kept)
        if not len(rows):
            return None
        victims = self._victims.__getitem__
        row = least_harm(rows, self._harms[:, rows], lambda left: break_tie(left, victims))
        return row, self._victims[row], int(self._harms[0][row])

    def _take_in(self, rows: Rows, found: Block | None) -> None:
        self._is_known[rows] = True
        if found is None:
            return
        candidates = found.pods.rows[found.places]
        self._is_candidate[candidates] = True
        self._harms[:, candidates] = harms_of(found)
        for row, place in zip(candidates.tolist(), found.places.tolist(), strict=True):
            self._victims[row] = uids(found.victims(place))


class DryRunCache:
    """The dry runs of the most recent shapes, by the shape's id."""

    def __init__(self) -> None:
        self._runs: dict[int, DryRuns] = {}
        self._logs: tuple[object, ...] = ()

    def runs_of(self, shape: int, size: int, token: object, logs: tuple[Touched, ...]) -> DryRuns:
        """Return the cached runs of a shape without the rows that changed by `logs`.

        Everything is dropped when a log differs from the previous one, or when `token` does.
        """
        if self._logs != (token, *logs):
            self._runs, self._logs = {}, (token, *logs)
        runs = self._runs.pop(shape, None)
        if runs is None or runs.size != size or not _catch_up(runs, logs):
            runs = DryRuns(size)
        runs.marks = tuple(log.mark for log in logs)
        if len(self._runs) >= MOST_SHAPES:
            self._runs.pop(next(iter(self._runs)))
        self._runs[shape] = runs  # at the end: the least recently used one is dropped first
        return runs


def _catch_up(runs: DryRuns, logs: tuple[Touched, ...]) -> bool:
    """Drop changed rows; return whether the logs were complete."""
    for log, mark in zip(logs, runs.marks, strict=True):
        changed = log.since(mark)
        if changed is None:
            return False
        runs.forget(changed)
    return True
