"""`Bookings`: what the pods of all AppGroups book on the links between zones and regions.

Each placed pod of a workload books its `minBandwidth` once per dependency workload, split evenly over
that workload's placed pods. Two pods of one zone book nothing, two of one region the link between
their zones, others the link between their regions; places without names are left out. Amounts are
whole bit/s, rounded up per dependency and link, worked out from counts: the same pods always book the
same, whatever happened before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from scheduler.plugins.network.dependencies import BandwidthEdge
from scheduler.plugins.network.places import Places

REGION, ZONE = "region", "zone"
_NOBODY: Mapping[int, int] = {}


class Link(NamedTuple):
    """The way from one zone (region) to another; the first end is the dependent's."""

    level: str
    origin: str
    destination: str

    @property
    def back(self) -> Link:
        """Return the way back."""
        return Link(self.level, self.destination, self.origin)


class Placed(Protocol):
    """The pods of a workload by place."""

    @property
    def by_place(self) -> Mapping[int, int]: ...


PodsOf = Callable[[str], Mapping[str, Placed]]
EdgesOf = Callable[[str], Sequence[BandwidthEdge]]
# workload → place → pods more (or fewer) than there are.
Moved = Mapping[str, Mapping[int, int]]


class Bookings:
    """The bookings of all groups, redone for a group when its pods have moved."""

    def __init__(self, pods: PodsOf, edges: EdgesOf, places: Places) -> None:
        self._pods = pods
        self._edges = edges
        self._places = places
        self._by_group: dict[str, dict[BandwidthEdge, dict[Link, int]]] = {}
        self._totals: dict[Link, int] = {}
        # Group → the workloads that changed; None for all of it.
        self._touched: dict[str, set[str] | None] = {}

    def touch(self, group: str, workload: str | None = None) -> None:
        """Note that pods of a workload moved, or that a group's dependencies changed."""
        if workload is None:
            self._touched[group] = None
            return
        held = self._touched.setdefault(group, set())
        if held is not None:
            held.add(workload)

    def totals(self) -> Mapping[Link, int]:
        """Return what is booked per link in bit/s; links without bookings are left out."""
        touched, self._touched = self._touched, {}
        for group, workloads in touched.items():
            self._redo(group, workloads)
        return self._totals

    def changed_by(self, group: str, moved: Moved) -> dict[Link, int]:
        """Return how much more (or less) would be booked if pods of a group had moved."""
        self.totals()
        held = self._by_group.get(group, {})
        change: dict[Link, int] = defaultdict(int)
        for edge in self._edges(group):
            if edge.origin in moved or edge.destination in moved:
                for link, amount in self._booked(group, edge, moved).items():
                    change[link] += amount
                for link, amount in held.get(edge, {}).items():
                    change[link] -= amount
        return dict(change)

    def _redo(self, group: str, workloads: set[str] | None) -> None:
        edges = dict.fromkeys(self._edges(group))
        held = self._by_group.setdefault(group, {})
        for edge in [*held]:
            if workloads is None or edge not in edges:
                self._add(held.pop(edge), -1)
        for edge in edges:
            if workloads is None or edge.origin in workloads or edge.destination in workloads:
                self._add(held.pop(edge, {}), -1)
                booked = self._booked(group, edge, {})
                if booked:
                    held[edge] = booked
                    self._add(booked, 1)
        if not held:
            del self._by_group[group]

    def _add(self, booked: Mapping[Link, int], sign: int) -> None:
        for link, amount in booked.items():
            total = self._totals.get(link, 0) + sign * amount
            if total:
                self._totals[link] = total
            else:
                del self._totals[link]

    def _booked(self, group: str, edge: BandwidthEdge, moved: Moved) -> dict[Link, int]:
        pods = self._pods(group)
        origin = _counts(pods.get(edge.origin), moved.get(edge.origin))
        destination = _counts(pods.get(edge.destination), moved.get(edge.destination))
        total = sum(destination.values())
        if not total or not origin:
            return {}
        pairs = self._pairs(origin, destination)
        return {link: -(-edge.bandwidth * count // total) for link, count in pairs.items()}

    def _pairs(self, origin: Mapping[int, int], destination: Mapping[int, int]) -> dict[Link, int]:
        """Return the number of pairs of pods per link that they need."""
        names = self._places.names
        here = _by_region(origin, names)
        there = _by_region(destination, names)
        pairs: dict[Link, int] = defaultdict(int)
        for region, zones in here.items():
            for other, other_zones in there.items():
                if region != other:
                    if region and other:
                        product = sum(zones.values()) * sum(other_zones.values())
                        pairs[Link(REGION, region, other)] += product
                    continue
                for zone, count in zones.items():
                    for beyond, number in other_zones.items():
                        if zone != beyond and zone and beyond:
                            pairs[Link(ZONE, zone, beyond)] += count * number
        return pairs


def _counts(pods: Placed | None, moved: Mapping[int, int] | None) -> Mapping[int, int]:
    held = pods.by_place if pods is not None else _NOBODY
    if not moved:
        return held
    counts = {place: held.get(place, 0) + moved.get(place, 0) for place in {*held, *moved}}
    return {place: count for place, count in counts.items() if count > 0}


def _by_region(
    counts: Mapping[int, int], names: Sequence[tuple[str, str]]
) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for place, count in counts.items():
        region, zone = names[place]
        zones = found.setdefault(region, {})
        zones[zone] = zones.get(zone, 0) + count
    return found


def summed(parts: Iterable[Mapping[Link, int]]) -> dict[Link, int]:
    """Add changes up per link."""
    found: dict[Link, int] = defaultdict(int)
    for part in parts:
        for link, amount in part.items():
            found[link] += amount
    return dict(found)
