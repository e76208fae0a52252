"""The scoring strategies of NodeResourcesFit and the arguments that select one.

A strategy computes, per resource, a score 0..100 from the allocatable and the used amount, and
takes the weighted mean. All in integers, as kube-scheduler rounds down at each step; divisions use
float64 where that gives the same integers.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.framework import IntColumn, IntMatrix

# 100 * x / y in float64, rounded down, is exact while 101 * y stays below 2**53.
_LARGEST_EXACT = 2**53 // 101

LEAST, MOST, RATIO = "LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"

Fault = tuple[str, str]


class _Strict(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Base of the structs in plugin arguments."""


class ResourceSpec(_Strict, frozen=True):
    """A resource of the score, with its weight; 0 means 1."""

    name: str
    weight: int = 0

    @property
    def share(self) -> int:
        """Return the effective weight."""
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
    """The scoring settings of NodeResourcesFit."""

    type: str = LEAST
    resources: tuple[ResourceSpec, ...] = DEFAULT_RESOURCES
    requested_to_capacity_ratio: RequestedToCapacityRatioParam | None = None

    @property
    def counted(self) -> tuple[ResourceSpec, ...]:
        """Return the resources of the score; none listed means cpu and memory."""
        return self.resources or DEFAULT_RESOURCES

    def faults(self) -> Iterator[Fault]:
        """Yield (field, message) for each violated rule."""
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
            for name, message in shape_faults(ratio.shape):
                yield f"{field}.shape{name}", message


def shape_faults(shape: Sequence[UtilizationShapePoint]) -> Iterator[Fault]:
    """Yield (field below the shape, message) for each violated rule."""
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


class Strategy(Protocol):
    """The score of nodes, or of one node, from allocatable and used amounts.

    Both are given per resource, in the order of the strategy's resources.
    """

    def column(self, offered: IntMatrix, used: IntMatrix) -> IntColumn:
        """Return the scores 0..100 of many nodes; matrices are [resource, row]."""

    def cell(self, pairs: Iterable[tuple[int, int]]) -> int:
        """Return the score 0..100 of one node, from (allocatable, used) per resource."""


class LeastAllocated:
    """Prefer free nodes: the share that stays free."""

    def __init__(self, weights: Sequence[int]) -> None:
        self._weights = weights

    def column(self, offered: IntMatrix, used: IntMatrix) -> IntColumn:
        """Return the scores of many nodes."""
        free = np.maximum(offered - used, 0)
        return _mean(percent_of(free, offered), offered > 0, self._weights)

    def cell(self, pairs: Iterable[tuple[int, int]]) -> int:
        """Return the score of one node."""
        total = shares = 0
        for weight, (offered, used) in zip(self._weights, pairs, strict=True):
            if offered > 0:
                shares += weight
                if used < offered:
                    total += weight * (100 * (offered - used) // offered)
        return total // shares if shares else 0


class MostAllocated:
    """Prefer full nodes: the share that is in use."""

    def __init__(self, weights: Sequence[int]) -> None:
        self._weights = weights

    def column(self, offered: IntMatrix, used: IntMatrix) -> IntColumn:
        """Return the scores of many nodes."""
        taken = percent_of(np.minimum(used, offered), offered)
        return _mean(taken, offered > 0, self._weights)

    def cell(self, pairs: Iterable[tuple[int, int]]) -> int:
        """Return the score of one node."""
        total = shares = 0
        for weight, (offered, used) in zip(self._weights, pairs, strict=True):
            if offered > 0:
                shares += weight
                total += weight * (100 * min(used, offered) // offered)
        return total // shares if shares else 0


class RequestedToCapacityRatio:
    """Score by a piecewise linear function of the utilization.

    Resources that score 0 count neither in the sum nor in the weights; the mean is rounded.
    """

    def __init__(self, weights: Sequence[int], shape: Sequence[UtilizationShapePoint]) -> None:
        self._weights = weights
        self._line = [score_at(shape, utilization) for utilization in range(101)]

    def column(self, offered: IntMatrix, used: IntMatrix) -> IntColumn:
        """Return the scores of many nodes."""
        line: IntColumn = np.array(self._line, dtype=np.int64)
        scores = line[percent_of(np.minimum(used, offered), offered)]
        counts = ((offered > 0) & (scores > 0)) * _column_of(self._weights)
        shares = np.maximum(counts.sum(axis=0), 1)
        mean: IntColumn = (2 * (scores * counts).sum(axis=0) + shares) // (2 * shares)
        return mean

    def cell(self, pairs: Iterable[tuple[int, int]]) -> int:
        """Return the score of one node."""
        total = shares = 0
        for weight, (offered, used) in zip(self._weights, pairs, strict=True):
            score = self._line[100 * min(used, offered) // offered] if offered > 0 else 0
            if score > 0:
                shares += weight
                total += weight * score
        return (2 * total + shares) // (2 * shares) if shares else 0


def build_strategy(strategy: ScoringStrategy, resources: Sequence[ResourceSpec]) -> Strategy:
    """Return the scoring strategy for `resources`, with their weights."""
    weights = [spec.share for spec in resources]
    ratio = strategy.requested_to_capacity_ratio
    if strategy.type == RATIO and ratio is not None:
        return RequestedToCapacityRatio(weights, ratio.shape)
    return MostAllocated(weights) if strategy.type == MOST else LeastAllocated(weights)


def _column_of(weights: Sequence[int]) -> IntMatrix:
    return np.array(weights, dtype=np.int64)[:, np.newaxis]


def percent_of(part: IntMatrix, whole: IntMatrix) -> IntMatrix:
    """Return 100 * part / whole rounded down, for 0 <= part <= whole; 0 if `whole` is 0."""
    if whole.size and int(whole.max()) > _LARGEST_EXACT:
        return 100 * part // np.maximum(whole, 1)
    return np.floor(part * 100.0 / np.maximum(whole, 1)).astype(np.int64)


def _mean(scores: IntMatrix, counts: NDArray[np.bool_], weights: Sequence[int]) -> IntColumn:
    """Return the weighted mean, rounded down, of the scores in `counts`; 0 where there are none."""
    if weights and counts.all():
        # The usual case; dividing by one number costs a fraction of dividing by a column.
        every: IntColumn = (scores * _column_of(weights)).sum(axis=0) // sum(weights)
        return every
    shares = counts * _column_of(weights)
    mean: IntColumn = (scores * shares).sum(axis=0) // np.maximum(shares.sum(axis=0), 1)
    return mean


def score_at(shape: Sequence[UtilizationShapePoint], utilization: int) -> int:
    """Return the score 0..100 at a utilization.

    Flat outside, truncated towards 0 between points.
    """
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
