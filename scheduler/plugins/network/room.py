"""`LinkRoom`: which places a pod may not go to because a link there has no room for its bandwidth.

Asked is what the pod itself would add: its share to each pod it depends on, and the shares of those
that depend on it. Only links with a listed capacity can be full. Everything is a matrix over places
(for links between zones) or regions, from the candidate's end to the other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from scheduler.base.arrays import BoolColumn, FloatColumn
from scheduler.plugins.network.bookings import GRAIN, Amounts, Bookings
from scheduler.plugins.network.costs import CostTable
from scheduler.plugins.network.links import REGION, ZONE, FloatMatrix, Link
from scheduler.plugins.network.places import Places
from scheduler.plugins.network.ties import TiesState


class FullLink(NamedTuple):
    """A link without room, and the candidates' places that it keeps the pod from."""

    places: BoolColumn
    text: str


class _Listed(NamedTuple):
    """Links [from, to] between the domains of a level.

    `shared` are those listed one way only, `turned` those of them that are listed the other way round.
    """

    level: str
    names: tuple[str, ...]
    capacity: FloatMatrix
    shared: BoolColumn
    turned: BoolColumn
    least: float


class _Asked(NamedTuple):
    """Per domain: what a pod asks towards it, what is asked from it, own pods, and all own pods."""

    towards: FloatColumn
    back: FloatColumn
    own: FloatColumn
    own_total: float


class LinkRoom:
    """The links of one table between the places known so far."""

    def __init__(self, table: CostTable, places: Places, bookings: Bookings) -> None:
        self.table = table
        self.size = len(places)
        self._bookings = bookings
        self._region_of = places.region_numbers()
        zones = [zone for _, zone in places.names] if len(places) <= places.most else []
        regions = places.regions if len(places.regions) <= places.most else []
        self._zones, self._regions = self._listed(ZONE, zones), self._listed(REGION, regions)
        if zones:
            is_apart = self._region_of[:, None] != self._region_of[None, :]
            self._zones.capacity[is_apart] = np.inf
        self._least = min(self._zones.least, self._regions.least)

    def full(self, state: TiesState) -> Iterator[FullLink]:
        """Yield the links that have no room for the pod."""
        if not state.has_moved and self._bookings.most() + _wishes(state) <= self._least:
            return  # no link can be full
        asked = self._asked(state)
        if asked is None:
            return
        booked = self._booked_now(state)
        found: dict[str, BoolColumn] = {}
        for candidate, text in _over(self._zones, asked, booked.zones):
            self._places(found, text)[candidate] = True
        wide = self._by_region(asked)
        for candidate, text in _over(self._regions, wide, booked.regions):
            self._places(found, text)[self._region_of == candidate] = True
        for text, places in found.items():
            yield FullLink(places, text)

    def _asked(self, state: TiesState) -> _Asked | None:
        """Return what is asked at the level of places, None when the pod asks for nothing."""
        pods = state.pods
        weights = np.zeros((3, len(pods.numbers)))
        towards, back, own = weights
        is_any = False
        for need in state.ties.needs:
            total = pods.total(need.workload)
            if not need.bandwidth or not total:
                continue
            is_any = True
            number = pods.numbers[need.workload]
            if need.is_dependent:
                back[number] += need.bandwidth
            else:
                towards[number] += need.bandwidth / total
        if not is_any:
            return None
        own_total = pods.total(state.ties.workload)
        if own_total:
            own[pods.numbers[state.ties.workload]] = 1.0
        towards, back, own = weights @ pods.by_workload(state.cell_places(), self.size)
        return _Asked(towards, back, own, float(own_total))

    def _by_region(self, asked: _Asked) -> _Asked:
        size = int(self._region_of.max()) + 1
        towards, back, own = (
            np.bincount(self._region_of, weights=column, minlength=size).astype(np.float64)
            for column in (asked.towards, asked.back, asked.own)
        )
        return _Asked(towards, back, own, asked.own_total)

    def _booked_now(self, state: TiesState) -> Amounts:
        """Return what is booked, with hypothetical changes."""
        zones, regions = self._bookings.amounts()
        for more in state.booked_more():
            zones, regions = zones + more.zones, regions + more.regions
        return Amounts(zones, regions)

    def _places(self, found: dict[str, BoolColumn], text: str) -> BoolColumn:
        places = found.get(text)
        if places is None:
            places = found[text] = np.zeros(self.size, dtype=np.bool_)
        return places

    def _listed(self, level: str, names: list[str]) -> _Listed:
        at: dict[str, list[int]] = defaultdict(list)
        for number, name in enumerate(names):
            at[name].append(number)
        capacity = np.full((len(names), len(names)), np.inf)
        shared, turned = (np.zeros(capacity.shape, dtype=np.bool_) for _ in range(2))
        for link, bits in self.table.capacities.items():
            if link.level != level or link.origin == link.destination:
                continue
            is_shared = link.back not in self.table.capacities
            for one in at[link.origin]:
                for other in at[link.destination]:
                    capacity[one, other] = bits
                    if is_shared:
                        capacity[other, one] = bits
                        shared[one, other] = shared[other, one] = turned[other, one] = True
        least = float(capacity.min(initial=np.inf))
        return _Listed(level, tuple(names), capacity, shared, turned, least)


def _wishes(state: TiesState) -> float:
    """Return what the pod, and those that depend on it, could ask of one link at most."""
    pods = state.pods
    wishes = 0
    for need in state.ties.needs:
        times = pods.total(need.workload) if need.is_dependent else 1
        wishes += (need.bandwidth + 1) * times
    return float(wishes)


def _over(listed: _Listed, asked: _Asked, booked: FloatMatrix) -> Iterator[tuple[int, str]]:
    """Yield (candidate's domain, what to say) where what is asked does not fit."""
    if not listed.names:
        return  # so many that nothing is booked between them
    most = asked.towards.max(initial=0.0) + asked.back.max(initial=0.0)
    if 2 * booked.max(initial=0.0) + most <= listed.least:
        return  # no link can be full
    others = np.flatnonzero(asked.towards + asked.back)
    # Of a split share, one more pod here takes what is taken from the others.
    before = asked.own / asked.own_total if asked.own_total else 0.0
    share = (asked.own + 1.0) / (asked.own_total + 1.0) - before
    shared = listed.shared[:, others]
    away = np.where(shared, 0.0, asked.towards[others])
    back = share[:, None] * asked.back[others]
    both = np.where(shared, asked.towards[others] + back, 0.0)
    back = np.where(shared, 0.0, back)
    out, home = booked[:, others], booked[others, :].T
    room_out, room_home = listed.capacity[:, others], listed.capacity[others, :].T
    for wanted, held, room, is_home in (
        (away, out, room_out, False),
        (back, home, room_home, True),
        (both, out + home, room_out, False),
    ):
        whole = np.ceil(wanted - GRAIN)
        for candidate, place in np.argwhere((whole > 0) & (held + whole > room)).tolist():
            ends = (candidate, int(others[place]))
            is_turned = is_home or listed.turned[ends]
            names = [listed.names[end] for end in (ends[::-1] if is_turned else ends)]
            figures = (room[candidate, place], held[candidate, place], whole[candidate, place])
            yield candidate, _text(Link(listed.level, *names), *map(int, figures))


def _text(link: Link, capacity: int, booked: int, asked: int) -> str:
    return (
        f'link between {link.level}s "{link.origin}" and "{link.destination}" has no room: '
        f"capacity {capacity} bit/s, booked {booked}, asked {asked}"
    )
