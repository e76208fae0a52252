"""LeastNUMANodes: prefer nodes that serve a pod from few zones, near to one another.

For each request the smallest sets of zones that hold it together are looked for, nodes of one layout
at once and set by set; rows leave as soon as a set serves them, so that the usual case, one zone, is
one step. Sets that cannot be enough for a row are never tried on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import msgspec
import numpy as np

from scheduler.base.arrays import BoolColumn, IntColumn, IntMatrix, Rows
from scheduler.plugins.numa.demand import Demand, Needs
from scheduler.plugins.numa.sight import Sight
from scheduler.plugins.numa.zones import UNKNOWN_DISTANCE, UNLISTED, Layout, sets_of

HIGHEST = 100


class Served(msgspec.Struct, frozen=True):
    """Per row: how many zones serve a request (0 none, UNLISTED not asked for any), how near, and which.

    `sets` are the places of the zones' set in `tried`.
    """

    count: IntColumn
    is_nearest: BoolColumn
    sets: IntColumn
    tried: tuple[tuple[int, ...], ...]


def score_by_count(sight: Sight, demand: Demand, rows: BoolColumn) -> IntColumn:
    """Return the scores of `rows`, 0 elsewhere."""
    scores = np.zeros(sight.size, dtype=np.int64)
    ids = np.where(rows, sight.layout_ids, -1)
    numbers = np.unique(ids)
    for number in numbers[numbers >= 0].tolist():
        layout = sight.layout(number)
        alike = ids == number
        for by_pod in (True, False):
            some = np.flatnonzero(alike & (sight.pod_scope == by_pod))
            if len(some):
                requests = [demand.whole] if by_pod else [part.needs for part in demand.parts]
                scores[some] = _score(sight, layout, requests, some)
    return scores


def _score(sight: Sight, layout: Layout, requests: list[Needs], rows: Rows) -> IntColumn:
    """Return the scores of rows of one layout: the worst request decides."""
    count = np.zeros(len(rows), dtype=np.int64)
    is_nearest = np.ones(len(rows), dtype=np.bool_)
    fits = np.ones(len(rows), dtype=np.bool_)
    free: dict[str, IntMatrix] = {}
    zones = len(layout.ids)
    for place, needs in enumerate(requests):
        for name, _ in needs:
            if name not in free:
                free[name] = _part(sight.free(name), zones, rows)
        served = serve(layout, free, needs, len(rows))
        asked = served.count != UNLISTED
        fits &= served.count != 0
        count = np.maximum(count, served.count)
        is_nearest &= served.is_nearest | ~asked
        if place < len(requests) - 1:
            _take(free, needs, served)
    return np.where(fits, raw_score(count, is_nearest, sight.most_zones[rows]), 0)


def raw_score(count: IntColumn, is_nearest: BoolColumn, most: IntColumn) -> IntColumn:
    """Return 100 less a step for each zone, half a step back for the nearest; 0 zones make 100."""
    unit = HIGHEST // most
    scores = HIGHEST - count * unit + np.where(is_nearest, unit // 2, 0)
    return np.where(count == 0, HIGHEST, np.clip(scores, 0, HIGHEST))


def serve(layout: Layout, free: dict[str, IntMatrix], needs: Needs, size: int) -> Served:
    """Find the smallest, then nearest, then first set of zones for each row, all of one layout."""
    lists_some = np.zeros(size, dtype=np.bool_)
    usable = np.ones((len(layout.ids), size), dtype=np.bool_)
    alone = usable.copy()
    for name, amount in needs:
        listed = free[name] != UNLISTED
        lists_some |= np.logical_or.reduce(listed, axis=0)
        usable &= listed
        if amount > 0:
            alone &= free[name] >= amount
    alone &= usable & lists_some
    found = _Finding(layout, size)
    found.count[~lists_some] = UNLISTED
    found.one_zone(alone)
    left = np.flatnonzero(found.count == 0)
    if len(left):
        some = usable[:, left]
        wanted = [
            (np.where(some, free[name][:, left], 0), amount) for name, amount in needs if amount > 0
        ]
        found.more_zones(left, some, wanted)
    return Served(found.count, found.is_nearest, found.sets, tuple(found.tried))


class _Finding:
    """The search for sets: rows leave it as soon as a set serves them."""

    def __init__(self, layout: Layout, size: int) -> None:
        self.count = np.zeros(size, dtype=np.int64)
        self.is_nearest = np.zeros(size, dtype=np.bool_)
        self.sets = np.zeros(size, dtype=np.int64)
        self.tried: list[tuple[int, ...]] = []
        self._layout = layout

    def one_zone(self, alone: BoolColumn) -> None:
        """Serve the rows that have a zone which is enough, all at once; `alone` is [slot, row]."""
        if not len(alone):
            return
        nearest, ordered = _sets(self._layout, 1)
        in_order = alone[[slots[0] for slots, _ in ordered]]
        rows = np.flatnonzero(np.logical_or.reduce(in_order, axis=0))
        first = in_order.argmax(axis=0)[rows]
        self.count[rows] = 1
        self.sets[rows] = first
        self.is_nearest[rows] = np.array([d == nearest for _, d in ordered])[first]
        self.tried += [slots for slots, _ in ordered]

    def more_zones(
        self, rows: Rows, usable: BoolColumn, wanted: list[tuple[IntMatrix, int]]
    ) -> None:
        """Serve `rows`, whose zones are the columns of the matrices, from two zones or more."""
        zones = len(usable)
        fewest = np.maximum(_fewest(wanted, usable), 2)
        left = np.flatnonzero(fewest <= zones)
        for number in range(2, zones + 1):
            now = left[fewest[left] <= number]
            if not len(now):
                continue
            nearest, ordered = _sets(self._layout, number)
            for slots, distance in ordered:
                if not len(now):
                    break
                picked = np.array(slots)[:, None]
                good = usable[picked, now].all(axis=0)
                for amounts, amount in wanted:
                    good &= amounts[picked, now].sum(axis=0) >= amount
                done = rows[now[good]]
                if len(done):
                    self.count[done], self.sets[done] = number, len(self.tried)
                    self.is_nearest[done] = distance == nearest
                    self.tried.append(slots)
                    now = now[~good]
            left = left[self.count[rows[left]] == 0]
            if not len(left):
                return


def _fewest(wanted: list[tuple[IntMatrix, int]], usable: BoolColumn) -> IntColumn:
    """Return a number of zones below which no set can be enough; more than there are for never."""
    zones = len(usable)
    fewest = np.where(usable.any(axis=0), 1, zones + 1)
    for amounts, amount in wanted:
        short = amounts.max(axis=0, initial=0) < amount
        rows = np.flatnonzero(short)
        if len(rows):
            most = np.sort(amounts[:, rows], axis=0)[::-1].cumsum(axis=0)
            enough = (most < amount).sum(axis=0) + 1
            fewest[rows] = np.maximum(fewest[rows], enough)
    return fewest


@lru_cache(maxsize=512)
def _sets(
    layout: Layout, number: int
) -> tuple[float, tuple[tuple[tuple[int, ...], np.float32], ...]]:
    """Return the smallest average distance of any set, and the sets with theirs, nearest first."""
    found = [
        (slots, average_distance(layout.distances, slots))
        for slots in sets_of(layout.order, number)
    ]
    nearest = min(float(UNKNOWN_DISTANCE), *(float(distance) for _, distance in found))
    return nearest, tuple(sorted(found, key=lambda one: float(one[1])))


def average_distance(distances: tuple[tuple[int, ...], ...], slots: tuple[int, ...]) -> np.float32:
    """Return the mean distance between the zones of a set, each to itself included."""
    total = sum(distances[a][b] for a in slots for b in slots)
    return np.float32(np.float32(total) / np.float32(len(slots) ** 2))


def _take(free: dict[str, IntMatrix], needs: Needs, served: Served) -> None:
    """Deduct a request from the zones that serve it, the lowest ids first."""
    for place, slots in enumerate(served.tried):
        rows = np.flatnonzero((served.sets == place) & (served.count > 0))
        for name, amount in needs:
            rest = np.full(len(rows), amount, dtype=np.int64)
            for slot in sorted(slots):
                part = np.minimum(rest, np.maximum(free[name][slot, rows], 0))
                free[name][slot, rows] -= part
                rest -= part


def _part(matrix: IntMatrix | None, zones: int, rows: Rows) -> IntMatrix:
    if matrix is None:
        return np.full((zones, len(rows)), UNLISTED, dtype=np.int64)
    return matrix[:zones, rows]


def chosen(served: Served, row: int) -> Iterator[int]:
    """Yield the slots that serve a row."""
    if served.count[row] > 0:
        yield from served.tried[served.sets[row]]
