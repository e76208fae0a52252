"""Which places a pod may not go to because a link there has no room for its bandwidth.

Asked is what the pod itself would add: its share to each pod it depends on, and the shares of those
that depend on it. Only links with a listed capacity can be full, and only the candidate's end is open:
so links are looked at, not pairs of places.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from math import ceil
from typing import NamedTuple

from scheduler.plugins.network.bookings import REGION, ZONE, Link
from scheduler.plugins.network.dependencies import Need
from scheduler.plugins.network.places import Place
from scheduler.plugins.network.ties import TiesState

# Candidate's region and zone ("" for all of the region's) → listed link → what is asked of it.
Asked = dict[Place, dict[Link, Fraction]]


class FullLink(NamedTuple):
    """A link without room, and the candidates' places that it keeps the pod from."""

    places: tuple[int, ...]
    text: str


def full_links(state: TiesState) -> Iterator[FullLink]:
    """Yield the links that have no room for the pod, by what stands in its way."""
    if not state.ties.table.has_capacities:
        return
    asked = _asked(state)
    if not asked:
        return
    table = state.ties.table
    totals, more = state.tracker.bookings.totals(), state.booked_more()
    if more:
        totals = {link: totals.get(link, 0) + more.get(link, 0) for link in {*totals, *more}}
    kept: dict[str, list[int]] = defaultdict(list)
    for number, (region, zone) in enumerate(state.places.names):
        for link, amount in _of_place(asked, region, zone).items():
            booked, wanted = table.booked(link, totals), ceil(amount)
            capacity = table.capacities[link]
            if wanted and booked + wanted > capacity:
                kept[_text(link, capacity, booked, wanted)].append(number)
    for text, places in kept.items():
        yield FullLink(tuple(places), text)


def _text(link: Link, capacity: int, booked: int, asked: int) -> str:
    return (
        f'link between {link.level}s "{link.origin}" and "{link.destination}" has no room: '
        f"capacity {capacity} bit/s, booked {booked}, asked {asked}"
    )


def _of_place(asked: Asked, region: str, zone: str) -> dict[Link, Fraction]:
    wide, near = asked.get((region, ""), {}), asked.get((region, zone), {}) if zone else {}
    if not near:
        return wide
    return {
        link: wide.get(link, Fraction(0)) + near.get(link, Fraction(0)) for link in {*wide, *near}
    }


def _asked(state: TiesState) -> Asked:
    asked: Asked = defaultdict(lambda: defaultdict(Fraction))
    own = state.counts(state.ties.workload)
    for need in state.ties.needs:
        if need.bandwidth:
            share = _share(state, need, own)
            _ask(state, need, share, asked)
    return asked


def _share(state: TiesState, need: Need, own: Mapping[int, int]) -> Callable[[int, int], Fraction]:
    """Return what is asked by (number of tied pods at one end, number of own pods at the other).

    A dependent splits what it needs over the pods it depends on: one more of them takes a share away
    from the others.
    """
    other_total = sum(state.counts(need.workload).values())
    own_total = sum(own.values())
    if not need.is_dependent:
        return lambda count, _own: Fraction(need.bandwidth * count, other_total)

    def by_dependents(count: int, here: int) -> Fraction:
        after = Fraction(here + 1, own_total + 1)
        before = Fraction(here, own_total) if own_total else Fraction(0)
        return need.bandwidth * count * (after - before)

    return by_dependents


def _ask(state: TiesState, need: Need, share: Callable[[int, int], Fraction], asked: Asked) -> None:
    """Add what one tie asks of every listed link that leads to its pods."""
    table = state.ties.table
    listed = table.listed_from if need.is_dependent else table.listed_to
    others = _domains(state, state.counts(need.workload))
    own = _domains(state, state.counts(state.ties.workload))
    for (level, region, name), count in others.items():
        for candidate, link in listed.get((level, name), ()):
            if candidate == name:
                continue
            place = (candidate, "") if level == REGION else (region, candidate)
            here = own.get((level, place[0], candidate), 0)
            asked[place][link] += share(count, here)


def _domains(state: TiesState, counts: Mapping[int, int]) -> dict[tuple[str, str, str], int]:
    """Return the number of pods by (level, region, name of region or zone)."""
    found: dict[tuple[str, str, str], int] = defaultdict(int)
    for place, count in counts.items():
        region, zone = state.places.names[place]
        if region:
            found[REGION, region, region] += count
        if zone:
            found[ZONE, region, zone] += count
    return found
