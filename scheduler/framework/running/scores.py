"""Normalise raw scores to 0..100 and add them up by weight.

"max" and "reverse" are kube-scheduler's default normalisation and its reverse; only feasible rows
count for the highest score. These operations run for every plugin and pod, so columns of one value
(`Nodes.constant`) are handled as numbers. A masked reduction costs ten times a plain one and runs
only if the plain one is inconclusive.
"""

import numpy as np

from scheduler.base.arrays import BoolColumn, IntColumn
from scheduler.framework.cycle import Cycle
from scheduler.framework.nodes import Nodes
from scheduler.framework.profile import Bound
from scheduler.framework.running.answertypes import scores_of

MAX_SCORE = 100
_REPEATED = (0,)
_UINT64 = np.dtype(np.uint64)


def normalize(bound: Bound, cycle: Cycle, nodes: Nodes, raw: IntColumn) -> IntColumn:
    """Return the scores of a plugin between 0 and 100, by the rule the plugin declares."""
    rule = bound.plugin.normalize
    if rule == "none":
        return raw
    if callable(rule):
        return scores_of(rule(cycle, nodes, raw), nodes.size, "normalize")
    if is_constant(raw):
        is_best = (raw.item(0) > 0) == (rule == "max")
        return nodes.constant(MAX_SCORE) if is_best else nodes.constant(0)
    highest = _highest(raw, nodes.feasible)
    if highest == 0:
        return raw if rule == "max" else nodes.constant(MAX_SCORE)
    share = raw * (MAX_SCORE // highest if MAX_SCORE % highest == 0 else MAX_SCORE)
    if MAX_SCORE % highest:
        share //= highest  # three times as expensive as the multiplication
    return share if rule == "max" else MAX_SCORE - share


def check_range(plugin: str, normalized: IntColumn, nodes: Nodes) -> None:
    """Raise ValueError when a feasible row has a score outside 0..100."""
    if is_constant(normalized):
        if 0 <= normalized.item(0) <= MAX_SCORE:
            return
    elif largest_unsigned(normalized) <= MAX_SCORE:
        return
    low = int(normalized.min(where=nodes.feasible, initial=0))
    high = int(normalized.max(where=nodes.feasible, initial=0))
    if low < 0 or high > MAX_SCORE:
        wrong = low if low < 0 else high
        raise ValueError(
            f'plugin "{plugin}" returns an invalid score {wrong}, it should in the range of '
            f"[0, {MAX_SCORE}] after normalizing"
        )


def is_constant(column: IntColumn) -> bool:
    """Return whether a column is one of `Nodes.constant`: a single value repeated without
    storage.
    """
    return column.strides == _REPEATED and len(column) > 0


class Total:
    """The weighted sum of the plugins' scores."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._constant = 0
        self._column: IntColumn | None = None
        self._is_own = False

    def add(self, scores: IntColumn, weight: int) -> None:
        """Add one plugin's scores; `scores` is not written to."""
        if scores.strides == _REPEATED and len(scores):
            self._constant += scores.item(0) * weight
            return
        weighted = scores if weight == 1 else scores * weight
        if self._column is None:
            self._column, self._is_own = weighted, weight != 1
        elif self._is_own:
            self._column += weighted
        elif weight != 1:
            weighted += self._column
            self._column, self._is_own = weighted, True
        else:
            self._column, self._is_own = self._column + weighted, True

    def column(self) -> IntColumn:
        """Return the weighted sum of the scores added so far, by row."""
        if self._column is None:
            return np.full(self._size, self._constant, dtype=np.int64)
        if self._constant and self._is_own:
            self._column += self._constant
        elif self._constant:
            self._column = self._column + self._constant
        self._constant, self._is_own = 0, True
        return self._column


def _highest(raw: IntColumn, feasible: BoolColumn) -> int:
    """Return the highest score of a feasible row, 0 at least."""
    row = int(raw.argmax())
    if feasible[row]:
        return max(int(raw[row]), 0)
    return int(raw.max(where=feasible, initial=0))


def largest_unsigned(column: IntColumn) -> int:
    """Return the largest number of a column read as unsigned, so that one pass checks both ends.

    Finding the position of the maximum costs half of computing it.
    """
    unsigned = column.view(_UINT64)
    return unsigned.item(unsigned.argmax()) if len(unsigned) else 0
