"""`Delta`: pods taken away from or added to rows, as sparse differences of columns.

This is the hypothetical half of `Nodes`: preemption asks "each node without its victims", nominated
pods "this node with them". Rows are independent of each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from scheduler.base.arrays import BoolColumn, IntColumn, Rows
from scheduler.framework.crowd import Crowd
from scheduler.objects.pod import ContainerPort
from scheduler.state.podindex import Placed
from scheduler.state.ports import HostPorts, ports_conflict
from scheduler.state.resources import CPU, MEMORY, PODS

_SCORED = (CPU, MEMORY)

ScalarT = TypeVar("ScalarT", bound=np.generic)


class Differences(Protocol):
    """What a hypothetical view changes. `rows` are those of the view, None for all of the table."""

    def requested(self, resource: str, column: IntColumn, rows: Rows | None) -> IntColumn:
        """Return the rows' part of `column` with the differences of a resource's requests."""
        ...

    def scored(self, resource: str, column: IntColumn, rows: Rows | None) -> IntColumn:
        """Return the rows' part of `column` with the differences of the assumed requests."""
        ...

    def ports_taken(
        self, taken: BoolColumn, used: HostPorts, ports: Sequence[ContainerPort], rows: Rows | None
    ) -> BoolColumn:
        """Return the rows' part of `taken` as it is after the change."""
        ...

    def pods_on(self, row: int, pods: Mapping[str, Placed]) -> Mapping[str, Placed]:
        """Return the pods of one row of the table after the change."""
        ...

    def moves(self) -> Iterator[tuple[Placed, int, int]]:
        """Yield the pods that leave (-1) or come (1), with their rows of the table."""
        ...

    def arrivals(self) -> Iterator[tuple[Placed, int]]:
        """Yield the pods that come, with their rows of the table."""
        ...

    def leaving(self, rows: Rows | None) -> tuple[Crowd, BoolColumn] | None:
        """Return the pods on just these rows that may leave, and which are gone; None if unknown."""
        ...


class Delta:
    """What `removed` and `added` pods change; each comes with the row it leaves or lands on."""

    def __init__(
        self,
        removed: Iterable[tuple[Placed, int]] = (),
        added: Iterable[tuple[Placed, int]] = (),
    ) -> None:
        self._amounts: dict[str, dict[int, int]] = {}
        self._scored: dict[str, dict[int, int]] = {}
        self.removed: dict[int, dict[str, Placed]] = {}
        self.added: dict[int, dict[str, Placed]] = {}
        for placed, row in removed:
            self._count(placed, row, -1)
            self.removed.setdefault(row, {})[placed.pod.metadata.uid] = placed
        for placed, row in added:
            self._count(placed, row, 1)
            self.added.setdefault(row, {})[placed.pod.metadata.uid] = placed

    def rows(self) -> list[int]:
        """Return the rows that differ, in order."""
        return sorted({*self.removed, *self.added})

    def requested(self, resource: str, column: IntColumn, rows: Rows | None) -> IntColumn:
        """Return the rows' part of `column` with the differences of a resource's requests."""
        return _part(_plus(column, self._amounts.get(resource)), rows)

    def scored(self, resource: str, column: IntColumn, rows: Rows | None) -> IntColumn:
        """Return the rows' part of `column` with the differences of the assumed requests."""
        return _part(_plus(column, self._scored.get(resource)), rows)

    def ports_taken(
        self, taken: BoolColumn, used: HostPorts, ports: Sequence[ContainerPort], rows: Rows | None
    ) -> BoolColumn:
        """Return the rows' part of `taken` without the removed and with the added pods."""
        changed = taken.copy()
        for row in self.rows():
            changed[row] = any(self._port_is_held(row, used, port) for port in ports)
        return _part(changed, rows)

    def moves(self) -> Iterator[tuple[Placed, int, int]]:
        """Yield the pods that are taken away (-1) or added (1), with their rows."""
        for pods, sign in ((self.removed, -1), (self.added, 1)):
            for row, placed in pods.items():
                yield from ((one, row, sign) for one in placed.values())

    def arrivals(self) -> Iterator[tuple[Placed, int]]:
        """Yield the pods that are added, with their rows."""
        for row, placed in self.added.items():
            yield from ((one, row) for one in placed.values())

    def leaving(self, _rows: Rows | None) -> tuple[Crowd, BoolColumn] | None:
        """Return None: `moves` tells who is gone, which is soon read."""
        return None

    def pods_on(self, row: int, pods: Mapping[str, Placed]) -> Mapping[str, Placed]:
        """Return the pods of one row of the table after the change."""
        gone = self.removed.get(row, {})
        kept = {uid: placed for uid, placed in pods.items() if uid not in gone}
        return kept | self.added.get(row, {})

    def _port_is_held(self, row: int, used: HostPorts, port: ContainerPort) -> bool:
        held = used.held(row, port)
        for pods, sign in ((self.removed, -1), (self.added, 1)):
            for placed in pods.get(row, {}).values():
                held += sign * sum(ports_conflict(port, own) for own in placed.shape.host_ports)
        return held > 0

    def _count(self, placed: Placed, row: int, sign: int) -> None:
        for resource, amount in (*placed.requests.items(), (PODS, 1)):
            cells = self._amounts.setdefault(resource, {})
            cells[row] = cells.get(row, 0) + sign * amount
        for resource, amount in zip(_SCORED, placed.scored_requests, strict=True):
            cells = self._scored.setdefault(resource, {})
            cells[row] = cells.get(row, 0) + sign * amount


def _plus(column: IntColumn, cells: Mapping[int, int] | None) -> IntColumn:
    if not cells:
        return column
    changed = column.copy()
    changed[np.fromiter(cells, dtype=np.intp)] += np.fromiter(cells.values(), dtype=np.int64)
    return changed


def _part(column: NDArray[ScalarT], rows: Rows | None) -> NDArray[ScalarT]:
    return column if rows is None else column[rows]
