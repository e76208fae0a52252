"""`Thinning`: a crowd that has left its rows and comes back step by step, as differences of columns.

The counterpart of `Delta` for a view of just the crowd's rows: offering every row the next of its
pods is one addition per column. `promised` pods are those that other pods' nominations put there;
they count while `counts_promised` is set.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from scheduler.base.arrays import BoolColumn, IntColumn, IntMatrix, Rows
from scheduler.framework.crowd import Crowd
from scheduler.framework.delta import Delta
from scheduler.objects.pod import ContainerPort
from scheduler.state.podindex import Placed
from scheduler.state.ports import HostPorts

# A resource, and whether its requests are meant as scoring counts them.
_Key = tuple[str, bool]

_NO_PODS: Rows = np.zeros(0, dtype=np.intp)


class Thinning:
    """Which pods of a crowd are gone (at first all), and what that makes of their rows' amounts."""

    def __init__(self, crowd: Crowd, promised: Crowd) -> None:
        self.crowd = crowd
        self.promised = promised
        self.gone: BoolColumn = np.ones(len(crowd), dtype=np.bool_)
        self.counts_promised = False
        self._offered = _NO_PODS
        self._step: int | None = None
        self._place_of: dict[int, int] | None = None
        # Per resource: requests with the pods that are back for good, and with the offered ones.
        self._settled: dict[_Key, IntColumn] = {}
        self._now: dict[_Key, IntColumn] = {}
        self._steps: dict[_Key, IntMatrix] = {}
        self._more: dict[_Key, IntColumn] = {}

    def offer(self, step: int) -> Rows:
        """Let the pod number `step` of each row come back on trial; return these pods."""
        crowd = self.crowd
        places = np.flatnonzero(crowd.counts > step)
        self._offered, self._step = crowd.starts[places] + step, step
        self.gone[self._offered] = False
        for key, settled in self._settled.items():
            self._now[key] = settled + self._by_step(key)[step]
        return self._offered

    def keep(self, rows: BoolColumn) -> Rows:
        """End the trial: pods on these rows stay, the others leave again and are returned."""
        leaving = self._offered[~rows[self.crowd.index[self._offered]]]
        self.gone[leaving] = True
        for key, now in self._now.items():
            self._settled[key] = np.where(rows, now, self._settled[key])
        self._offered, self._step, self._now = _NO_PODS, None, {}
        return leaving

    def away(self, place: int) -> list[tuple[Placed, int]]:
        """Return the pods that are gone when those of `crowd.rows[place]` are, with their rows."""
        crowd = self.crowd
        gone = (pod for pod in crowd.pods_of(place) if self.gone[pod])
        return [move for pod in gone for move in crowd.moves(pod)]

    def come(self, place: int) -> list[Placed]:
        """Return the promised pods that count on `crowd.rows[place]`."""
        if not self.counts_promised:
            return []
        return [self.promised.pod(pod) for pod in self.promised.pods_of(place)]

    # What `Nodes` asks of a change.

    def requested(self, resource: str, column: IntColumn, rows: Rows | None) -> IntColumn:
        """Return the rows' part of `column` with the differences."""
        return self._changed((resource, False), column, rows)

    def scored(self, resource: str, column: IntColumn, rows: Rows | None) -> IntColumn:
        """Return the rows' part of `column` with the differences of the assumed requests."""
        return self._changed((resource, True), column, rows)

    def ports_taken(
        self, taken: BoolColumn, used: HostPorts, ports: Sequence[ContainerPort], rows: Rows | None
    ) -> BoolColumn:
        """Return the rows' part of `taken` as it is without the gone and with the promised pods."""
        held = set(np.flatnonzero(taken[self.crowd.rows]).tolist())
        if self.counts_promised:
            held.update(self.promised.index.tolist())
        return self._delta(sorted(held)).ports_taken(taken, used, ports, rows)

    def pods_on(self, row: int, pods: Mapping[str, Placed]) -> Mapping[str, Placed]:
        """Return the pods of one row after the change."""
        place = self._places.get(row)
        return pods if place is None else self._delta([place]).pods_on(row, pods)

    def moves(self) -> Iterator[tuple[Placed, int, int]]:
        """Yield the pods that are gone (-1) and the promised ones that count (1), with their rows."""
        crowd = self.crowd
        for pod in np.flatnonzero(self.gone).tolist():
            row = int(crowd.rows[crowd.index[pod]])
            yield from ((placed, row, -1) for placed in crowd.here(pod))
        for placed, row in self.arrivals():
            yield placed, row, 1

    def arrivals(self) -> Iterator[tuple[Placed, int]]:
        """Yield the promised pods that count, with their rows."""
        if self.counts_promised:
            for pod, place in enumerate(self.promised.index.tolist()):
                yield self.promised.pod(pod), int(self.crowd.rows[place])

    def leaving(self, rows: Rows | None) -> tuple[Crowd, BoolColumn] | None:
        """Return the crowd, and who of it is gone now; None for other rows than the crowd's."""
        return (self.crowd, self.gone) if rows is self.crowd.rows else None

    @property
    def _places(self) -> Mapping[int, int]:
        if self._place_of is None:
            self._place_of = {row: place for place, row in enumerate(self.crowd.rows.tolist())}
        return self._place_of

    def _delta(self, places: Sequence[int]) -> Delta:
        rows = self.crowd.rows
        return Delta(
            [
                (placed, row)
                for place in places
                for placed, row in self.away(place)
                if row == rows[place]
            ],
            [(placed, int(rows[place])) for place in places for placed in self.come(place)],
        )

    def _changed(self, key: _Key, column: IntColumn, rows: Rows | None) -> IntColumn:
        crowd = self.crowd
        if key not in self._settled:
            gone = self.gone.copy()
            gone[self._offered] = True
            self._settled[key] = column[crowd.rows] - _sums(crowd, _amounts(crowd, key) * gone)
            if self._step is not None:
                self._now[key] = self._settled[key] + self._by_step(key)[self._step]
        changed = self._settled[key] if self._step is None else self._now[key]
        if self.counts_promised:
            more = self._more.get(key)
            if more is None:
                more = self._more[key] = _sums(self.promised, _amounts(self.promised, key))
            changed = changed + more
        if rows is None or rows is crowd.rows:
            return changed
        return changed[[self._places[row] for row in rows.tolist()]]

    def _by_step(self, key: _Key) -> IntMatrix:
        """Return what the pods amount to, [number of the pod on its row, row]."""
        matrix = self._steps.get(key)
        if matrix is None:
            crowd = self.crowd
            shape = (int(crowd.counts.max(initial=0)), len(crowd.rows))
            matrix = self._steps[key] = np.zeros(shape, dtype=np.int64)
            steps = np.arange(len(crowd)) - crowd.starts[crowd.index]
            matrix[steps, crowd.index] = _amounts(crowd, key)
        return matrix


def _sums(crowd: Crowd, amounts: IntColumn) -> IntColumn:
    """Return the sum of the pods' amounts per row."""
    sums: IntColumn = np.diff(np.concatenate(([0], amounts)).cumsum()[crowd.starts])
    return sums


def _amounts(crowd: Crowd, key: _Key) -> IntColumn:
    resource, scored = key
    return crowd.scored(resource) if scored else crowd.amounts(resource)
