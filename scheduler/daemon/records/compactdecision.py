"""A copy of a decision: every node's verdict and scores, in compact form.

A `Decision` refers to columns that change later. `keep` copies their current values: one number per
row that encodes a status, and the scores of plugins that distinguish nodes. A copy takes about 150
kB at 5,000 nodes, so `DecisionHistory` keeps a few. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.base.arrays import BoolColumn, IntColumn
from scheduler.engine.decision import Decision, outside_text
from scheduler.framework.nodes import Nodes
from scheduler.framework.status import SUCCESS, Code, Rejection, Status
from scheduler.simulate.verdicts import NodeVerdict, PluginScore

_MOST_REASONS = 60  # as many as fit into a number beside the bit for `final`


class CompactScores(msgspec.Struct, frozen=True):
    """The scores of one plugin by row; a column with one value is stored as that value."""

    plugin: str
    weight: int
    raw: IntColumn | int
    normalized: NDArray[np.uint8] | int


class CompactDecision(msgspec.Struct, frozen=True):
    """The verdicts of one attempt; `which` has the index in `statuses` of each row."""

    node: str
    names: tuple[str, ...]
    statuses: tuple[Status, ...]
    which: NDArray[np.uint32]
    scores: tuple[CompactScores, ...]
    total: IntColumn | None

    @property
    def size_bytes(self) -> int:
        """Return about how much memory it takes; names are shared."""
        scores = (column for one in self.scores for column in (one.raw, one.normalized))
        columns = (self.which, self.total, *scores)
        return sum(column.nbytes for column in columns if isinstance(column, np.ndarray)) + 2000

    def verdicts(self, most: int) -> tuple[NodeVerdict, ...]:
        """Return up to `most` nodes: the chosen one, then by total, then the rejected ones."""
        rows = [row for row, name in enumerate(self.names) if name]
        rows.sort(key=self._rank)
        return tuple(self._verdict(row) for row in rows[:most])

    def _rank(self, row: int) -> tuple[bool, bool, int, str]:
        name, is_feasible = self.names[row], self.statuses[self.which[row]].is_success
        total = 0 if self.total is None or not is_feasible else int(self.total[row])
        return name != self.node, not is_feasible, -total, name

    def _verdict(self, row: int) -> NodeVerdict:
        status = self.statuses[self.which[row]]
        scores = dict(self._scores(row)) if status.is_success else {}
        return NodeVerdict(
            name=self.names[row],
            feasible=status.is_success,
            rejected_by=status.plugin or None,
            code=status.code.value,
            reasons=status.reasons,
            scores=scores,
            total=int(self.total[row]) if self.total is not None and scores else None,
        )

    def _scores(self, row: int) -> Iterator[tuple[str, PluginScore]]:
        for one in self.scores:
            normalized = _at(one.normalized, row)
            yield (
                one.plugin,
                PluginScore(_at(one.raw, row), normalized, one.weight, normalized * one.weight),
            )


def keep(decision: Decision, nodes: Nodes, names: tuple[str, ...]) -> CompactDecision:
    """Copy the verdicts of a decision; `names` are the node names by row, '' without a node."""
    statuses = [SUCCESS]
    which = np.zeros(nodes.size, dtype=np.uint32)

    def mark(rows: BoolColumn, status: Status) -> None:
        which[rows] = len(statuses)
        statuses.append(status)

    if not decision.status.is_success and not decision.rejections and decision.outside is None:
        mark(nodes.exists, decision.status)
    elif decision.feasible is not None:
        mark(~decision.feasible, Status(Code.SKIP))
    if decision.outside is not None:
        plugin = decision.narrowed_by[0] if decision.narrowed_by else ""
        text = outside_text(decision.narrowed_by)
        mark(decision.outside, Status(Code.UNRESOLVABLE, (text,), plugin))
    # The plugin that rejected a row last determines its status.
    for rejection in reversed(decision.rejections):
        for rows, status in _by_status(rejection):
            mark(rows, status)
    return CompactDecision(
        node=decision.node,
        names=names,
        statuses=tuple(statuses),
        which=which,
        scores=tuple(
            CompactScores(
                one.plugin, one.weight, _copied(one.raw), _small(one.normalized, nodes.feasible)
            )
            for one in decision.scores
        ),
        total=None if decision.total is None else decision.total.copy(),
    )


def _by_status(rejection: Rejection) -> Iterator[tuple[BoolColumn, Status]]:
    """Yield the rows that a plugin rejected, those of one status together."""
    rejected = rejection.rejected
    rows = np.flatnonzero(rejection.rows)
    code = rejected.final[rows].astype(np.int64)
    for bit, reason in enumerate(rejected.reasons[:_MOST_REASONS], start=1):
        code |= reason.rows[rows].astype(np.int64) << bit
    _, first, group = np.unique(code, return_index=True, return_inverse=True)
    for number, example in enumerate(first.tolist()):
        mask = np.zeros(len(rejection.rows), dtype=np.bool_)
        mask[rows[group == number]] = True
        yield mask, rejected.status(int(rows[example]), rejection.plugin)


def _copied(column: IntColumn) -> IntColumn | int:
    return int(column[0]) if column.strides == (0,) and len(column) else column.copy()


def _small(column: IntColumn, feasible: BoolColumn) -> NDArray[np.uint8] | int:
    """Copy normalised scores, which lie in 0..100 where they count."""
    if column.strides == (0,) and len(column):
        return int(column[0])
    return np.where(feasible, column, 0).clip(0, 255).astype(np.uint8)


def _at(column: NDArray[np.int64] | NDArray[np.uint8] | int, row: int) -> int:
    return column if isinstance(column, int) else int(column[row])
