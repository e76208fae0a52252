"""`FreeSlots`: whether there can be capacity for a refused group, by amounts alone.

Each pod that ends somewhere frees something. If a group is tried each time, it fails each time, and
its back-off is ten seconds when enough is free at last. So a group is not woken while all nodes
together have fewer places than it needs, whatever its other rules say.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import numpy as np

from scheduler.base.arrays import IntColumn, Rows
from scheduler.state.change import Change
from scheduler.state.cluster import Cluster
from scheduler.state.resources import PODS
from scheduler.state.table import NodeTable

# So many different requests are kept; beyond that all are worked out anew.
MOST_KEPT = 256
_UNLIMITED = np.iinfo(np.int64).max


class Lack(msgspec.Struct, frozen=True):
    """What a refused group needs at least: places for `count` members, each with at least this
    `request`.
    """

    count: int
    request: tuple[tuple[str, int], ...]


def lack_of(count: int, requests: Iterable[Mapping[str, int]]) -> Lack:
    """Return what `count` of these members need at least."""
    each = list(requests)
    least = {name: min(one.get(name, 0) for one in each) for name in each[0]} | {PODS: 1}
    return Lack(
        count, tuple(sorted((name, amount) for name, amount in least.items() if amount > 0))
    )


class _Slots(msgspec.Struct):
    """How many members with one request each row has places for, as of `mark`."""

    mark: int
    size: int
    column: IntColumn
    answers: dict[int, bool] = {}


class FreeSlots:
    """A tracker that reads the node table; every question is about the nodes as they are now."""

    kinds: tuple[str, ...] = ()
    follows: tuple[str, ...] = ()

    def __init__(self) -> None:
        self._table = NodeTable()
        self._known: dict[tuple[tuple[str, int], ...], _Slots] = {}

    def rebuild(self, cluster: Cluster) -> None:
        """Read the table of this cluster from now on."""
        self._table = cluster.table
        self._known = {}

    def apply(self, change: Change) -> None:
        """Do nothing: the table itself is read."""

    def columns(self) -> Mapping[str, Any]:
        """Return nothing: what is kept follows from the table."""
        return {}

    def may_suffice(self, lack: Lack) -> bool:
        """Return whether the nodes have places for so many members, as far as amounts say."""
        slots = self._slots(lack.request)
        found = slots.answers.get(lack.count)
        if found is None:
            places = int(np.minimum(slots.column, lack.count).sum())
            found = slots.answers[lack.count] = places >= lack.count
        return found

    def _slots(self, request: tuple[tuple[str, int], ...]) -> _Slots:
        table = self._table
        mark, known = table.amounts_touched.mark, self._known.get(request)
        if known is None or known.size != table.size:
            if len(self._known) >= MOST_KEPT:
                self._known.clear()
            known = _Slots(mark, table.size, self._places(request, slice(None)))
            self._known[request] = known
        elif known.mark != mark:
            touched = table.amounts_touched.since(known.mark)
            rows = slice(None) if touched is None else np.array(touched, dtype=np.intp)
            known.column[rows] = self._places(request, rows)
            known.mark, known.answers = mark, {}
        return known

    def _places(self, request: tuple[tuple[str, int], ...], rows: slice | Rows) -> IntColumn:
        """Return how many members each row takes; what no node offers may come from a device
        class.
        """
        table = self._table
        found = np.where(table.exists[rows], _UNLIMITED, 0)
        for name, amount in request:
            offered = table.allocatable(name)
            if offered.any():
                free = offered[rows] - table.requested(name)[rows]
                found = np.minimum(found, np.maximum(free, 0) // amount)
        return found
