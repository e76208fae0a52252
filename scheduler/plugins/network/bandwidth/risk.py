"""The risk that a node's use of a resource exceeds its capacity, from mean and deviation.

risk = (mu + sigma) / 2, where mu is the average use plus the pod's request, sigma the deviation,
both as shares of capacity between 0 and 1; sigma is raised to 1/sensitivity and multiplied by
margin. Plain arithmetic over columns, in the order of operations of scheduler-plugins, so that
results agree to the last bit.
"""

from typing import NamedTuple

import numpy as np

from scheduler.framework import FloatColumn, IntColumn

MAX_SCORE = 100


class NodeUse(NamedTuple):
    """One resource per node in one unit: capacity, the pod's request, and use."""

    capacity: FloatColumn
    request: float
    average: FloatColumn
    deviation: FloatColumn


def risk_of(use: NodeUse, margin: float, sensitivity: float) -> FloatColumn:
    """Return the risk per node between 0 and 1; 1 where there is no capacity."""
    has_any = use.capacity > 0
    capacity = np.where(has_any, use.capacity, 1.0)
    average = np.clip(use.average, 0.0, capacity)
    deviation = np.clip(use.deviation, 0.0, capacity)
    mu = np.clip((average + max(use.request, 0.0)) / capacity, 0.0, 1.0)
    sigma = np.clip(deviation / capacity, 0.0, 1.0)
    if sensitivity == 0:
        sigma = np.where(sigma == 1.0, 1.0, 0.0)  # the infinite power
    elif sensitivity > 0:
        sigma = np.power(sigma, 1.0 / sensitivity)
    sigma = np.clip(sigma * margin, 0.0, 1.0)
    risk: FloatColumn = np.where(has_any, (mu + sigma) / 2.0, 1.0)
    return risk


def unrounded_score(use: NodeUse, margin: float, sensitivity: float) -> FloatColumn:
    """Return the score 0 to 100, lower for a higher risk; 0 without capacity."""
    score = (1.0 - risk_of(use, margin, sensitivity)) * MAX_SCORE
    result: FloatColumn = np.where(use.capacity > 0, score, 0.0)
    return result


def rounded(scores: FloatColumn) -> IntColumn:
    """Round half away from zero, as Go's math.Round does (scores are never negative)."""
    # Adding 0.5 would turn the largest number below one half into 1.
    whole = np.floor(scores)
    column: IntColumn = (whole + (scores - whole >= 0.5)).astype(np.int64)
    return column
