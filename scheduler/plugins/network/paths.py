"""Shortest paths: between places from a table of costs, between nodes from the measured slices.

Tables are small; all shortest paths of one are computed once per version. There may be thousands of
nodes, so the paths to one node from all others are computed when a pod runs there, and cached until
the measurements change. The cost to an unreachable node is unknown, which counts as the highest.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scheduler.framework import BoolColumn, FloatColumn, Rows
from scheduler.objects.network import NetworkTopologySlice
from scheduler.objects.networkpaths import DEAREST
from scheduler.plugins.network.costs import CostTable
from scheduler.plugins.network.links import REGION, ZONE, FloatMatrix
from scheduler.plugins.network.places import NOWHERE, RowPlaces
from scheduler.plugins.network.prices import SAME_PLACE_COST, UNKNOWN_COST

_FAR = np.inf
_MOST_GONE = 10_000  # nodes whose numbers may be kept without current measurements


class ClosedTable:
    """The shortest paths of a `CostTable` as a matrix over places, in the form of
    `PlaceCosts.cost`.
    """

    def __init__(self, table: CostTable) -> None:
        self.table = table
        self._closed = {level: _closed(table.costs[level]) for level in (REGION, ZONE)}
        self._matrix: FloatMatrix | None = None
        self._size = 0

    def matrix(self, places: RowPlaces) -> FloatMatrix:
        """Return the costs from and to all places known so far, both halves side by side."""
        if self._matrix is None or self._size != len(places):
            self._matrix, self._size = self._between(places), len(places)
        return self._matrix

    def _between(self, places: RowPlaces) -> FloatMatrix:
        regions = np.array([region for region, _ in places.names])
        zones = np.array([zone for _, zone in places.names])
        is_same_region = regions[:, None] == regions[None, :]
        is_same = is_same_region & (zones[:, None] == zones[None, :])
        cost = np.where(
            is_same_region, self._gathered(ZONE, zones), self._gathered(REGION, regions)
        )
        cost[is_same] = SAME_PLACE_COST
        cost[NOWHERE, :] = cost[:, NOWHERE] = _FAR
        known = cost[np.isfinite(cost)]
        cost[~np.isfinite(cost)] = max(UNKNOWN_COST, known.max(initial=0))
        joined: FloatMatrix = np.ascontiguousarray(np.concatenate((cost, cost.T), axis=1))
        joined.flags.writeable = False
        return joined

    def _gathered(self, level: str, names: NDArray[np.str_]) -> NDArray[np.float64]:
        numbers, closed = self._closed[level]
        # An additional row and column for names that the table lacks.
        padded = np.pad(closed, (0, 1), constant_values=_FAR)
        column = np.array([numbers.get(str(name), len(numbers)) for name in names])
        gathered: NDArray[np.float64] = padded[np.ix_(column, column)]
        return gathered


def _closed(costs: Mapping[tuple[str, str], int]) -> tuple[dict[str, int], NDArray[np.float64]]:
    """Return the names of a level with their numbers, and the shortest paths between them."""
    numbers: dict[str, int] = {}
    for ends in costs:
        for name in ends:
            numbers.setdefault(name, len(numbers))
    matrix = np.full((len(numbers), len(numbers)), _FAR)
    for reverse in (True, False):
        for (origin, destination), cost in costs.items():
            ends = (destination, origin) if reverse else (origin, destination)
            matrix[numbers[ends[0]], numbers[ends[1]]] = cost
    np.fill_diagonal(matrix, 0)
    for middle in range(len(numbers)):
        np.minimum(matrix, matrix[:, middle, None] + matrix[None, middle, :], out=matrix)
    return numbers, matrix


class CheapestPaths(NamedTuple):
    """The cost of the cheapest path per node, 0 without a path (`lost`), and the highest of these
    costs.
    """

    costs: FloatColumn
    lost: BoolColumn | None
    farthest: float


class _Part(NamedTuple):
    """The paths that one slice lists; nodes are numbers."""

    source: NetworkTopologySlice
    origins: Rows
    targets: Rows
    costs: FloatColumn


class PathSlices:
    """Reads slices, and caches the result of each: an update changes few of them."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._parts: dict[int, _Part] = {}

    def read(self, slices: Iterable[NetworkTopologySlice]) -> "tuple[list[str], _Directed]":
        """Return names by number, and all paths; of duplicates the first counts."""
        total = sum(len(part.origins) for part in self._parts.values())
        if len(self._numbers) > total + _MOST_GONE:
            self._numbers, self._parts = {}, {}
        parts = [self._parts.get(id(one)) or self._read(one) for one in slices]
        self._parts = {id(part.source): part for part in parts}
        if not parts:
            nothing = np.empty(0, dtype=np.intp)
            return [], _Directed(nothing, nothing, np.empty(0))
        origins, targets, costs = (
            np.concatenate([part[field] for part in parts]) for field in (1, 2, 3)
        )
        size = len(self._numbers)
        listed, first = np.unique(origins * size + targets, return_index=True)
        origins, targets, costs = origins[first], targets[first], costs[first]
        missing = ~np.isin(targets * size + origins, listed)
        return list(self._numbers), _Directed(
            np.concatenate((origins, targets[missing])),
            np.concatenate((targets, origins[missing])),
            np.concatenate((costs, costs[missing])),
        )

    def _read(self, part: NetworkTopologySlice) -> _Part:
        numbers = self._numbers
        ends: list[tuple[int, int]] = []
        costs: list[int] = []
        for origin in part.origins:
            one = numbers.setdefault(origin.origin, len(numbers))
            for path in origin.paths:
                cost = path.network_cost
                if cost is not None and cost >= 0:
                    ends.append((one, numbers.setdefault(path.destination, len(numbers))))
                    costs.append(min(cost, DEAREST))
        pairs = np.array(ends, dtype=np.intp).reshape(-1, 2)
        return _Part(part, pairs[:, 0], pairs[:, 1], np.array(costs, dtype=np.float64))


