"""The scores of LoadAwareScheduling, on whole columns, in integers as Koordinator rounds.

Called by the plugin with the columns of a ledger; knows neither reports nor pods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from scheduler.base.arrays import IntColumn

# 100 * x / y in float64, rounded down, is exact while 101 * y stays below 2**53.
_LARGEST_EXACT = 2**53 // 101


class Weighing(msgspec.Struct, frozen=True):
    """How resources count; `weights` goes with the resources of the settings, 0 for none."""

    weights: tuple[int, ...]
    dominant: int
    packs: bool

    @property
    def total(self) -> int:
        """Return the sum of all weights."""
        return sum(self.weights) + self.dominant

    @property
    def counted(self) -> tuple[int, ...]:
        """Return the places of the resources that have to be worked out."""
        places = range(len(self.weights))
        return tuple(places) if self.dominant else tuple(i for i in places if self.weights[i])


def weighing_of(
    resources: Sequence[str], weights: Mapping[str, int], dominant: int, *, packs: bool
) -> Weighing:
    """Return the weights as a vector over `resources`."""
    return Weighing(tuple(weights.get(name, 0) for name in resources), dominant, packs)


def usage_scores(
    weighing: Weighing, left: Mapping[int, IntColumn], offered: Mapping[int, IntColumn]
) -> IntColumn:
    """Return 0..100 per row: the weighted mean over resources, with the lowest as one more of them.

    `left` is what remains of `offered` once the pod runs; below 0 is worth 0. `weighing.total` is
    positive. When packing, what is used counts instead of what remains.
    """
    total: IntColumn | None = None
    lowest: IntColumn | None = None
    for place in weighing.counted:
        score = _share(left[place], offered[place], packs=weighing.packs)
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


def _share(left: IntColumn, offered: IntColumn, *, packs: bool) -> IntColumn:
    """Return floor(100 * share); 0 where nothing is offered or more than that would be used."""
    divisor = np.maximum(offered, 1)
    amount: IntColumn = np.maximum(left, 0)
    if packs:
        amount = np.where(left >= 0, np.maximum(offered - left, 0), 0)
    if len(divisor) and int(divisor.max()) > _LARGEST_EXACT:
        share: IntColumn = amount * 100 // divisor
    else:
        share = (amount * 100.0 / divisor).astype(np.int64)
    return np.minimum(share, 100)
