"""`Overlay`: some rows of the nodes with pods removed or added.

The hypothetical part of `Nodes`, which reads its columns: preemption removes victims and restores
them, nominated pods are added, groups move their members. Rows are independent: one pass over the
columns evaluates each node without its own pods.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from scheduler.base.arrays import BoolColumn, IntColumn, Rows
from scheduler.framework.hypothetical.rowpods import RowPods, row_pods
from scheduler.objects.pod import ContainerPort
from scheduler.state.podindex import Placed
from scheduler.state.ports import HostPorts, ports_conflict

# A resource, and whether its requests are those that scoring assumes.
_Key = tuple[str, bool]


class Overlay:
    """The changes on `rows`: `gone` marks the pods of `leaving` that are removed (at first all).

    The pods of `coming`, which are on the same rows, count while `is_coming` is set.
    """

    def __init__(
        self, leaving: RowPods, coming: RowPods | None = None, *, is_coming: bool = True
    ) -> None:
        self.rows = leaving.rows
        self.leaving = leaving
        self.coming = row_pods(leaving.rows) if coming is None else coming
        self.is_coming = is_coming
        self.gone: BoolColumn = np.ones(len(leaving), dtype=np.bool_)
        self._places: dict[int, int] | None = None
        # Requests without the removed pods; a column is never written after it was returned.
        self._left: dict[_Key, IntColumn] = {}
        # The requests of the added pods on each row.
        self._more: dict[_Key, IntColumn] = {}

    def bring_back(self, numbers: Rows) -> None:
        """Restore some of the removed pods, at most one on each row."""
        self.gone[numbers] = False
        self._move(numbers, 1)

    def take_away(self, numbers: Rows) -> None:
        """Remove some pods again, at most one from each row."""
        self.gone[numbers] = True
        self._move(numbers, -1)

    def away(self, place: int) -> list[tuple[Placed, int]]:
        """Return the pods that are removed together with those of `rows[place]`, with their own
        rows.
        """
        gone = (pod for pod in self.leaving.pods_of(place) if self.gone[pod])
        return [move for pod in gone for move in self.leaving.moves(pod)]

    def come(self, place: int) -> list[Placed]:
        """Return the pods added to `rows[place]`."""
        return (
            [self.coming.pod(pod) for pod in self.coming.pods_of(place)] if self.is_coming else []
        )

    # Columns for `Nodes`: for all rows of the table (None), or for some.

    def requested(
        self, resource: str, column: IntColumn, rows: Rows | None, *, scored: bool = False
    ) -> IntColumn:
        """Return the entries of `rows` of a column of requests, after the change."""
        changed = self._changed((resource, scored), column)
        if rows is self.rows:
            return changed
        full = column.copy()
        full[self.rows] = changed
        return full if rows is None else full[rows]

    def ports_taken(
        self, taken: BoolColumn, used: HostPorts, ports: Sequence[ContainerPort], rows: Rows | None
    ) -> BoolColumn:
        """Return the entries of `rows` of `taken`, after the change."""
        changed = taken.copy()
        places = set(np.flatnonzero(taken[self.rows]).tolist())
        for place in places.union(self.coming.index.tolist() if self.is_coming else ()):
            row = int(self.rows[place])
            changed[row] = any(self._is_in_use(place, row, used, port) for port in ports)
        return changed if rows is None else changed[rows]

    def pods_on(self, row: int, pods: Mapping[str, Placed]) -> Mapping[str, Placed]:
        """Return the pods of one row of the table after the change."""
        place = self._place_of.get(row)
        if place is None:
            return pods
        gone = {placed.pod.metadata.uid for placed, _ in self.away(place)}
        kept = {uid: placed for uid, placed in pods.items() if uid not in gone}
        return kept | {placed.pod.metadata.uid: placed for placed in self.come(place)}

    def moves(self) -> Iterator[tuple[Placed, int, int]]:
        """Yield the removed (-1) and added (1) pods, with their rows of the table."""
        for pod in np.flatnonzero(self.gone).tolist():
            row = int(self.rows[self.leaving.index[pod]])
            yield from ((placed, row, -1) for placed in self.leaving.here(pod))
        yield from ((placed, row, 1) for placed, row in self.arrivals())

    def arrivals(self) -> Iterator[tuple[Placed, int]]:
        """Yield the added pods, with their rows of the table."""
        for place in np.flatnonzero(self.coming.counts).tolist() if self.is_coming else ():
            yield from ((placed, int(self.rows[place])) for placed in self.come(place))

    @property
    def _place_of(self) -> Mapping[int, int]:
        if self._places is None:
            self._places = {row: place for place, row in enumerate(self.rows.tolist())}
        return self._places

    def _is_in_use(self, place: int, row: int, used: HostPorts, port: ContainerPort) -> bool:
        def holds(placed: Placed) -> int:
            return sum(ports_conflict(port, own) for own in placed.shape.host_ports)

        left = sum(holds(placed) for placed, where in self.away(place) if where == row)
        return used.conflicting(row, port) - left + sum(map(holds, self.come(place))) > 0

    def _changed(self, key: _Key, column: IntColumn) -> IntColumn:
        resource, scored = key
        left = self._left.get(key)
        if left is None:
            left = self._left[key] = column[self.rows]
            if len(self.leaving):
                amounts = np.where(self.gone, self.leaving.amounts(resource, scored=scored), 0)
                left = self._left[key] = left - self.leaving.sums(amounts)
        if not self.is_coming or not len(self.coming):
            return left
        more = self._more.get(key)
        if more is None:
            amounts = self.coming.amounts(resource, scored=scored)
            more = self._more[key] = self.coming.sums(amounts)
        return left + more

    def _move(self, numbers: Rows, sign: int) -> None:
        rows = self.leaving.index[numbers]
        for key, left in self._left.items():
            changed = left.copy()
            changed[rows] += sign * self.leaving.amounts(key[0], scored=key[1])[numbers]
            self._left[key] = changed
