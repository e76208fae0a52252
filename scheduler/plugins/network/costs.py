"""`CostTable`: the links of one table of a NetworkTopology as matrices over places (see `places`).

Built once per version of the object; `objects.networkpaths` reads a table. Costs are those from the
candidate's place to the other one's.
"""

from collections.abc import Iterable, Mapping

import numpy as np

from scheduler.framework import AreaPaths, IntMatrix, PathLink, Rows
from scheduler.objects.network import NetworkTopology
from scheduler.objects.networkpaths import PathTable
from scheduler.plugins.network.bandwidth.bookings import BookedAmounts
from scheduler.plugins.network.links import REGION, ZONE, FloatMatrix
from scheduler.plugins.network.places import NOWHERE, RowPlaces
from scheduler.plugins.network.prices import (
    ALWAYS,
    SAME_PLACE_COST,
    UNKNOWN_COST,
    PlaceCosts,
    Prices,
    WidePrices,
)


class CostTable(PathTable):
    """A table of costs with its matrices."""

    def __init__(self, topology: NetworkTopology, weights_name: str) -> None:
        super().__init__(topology, weights_name)
        self._matrices: Prices | None = None
        self._size = 0
        self._ends: dict[tuple[str, str, bool], dict[str, int]] = {}

    def matrices(self, places: RowPlaces) -> Prices:
        """Return the costs between all places known so far."""
        if self._matrices is None or self._size != len(places):
            is_wide = len(places) > places.most
            self._matrices = WidePrices(self, places) if is_wide else self._between(places)
            self._size = len(places)
        return self._matrices

    def ends(self, level: str, name: str, *, away: bool) -> dict[str, int]:
        """Return the known costs from everywhere to a name, or with `away` from it to
        everywhere.
        """
        if not self._ends:
            for one in (REGION, ZONE):
                for origin, destination in self.costs[one]:
                    for ends in ((origin, destination), (destination, origin)):
                        cost = self.cost(one, *ends)
                        if cost is not None:
                            self._ends.setdefault((one, ends[1], False), {})[ends[0]] = cost
                            self._ends.setdefault((one, ends[0], True), {})[ends[1]] = cost
        return self._ends.get((level, name, away), {})

    def _between(self, places: RowPlaces) -> PlaceCosts:
        regions, region = _numbered([name for name, _ in places.names])
        zones, zone = _numbered([name for _, name in places.names])
        by_region = self._matrix(REGION, regions)[np.ix_(region, region)]
        by_zone = self._matrix(ZONE, zones)[np.ix_(zone, zone)]
        is_same_region = region[:, None] == region[None, :]
        is_same = is_same_region & (zone[:, None] == zone[None, :])
        listed = np.where(is_same_region, by_zone, by_region)
        # The cost to the other pod, then the cost from it: both depend on the pod's place only.
        listed = np.concatenate((listed, listed.T), axis=1)
        is_same = np.concatenate((is_same, is_same), axis=1)
        unknown = listed < 0
        price = np.where(is_same, ALWAYS, np.where(unknown, np.nan, listed))
        cost = np.where(is_same, SAME_PLACE_COST, np.where(unknown, UNKNOWN_COST, listed))
        other_is_nowhere = [NOWHERE, len(places) + NOWHERE]
        price[:, other_is_nowhere], cost[:, other_is_nowhere] = np.inf, UNKNOWN_COST
        return PlaceCosts(price, cost.astype(np.float64))

    def _matrix(self, level: str, numbers: Mapping[str, int]) -> IntMatrix:
        """Return the listed costs between names, -1 if unknown."""
        matrix = np.full((len(numbers), len(numbers)), -1, dtype=np.int64)
        for reverse in (True, False):  # an entry for this direction overrides it
            for (origin, destination), cost in self.costs[level].items():
                one, other = numbers.get(origin), numbers.get(destination)
                if one is not None and other is not None:
                    ends = (other, one) if reverse else (one, other)
                    matrix[ends] = cost
        return matrix


def between(table: CostTable, places: RowPlaces, rows: Rows) -> tuple[AreaPaths, Rows]:
    """Return the paths between areas of these rows, and the places of the first areas.

    Each place is an area; each node without a place is an area of its own, after those.
    """
    number = places.rows.take(rows, mode="clip")
    used, areas = np.unique(number[number != NOWHERE], return_inverse=True)
    lone = np.flatnonzero(number == NOWHERE)
    size = len(used) + len(lone)
    column = np.empty(len(rows), dtype=np.intp)
    column[number != NOWHERE] = areas
    column[lone] = np.arange(len(used), size)
    prices, costs = np.full((size, size), np.inf), np.full((size, size), float(UNKNOWN_COST))
    known_prices, known_costs = table.matrices(places).columns(used)
    prices[: len(used), : len(used)] = known_prices[used]
    costs[: len(used), : len(used)] = known_costs[used]
    own = np.arange(len(used), size)
    prices[own, own], costs[own, own] = ALWAYS, SAME_PLACE_COST
    return AreaPaths(column, costs, prices), used


def links_between(
    table: CostTable, places: RowPlaces, used: Rows, booked: BookedAmounts
) -> tuple[PathLink, ...]:
    """Return the links that have a capacity and connect areas of the places `used`.

    Bandwidth that is already `booked` is subtracted from the capacity. As in `bookings`, links of
    zones connect places of one region, and no link ends at a place without a name.
    """
    names = [places.names[place] for place in used.tolist()]
    number = {name: at for at, name in enumerate(places.regions)}
    found = []
    for link, capacity in table.capacities.items():
        if link.origin == link.destination or not link.origin or not link.destination:
            continue
        at = 0 if link.level == REGION else 1
        origins, targets = (
            tuple(area for area, name in enumerate(names) if name[at] == end)
            for end in (link.origin, link.destination)
        )
        is_shared = table.is_shared(link)
        name = f'link between {link.level}s "{link.origin}" and "{link.destination}"'
        if link.level == REGION:
            if not (origins and targets) or len(places.regions) > places.most:
                continue
            pair = number[link.origin], number[link.destination]
            headroom = capacity - _booked(booked.regions, pair, is_shared=is_shared)
            found.append(PathLink(name, origins, targets, headroom, is_shared))
            continue
        for one in origins:
            for other in targets:
                if names[one][0] != names[other][0] or len(places) > places.most:
                    continue
                pair = int(used[one]), int(used[other])
                headroom = capacity - _booked(booked.zones, pair, is_shared=is_shared)
                found.append(PathLink(name, (one,), (other,), headroom, is_shared))
    return tuple(found)


def _booked(amounts: FloatMatrix, pair: tuple[int, int], *, is_shared: bool) -> int:
    found = amounts[pair] + (amounts[pair[::-1]] if is_shared else 0.0)
    return int(found)


def _numbered(names: Iterable[str]) -> tuple[dict[str, int], IntMatrix]:
    numbers: dict[str, int] = {}
    column = [numbers.setdefault(name, len(numbers)) for name in names]
    return numbers, np.array(column, dtype=np.int64)
