"""`FreeSlots`: whether there can be capacity for a refused group, by amounts alone.

Each pod that ends frees some capacity. If that woke the group each time, its back-off would have
grown to ten seconds when enough is free at last. So a group is not woken while the nodes that it
selects have fewer places in total than it needs, whatever its other rules are. If the group may
evict and pods of a lower priority are bound, amounts alone cannot decide (`hints`).
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import numpy as np

from scheduler.base.arrays import IntColumn, Rows
from scheduler.groups.description.spec import GroupSpec
from scheduler.objects.pod import Pod
from scheduler.plugins.nodeselection import RequiredNodes, required_nodes
from scheduler.state.change import Change
from scheduler.state.cluster import Cluster
from scheduler.state.resources import PODS
from scheduler.state.table import NodeTable

# The maximum number of requests in the cache; above it the cache is cleared.
MOST_KEPT = 256
_encode = msgspec.json.Encoder(order="deterministic").encode
_UNLIMITED = np.iinfo(np.int64).max


class Lack(msgspec.Struct, frozen=True):
    """The minimum that a rejected group needs: capacity for `count` members on nodes that
    `required` allows.

    Each member needs at least `request`. `group` is the description from which this follows.
    `evicts_below` is the priority below which members may evict, None where they may not evict;
    `key` identifies `required`.
    """

    group: GroupSpec
    count: int
    request: tuple[tuple[str, int], ...]
    required: RequiredNodes | None = None
    evicts_below: int | None = None
    key: bytes = b""


def lack_of(
    group: GroupSpec,
    count: int,
    members: Iterable[Pod],
    requests: Iterable[Mapping[str, int]],
    evicts_below: int | None,
) -> Lack:
    """Return what `count` of these members need at least."""
    each = list(requests)
    least = {name: min(one.get(name, 0) for one in each) for name in each[0]} | {PODS: 1}
    request = tuple(sorted((name, amount) for name, amount in least.items() if amount > 0))
    selected = {_encode((one.labels, one.affinity)): one for one in map(required_nodes, members)}
    key, required = next(iter(selected.items()))
    if len(selected) > 1 or required.allows_all:
        return Lack(group, count, request, evicts_below=evicts_below)
    return Lack(group, count, request, required, evicts_below, key)


class _Slots(msgspec.Struct):
    """The number of members of one kind that fit on each row, as of the `marks` of the table."""

    marks: tuple[int, int]
    column: IntColumn
    answers: dict[int, bool] = {}


class FreeSlots:
    """A tracker that reads the node table; every question is about the nodes as they are now."""

    kinds: tuple[str, ...] = ()
    follows: frozenset[str] = frozenset()

    def __init__(self) -> None:
        self._table = NodeTable()
        self._known: dict[tuple[tuple[tuple[str, int], ...], bytes], _Slots] = {}

    def rebuild(self, cluster: Cluster) -> None:
        """Read the table of this cluster from now on."""
        self._table = cluster.table
        self._known = {}

    def apply(self, change: Change) -> None:
        """Do nothing: amounts are read from the table."""

    def columns(self) -> Mapping[str, Any]:
        """Return no columns: all cached values follow from the table."""
        return {}

    def may_suffice(self, lack: Lack) -> bool:
        """Return whether the nodes may have capacity for so many members, judged by amounts
        alone.
        """
        slots = self._slots(lack)
        found = slots.answers.get(lack.count)
        if found is None:
            places = int(np.minimum(slots.column, lack.count).sum())
            found = slots.answers[lack.count] = places >= lack.count
        return found

    def _slots(self, lack: Lack) -> _Slots:
        table, name = self._table, (lack.request, lack.key)
        marks = table.amounts_touched.mark, table.facts_touched.mark
        known = self._known.get(name)
        if known is None or known.column.size != table.size:
            if len(self._known) >= MOST_KEPT:
                self._known.clear()
            known = self._known[name] = _Slots(marks, self._places(lack, slice(None)))
        elif known.marks != marks:
            rows = self._touched(known.marks)
            known.column[rows] = self._places(lack, rows)
            known.marks, known.answers = marks, {}
        return known

    def _touched(self, marks: tuple[int, int]) -> slice | Rows:
        """Return the rows that changed since these marks of the table."""
        amounts = self._table.amounts_touched.since(marks[0])
        facts = self._table.facts_touched.since(marks[1])
        if amounts is None or facts is None:
            return slice(None)
        return np.array(sorted({*amounts, *facts}), dtype=np.intp)

    def _places(self, lack: Lack, rows: slice | Rows) -> IntColumn:
        """Return how many members fit on each row; a resource that no node offers may come from a
        device class.
        """
        table = self._table
        found = np.where(table.exists[rows], _UNLIMITED, 0)
        for name, amount in lack.request:
            offered = table.allocatable(name)
            if offered.any():
                free = offered[rows] - table.requested(name)[rows]
                found = np.minimum(found, np.maximum(free, 0) // amount)
        if lack.required is not None:
            every = range(table.size) if isinstance(rows, slice) else rows
            nodes = (table.nodes[row] for row in every)
            required = lack.required
            allowed = [node is not None and required.matches(node) for node in nodes]
            found = np.where(allowed, found, 0)
        return found
