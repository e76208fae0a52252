"""LeastNUMANodes: prefer nodes that serve a pod from few zones, near to one another.

For each request the smallest sets of zones with enough free together are searched, for nodes of one
layout at once. One zone is enough on most nodes, and one step finds these. For the others all sets
of two, three, … zones are tried on many rows in one product of matrices; sizes that cannot suffice
for a row are skipped.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.framework import BoolColumn, IntColumn, IntMatrix, Rows, is_any
from scheduler.plugins.numa.amounts import Pair, ZoneFlags, no_zone
from scheduler.plugins.numa.demand import Needs, ZoneDemand
from scheduler.plugins.numa.zones import UNKNOWN_DISTANCE, UNLISTED, Layout, sets_of
from scheduler.plugins.numa.zoneview import ZoneView

ScalarT = TypeVar("ScalarT", bound=np.generic)

HIGHEST = 100

# Amounts by [resource, slot, row] with exact sums.
Amounts = NDArray[np.int64 | np.float64]

# Products up to this size stay in the cache, and are not worth a second thread of the linear
# algebra.
_MOST_STEPS = 2**18
# Up to here a float64 represents every integer.
_LARGEST = 2**53
_JUST_BELOW_1 = 1 - 2**-40


class ServedZones(msgspec.Struct, frozen=True):
    """Per row: the number of zones for a request (0 none, UNLISTED none requested), distance, and
    set.

    `sets` are the positions of the zones' set in `tried`.
    """

    count: IntColumn
    is_nearest: BoolColumn
    sets: IntColumn
    tried: tuple[tuple[int, ...], ...]


class Sets(msgspec.Struct, frozen=True):
    """All sets of a number of zones, by the distance between their zones, the smallest first.

    `members` [set, slot] is 1 where the set has the zone. The first `nearest` sets have the
    smallest distance; it is 0 if that distance exceeds the one of unknown zones.
    """

    slots: tuple[tuple[int, ...], ...]
    nearest: int
    members: NDArray[np.float64]


def score_by_count(view: ZoneView, demand: ZoneDemand, rows: BoolColumn) -> IntColumn:
    """Return the scores of `rows`, 0 elsewhere."""
    scores = np.zeros(view.size, dtype=np.int64)
    by_pod = rows & view.pod_scope
    for here, is_whole in ((by_pod, True), (rows ^ by_pod, False)):
        if not is_any(here):
            continue
        requests = [demand.whole] if is_whole else [part.needs for part in demand.parts] or [()]
        for number, same_layout in _by_layout(view, np.flatnonzero(here)):
            inventory = ZoneInventory(view, view.layout(number), same_layout)
            scores[same_layout] = _score(inventory, requests, inventory.of_rows(view.most_zones))
    return scores


def _by_layout(view: ZoneView, rows: Rows) -> Iterator[tuple[int, Rows]]:
    """Yield each layout with its rows of `rows`; usually all have the same."""
    ids = view.layout_ids if len(rows) == view.size else view.layout_ids[rows]
    first = int(ids[0])
    others = ids != first
    if not is_any(others):
        yield first, rows
        return
    for number in np.unique(ids).tolist():
        yield number, rows[ids == number]


class ZoneInventory:
    """The free amounts in the zones of some rows of one layout; requests can be deducted."""

    def __init__(self, view: ZoneView, layout: Layout, rows: Rows) -> None:
        self.layout = layout
        self.size = len(rows)
        self._view = view
        self._rows = rows
        self._is_whole = len(rows) == view.size
        self._left: dict[str, IntMatrix] = {}

    @property
    def scratch(self) -> Pair:
        """Return two scratch matrices for use until the next call."""
        return self._view.scratch if self._is_whole else (None, None)

    def of_rows(self, column: NDArray[ScalarT]) -> NDArray[ScalarT]:
        """Return the rows' entries of a column or matrix of the view."""
        return column if self._is_whole else column[self._rows]

    def free(self, resources: Sequence[str], some: Rows, *, as_floats: bool) -> Amounts:
        """Return the free amounts of some of the rows, [resource, slot, row]."""
        cells = np.empty((len(resources), len(some), self._view.slots), dtype=np.int64)
        rows = some if self._is_whole else self._rows[some]
        for place, resource in enumerate(resources):
            left = self._left.get(resource)
            matrix = self._view.free(resource) if left is None else left
            if matrix is None:
                cells[place] = UNLISTED
            else:
                # All rows are in range; with "clip" the result is not copied a second time.
                np.take(matrix, rows if left is None else some, 0, cells[place], mode="clip")
        by_slot = cells[:, :, : len(self.layout.ids)].transpose(0, 2, 1)
        free: Amounts = np.ascontiguousarray(by_slot, np.float64 if as_floats else np.int64)
        return free

    def at_least(self, resource: str, amount: int, out: ZoneFlags | None = None) -> ZoneFlags:
        """Return the zones with at least this amount free, [row, slot], in `out` if given."""
        if resource in self._left:
            return np.greater_equal(self._left[resource], amount, out)
        found = self._view.at_least(resource, amount, out)
        return self._nothing() >= amount if found is None else self.of_rows(found)

    def take(self, needs: Needs, served: ServedZones) -> None:
        """Deduct a request from the zones that serve it, the lowest ids first."""
        for name, _ in needs:
            if name not in self._left:
                matrix = self._view.free(name)
                self._left[name] = self._nothing() if matrix is None else matrix[self._rows]
        for place in np.unique(served.sets[served.count > 0]).tolist():
            rows = np.flatnonzero((served.sets == place) & (served.count > 0))
            for name, amount in needs:
                left = self._left[name]
                rest = np.full(len(rows), amount, dtype=np.int64)
                for slot in sorted(served.tried[place]):
                    part = np.minimum(rest, np.maximum(left[rows, slot], 0))
                    left[rows, slot] -= part
                    rest -= part

    def _nothing(self) -> IntMatrix:
        return np.full((self.size, self._view.slots), UNLISTED, dtype=np.int64)


