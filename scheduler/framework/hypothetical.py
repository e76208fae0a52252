"""Filtering on nodes as they would be: with nominated pods added, or with victims gone.

Called by the cycle (second pass for nominated pods) and by preemption; how is a `Rehearsal`'s
business.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scheduler.base.arrays import BoolColumn, Rows
from scheduler.framework.answers import Rejection, States
from scheduler.framework.crowd import Crowd, crowd_of
from scheduler.framework.cycle import Cycle
from scheduler.framework.nodes import Nodes
from scheduler.framework.promised import Promised
from scheduler.framework.rehearsal import Attempted, Rehearsal, by_column
from scheduler.framework.runner import Runner
from scheduler.state.podindex import Placed

Moves = Sequence[tuple[Placed, int]]


class Hypothetical:
    """Runs the filters of one attempt on changed rows."""

    def __init__(self, runner: Runner, cycle: Cycle, nodes: Nodes, states: States) -> None:
        self._attempted = Attempted(runner, cycle, nodes, states)

    @property
    def is_local(self) -> bool:
        """Whether all filters of the attempt are local."""
        skipped = self._attempted.states.skipped
        filters = self._attempted.runner.profile.filter
        return all(b.plugin.local for b in filters if b.name not in skipped)

    @property
    def is_by_row(self) -> bool:
        """Whether all filters of the attempt say the same of a row until something changes there."""
        states = self._attempted.states
        filters = self._attempted.runner.profile.filter
        kinds = [states.kinds.get(b.name) for b in filters if b.name not in states.skipped]
        return all(kind is not None and kind.keeper.is_by_row for kind in kinds)

    def rehearse(self, crowd: Crowd, promised: Promised) -> Rehearsal:
        """Return the rows of `crowd` without its pods, which can come back step by step."""
        return Rehearsal(self._attempted, crowd, promised.crowd(crowd.rows))

    def filter(
        self, rows: Rows, *, removed: Moves = (), added: Moves = ()
    ) -> tuple[BoolColumn, list[Rejection]]:
        """Return which of `rows` would pass, and who rejects the others, as full columns.

        `removed` and `added` are pods with their rows; pods on rows outside `rows` are left alone.
        """
        return self._verdict(crowd_of(rows, removed), crowd_of(rows, added))

    def crowded(self, promised: Crowd) -> tuple[BoolColumn, list[Rejection]]:
        """Return which rows would pass with the promised pods on them, as `filter` does."""
        return self._verdict(crowd_of(promised.rows, ()), promised)

    def _verdict(self, crowd: Crowd, added: Crowd) -> tuple[BoolColumn, list[Rejection]]:
        nodes, rows = self._attempted.nodes, crowd.rows
        rehearsal = Rehearsal(self._attempted, crowd, added, always_promised=True)

        def full(few: BoolColumn) -> BoolColumn:
            column = np.zeros(nodes.size, dtype=np.bool_)
            column[rows] = few
            return column

        passed, rejections = rehearsal.verdict(nodes.exists[rows])
        return full(passed), [by_column(each, full) for each in rejections]