class NodeGraph:
    """The measured paths between nodes; a path measured in one direction serves both."""

    def __init__(
        self, slices: Iterable[NetworkTopologySlice], reader: PathSlices | None = None
    ) -> None:
        names, links = (reader or PathSlices()).read(slices)
        measured, ends = np.unique(
            np.concatenate((links.origins, links.targets)), return_inverse=True
        )
        origins, targets = np.split(ends, 2)
        self.numbers = {names[one]: number for number, one in enumerate(measured.tolist())}
        self._to = _Relaxing(origins, targets, links.costs, len(measured))
        self._from = _Relaxing(targets, origins, links.costs, len(measured))
        self._known: dict[tuple[str, bool], CheapestPaths] = {}

    def __bool__(self) -> bool:
        return bool(self.numbers)

    def costs(self, node: str, *, away: bool = False) -> CheapestPaths | None:
        """Return the paths from all nodes to `node`, or with `away` from it; None if unmeasured."""
        number = self.numbers.get(node)
        if number is None:
            return None
        found = self._known.get((node, away))
        if found is None:
            costs = (self._from if away else self._to).to(number)
            lost = ~np.isfinite(costs)
            costs[lost] = 0.0
            found = CheapestPaths(
                costs, lost if lost.any() else None, float(costs.max(initial=0.0))
            )
            self._known[node, away] = found
        return found


class _Directed(NamedTuple):
    """Paths between numbered nodes."""

    origins: Rows
    targets: Rows
    costs: FloatColumn


class _Relaxing:
    """Edges sorted by their source, so that one sweep relaxes all sources at once."""

    def __init__(self, starts: Rows, ends: Rows, weights: FloatColumn, size: int) -> None:
        order = np.argsort(starts, kind="stable")
        self._ends = ends[order]
        self._weights = weights[order]
        self._starts, self._first = np.unique(starts[order], return_index=True)
        self._size = size

    def to(self, target: int) -> FloatColumn:
        """Return the cost of the cheapest path from each node to `target`."""
        found: FloatColumn = np.full(self._size, _FAR)
        found[target] = 0.0
        while True:
            ahead = np.minimum.reduceat(self._weights + found[self._ends], self._first)
            better = ahead < found[self._starts]
            if not better.any():
                return found
            found[self._starts[better]] = ahead[better]
