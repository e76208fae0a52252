"""`LinkHeadroom`: the places excluded for a pod because a link lacks free bandwidth.

Computes the growth of a link's allocated bandwidth in bit/s: the pod's share to each pod it depends
on, plus the shares of its dependents, which its siblings lose. The growth is the difference of its
group's allocation, rounded as in `Bookings`, so that a pod is rejected exactly where the allocation
would exceed the capacity. Everything is a matrix over places (for links between zones) or regions,
from the candidate's end to the other.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from scheduler.framework import BoolColumn, FloatColumn, Rows
from scheduler.plugins.network.bandwidth.bookings import GRAIN, BookedAmounts
from scheduler.plugins.network.costs import CostTable
from scheduler.plugins.network.dependencies import BandwidthEdge
from scheduler.plugins.network.links import REGION, ZONE, FloatMatrix, Link
from scheduler.plugins.network.places import RowPlaces
from scheduler.plugins.network.ties import TiesState


class FullLink(NamedTuple):
    """A full link, and the candidates' places from which the pod would use it."""

    places: BoolColumn
    text: str


class _Listed(NamedTuple):
    """Links [from, to] between the domains of a level.

    `shared`: links listed in one direction only, in both entries; `turned`: the entries [to, from]
    of those.
    """

    level: str
    names: tuple[str, ...]
    capacity: FloatMatrix
    shared: BoolColumn
    turned: BoolColumn
    least: float


class _BandwidthChange(NamedTuple):
    """A pod's change of its group's allocations, per region or place, in bit/s.

    `towards` is the bandwidth from the pod to the bin, `back` from the bin to the pod's workload,
    `among` between pods of its own workload. `own` counts these pods, `total` all pods. `sent`
    times `received` is the group's present allocation between two places.
    """

    towards: FloatColumn
    back: FloatColumn
    among: FloatColumn
    own: FloatColumn
    total: int
    sent: FloatMatrix
    received: FloatMatrix
    counts_home: bool


class LinkHeadroom:
    """The links of one table between the places known so far."""

    def __init__(self, table: CostTable, places: RowPlaces) -> None:
        self.table = table
        self.size = len(places)
        self._region_of = places.region_numbers()
        zones = [zone for _, zone in places.names] if len(places) <= places.most else []
        regions = places.regions if len(places.regions) <= places.most else []
        self._zones, self._regions = self._listed(ZONE, zones), self._listed(REGION, regions)
        if zones:
            is_apart = self._region_of[:, None] != self._region_of[None, :]
            self._zones.capacity[is_apart] = np.inf
        self._least = min(self._zones.least, self._regions.least)

    def full(self, state: TiesState) -> Iterator[FullLink]:
        """Yield the links without enough free bandwidth for the pod."""
        if not state.has_moved and state.membership.bookings.most() + _wishes(state) <= self._least:
            return  # no link can be full
        edges = self._edges(state)
        if not edges:
            return
        booked = self._booked_now(state)
        found: dict[str, BoolColumn] = {}
        places = state.cell_places()
        change = _change_of(state, edges, places, self.size)
        for candidate, text in _over(self._zones, change, booked.zones):
            self._places(found, text)[candidate] = True
        regions = int(self._region_of.max()) + 1
        change = _change_of(state, edges, self._region_of[places], regions)
        for candidate, text in _over(self._regions, change, booked.regions):
            self._places(found, text)[self._region_of == candidate] = True
        for text, candidates in found.items():
            yield FullLink(candidates, text)

    def _edges(self, state: TiesState) -> tuple[BandwidthEdge, ...]:
        """Return the dependencies of the pod's group; () if none of the pod's has a placed pod."""
        pods, needs = state.pods, state.membership.needs_of(state.ties.group)
        has_traffic = any(need.bandwidth and pods.total(need.workload) for need in state.ties.needs)
        return needs.edges if needs is not None and has_traffic else ()

    def _booked_now(self, state: TiesState) -> BookedAmounts:
        """Return the allocated bandwidth, with hypothetical changes."""
        zones, regions = state.membership.bookings.amounts()
        for more in state.booked_more():
            zones, regions = zones + more.zones, regions + more.regions
        return BookedAmounts(zones, regions)

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
            if not link.origin or not link.destination:
                continue  # a booking needs names of both ends
            is_shared = self.table.is_shared(link)
            for one in at[link.origin]:
                for other in at[link.destination]:
                    capacity[one, other] = bits
                    if is_shared:
                        capacity[other, one] = bits
                        shared[one, other] = shared[other, one] = turned[other, one] = True
        least = float(capacity.min(initial=np.inf))
        return _Listed(level, tuple(names), capacity, shared, turned, least)


