"""`Thinning`: a crowd that pods leave and come back to, as differences of columns.

The stepwise counterpart of `Delta`, for a view of just the crowd's rows: taking the k-th victim of
every row away is a few column operations. `promised` pods are those that other pods' nominations
put there; they count while `counts_promised` is set.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from scheduler.base.arrays import BoolColumn, IntColumn, Rows
from scheduler.framework.crowd import Crowd
from scheduler.framework.delta import Delta
from scheduler.objects.pod import ContainerPort
from scheduler.state.podindex import Placed
from scheduler.state.ports import HostPorts


class Thinning:
    """Which pods of a crowd are gone, and what that makes of their rows' amounts."""

    def __init__(self, crowd: Crowd, promised: Crowd) -> None:
        self.crowd = crowd
        self.promised = promised
        self.gone: BoolColumn = np.zeros(len(crowd), dtype=np.bool_)
        self.counts_promised = False
        self._places = {row: place for place, row in enumerate(crowd.rows.tolist())}
        self._left: dict[tuple[str, bool], IntColumn] = {}
        self._more: dict[tuple[str, bool], IntColumn] = {}

    def take(self, pods: Rows) -> None:
        """Take away pods by their numbers."""
        self.gone[pods] = True
        self._left.clear()

    def put_back(self, pods: Rows) -> None:
        """Put pods back, at most one per row."""
        self.gone[pods] = False
        self._shift(pods, 1)

    def take_again(self, pods: Rows) -> None:
        """Take pods away, at most one per row."""
        self.gone[pods] = True
        self._shift(pods, -1)

    def away(self, place: int) -> list[Placed]:
        """Return the pods that are gone from `crowd.rows[place]`."""
        return [self.crowd.pod(pod) for pod in self.crowd.pods_of(place) if self.gone[pod]]

    def come(self, place: int) -> list[Placed]:
        """Return the promised pods that count on `crowd.rows[place]`."""
        if not self.counts_promised:
            return []
        return [self.promised.pod(pod) for pod in self.promised.pods_of(place)]

    # What `Nodes` asks of a change.

    def requested(self, resource: str, column: IntColumn, rows: Rows | None) -> IntColumn:
        """Return the rows' part of `column` with the differences."""
        return self._changed(resource, column, rows, scored=False)

    def scored(self, resource: str, column: IntColumn, rows: Rows | None) -> IntColumn:
        """Return the rows' part of `column` with the differences of the assumed requests."""
        return self._changed(resource, column, rows, scored=True)

    def ports_taken(
        self, taken: BoolColumn, used: HostPorts, ports: Sequence[ContainerPort], rows: Rows | None
    ) -> BoolColumn:
        """Return the rows' part of `taken` as it is without the gone and with the promised pods."""
        held = {place for place, row in enumerate(self.crowd.rows.tolist()) if taken[row]}
        if self.counts_promised:
            held.update(self.promised.index.tolist())
        return self._delta(sorted(held)).ports_taken(taken, used, ports, rows)

    def pods_on(self, row: int, pods: Mapping[str, Placed]) -> Mapping[str, Placed]:
        """Return the pods of one row after the change."""
        place = self._places.get(row)
        return pods if place is None else self._delta([place]).pods_on(row, pods)

    def moves(self) -> Iterator[tuple[Placed, int, int]]:
        """Yield the pods that are gone (-1) and the promised ones that count (1), with their rows."""
        yield from self._delta(range(len(self.crowd.rows))).moves()

    def _delta(self, places: Sequence[int]) -> Delta:
        rows = self.crowd.rows
        return Delta(
            [(placed, int(rows[place])) for place in places for placed in self.away(place)],
            [(placed, int(rows[place])) for place in places for placed in self.come(place)],
        )

    def _changed(
        self, resource: str, column: IntColumn, rows: Rows | None, *, scored: bool
    ) -> IntColumn:
        key = (resource, scored)
        crowd = self.crowd
        left = self._left.get(key)
        if left is None:
            left = self._left[key] = column[crowd.rows] - _sums(crowd, key, self.gone)
        if self.counts_promised:
            more = self._more.get(key)
            if more is None:
                more = self._more[key] = _sums(self.promised, key)
            left = left + more
        if rows is None or rows is crowd.rows:
            return left
        return left[[self._places[row] for row in rows.tolist()]]

    def _shift(self, pods: Rows, sign: int) -> None:
        places = self.crowd.index[pods]
        for key, left in self._left.items():
            left[places] += sign * _amounts(self.crowd, key)[pods]


def _sums(crowd: Crowd, key: tuple[str, bool], gone: BoolColumn | None = None) -> IntColumn:
    """Return what the pods of a crowd (those that are `gone`) amount to per row."""
    amounts = _amounts(crowd, key)
    if gone is not None:
        amounts = amounts * gone
    sums: IntColumn = np.diff(np.concatenate(([0], amounts)).cumsum()[crowd.starts])
    return sums


def _amounts(crowd: Crowd, key: tuple[str, bool]) -> IntColumn:
    resource, scored = key
    return crowd.scored(resource) if scored else crowd.amounts(resource)
