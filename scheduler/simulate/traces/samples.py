"""Figures over time: allocation, fragmentation, waiting pods and network cost, at most 512 points.

The interval doubles when the points are used up, so that the points cover a trace of any length.
"""

from collections import Counter
from collections.abc import Mapping

import msgspec
import numpy as np

from scheduler.engine.engine import Engine
from scheduler.plugins.network import NetworkMinCost, NetworkOverhead, TotalCost

MOST_POINTS = 512
_MOST_SHAPES = 16

Requests = tuple[tuple[str, int], ...]


class TracePoint(msgspec.Struct, frozen=True, rename="camel"):
    """The state at `seconds`: percent allocated, and percent of the free capacity that is
    fragmented.

    A free amount is fragmented for a shape if it is on nodes where the shape does not fit; the
    value is the mean over the most frequent shapes of the trace. `network_cost` is None without a
    network plugin.
    """

    seconds: float
    waiting: int
    allocation: Mapping[str, float]
    fragmentation: Mapping[str, float]
    network_cost: int | None = None


class Samples:
    """Takes points at equal intervals."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._interval = 1.0
        self._next = 0.0
        self._shapes: Counter[Requests] = Counter()
        self.points: list[TracePoint] = []
        users = [
            one
            for one in engine.view.plugins()
            if isinstance(one, NetworkOverhead | NetworkMinCost)
        ]
        self._cost = TotalCost(users[0].lookup) if users else None

    def count(self, amounts: Mapping[str, int]) -> None:
        """Count the shape of a pod that arrives."""
        self._shapes[tuple(sorted(amounts.items()))] += 1

    def until(self, seconds: float, waiting: int) -> None:
        """Take the points that are due before the state changes at `seconds`."""
        while self._next < seconds:
            self._take(self._next, waiting)
            if len(self.points) > MOST_POINTS:
                self.points = self.points[::2]
                self._interval *= 2
            self._next = self.points[-1].seconds + self._interval

    def _take(self, seconds: float, waiting: int) -> None:
        columns = self._engine.view.columns()
        frequent = self._shapes.most_common(_MOST_SHAPES)
        names = sorted({name for shape, _ in frequent for name, _ in shape})
        offered = {name: columns.allocatable(name) for name in names}
        free = {name: np.maximum(offered[name] - columns.requested(name), 0) for name in names}
        sums = {name: int(column.sum()) for name, column in offered.items()}
        allocation = {
            name: round(100 - 100 * int(free[name].sum()) / sums[name], 2)
            for name in names
            if sums[name]
        }
        lost: Counter[str] = Counter()
        pods = sum(count for _, count in frequent) or 1
        for shape, count in frequent:
            fits = np.ones(columns.size, dtype=bool)
            for name, amount in shape:
                fits &= free[name] >= amount
            for name, _ in shape:
                lost[name] += count * int(free[name][~fits].sum())
        fragmentation = {
            name: round(100 * lost[name] / pods / int(free[name].sum()), 2)
            for name in names
            if free[name].any()
        }
        cost = None if self._cost is None else self._cost.now()
        point = TracePoint(seconds, waiting, allocation, fragmentation, cost)
        self.points.append(point)
