"""`NetworkTracker`: the placed pods of every AppGroup by workload, row and place.

Pods are found by their two labels alone, in all namespaces; those on nodes that are not known count
from the moment their node appears. What links carry is worked out from these numbers in `bookings`,
never added up from events, so it cannot drift.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from scheduler.base.arrays import IntColumn, Rows
from scheduler.objects.groups import GROUP_LABEL, WORKLOAD_LABEL
from scheduler.plugins.network.bookings import Bookings
from scheduler.plugins.network.dependencies import Dependencies
from scheduler.plugins.network.places import Places
from scheduler.state.change import Change
from scheduler.state.podindex import Placed
from scheduler.state.rowtracker import RowTracker

if TYPE_CHECKING:
    from scheduler.framework.nodes import Nodes
    from scheduler.state.cluster import Cluster

_NONE: Mapping[str, Any] = {}


class WorkloadPods:
    """The placed pods of one workload of a group: their number by row and by place."""

    __slots__ = ("_arrays", "by_place", "by_row", "total")

    def __init__(self) -> None:
        self.by_row: dict[int, int] = {}
        self.by_place: dict[int, int] = {}
        self.total = 0
        self._arrays: tuple[Rows, IntColumn, Rows, IntColumn] | None = None

    def add(self, row: int, place: int, number: int) -> None:
        """Count pods on a row; `number` is negative for those that go."""
        for counts, key in ((self.by_row, row), (self.by_place, place)):
            held = counts.get(key, 0) + number
            if held:
                counts[key] = held
            else:
                counts.pop(key, None)
        self.total += number
        self._arrays = None

    def arrays(self) -> tuple[Rows, IntColumn, Rows, IntColumn]:
        """Return rows with their numbers of pods, and places with theirs."""
        if self._arrays is None:
            self._arrays = (*_arrays(self.by_row), *_arrays(self.by_place))
        return self._arrays


class NetworkTracker(RowTracker):
    """Follows pods of AppGroups, the places of nodes, and the groups themselves."""

    kinds: tuple[str, ...] = ("AppGroup", "NetworkTopology", "NetworkTopologySlice")

    def __init__(self) -> None:
        super().__init__()
        self.places = Places()
        self.dependencies = Dependencies()
        self.clear()

    def clear(self) -> None:
        """Forget all pods."""
        self._groups: dict[str, dict[str, WorkloadPods]] = {}
        self.bookings = Bookings(self.pods, self.edges_of, self.places)
        self.groups_version = 0
        self.slices_version = 0
        self.nodes_version = 0

    def pods(self, group: str) -> Mapping[str, WorkloadPods]:
        """Return the placed pods of a group by workload."""
        return self._groups.get(group, _NONE)

    def groups(self) -> Iterator[str]:
        """Yield the names of all groups with placed pods."""
        return iter(self._groups)

    def edges_of(self, group: str) -> Any:
        """Return who books bandwidth in a group: the first AppGroup of that name by namespace."""
        found = self._app_groups.get(group)
        if not found:
            return ()
        return self.dependencies.of(found[min(found)]).edges

    def node_name(self, row: int) -> str:
        """Return the name of a row's node, nothing for a row without one."""
        node = self._cluster.table.nodes[row] if self._cluster is not None else None
        return node.metadata.name if node is not None else ""

    def row_of(self, name: str) -> int | None:
        """Return the row of a node, None if it is not known."""
        return self._rows.get(name)

    def node_names(self) -> list[str]:
        """Return the names of all rows."""
        return [self.node_name(row) for row in range(self._size())]

    def place_column(self, nodes: Nodes) -> Rows:
        """Return the place of each row of a view."""
        return nodes.part(self.places.column(self._size()))[: nodes.size]

    def spread(self, nodes: Nodes, rows: Rows, amounts: IntColumn) -> IntColumn:
        """Add amounts up by row of the table; return the sums for the rows of a view."""
        sums = np.bincount(rows, weights=amounts, minlength=self._size())
        return nodes.part(sums)[: nodes.size].astype(np.int64)

    def take_off(self, raw: IntColumn, nodes: Nodes, rows: Rows, amounts: IntColumn) -> None:
        """Subtract amounts at rows of the table from a column of a view."""
        column = self.places.column(self._size())
        if nodes.part(column) is column and len(raw) == len(column):
            np.subtract.at(raw, rows, amounts)  # few rows of all
        else:
            raw -= self.spread(nodes, rows, amounts)

    def rebuild(self, cluster: Cluster) -> None:
        """Start afresh from what `cluster` holds."""
        self.places = Places()
        for row in cluster.table.rows.values():
            node = cluster.table.nodes[row]
            if node is not None:
                self.places.set(row, node.metadata.labels)
        self._app_groups: dict[str, dict[str, Any]] = {}
        for group in cluster.store.of("AppGroup").values():
            self._app_groups.setdefault(group.metadata.name, {})[group.metadata.namespace] = group
        super().rebuild(cluster)

    def apply(self, change: Change) -> None:
        """Follow one change."""
        if change.kind == "Node" and self._cluster is not None:
            self._follow_node(change)
        elif change.kind == "AppGroup":
            self._follow_group(change)
        elif change.kind == "NetworkTopologySlice":
            self.slices_version += 1
        else:
            super().apply(change)

    def is_same(self, before: Placed, after: Placed) -> bool:
        """Whether two records of a pod on one node count alike."""
        return _labels(before) == _labels(after)

    def hold(self, placed: Placed, row: int) -> None:
        """Count a pod on a row."""
        self._count(placed, row, 1)

    def release(self, placed: Placed, row: int) -> None:
        """Stop counting a pod on a row."""
        self._count(placed, row, -1)

    def columns(self) -> Mapping[str, Any]:
        """Return the pods by group, workload, row and place, and what is booked."""
        found: dict[str, Any] = {}
        for group, workloads in self._groups.items():
            for workload, pods in workloads.items():
                named = {self.places.names[place]: n for place, n in pods.by_place.items()}
                found[f"{group}/{workload}"] = [sorted(pods.by_row.items()), sorted(named.items())]
        found["bookings"] = sorted(self.bookings.totals().items())
        return {name: np.array([repr(value)]) for name, value in found.items()}

    def _size(self) -> int:
        return self._cluster.table.size if self._cluster is not None else 0

    def _count(self, placed: Placed, row: int, number: int) -> None:
        group, workload = _labels(placed)
        if not group:
            return
        workloads = self._groups.setdefault(group, {})
        pods = workloads.get(workload)
        if pods is None:
            pods = workloads[workload] = WorkloadPods()
        pods.add(row, self.places.of(row), number)
        if not pods.total:
            del workloads[workload]
            if not workloads:
                del self._groups[group]
        self.bookings.touch(group)

    def _follow_node(self, change: Change) -> None:
        name = change.node.metadata.name
        if change.verb in ("add", "delete"):
            self.nodes_version += 1
        if change.verb == "add" and self._cluster is not None:
            self.places.set(self._cluster.table.rows[name], change.new.metadata.labels)
            super().apply(change)
        elif change.verb == "delete":
            row = self._rows[name]
            super().apply(change)
            self.places.set(row, _NONE)
        elif change.old.metadata.labels != change.new.metadata.labels:
            self._node(name, appears=False)
            self.places.set(self._rows[name], change.new.metadata.labels)
            self._node(name, appears=True)

    def _follow_group(self, change: Change) -> None:
        meta = (change.new if change.new is not None else change.old).metadata
        named = self._app_groups.setdefault(meta.name, {})
        if change.verb == "delete":
            named.pop(meta.namespace, None)
        else:
            named[meta.namespace] = change.new
        if not named:
            del self._app_groups[meta.name]
        self.groups_version += 1
        self.bookings.touch(meta.name)


def _labels(placed: Placed) -> tuple[str, str]:
    labels = placed.pod.metadata.labels
    group = labels.get(GROUP_LABEL, "")
    return (group, labels.get(WORKLOAD_LABEL, "")) if group else ("", "")


def _arrays(counts: Mapping[int, int]) -> tuple[Rows, IntColumn]:
    number = len(counts)
    return (
        np.fromiter(counts, dtype=np.intp, count=number),
        np.fromiter(counts.values(), dtype=np.int64, count=number),
    )
