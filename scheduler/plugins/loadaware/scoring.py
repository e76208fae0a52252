"""The scores of LoadAwareScheduling, on whole columns, in integers as Koordinator rounds.

Called by the plugin with the columns of a tracker; does not depend on reports or pods.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.framework import IntColumn

# Whole numbers, as int64 or, where that is exact and quicker, as float64.
Numbers: TypeAlias = NDArray[np.number[Any]]


class ResourceWeights(msgspec.Struct, frozen=True):
    """The weights of resources in the order of the settings' resources, 0 for none."""

    weights: tuple[int, ...]
    dominant: int
    packs: bool

    @property
    def total(self) -> int:
        """Return the sum of all weights."""
        return sum(self.weights) + self.dominant

    @property
    def counted(self) -> tuple[int, ...]:
        """Return the indexes of the resources to compute."""
        places = range(len(self.weights))
        return tuple(places) if self.dominant else tuple(i for i in places if self.weights[i])


def weighing_of(
    resources: Sequence[str], weights: Mapping[str, int], dominant: int, *, packs: bool
) -> ResourceWeights:
    """Return the weights as a vector over `resources`."""
    return ResourceWeights(tuple(weights.get(name, 0) for name in resources), dominant, packs)


def usage_scores(
    weighing: ResourceWeights, left: Mapping[int, IntColumn], divisors: Mapping[int, Numbers]
) -> IntColumn:
    """Return 0..100 per row: the weighted mean over resources, with the lowest as an additional
    one.

    `left` is the remaining amount of a node after the pod starts; a value below 0, or no
    allocatable amount, scores 0. `divisors` has the amounts, at least 1 and as floats if these
    divide exactly. `weighing.total` is positive. With bin packing, the used amount counts instead
    of the remaining one.
    """
    total: Numbers | None = None
    lowest: Numbers | None = None
    for place in weighing.counted:
        score = _share(left[place], divisors[place], packs=weighing.packs)
        weight = weighing.weights[place]
        if weight:
            part = score if weight == 1 else score * weight
            total = part if total is None else total + part
        if weighing.dominant:
            lowest = score if lowest is None else np.minimum(lowest, score)
    if lowest is not None:
        part = lowest * weighing.dominant
        total = part if total is None else total + part
    assert total is not None  # noqa: S101 - some weight is positive
    return (total / weighing.total).astype(np.int64)


def _share(left: IntColumn, divisor: Numbers, *, packs: bool) -> Numbers:
    """Return floor(100 * share), as whole numbers of the divisor's type."""
    amount: Numbers = np.maximum(left, 0)
    if packs:
        used: Numbers = np.maximum(divisor - left, 0)
        amount = np.where(left >= 0, used, 0)
    if divisor.dtype.kind == "i":
        share: Numbers = np.floor_divide(amount * 100, divisor)
    else:
        share = amount * 100.0
        np.floor(np.divide(share, divisor, out=share), out=share)
    return np.minimum(share, 100, out=share)
