"""`Prices`: what ways between places cost, as matrices or, with very many places, column by column.

Columns come twice: the way from the candidate's place to the other one's, then the way back. `price` is
what a limit is compared with: below every limit inside one place, above every limit to nowhere, not a
number where the way is not known. `cost` is what a score adds. Numbers are whole; as floats, sums over
many pods are several times faster and still exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

import numpy as np

from scheduler.base.arrays import BoolColumn, FloatColumn, IntColumn, Rows
from scheduler.plugins.network.links import REGION, ZONE, FloatMatrix
from scheduler.plugins.network.places import NOWHERE, Places

UNKNOWN_COST = 100  # what an unknown way adds to a score
SAME_PLACE_COST = 1
ALWAYS = -1.0
_MOST_LIMITS = 64

ByLimit = Mapping[int, FloatColumn]


class Verdicts(NamedTuple):
    """Numbers per place: how many ties hold, how many do not, and what they cost together."""

    satisfied: IntColumn
    violated: IntColumn
    cost: IntColumn


class Prices(Protocol):
    """What the ways between places cost."""

    def columns(self, columns: Rows) -> tuple[FloatMatrix, FloatMatrix]:
        """Return price and cost, [place, column], of some columns."""
        ...

    def judge(self, by_limit: ByLimit) -> Verdicts:
        """Judge numbers of pods per column, by the limit that holds for them."""
        ...


class PlaceCosts:
    """Whole matrices."""

    def __init__(self, price: FloatMatrix, cost: FloatMatrix) -> None:
        self.price = price
        self.cost = cost
        self._judged: dict[int, tuple[FloatMatrix, FloatMatrix]] = {}

    def columns(self, columns: Rows) -> tuple[FloatMatrix, FloatMatrix]:
        """Return price and cost of some columns."""
        return self.price[:, columns], self.cost[:, columns]

    def judge(self, by_limit: ByLimit) -> Verdicts:
        """Judge numbers of pods per column: products with one pair of matrices per limit."""
        size = len(self.cost)
        satisfied, violated, everybody = np.zeros(size), np.zeros(size), np.zeros(2 * size)
        for limit, counts in by_limit.items():
            holds, breaks = self._of_limit(limit)
            satisfied += holds @ counts
            violated += breaks @ counts
            everybody += counts
        return _whole(satisfied, violated, self.cost @ everybody)

    def _of_limit(self, limit: int) -> tuple[FloatMatrix, FloatMatrix]:
        """Return 1 where a limit holds, and 1 where it is broken; a way not known does neither."""
        found = self._judged.get(limit)
        if found is None:
            if len(self._judged) >= _MOST_LIMITS:
                self._judged.clear()
            holds = (self.price <= limit).astype(np.float64)
            found = self._judged[limit] = (holds, (self.price > limit).astype(np.float64))
        return found


class Table(Protocol):
    """The listed costs by name."""

    def ends(self, level: str, name: str, *, away: bool) -> dict[str, int]: ...


class WidePrices:
    """The columns that are asked for, worked out each time: matrices would not fit into memory."""

    def __init__(self, table: Table, places: Places) -> None:
        self._table = table
        self._names = list(places.names)
        self._region_of = places.region_numbers()
        self._regions = {name: number for number, name in enumerate(places.regions)}
        self._at: dict[str, list[int]] = {}
        for number, (_, zone) in enumerate(self._names):
            self._at.setdefault(zone, []).append(number)

    def columns(self, columns: Rows) -> tuple[FloatMatrix, FloatMatrix]:
        """Return price and cost of some columns."""
        size = len(self._names)
        price = np.empty((size, len(columns)))
        for number, column in enumerate(columns.tolist()):
            price[:, number] = self._column(column % size, away=column >= size)
        cost = np.where(np.isnan(price) | np.isinf(price), UNKNOWN_COST, price)
        cost[price == ALWAYS] = SAME_PLACE_COST
        return price, cost

    def judge(self, by_limit: ByLimit) -> Verdicts:
        """Judge numbers of pods per column."""
        size = len(self._names)
        satisfied, violated, cost = np.zeros(size), np.zeros(size), np.zeros(size)
        for limit, counts in by_limit.items():
            used = np.flatnonzero(counts)
            price, costs = self.columns(used)
            satisfied += (price <= limit) @ counts[used]
            violated += (price > limit) @ counts[used]
            cost += costs @ counts[used]
        return _whole(satisfied, violated, cost)

    def _column(self, place: int, *, away: bool) -> FloatColumn:
        if place == NOWHERE:
            return np.full(len(self._names), np.inf)
        region, zone = self._names[place]
        by_region = np.full(len(self._regions), np.nan)
        for other, cost in self._table.ends(REGION, region, away=away).items():
            if other in self._regions:
                by_region[self._regions[other]] = cost
        by_region[self._regions[region]] = np.nan  # inside the region its zones decide
        price: FloatColumn = by_region[self._region_of]
        for other, cost in self._table.ends(ZONE, zone, away=away).items():
            for number in self._at.get(other, ()):
                if self._names[number][0] == region:
                    price[number] = cost
        price[place] = ALWAYS
        return price


def own_cost(places: Rows) -> IntColumn:
    """Return what a pod on the candidate's own node was counted with by its place."""
    is_nowhere: BoolColumn = places == NOWHERE
    return np.where(is_nowhere, UNKNOWN_COST, SAME_PLACE_COST)


def _whole(satisfied: FloatColumn, violated: FloatColumn, cost: FloatColumn) -> Verdicts:
    return Verdicts(*(numbers.astype(np.int64) for numbers in (satisfied, violated, cost)))
