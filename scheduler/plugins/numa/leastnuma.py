"""LeastNUMANodes: prefer nodes that serve a pod from few zones, near to one another.

For each request the smallest sets of zones that hold it together are looked for, nodes of one layout
at once. One zone is enough on most nodes, and one step finds these. For the others all sets of
two, three, … zones are tried on many rows in one product of matrices; sizes that cannot be enough for a
row are never tried on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache, reduce

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.base.arrays import BoolColumn, IntColumn, IntMatrix, Rows
from scheduler.plugins.numa.amounts import ZoneFlags, any_zone
from scheduler.plugins.numa.demand import Demand, Needs
from scheduler.plugins.numa.sight import Sight
from scheduler.plugins.numa.zones import UNKNOWN_DISTANCE, UNLISTED, Layout, sets_of

HIGHEST = 100

# Amounts by [slot, row] of which sums are exact.
Amounts = IntMatrix | NDArray[np.float64]

# Products of so many steps stay in the cache, and are not worth a second thread to the linear algebra.
_MOST_STEPS = 2**18
# Up to here a float64 holds every whole number.
_LARGEST = 2**53


class Served(msgspec.Struct, frozen=True):
    """Per row: how many zones serve a request (0 none, UNLISTED not asked for any), how near, and which.

    `sets` are the places of the zones' set in `tried`.
    """

    count: IntColumn
    is_nearest: BoolColumn
    sets: IntColumn
    tried: tuple[tuple[int, ...], ...]


class Sets(msgspec.Struct, frozen=True):
    """All sets of so many zones of a layout, nearest first; `members` is [set, slot], of 0 and 1.

    `are_nearest` are those at the smallest distance, if that is none larger than an unknown one.
    """

    slots: tuple[tuple[int, ...], ...]
    are_nearest: BoolColumn
    members: NDArray[np.float64]


def score_by_count(sight: Sight, demand: Demand, rows: BoolColumn) -> IntColumn:
    """Return the scores of `rows`, 0 elsewhere."""
    scores = np.zeros(sight.size, dtype=np.int64)
    for by_pod in (True, False):
        here = np.flatnonzero(rows & (sight.pod_scope == by_pod))
        if not len(here):
            continue
        requests = [demand.whole] if by_pod else [part.needs for part in demand.parts]
        ids = sight.layout_ids[here]
        numbers = np.flatnonzero(np.bincount(ids)).tolist()
        for number in numbers:
            alike = here if len(numbers) == 1 else here[ids == number]
            stock = Stock(sight, sight.layout(number), alike)
            scores[alike] = _score(stock, requests, sight.most_zones[alike])
    return scores


class Stock:
    """What is free in the zones of some rows, all of one layout; requests can be taken from it."""

    def __init__(self, sight: Sight, layout: Layout, rows: Rows) -> None:
        self.layout = layout
        self.size = len(rows)
        self._sight = sight
        self._rows = rows
        self._is_whole = len(rows) == sight.size
        self._left: dict[str, IntMatrix] = {}

    def free(self, resource: str, some: Rows) -> IntMatrix:
        """Return what is free in some of the rows, [slot, row]."""
        if resource in self._left:
            found = self._left[resource][some]
        else:
            matrix = self._sight.free(resource)
            found = self._nothing(len(some)) if matrix is None else matrix[self._rows[some]]
        return np.ascontiguousarray(found[:, : len(self.layout.ids)].T)

    def at_least(self, resource: str, amount: int) -> ZoneFlags:
        """Return which zones have so much free, [row, slot]."""
        if resource in self._left:
            return self._left[resource] >= amount
        found = self._sight.at_least(resource, amount)
        if found is None:
            return self._nothing(self.size) >= amount
        return found if self._is_whole else found[self._rows]

    def take(self, needs: Needs, served: Served) -> None:
        """Deduct a request from the zones that serve it, the lowest ids first."""
        for name, _ in needs:
            if name not in self._left:
                matrix = self._sight.free(name)
                left = self._nothing(self.size) if matrix is None else matrix[self._rows]
                self._left[name] = left
        for place in np.unique(served.sets[served.count > 0]).tolist():
            rows = np.flatnonzero((served.sets == place) & (served.count > 0))
            for name, amount in needs:
                left = self._left[name]
                rest = np.full(len(rows), amount, dtype=np.int64)
                for slot in sorted(served.tried[place]):
                    part = np.minimum(rest, np.maximum(left[rows, slot], 0))
                    left[rows, slot] -= part
                    rest -= part

    def _nothing(self, size: int) -> IntMatrix:
        return np.full((size, self._sight.slots), UNLISTED, dtype=np.int64)


def _score(stock: Stock, requests: Sequence[Needs], most: IntColumn) -> IntColumn:
    """Return the scores of rows of one layout: the worst request decides."""
    count = np.zeros(stock.size, dtype=np.int64)
    is_nearest = np.ones(stock.size, dtype=np.bool_)
    fits = np.ones(stock.size, dtype=np.bool_)
    for place, needs in enumerate(requests):
        is_last = place == len(requests) - 1
        served = serve(stock, needs, names_sets=not is_last)
        fits &= served.count != 0
        count = np.maximum(count, served.count)
        is_nearest &= served.is_nearest | (served.count == UNLISTED)
        if not is_last:
            stock.take(needs, served)
    return np.where(fits, raw_score(count, is_nearest, most), 0)


def raw_score(count: IntColumn, is_nearest: BoolColumn, most: IntColumn) -> IntColumn:
    """Return 100 less a step for each zone, half a step back for the nearest; 0 zones make 100."""
    # Almost always all kubelets handle as many, and a division by a column takes its time.
    unit = HIGHEST // (most[0] if (most == most[0]).all() else most)
    scores = HIGHEST - count * unit + np.where(is_nearest, unit // 2, 0)
    return np.where(count == 0, HIGHEST, np.clip(scores, 0, HIGHEST))


def serve(stock: Stock, needs: Needs, *, names_sets: bool = True) -> Served:
    """Find the smallest, then nearest, then first set of zones for each row.

    Without `names_sets`, which set serves a row may be left open.
    """
    found = _Finding(stock)
    if not needs or not stock.layout.ids:
        found.count[:] = UNLISTED
    else:
        found.one_zone(needs, names_sets=names_sets)
        left = np.flatnonzero(found.count == 0)
        if len(left):
            found.more_zones(needs, left)
    return Served(found.count, found.is_nearest, found.sets, tuple(found.tried))


class _Finding:
    """The search for sets: rows leave it as soon as a set serves them."""

    def __init__(self, stock: Stock) -> None:
        self.count = np.zeros(stock.size, dtype=np.int64)
        self.is_nearest = np.zeros(stock.size, dtype=np.bool_)
        self.sets = np.zeros(stock.size, dtype=np.int64)
        self.tried: list[tuple[int, ...]] = []
        self._stock = stock

    def one_zone(self, needs: Needs, *, names_sets: bool) -> None:
        """Serve the rows that have a zone which is enough, all at once."""
        (name, amount), *others = needs
        alone = self._stock.at_least(name, amount)
        for name, amount in others:
            alone &= self._stock.at_least(name, amount)
        single = sets_by_distance(self._stock.layout, 1)
        rows = np.flatnonzero(any_zone(alone))
        places = np.zeros(len(rows), dtype=np.intp)
        if names_sets or not single.are_nearest.all():
            in_order = [slots[0] for slots in single.slots]
            places = alone[rows][:, in_order].argmax(axis=1)
        self._serve(rows, places, single)
        self.tried += single.slots

    def more_zones(self, needs: Needs, rows: Rows) -> None:
        """Serve `rows` from two zones or more; those that list nothing asked for are not asked."""
        free = {name: self._stock.free(name, rows) for name, _ in needs}
        listed = [matrix >= 0 for matrix in free.values()]
        usable: BoolColumn = reduce(np.logical_and, listed)
        wanted = [_wanted(free[name], usable, amount) for name, amount in needs if amount > 0]
        fewest = np.maximum(_fewest(wanted, usable), 2)
        if not usable.all():
            wanted.append((np.where(usable, 0.0, -1.0), 0))
            self.count[rows[~reduce(np.logical_or, listed).any(axis=0)]] = UNLISTED
        zones = len(usable)
        left = np.flatnonzero(fewest <= zones)
        for number in range(2, zones + 1):
            now = left[fewest[left] <= number]
            if len(now):
                sets = sets_by_distance(self._stock.layout, number)
                whole = len(now) == len(rows)
                some = (
                    wanted if whole else [(amounts[:, now], amount) for amounts, amount in wanted]
                )
                self._try(sets, some, rows[now])
                left = left[self.count[rows[left]] == 0]

    def _try(self, sets: Sets, wanted: list[tuple[Amounts, int]], rows: Rows) -> None:
        """Serve those rows that one of the sets holds the whole request of."""
        at_once = min(len(rows), max(1, _MOST_STEPS // sets.members.size))
        sums = np.empty((len(sets.slots), at_once))
        enough = np.empty((2, len(sets.slots), at_once), dtype=np.bool_)
        for start in range(0, len(rows), at_once):
            part = slice(start, min(start + at_once, len(rows)))
            good, more = enough[:, :, : part.stop - start]
            good[:] = True
            for amounts, amount in wanted:
                if amounts.dtype == sums.dtype:
                    out = sums[:, : part.stop - start]
                    total = np.matmul(sets.members, amounts[:, part], out=out)
                else:
                    total = sets.members.astype(np.int64) @ amounts[:, part]
                np.logical_and(good, np.greater_equal(total, amount, out=more), out=good)
            served = np.flatnonzero(np.logical_or.reduce(good, axis=0))
            if len(served):
                self._serve(rows[part][served], good[:, served].argmax(axis=0), sets)
        self.tried += sets.slots

    def _serve(self, rows: Rows, places: Rows, sets: Sets) -> None:
        """Note the place in `sets` of the set that serves each of the rows."""
        self.count[rows] = len(sets.slots[0])
        self.sets[rows] = len(self.tried) + places
        self.is_nearest[rows] = sets.are_nearest[places]


def _wanted(free: IntMatrix, usable: BoolColumn, amount: int) -> tuple[Amounts, int]:
    """Return amounts whose sums are exact, and reach `amount` where those of `free` do."""
    most = np.where(usable, np.minimum(free, amount), 0)
    is_small = len(free) * amount <= _LARGEST
    return (most.astype(np.float64) if is_small else most), amount


def _fewest(wanted: list[tuple[Amounts, int]], usable: BoolColumn) -> IntColumn:
    """Return a number of zones below which no set can be enough; more than there are for never."""
    zones = len(usable)
    fewest = np.where(usable.any(axis=0), 1, zones + 1)
    for amounts, amount in wanted:
        bound = np.ceil(amount / np.maximum(amounts.max(axis=0), 1)).astype(np.int64)
        bound[amounts.sum(axis=0) < amount] = zones + 1
        fewest = np.maximum(fewest, bound)
    return fewest


@lru_cache(maxsize=512)
def sets_by_distance(layout: Layout, number: int) -> Sets:
    """Return the sets of so many zones, the nearest first and otherwise in the object's order."""
    found = [
        (average_distance(layout.distances, slots), slots)
        for slots in sets_of(layout.order, number)
    ]
    nearest = min(float(UNKNOWN_DISTANCE), *(float(distance) for distance, _ in found))
    found.sort(key=lambda one: float(one[0]))
    members = np.zeros((len(found), len(layout.ids)))
    for place, (_, slots) in enumerate(found):
        members[place, slots] = 1
    are_nearest = np.array([distance == nearest for distance, _ in found])
    return Sets(tuple(slots for _, slots in found), are_nearest, members)


def average_distance(distances: tuple[tuple[int, ...], ...], slots: tuple[int, ...]) -> np.float32:
    """Return the mean distance between the zones of a set, each to itself included."""
    total = sum(distances[a][b] for a in slots for b in slots)
    return np.float32(np.float32(total) / np.float32(len(slots) ** 2))


def chosen(served: Served, row: int) -> Iterator[int]:
    """Yield the slots that serve a row."""
    if served.count[row] > 0:
        yield from served.tried[served.sets[row]]
