"""`Bookings`: what the pods of all AppGroups book on the links between zones and regions.

Each placed pod of a workload books its `minBandwidth` once per dependency workload, split evenly over
that workload's placed pods. Two pods of one zone book nothing, two of one region the link between
their zones, others the link between their regions; places without names are left out. Amounts are
whole bit/s, rounded up per group and link, worked out from counts: the same pods always book the
same, whatever happened before. Sums are floats of whole numbers, which add and subtract exactly. With
more places than `Places.most` nothing is booked between zones, with more regions nothing between those.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from scheduler.base.arrays import Rows
from scheduler.plugins.network.dependencies import BandwidthEdge
from scheduler.plugins.network.links import REGION, ZONE, FloatMatrix, Link
from scheduler.plugins.network.places import Places

# Shares are fractions of bits; what rounding leaves over is not booked.
GRAIN = 1e-3
_NOBODY: Mapping[int, int] = {}
_NOTHING: FloatMatrix = np.zeros((0, 0))
_Cell = tuple[int, int, int]  # workload, place, number of pods


class Pods(Protocol):
    """The placed pods of a workload."""

    @property
    def by_place(self) -> Mapping[int, int]: ...
    @property
    def total(self) -> int: ...


PodsOf = Callable[[str], Mapping[str, Pods]]
EdgesOf = Callable[[str], Sequence[BandwidthEdge]]
# workload → place → pods more (or fewer) than there are.
Moved = Mapping[str, Mapping[int, int]]


class Amounts(NamedTuple):
    """What is booked from place to place of one region, and from region to region."""

    zones: FloatMatrix
    regions: FloatMatrix


class _Part(NamedTuple):
    """The bookings of one group: parts of the two matrices, between places and between regions.

    `places` is None when the first stands for all places that there were.
    """

    places: Rows | None
    zones: FloatMatrix
    regions: FloatMatrix


class Bookings:
    """The bookings of all groups, redone for a group when its pods have moved."""

    def __init__(self, pods: PodsOf, edges: EdgesOf, places: Places) -> None:
        self._pods = pods
        self._edges = edges
        self._places = places
        self._by_group: dict[str, _Part] = {}
        self._amounts = Amounts(np.zeros((0, 0)), np.zeros((0, 0)))
        self._touched: dict[str, None] = {}
        # What each group asks for at most, wherever its pods are; and whose sum is to be redone.
        self._asked: dict[str, int] = {}
        self._most = 0
        self._unsummed: dict[str, None] = {}

    def touch(self, group: str) -> None:
        """Note that pods of a group moved, or that its dependencies changed."""
        self._touched[group] = None
        self._unsummed[group] = None

    def most(self) -> float:
        """Return what no link can have booked more of, in bit/s: the wishes of all pods together.

        Far cheaper than `amounts`, which need not be worked out while the least link holds this.
        """
        if self._unsummed:
            for group in self._unsummed:
                pods = self._pods(group)
                asked = sum(
                    edge.bandwidth * pods[edge.origin].total
                    for edge in self._edges(group)
                    if edge.origin in pods
                )
                self._most += asked - self._asked.pop(group, 0)
                if asked:
                    self._asked[group] = asked
            self._unsummed = {}
        return float(self._most + len(self._asked))  # each group rounds up once

    def amounts(self) -> Amounts:
        """Return what is booked; not to be written to, and good until the next change."""
        self._grow()
        if self._touched:
            touched, self._touched = self._touched, {}
            for group in touched:
                _add(self._amounts, self._by_group.pop(group, None), -1)
                part = self._booked(group, {})
                if part is not None:
                    self._by_group[group] = part
                    _add(self._amounts, part, 1)
        return self._amounts

    def totals(self) -> dict[Link, int]:
        """Return what is booked per link in bit/s; links without bookings are left out."""
        zones, regions = self.amounts()
        names, of_region = self._places.names, self._places.regions
        found: dict[Link, int] = {}
        for one, other in np.argwhere(zones).tolist():
            link = Link(ZONE, names[one][1], names[other][1])
            found[link] = found.get(link, 0) + int(zones[one, other])
        for one, other in np.argwhere(regions).tolist():
            found[Link(REGION, of_region[one], of_region[other])] = int(regions[one, other])
        return found

    def changed_by(self, group: str, moved: Moved) -> Amounts:
        """Return how much more (or less) would be booked if pods of a group had moved."""
        change = Amounts(*(np.zeros_like(matrix) for matrix in self.amounts()))
        _add(change, self._by_group.get(group), -1)
        _add(change, self._booked(group, moved), 1)
        return change

    def _booked(self, group: str, moved: Moved) -> _Part | None:
        edges = self._edges(group)
        if not edges:
            return None
        pods = self._pods(group)
        rows: dict[str, int] = {}
        for edge in edges:
            rows.setdefault(edge.origin, len(rows))
            rows.setdefault(edge.destination, len(rows))
        cells: list[_Cell] = []
        totals = []
        for workload, row in rows.items():
            counts = _counts(pods.get(workload), moved.get(workload))
            totals.append(sum(counts.values()))
            cells += [(row, place, count) for place, count in counts.items()]
        shares = np.zeros((len(rows), len(rows)))
        for edge in edges:
            total = totals[rows[edge.destination]]
            if total:
                shares[rows[edge.origin], rows[edge.destination]] += edge.bandwidth / total
        if not cells or not shares.any():
            return None
        return _Part(
            *self._zones(len(rows), cells, shares), self._regions(len(rows), cells, shares)
        )

    def _regions(self, size: int, cells: list[_Cell], shares: FloatMatrix) -> FloatMatrix:
        """Return what is booked from region to region by `shares` [origin, destination]."""
        if len(self._places.regions) > self._places.most:
            return _NOTHING
        region_of = self._places.region_numbers()
        numbers = np.zeros((size, len(self._places.regions)))
        for row, place, count in cells:
            numbers[row, region_of[place]] += count
        numbers[:, 0] = 0.0  # nodes without a region
        regions = np.ceil(numbers.T @ shares @ numbers - GRAIN)
        np.fill_diagonal(regions, 0.0)
        return regions

    def _zones(
        self, size: int, cells: list[_Cell], shares: FloatMatrix
    ) -> tuple[Rows | None, FloatMatrix]:
        """Return what is booked from place to place of a region."""
        if len(self._places) > self._places.most:
            return None, _NOTHING
        numbers = np.zeros((size, len(self._places)))
        columns = np.array(cells)
        numbers[columns[:, 0], columns[:, 1]] = columns[:, 2]
        is_link = self._places.is_link()
        used = np.flatnonzero(numbers.any(axis=0))
        if 2 * len(used) > len(self._places):
            # Most places: whole matrices are added faster than parts of them.
            return None, np.ceil(numbers.T @ shares @ numbers - GRAIN) * is_link
        part = numbers[:, used]
        zones = np.ceil(part.T @ shares @ part - GRAIN) * is_link[used[:, None], used]
        return used, zones

    def _grow(self) -> None:
        most = self._places.most
        sizes = [
            size if size <= most else 0 for size in (len(self._places), len(self._places.regions))
        ]
        if self._amounts.zones.shape[0] != sizes[0] or self._amounts.regions.shape[0] != sizes[1]:
            self._amounts = Amounts(
                *(_padded(old, size) for old, size in zip(self._amounts, sizes, strict=True))
            )


def _add(amounts: Amounts, part: _Part | None, sign: int) -> None:
    if part is None:
        return
    for whole, own, places in (
        (amounts.zones, part.zones, part.places),
        (amounts.regions, part.regions, None),
    ):
        size = len(own)
        if not len(whole) or not size:
            continue  # so many that there are no matrices
        if places is None:
            whole[:size, :size] += sign * own
        else:
            whole[places[:, None], places] += sign * own


def _counts(pods: Pods | None, moved: Mapping[int, int] | None) -> Mapping[int, int]:
    """Return the numbers of a workload's pods by place."""
    held = pods.by_place if pods is not None else _NOBODY
    if not moved:
        return held
    counts = {place: held.get(place, 0) + moved.get(place, 0) for place in {*held, *moved}}
    return {place: count for place, count in counts.items() if count > 0}


def _padded(matrix: FloatMatrix, size: int) -> FloatMatrix:
    more = size - matrix.shape[0]
    return np.pad(matrix, (0, more)) if more > 0 else matrix[:size, :size]
