"""`Prices`: what ways between places cost, as matrices or, with very many places, column by column.

Columns come twice: the way from the candidate's place to the other one's, then the way back. `price` is
what a limit is compared with: below every limit inside one place, above every limit to nowhere, not a
number where the way is not known. `cost` is what a score adds. Numbers are whole; as floats, sums over
many pods are several times faster and still exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from scheduler.base.arrays import FloatColumn, IntColumn, Rows
from scheduler.plugins.network.links import REGION, ZONE, FloatMatrix
from scheduler.plugins.network.places import NOWHERE, Places

UNKNOWN_COST = 100  # what an unknown way adds to a score
SAME_PLACE_COST = 1
ALWAYS = -1.0
_MOST_LIMITS = 64
MOST_JUDGED = 256


class Verdicts(NamedTuple):
    """Whole numbers per place: how many ties hold, how many do not, and what they cost together."""

    satisfied: FloatColumn
    violated: FloatColumn
    cost: IntColumn


class Prices(Protocol):
    """What the ways between places cost."""

    def columns(self, columns: Rows) -> tuple[FloatMatrix, FloatMatrix]:
        """Return price and cost, [place, column], of some columns."""
        ...

    def judge(self, limits: Sequence[int], numbers: FloatMatrix) -> Verdicts:
        """Judge numbers of pods, a row for each limit and a column as in `columns`."""
        ...


class PlaceCosts:
    """Whole matrices; up to `MOST_JUDGED` places also what a limit makes of them."""

    def __init__(self, price: FloatMatrix, cost: FloatMatrix) -> None:
        self.price = price
        self.cost = cost
        self._judged: dict[int, FloatMatrix] = {}

    def columns(self, columns: Rows) -> tuple[FloatMatrix, FloatMatrix]:
        """Return price and cost of some columns."""
        return self.price[:, columns], self.cost[:, columns]

    def judge(self, limits: Sequence[int], numbers: FloatMatrix) -> Verdicts:
        """Judge numbers of pods per column: a product with one matrix per limit."""
        size = len(self.cost)
        if size > MOST_JUDGED or not limits:
            return judged_anew(self, size, limits, numbers)
        sums = self._of_limit(limits[0]) @ numbers[0]
        for limit, counts in zip(limits[1:], numbers[1:], strict=True):
            sums += self._of_limit(limit) @ counts
        return Verdicts(sums[:size], sums[size : 2 * size], sums[2 * size :].astype(np.int64))

    def _of_limit(self, limit: int) -> FloatMatrix:
        """Return 1 where a limit holds, 1 where it is broken, and the cost, one below the other.

        A way not known neither holds nor is broken.
        """
        found = self._judged.get(limit)
        if found is None:
            if len(self._judged) >= _MOST_LIMITS:
                self._judged.clear()
            parts = (self.price <= limit, self.price > limit, self.cost)
            found = self._judged[limit] = np.concatenate(parts, dtype=np.float64)
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

    def judge(self, limits: Sequence[int], numbers: FloatMatrix) -> Verdicts:
        """Judge numbers of pods per column."""
        return judged_anew(self, len(self._names), limits, numbers)

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


def judged_anew(prices: Prices, size: int, limits: Sequence[int], numbers: FloatMatrix) -> Verdicts:
    """Judge numbers of pods per column, looking only at the columns where there are any."""
    satisfied, violated, cost = np.zeros(size), np.zeros(size), np.zeros(size)
    for limit, counts in zip(limits, numbers, strict=True):
        used = np.flatnonzero(counts)
        price, costs = prices.columns(used)
        satisfied += (price <= limit) @ counts[used]
        violated += (price > limit) @ counts[used]
        cost += costs @ counts[used]
    return Verdicts(satisfied, violated, cost.astype(np.int64))
