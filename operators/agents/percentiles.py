"""Percentiles as the agents report them: by nearest rank, so that each is a measured value."""

import math
from collections.abc import Sequence


def rank(ordered: Sequence[float], share: int) -> float:
    """Return the percentile `share` (1 to 100) of at least one value, in ascending order."""
    return ordered[max(math.ceil(len(ordered) * share / 100) - 1, 0)]
