"""Scores of zones by utilization, and of nodes by their worst zone.

The kubelet chooses the zone, so a node's score is that of its worst zone; zones with score 0 are
ignored while others score more. Scores are 0..100, amounts count in whole units.

Integers are divided as floats, in a hundredth of the time, and rounded down. That is exact: no
amount exceeds 2**47 units nor a hundred times it 2**53, so both are floats as they are; and a
quotient below 128 that is not whole is at least 2**-47 away from the next integer, half of the
distance between two floats there, so that it is never rounded up to it.
"""

from collections.abc import Callable
from functools import reduce

import numpy as np

from scheduler.framework import BoolColumn, FloatColumn, IntColumn, IntMatrix, is_any
from scheduler.plugins.numa.amounts import any_zone
from scheduler.plugins.numa.args import BALANCED_ALLOCATION, LEAST_ALLOCATED, ZoneScoring
from scheduler.plugins.numa.demand import Needs, ZoneDemand
from scheduler.plugins.numa.zoneview import ZoneView

HIGHEST = 100


def score_by_zone(
    view: ZoneView, demand: ZoneDemand, scoring: ZoneScoring, rows: BoolColumn
) -> IntColumn:
    """Return the scores of `rows`, 0 elsewhere: of the whole pod, or the mean over its
    containers.
    """
    scores = np.zeros(view.size, dtype=np.int64)
    if not is_any(rows):
        return scores
    exists = _existing(view)
    by_pod = view.pod_scope
    if is_any(rows & by_pod):
        scores = _of_node(view, demand.whole, scoring, exists)
    if is_any(rows & ~by_pod):
        # A container without requests has no score.
        parts = [part.needs for part in demand.parts if part.needs] or [demand.whole]
        total = np.zeros(view.size, dtype=np.int64)
        for needs in parts:
            total += _of_node(view, needs, scoring, exists)
        scores = np.where(by_pod, scores, total // len(parts))
    return np.where(rows, scores, 0)


def _of_node(view: ZoneView, needs: Needs, scoring: ZoneScoring, exists: BoolColumn) -> IntColumn:
    zones = _of_zones(view, needs, scoring, exists.shape)
    worth = exists & (zones > 0)
    lowest: IntColumn = reduce(np.minimum, np.where(worth, zones, HIGHEST).T)
    return np.where(any_zone(worth), lowest, 0)


def _of_zones(
    view: ZoneView, needs: Needs, scoring: ZoneScoring, shape: tuple[int, ...]
) -> IntMatrix:
    if scoring.type == BALANCED_ALLOCATION:
        return _balanced(view, needs, shape)
    of_resource = least_allocated if scoring.type == LEAST_ALLOCATED else most_allocated
    return _weighted(view, needs, scoring, shape, of_resource)


def _weighted(
    view: ZoneView,
    needs: Needs,
    scoring: ZoneScoring,
    shape: tuple[int, ...],
    of_resource: Callable[[FloatColumn, int, FloatColumn], FloatColumn],
) -> IntMatrix:
    # Scratch arrays: allocating new ones of this size takes longer than filling them.
    total, units, part = np.zeros(shape), np.empty(shape), np.empty(shape)
    whole = np.empty(shape, dtype=np.int64)
    weights = 0
    for name, amount in needs:
        weight = scoring.weight_of(name)
        weights += weight
        free = view.free(name)
        if free is None:
            continue
        np.maximum(_units(free, whole), 1, out=units)
        part = of_resource(units, _unit(amount), part)
        part *= free >= max(amount, 1)
        part *= weight
        total += part
    total /= max(weights, 1)
    return np.floor(total, out=total).astype(np.int64)


def least_allocated(units: FloatColumn, requested: int, out: FloatColumn) -> FloatColumn:
    """Return in `out` the free share after the request, 0..100 rounded down, where it fits."""
    np.subtract(units, requested, out=out)
    out *= HIGHEST
    return np.floor(np.divide(out, units, out=out), out=out)


def most_allocated(units: FloatColumn, requested: int, out: FloatColumn) -> FloatColumn:
    """Return in `out` the requested share, 0..100 rounded down, where it fits."""
    return np.floor(np.divide(requested * HIGHEST, units, out=out), out=out)


def _balanced(view: ZoneView, needs: Needs, shape: tuple[int, ...]) -> IntMatrix:
    """Score by the sample variance of the shares; a single share has the variance 0."""
    shares = [_share(view.free(name), amount, shape) for name, amount in needs]
    if not shares:
        return np.full(shape, HIGHEST, dtype=np.int64)
    stacked = np.array(shares)
    if len(shares) == 1:
        variance: FloatColumn = np.zeros(shape)
    else:
        off = stacked - stacked.mean(axis=0)
        squares = (off * off).sum(axis=0) - off.sum(axis=0) ** 2 / len(shares)
        variance = squares / (len(shares) - 1)
    scores = ((1 - variance) * HIGHEST).astype(np.int64)
    return np.where((stacked > 1).any(axis=0), 0, np.clip(scores, 0, HIGHEST))


def _share(free: IntMatrix | None, amount: int, shape: tuple[int, ...]) -> FloatColumn:
    share = np.ones(shape)
    if free is not None:
        units = _units(free, np.empty(shape, dtype=np.int64))
        np.divide(_unit(amount), units, out=share, where=units > 0)
    return share


def _existing(view: ZoneView) -> BoolColumn:
    """Return the slots that are zones, [row, slot]."""
    return np.arange(view.slots) < view.zone_counts[:, None]


def _units(thousandths: IntMatrix, out: IntMatrix) -> IntMatrix:
    """Round up to whole units, in `out`; UNLISTED becomes 0."""
    np.add(thousandths, 999, out=out)
    out //= 1000
    return out


def _unit(thousandths: int) -> int:
    return -(-thousandths // 1000)
