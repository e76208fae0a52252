"""`Prices`: the cost of paths between places, as matrices or, with very many places, column by
column.

Each place has two columns: the path from the candidate's place to it, then the path back. A limit
is compared with `price`: below every limit inside one place, above every limit where the node has
no place, NaN where the path is unknown. A score adds `cost`. Values are integers stored as floats:
sums over many pods are several times faster and still exact.
"""

from collections.abc import Iterable
from typing import NamedTuple, Protocol

import numpy as np

from scheduler.framework import FloatColumn, IntColumn, Rows
from scheduler.plugins.network.links import REGION, ZONE, FloatMatrix
from scheduler.plugins.network.places import NOWHERE, RowPlaces

UNKNOWN_COST = 100  # the score's addend for an unknown path
SAME_PLACE_COST = 1
ALWAYS = -1.0
_MOST_LIMITS = 64
MOST_EVALUATED = 256


class Tied(NamedTuple):
    """The pods that one limit applies to: `counts` of them in each of `columns`, which may
    repeat.
    """

    limit: int
    columns: Rows
    counts: FloatColumn


class TieVerdicts(NamedTuple):
    """Per place: number of satisfied and of violated dependencies, and their total cost."""

    satisfied: FloatColumn
    violated: FloatColumn
    cost: IntColumn


class Prices(Protocol):
    """The cost of paths between places."""

    def columns(self, columns: Rows) -> tuple[FloatMatrix, FloatMatrix]:
        """Return price and cost, [place, column], of some columns."""

    def evaluate(self, tied: Iterable[Tied]) -> TieVerdicts:
        """Return the verdicts on numbers of tied pods, by limit and column."""


class PlaceCosts:
    """Integer matrices of costs; up to `MOST_EVALUATED` places also the verdicts per limit."""

    def __init__(self, price: FloatMatrix, cost: FloatMatrix) -> None:
        self.price = price
        self.cost = cost
        self._prices_by_limit: dict[int, FloatMatrix] = {}

    def columns(self, columns: Rows) -> tuple[FloatMatrix, FloatMatrix]:
        """Return price and cost of some columns."""
        return self.price[:, columns], self.cost[:, columns]

    def evaluate(self, tied: Iterable[Tied]) -> TieVerdicts:
        """Compare the numbers of pods with their limits: a product with parts of one matrix per
        limit.
        """
        size = len(self.cost)
        if size > MOST_EVALUATED:
            return evaluate_columns(self, size, tied)
        sums: FloatColumn | None = None
        for limit, columns, counts in tied:
            matrix = self._of_limit(limit)
            if len(columns) > 2 * size:
                part = np.bincount(columns, counts, 2 * size) @ matrix
            else:
                # The whole matrix does not fit into the nearest cache, a few of its rows do.
                part = counts @ matrix.take(columns, axis=0)
            sums = part if sums is None else sums + part
        if sums is None:
            sums = np.zeros(3 * size)
        return TieVerdicts(sums[:size], sums[size : 2 * size], sums[2 * size :].astype(np.int64))

    def _of_limit(self, limit: int) -> FloatMatrix:
        """Return a matrix [column, 3 x place] for one limit: 1 if the path keeps the limit, 1 if it
        exceeds the limit, and the cost.

        For an unknown path, the first two are 0.
        """
        found = self._prices_by_limit.get(limit)
        if found is None:
            if len(self._prices_by_limit) >= _MOST_LIMITS:
                self._prices_by_limit.clear()
            parts = (self.price <= limit, self.price > limit, self.cost)
            together = np.concatenate(parts, dtype=np.float64)
            found = self._prices_by_limit[limit] = np.ascontiguousarray(together.T)
        return found


class PriceTable(Protocol):
    """The listed costs by name."""

    def ends(self, level: str, name: str, *, away: bool) -> dict[str, int]: ...


class WidePrices:
    """The requested columns, computed on each call: matrices would not fit into memory."""

    def __init__(self, table: PriceTable, places: RowPlaces) -> None:
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

    def evaluate(self, tied: Iterable[Tied]) -> TieVerdicts:
        """Return the verdicts on numbers of tied pods, by limit and column."""
        return evaluate_columns(self, len(self._names), tied)

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


def evaluate_columns(prices: Prices, size: int, tied: Iterable[Tied]) -> TieVerdicts:
    """Return the verdicts on numbers of tied pods; compute every column once."""
    satisfied, violated, cost = np.zeros(size), np.zeros(size), np.zeros(size)
    for limit, columns, counts in tied:
        used, place = np.unique(columns, return_inverse=True)
        numbers = np.bincount(place, counts, len(used))
        price, costs = prices.columns(used)
        satisfied += (price <= limit) @ numbers
        violated += (price > limit) @ numbers
        cost += costs @ numbers
    return TieVerdicts(satisfied, violated, cost.astype(np.int64))
