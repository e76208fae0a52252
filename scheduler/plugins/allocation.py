"""The scoring strategies of NodeResourcesFit and the arguments that choose one.

A strategy turns, per resource, what a node offers and what it would have given out into 0..100 and
takes the weighted mean. All in integers, as kube-scheduler rounds down at each step; divisions go
through float64 where that gives the same integers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec
import numpy as np

from scheduler.base.arrays import IntColumn, IntMatrix

# 100 * x / y in float64, rounded down, is exact while 101 * y stays below 2**53.
_LARGEST_EXACT = 2**53 // 101

LEAST, MOST, RATIO = "LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"

Fault = tuple[str, str]
Strategy = Callable[[IntMatrix, IntMatrix], IntColumn]


class _Strict(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Base of the structs in plugin arguments."""


class ResourceSpec(_Strict, frozen=True):
    """A resource that counts, with its weight; 0 means 1."""

    name: str
    weight: int = 0

    @property
    def share(self) -> int:
        """Return the weight that counts."""
        return self.weight or 1


class UtilizationShapePoint(_Strict, frozen=True):
    """A point of the shape: utilization 0..100, score 0..10."""

    utilization: int
    score: int


class RequestedToCapacityRatioParam(_Strict, frozen=True):
    """The shape of the score over utilization."""

    shape: tuple[UtilizationShapePoint, ...] = ()


DEFAULT_RESOURCES = (ResourceSpec("cpu", 1), ResourceSpec("memory", 1))


class ScoringStrategy(_Strict, frozen=True):
    """How NodeResourcesFit scores."""

    type: str = LEAST
    resources: tuple[ResourceSpec, ...] = DEFAULT_RESOURCES
    requested_to_capacity_ratio: RequestedToCapacityRatioParam | None = None

    @property
    def counted(self) -> tuple[ResourceSpec, ...]:
        """Return the resources that count; none listed means cpu and memory."""
        return self.resources or DEFAULT_RESOURCES

    def faults(self) -> Iterator[Fault]:
        """Yield (field, message) for each rule that does not hold."""
        if self.type not in (LEAST, MOST, RATIO):
            known = ", ".join(f'"{name}"' for name in (LEAST, MOST, RATIO))
            yield "type", f'Unsupported value: "{self.type}": supported values: {known}'
        for index, spec in enumerate(self.counted):
            if not 0 < spec.share <= 100:
                text = f"resource weight of {spec.name} not in valid range (0, 100]"
                yield f"resources[{index}].weight", f"Invalid value: {spec.weight}: {text}"
        ratio = self.requested_to_capacity_ratio
        field = "requestedToCapacityRatio"
        if self.type == RATIO and ratio is None:
            yield field, "Required value: must be specified when type is RequestedToCapacityRatio"
        elif self.type != RATIO and ratio is not None:
            yield field, "Forbidden: must be nil when type is not RequestedToCapacityRatio"
        elif ratio is not None:
            for name, message in _shape_faults(ratio.shape):
                yield f"{field}.shape{name}", message


def _shape_faults(shape: Sequence[UtilizationShapePoint]) -> Iterator[Fault]:
    if not shape:
        yield "", "Required value: at least one point must be specified"
    for index in range(1, len(shape)):
        if shape[index - 1].utilization >= shape[index].utilization:
            text = "values must be sorted in increasing order"
            yield f"[{index}].utilization", f"Invalid value: {shape[index].utilization}: {text}"
            break
    for index, point in enumerate(shape):
        if not 0 <= point.utilization <= 100:
            text = f"Invalid value: {point.utilization}: not in valid range [0, 100]"
            yield f"[{index}].utilization", text
        if not 0 <= point.score <= 10:
            yield f"[{index}].score", f"Invalid value: {point.score}: not in valid range [0, 10]"


def least_allocated(weights: IntMatrix) -> Strategy:
    """Return the strategy that likes free nodes: the share that stays free."""

    def score(offered: IntMatrix, used: IntMatrix) -> IntColumn:
        free = np.maximum(offered - used, 0)
        return _mean(_percent(free, offered), offered > 0, weights)

    return score


def most_allocated(weights: IntMatrix) -> Strategy:
    """Return the strategy that likes full nodes: the share that is in use."""

    def score(offered: IntMatrix, used: IntMatrix) -> IntColumn:
        return _mean(_percent(np.minimum(used, offered), offered), offered > 0, weights)

    return score


def requested_to_capacity_ratio(
    weights: IntMatrix, shape: Sequence[UtilizationShapePoint]
) -> Strategy:
    """Return the strategy that reads the score off a broken line over utilization.

    Resources that score 0 count neither in the sum nor in the weights; the mean is rounded.
    """
    line = np.array([_on_line(shape, utilization) for utilization in range(101)], dtype=np.int64)

    def score(offered: IntMatrix, used: IntMatrix) -> IntColumn:
        scores = line[_percent(np.minimum(used, offered), offered)]
        counts = ((offered > 0) & (scores > 0)) * weights
        shares = np.maximum(counts.sum(axis=0), 1)
        total: IntColumn = (scores * counts).sum(axis=0)
        mean: IntColumn = (2 * total + shares) // (2 * shares)
        return mean

    return score


def build_strategy(strategy: ScoringStrategy, resources: Sequence[ResourceSpec]) -> Strategy:
    """Return the strategy over these of its resources: (offered, used) [resource, row] → scores."""
    weights: IntMatrix = np.array([[spec.share] for spec in resources], dtype=np.int64)
    ratio = strategy.requested_to_capacity_ratio
    if strategy.type == RATIO and ratio is not None:
        return requested_to_capacity_ratio(weights, ratio.shape)
    return most_allocated(weights) if strategy.type == MOST else least_allocated(weights)


def _percent(part: IntMatrix, whole: IntMatrix) -> IntMatrix:
    """Return 100 * part / whole rounded down, for 0 <= part <= whole; 0 where `whole` is 0."""
    if whole.size and int(whole.max()) > _LARGEST_EXACT:
        return 100 * part // np.maximum(whole, 1)
    return np.floor(part * 100.0 / np.maximum(whole, 1)).astype(np.int64)


def _mean(scores: IntMatrix, counts: np.ndarray, weights: IntMatrix) -> IntColumn:
    """Return the weighted mean, rounded down, of the scores that count; 0 where none does."""
    shares = counts * weights
    total: IntColumn = (scores * shares).sum(axis=0)
    mean: IntColumn = total // np.maximum(shares.sum(axis=0), 1)
    return mean


def _on_line(shape: Sequence[UtilizationShapePoint], utilization: int) -> int:
    """Return the score 0..100 at a utilization; flat outside, truncated towards 0 between points."""
    previous: UtilizationShapePoint | None = None
    for point in shape:
        if utilization <= point.utilization:
            if previous is None:
                break
            rise = 10 * (point.score - previous.score)
            climbed = abs(rise) * (utilization - previous.utilization)
            climbed //= point.utilization - previous.utilization
            return 10 * previous.score + (climbed if rise > 0 else -climbed)
        previous = point
    return 10 * (point.score if previous is None else previous.score)