def _score(inventory: ZoneInventory, requests: Sequence[Needs], most: IntColumn) -> IntColumn:
    """Return the scores of rows of one layout: the worst request decides."""
    needs, *others = requests
    served = serve(inventory, needs, names_sets=bool(others))
    count, is_nearest = served.count, served.is_nearest
    for place, further in enumerate(others, start=1):
        inventory.take(needs, served)
        needs = further
        served = serve(inventory, needs, names_sets=place < len(others))
        fits = (count != 0) & (served.count != 0)
        is_nearest = (is_nearest | (count < 0)) & (served.is_nearest | (served.count < 0))
        count = np.where(fits, np.maximum(count, served.count), 0)
    scores = np.empty(inventory.size, dtype=np.int64)
    # Almost always all kubelets have the same limit.
    first = int(most[0])
    numbers = np.unique(most).tolist() if is_any(most != first) else [first]
    places = 2 * count + is_nearest
    for number in numbers:
        some = most == number if len(numbers) > 1 else slice(None)
        scores[some] = _scores_of(len(inventory.layout.ids), number)[places[some]]
    return scores


@lru_cache(maxsize=512)
def _scores_of(zones: int, most: int) -> IntColumn:
    """Return the scores of 0, 1, … zones, two for each: of any set, and of a nearest one.

    0 zones means that none fits; the last two, of -1 zones, are of empty requests.
    """
    count = np.repeat(np.arange(zones + 2), 2)
    count[-2:] = 0
    is_nearest = np.tile([False, True], zones + 2)
    scores = raw_score(count, is_nearest, np.full(len(count), most))
    scores[:2] = 0
    return scores


