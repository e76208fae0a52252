"""`Bookings`: bandwidth that the pods of all AppGroups allocate on links between zones and regions.

Each placed pod of a workload books its `minBandwidth` once per dependency workload, split evenly
over that workload's placed pods. Two pods of one zone book nothing, two of one region the link
between their zones, others the link between their regions; places without names are left out.
Amounts are whole bit/s, rounded up per group and link, and computed from counts: the same pods
always book the same, whatever the history. Sums are floats of whole numbers, which add and subtract
exactly. With more places than `RowPlaces.most`, links between zones have no bookings; with more
regions than that, links between regions have none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from scheduler.framework import Rows
from scheduler.plugins.network.dependencies import GroupNeeds
from scheduler.plugins.network.grouppods import GroupPods
from scheduler.plugins.network.links import REGION, ZONE, FloatMatrix, Link
from scheduler.plugins.network.places import RowPlaces

# Shares are fractions of a bit; the rounding error is not booked.
GRAIN = 1e-3
_NOTHING: FloatMatrix = np.zeros((0, 0))


PodsOf = Callable[[str], GroupPods]
NeedsOf = Callable[[str], GroupNeeds | None]
_Between = Callable[[Rows, int], FloatMatrix]


class BookedAmounts(NamedTuple):
    """Allocated bandwidth between places of one region, and between regions."""

    zones: FloatMatrix
    regions: FloatMatrix


class _Part(NamedTuple):
    """The bookings of one group: parts of the two matrices, between places and between regions.

    `places` is None when the first covers all places that existed.
    """

    places: Rows | None
    zones: FloatMatrix
    regions: FloatMatrix


class Bookings:
    """The allocations of all groups, recomputed for a group when its pods have moved."""

    def __init__(self, pods: PodsOf, needs: NeedsOf, places: RowPlaces) -> None:
        self._pods = pods
        self._needs = needs
        self._places = places
        self._by_group: dict[str, _Part] = {}
        self._amounts = BookedAmounts(np.zeros((0, 0)), np.zeros((0, 0)))
        self._touched: dict[str, None] = {}
        # The largest demand of each group, wherever its pods are; and the groups whose sum must be
        # recomputed.
        self._allocated: dict[str, int] = {}
        self._most = 0
        self._unsummed: dict[str, None] = {}

    def touch(self, group: str) -> None:
        """Mark a group whose pods' nodes or dependencies changed."""
        self._touched[group] = None
        self._unsummed[group] = None

    def moved(self, group: str, workload: str, count: int) -> None:
        """Count pods of a group that were placed on a node (positive) or left it (negative)."""
        self._touched[group] = None
        needs = self._needs(group)
        bandwidths = needs.bandwidths.get(workload) if needs is not None else None
        if bandwidths:
            self._allocate(group, self._allocated.get(group, 0) + bandwidths * count)

    def most(self) -> float:
        """Return an upper bound on the bandwidth allocated on any link, in bit/s: the sum of all
        requests.

        Far cheaper than `amounts`, which need not be worked out while the least link holds this.
        """
        if self._unsummed:
            for group in self._unsummed:
                pods, needs = self._pods(group), self._needs(group)
                each = needs.bandwidths.items() if needs is not None else ()
                self._allocate(
                    group, sum(bandwidth * pods.total(origin) for origin, bandwidth in each)
                )
            self._unsummed = {}
        return float(self._most + len(self._allocated))  # each group rounds up once

    def amounts(self) -> BookedAmounts:
        """Return the allocated bandwidth: read-only, and valid until the next change."""
        self._grow()
        if self._touched:
            touched, self._touched = self._touched, {}
            for group in touched:
                _add(self._amounts, self._by_group.pop(group, None), -1)
                part = self._booked(group, self._pods(group))
                if part is not None:
                    self._by_group[group] = part
                    _add(self._amounts, part, 1)
        return self._amounts

    def totals(self) -> dict[Link, int]:
        """Return the allocated bandwidth per link in bit/s, without links that have none."""
        zones, regions = self.amounts()
        names, of_region = self._places.names, self._places.regions
        found: dict[Link, int] = {}
        for one, other in np.argwhere(zones).tolist():
            link = Link(ZONE, names[one][1], names[other][1])
            found[link] = found.get(link, 0) + int(zones[one, other])
        for one, other in np.argwhere(regions).tolist():
            found[Link(REGION, of_region[one], of_region[other])] = int(regions[one, other])
        return found

    def changed_by(self, group: str, pods: GroupPods) -> BookedAmounts:
        """Return the change of allocations if a group had these pods."""
        change = BookedAmounts(*(np.zeros_like(matrix) for matrix in self.amounts()))
        _add(change, self._by_group.get(group), -1)
        _add(change, self._booked(group, pods), 1)
        return change

    def _allocate(self, group: str, bits: int) -> None:
        """Set the largest bandwidth that a group can request."""
        self._most += bits - self._allocated.pop(group, 0)
        if bits:
            self._allocated[group] = bits

    def _booked(self, group: str, pods: GroupPods) -> _Part | None:
        needs = self._needs(group)
        # An edge books when both of its ends are placed.
        edges = [
            (pods.numbers[edge.origin], pods.numbers[edge.destination], edge.bandwidth / total)
            for edge in (needs.edges if needs is not None else ())
            if pods.total(edge.origin) and (total := pods.total(edge.destination))
        ]
        if not edges:
            return None
        origins, destinations, shares = (np.array(column) for column in zip(*edges, strict=True))

        def between(bins: Rows, size: int) -> FloatMatrix:
            """Return the allocated bandwidth between bins."""
            cells = pods.by_workload(bins, size)
            booked: FloatMatrix = (cells[origins] * shares[:, None]).T @ cells[destinations]
            booked -= GRAIN
            return np.ceil(booked, out=booked)

        places = self._places.rows[pods.rows]
        return _Part(*self._zones(places, between), self._regions(places, between))

    def _regions(self, places: Rows, between: _Between) -> FloatMatrix:
        """Return the allocated bandwidth between regions."""
        size = len(self._places.regions)
        if size > self._places.most:
            return _NOTHING
        regions = between(self._places.region_numbers()[places], size)
        regions[0, :] = regions[:, 0] = 0.0  # nodes without a region
        np.fill_diagonal(regions, 0.0)
        return regions

    def _zones(self, places: Rows, between: _Between) -> tuple[Rows | None, FloatMatrix]:
        """Return the allocated bandwidth between places of a region."""
        size = len(self._places)
        if size > self._places.most:
            return None, _NOTHING
        is_link = self._places.is_link()
        used, bins = np.unique(places, return_inverse=True)
        if 2 * len(used) > size:
            # Most places are affected: adding whole matrices is faster than adding parts.
            return None, between(places, size) * is_link
        return used, between(bins, len(used)) * is_link[used[:, None], used]

    def _grow(self) -> None:
        most = self._places.most
        sizes = [
            size if size <= most else 0 for size in (len(self._places), len(self._places.regions))
        ]
        if self._amounts.zones.shape[0] != sizes[0] or self._amounts.regions.shape[0] != sizes[1]:
            self._amounts = BookedAmounts(
                *(_padded(old, size) for old, size in zip(self._amounts, sizes, strict=True))
            )


def _add(amounts: BookedAmounts, part: _Part | None, sign: int) -> None:
    if part is None:
        return
    for whole, own, places in (
        (amounts.zones, part.zones, part.places),
        (amounts.regions, part.regions, None),
    ):
        size = len(own)
        if not len(whole) or not size:
            continue  # too many for matrices
        if places is None:
            whole[:size, :size] += sign * own
        else:
            whole[places[:, None], places] += sign * own


def _padded(matrix: FloatMatrix, size: int) -> FloatMatrix:
    more = size - matrix.shape[0]
    return np.pad(matrix, (0, more)) if more > 0 else matrix[:size, :size]