def _wishes(state: TiesState) -> float:
    """Return the largest bandwidth on one link that the pod and its dependents could request."""
    pods = state.pods
    wishes = 0
    for need in state.ties.needs:
        times = pods.total(need.workload) if need.is_dependent else 1
        wishes += (need.bandwidth + 1) * times
    return float(wishes)


def _change_of(
    state: TiesState, edges: Sequence[BandwidthEdge], bins: Rows, size: int
) -> _BandwidthChange:
    """Count the group's allocations and the pod's change of them; `bins` has one entry per cell."""
    pods, workload = state.pods, state.ties.workload
    cells = pods.by_workload(bins, size)
    nothing = np.zeros(size)
    number, total = pods.numbers.get(workload), pods.total(workload)
    own = cells[number] if number is not None else nothing
    towards, back, among = nothing.copy(), nothing.copy(), 0
    origins, destinations, shares = [], [], []
    for edge in edges:
        there, here = pods.total(edge.destination), pods.total(edge.origin)
        if edge.origin == edge.destination == workload:
            among += edge.bandwidth
        elif edge.origin == workload and there:
            towards += cells[pods.numbers[edge.destination]] * (edge.bandwidth / there)
        elif edge.destination == workload and here:
            back += cells[pods.numbers[edge.origin]] * edge.bandwidth
        if here and there:
            origins.append(pods.numbers[edge.origin])
            destinations.append(pods.numbers[edge.destination])
            shares.append(edge.bandwidth / there)
    sent = cells[origins] * np.array(shares)[:, None]
    is_both = state.ties.kind == "both"
    return _BandwidthChange(
        towards, back, among * own, own, total, sent, cells[destinations], is_both
    )


def _over(
    listed: _Listed, change: _BandwidthChange, booked: FloatMatrix
) -> Iterator[tuple[int, str]]:
    """Yield (candidate's domain, message) where the request does not fit."""
    if not listed.names:
        return  # too many: no bookings between them
    columns = (change.towards, change.back, change.among)
    most = sum(column.max(initial=0.0) for column in columns)
    if 2 * (booked.max(initial=0.0) + most + 1) <= listed.least:
        return  # no link can be full
    others = np.flatnonzero(sum(columns) if change.counts_home else change.towards + change.among)
    grows_out, grows_home = _growth(change, others)
    shared = listed.shared[:, others]
    out, home = booked[:, others], booked[others, :].T
    headroom_out, headroom_home = listed.capacity[:, others], listed.capacity[others, :].T
    for grows, current, headroom, is_concerned, is_home in (
        (grows_out, out, headroom_out, ~shared, False),
        (grows_home, home, headroom_home, ~shared, True),
        (grows_out + grows_home, out + home, headroom_out, shared, False),
    ):
        is_full = is_concerned & (grows > 0) & (current + grows > headroom)
        for candidate, place in np.argwhere(is_full).tolist():
            ends = (candidate, int(others[place]))
            is_turned = is_home or listed.turned[ends]
            names = [listed.names[end] for end in (ends[::-1] if is_turned else ends)]
            figures = (
                headroom[candidate, place],
                current[candidate, place],
                grows[candidate, place],
            )
            yield candidate, _text(Link(listed.level, *names), *map(int, figures))


def _growth(change: _BandwidthChange, others: Rows) -> tuple[FloatMatrix, FloatMatrix]:
    """Return by how many whole bits the links from each candidate to `others`, and those back, grow
    when the pod is placed on the candidate.

    The traffic to the pod's workload is shared equally by its pods. With the new pod there is one
    more share, so each other share is smaller.
    """
    before = change.own / change.total if change.total else 0.0
    gained = ((change.own + 1.0) / (change.total + 1.0) - before)[:, None]
    lost = change.own[others] / (change.total * (change.total + 1.0)) if change.total else 0.0
    among = gained * change.among[others]
    out = change.sent.T @ change.received[:, others]
    more_out = change.towards[others] + among - change.back[:, None] * lost
    grows_out = _whole(out + more_out) - _whole(out)
    if not change.counts_home:
        return grows_out, np.zeros_like(grows_out)
    home = change.received.T @ change.sent[:, others]
    return grows_out, _whole(home + gained * change.back[others] + among) - _whole(home)


def _whole(amounts: FloatMatrix) -> FloatMatrix:
    found: FloatMatrix = np.ceil(amounts - GRAIN)
    return found


def _text(link: Link, capacity: int, booked: int, added: int) -> str:
    return (
        f'link between {link.level}s "{link.origin}" and "{link.destination}" has no headroom: '
        f"capacity {capacity} bit/s, booked {booked}, asked {added}"
    )
