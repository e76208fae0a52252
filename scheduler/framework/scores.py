"""From raw scores to scores between 0 and 100.

"max" and "reverse" are kube-scheduler's default normalisation and its reverse; only feasible rows
count for the highest score.
"""

from __future__ import annotations

import numpy as np

from scheduler.base.arrays import IntColumn
from scheduler.framework.cycle import Cycle
from scheduler.framework.nodes import Nodes
from scheduler.framework.profile import Bound

MAX_SCORE = 100


def normalize(bound: Bound, cycle: Cycle, nodes: Nodes, raw: IntColumn) -> IntColumn:
    """Return the scores of a plugin between 0 and 100, by the rule the plugin declares."""
    rule = bound.plugin.normalize
    if rule == "none":
        return raw
    if callable(rule):
        column: IntColumn = rule(cycle, nodes, raw)
        return column
    highest = int(raw.max(where=nodes.feasible, initial=0))
    if rule == "max":
        return raw if highest == 0 else raw * MAX_SCORE // highest
    if highest == 0:
        return np.full(nodes.size, MAX_SCORE, dtype=np.int64)
    return MAX_SCORE - raw * MAX_SCORE // highest


def check_range(plugin: str, normalized: IntColumn, nodes: Nodes) -> None:
    """Raise ValueError when a feasible row has a score outside 0..100."""
    low = int(normalized.min(where=nodes.feasible, initial=0))
    high = int(normalized.max(where=nodes.feasible, initial=0))
    if low < 0 or high > MAX_SCORE:
        wrong = low if low < 0 else high
        raise ValueError(
            f'plugin "{plugin}" returns an invalid score {wrong}, it should in the range of '
            f"[0, {MAX_SCORE}] after normalizing"
        )