def raw_score(count: IntColumn, is_nearest: BoolColumn, most: IntColumn) -> IntColumn:
    """Return 100 less a step for each zone, half a step back for the nearest; 0 zones make 100."""
    unit = HIGHEST // most
    scores = HIGHEST - count * unit + np.where(is_nearest, unit // 2, 0)
    return np.where(count == 0, HIGHEST, np.clip(scores, 0, HIGHEST))


def serve(inventory: ZoneInventory, needs: Needs, *, names_sets: bool = True) -> ServedZones:
    """Return the smallest, then nearest, then first set of zones for each row.

    Without `names_sets` the set of a row may be left open.
    """
    found = _Finding(inventory, names_sets=names_sets)
    if not needs or not inventory.layout.ids:
        found.count[:] = UNLISTED
    else:
        left = found.one_zone(needs)
        if len(left):
            found.more_zones(needs, left)
    return ServedZones(found.count, found.is_nearest, found.sets, tuple(found.tried))


class _Finding:
    """The search for sets: rows leave it as soon as a set fits them."""

    def __init__(self, inventory: ZoneInventory, *, names_sets: bool) -> None:
        self.count = np.zeros(inventory.size, dtype=np.int64)
        self.is_nearest = np.zeros(inventory.size, dtype=np.bool_)
        self.sets = self.count.copy() if names_sets else self.count[:0]
        self.tried: list[tuple[int, ...]] = []
        self._inventory = inventory
        self._names_sets = names_sets

    def one_zone(self, needs: Needs) -> Rows:
        """Serve the rows with one sufficient zone, all at once; return the others."""
        (name, amount), *others = needs
        first, other = self._inventory.scratch
        alone = self._inventory.at_least(name, amount, first)
        for name, amount in others:
            np.logical_and(alone, self._inventory.at_least(name, amount, other), alone)
        none = no_zone(alone)
        single = sets_by_distance(self._inventory.layout, 1)
        if not self._names_sets and single.nearest == len(single.slots):
            np.logical_not(none, out=self.is_nearest)
            self.count[:] = self.is_nearest
        else:
            rows = np.flatnonzero(~none)
            in_order = [slots[0] for slots in single.slots]
            self._serve(rows, alone[rows][:, in_order].T, single)
        self.tried += single.slots
        return np.flatnonzero(none)

    def more_zones(self, needs: Needs, rows: Rows) -> None:
        """Serve `rows` from two zones or more; rows without the requested resources are skipped."""
        zones = len(self._inventory.layout.ids)
        is_small = zones * max(amount for _, amount in needs) <= _LARGEST
        free = self._inventory.free([name for name, _ in needs], rows, as_floats=is_small)
        usable = np.logical_and.reduce(free >= 0)
        requested = [place for place, (_, amount) in enumerate(needs) if amount > 0]
        limits = [needs[place][1] for place in requested]
        # An amount above the request has no additional value, and sums clipped to it are exact.
        most = np.array(limits, dtype=free.dtype).reshape(-1, 1, 1)
        amounts: Amounts = np.minimum(
            free if len(requested) == len(needs) else free[requested], most
        )
        if usable.all():
            fewest = _fewest(amounts, limits)
        else:
            self.count[rows[(free < 0).all(axis=(0, 1))]] = UNLISTED
            amounts *= usable
            fewest = np.where(usable.any(axis=0), _fewest(amounts, limits), zones + 1)
            # A set with a zone that does not list all requested resources is excluded.
            amounts = np.concatenate((amounts, np.where(usable, 0, -1)[None]), dtype=free.dtype)
            limits.append(0)
        left = np.flatnonzero(fewest <= zones)
        for number in range(2, zones + 1):
            if not len(left):
                return
            now = left[fewest[left] <= number]
            if len(now):
                sets = sets_by_distance(self._inventory.layout, number)
                some = amounts if len(now) == len(rows) else amounts[:, :, now]
                self._try(sets, some, limits, rows[now])
                left = left[self.count[rows[left]] == 0]

    def _try(self, sets: Sets, amounts: Amounts, limits: Sequence[int], rows: Rows) -> None:
        """Decide the rows on which one of the zone sets has enough for the request."""
        at_once = min(len(rows), max(1, _MOST_STEPS // sets.members.size))
        members = sets.members.astype(amounts.dtype, copy=False)
        sums = np.empty((len(sets.slots), at_once), dtype=amounts.dtype)
        enough = np.empty((2, len(sets.slots), at_once), dtype=np.bool_)
        for start in range(0, len(rows), at_once):
            part = slice(start, min(start + at_once, len(rows)))
            good, more = enough[:, :, : part.stop - start]
            good[:] = True
            for free, limit in zip(amounts, limits, strict=True):
                total = np.matmul(members, free[:, part], out=sums[:, : part.stop - start])
                np.logical_and(good, np.greater_equal(total, limit, out=more), out=good)
            served = np.logical_or.reduce(good)
            if is_any(served):
                places = np.flatnonzero(served)
                if len(places) < len(served):
                    good = good[:, places]
                self._serve(rows[part][places], good, sets)
        self.tried += sets.slots

    def _serve(self, rows: Rows, good: ZoneFlags, sets: Sets) -> None:
        """Serve the rows, each from the first set that is `good` for it, [set, row]."""
        self.count[rows] = len(sets.slots[0])
        if self._names_sets:
            places = good.argmax(axis=0)
            self.sets[rows] = len(self.tried) + places
            self.is_nearest[rows] = places < sets.nearest
        elif sets.nearest:
            self.is_nearest[rows] = np.logical_or.reduce(good[: sets.nearest])


def _fewest(amounts: Amounts, limits: Sequence[int]) -> IntColumn:
    """Return by row a lower bound, at least two, on the number of zones.

    More than there are zones means never. A quotient may be rounded: reduced by slightly more than
    the error, it is never too large.
    """
    limit = np.array(limits, dtype=amounts.dtype).reshape(-1, 1)
    bounds = np.ceil(limit * _JUST_BELOW_1 / np.maximum(amounts.max(axis=1), 1))
    bounds[amounts.sum(axis=1) < limit] = amounts.shape[1] + 1
    fewest: IntColumn = np.maximum.reduce(bounds, initial=2).astype(np.int64)
    return fewest


@lru_cache(maxsize=512)
def sets_by_distance(layout: Layout, number: int) -> Sets:
    """Return the sets of this many zones, the nearest first and otherwise in the object's order."""
    found = [
        (average_distance(layout.distances, slots), slots)
        for slots in sets_of(layout.order, number)
    ]
    nearest = min(float(UNKNOWN_DISTANCE), *(float(distance) for distance, _ in found))
    found.sort(key=lambda one: float(one[0]))
    members = np.zeros((len(found), len(layout.ids)))
    for place, (_, slots) in enumerate(found):
        members[place, slots] = 1
    number_nearest = sum(distance == nearest for distance, _ in found)
    return Sets(tuple(slots for _, slots in found), int(number_nearest), members)


def average_distance(distances: tuple[tuple[int, ...], ...], slots: tuple[int, ...]) -> np.float32:
    """Return the mean distance between the zones of a set, each to itself included."""
    total = sum(distances[a][b] for a in slots for b in slots)
    return np.float32(np.float32(total) / np.float32(len(slots) ** 2))


def chosen(served: ServedZones, row: int) -> Iterator[int]:
    """Yield the slots that serve a row."""
    if served.count[row] > 0:
        yield from served.tried[served.sets[row]]
