"""`NetworkTracker`: the placed pods of every AppGroup by workload and row, and the places of the
rows.

Counts pods by namespace and label; `membership` maps these to AppGroups. Pods on unknown nodes
count from the moment their node appears. `bookings` computes the allocation of links from these
numbers, never from events, so it cannot drift.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from scheduler.framework import Change, FloatColumn, IntColumn, Nodes, Placed, Rows
from scheduler.objects.groups.appgroup import GROUP_LABEL, WORKLOAD_LABEL
from scheduler.plugins.network.dependencies import Dependencies
from scheduler.plugins.network.membership import AppGroups, Labelled, Membership, Named
from scheduler.plugins.network.places import RowPlaces
from scheduler.state.counts.rowtracker import RowTracker

if TYPE_CHECKING:
    from scheduler.state.cluster import Cluster

_NONE: Mapping[str, str] = {}


class NetworkTracker(RowTracker):
    """Follows pods of AppGroups, the places of nodes, and the groups themselves."""

    kinds: tuple[str, ...] = ("AppGroup", "NetworkTopology", "NetworkTopologySlice")

    def __init__(self) -> None:
        super().__init__()
        self.places = RowPlaces()
        self.dependencies = Dependencies()
        self._app_groups: AppGroups = {}
        self.clear()

    def clear(self) -> None:
        """Drop all pods."""
        self._labelled = Labelled(self.dependencies, self._app_groups)
        self._memberships: dict[tuple[str, ...], Membership] = {}
        self.groups_version = 0
        self.slices_version = 0
        self.nodes_version = 0

    def membership(self, namespaces: tuple[str, ...]) -> Membership:
        """Return the pods of each AppGroup, with AppGroups of these namespaces too."""
        found = self._memberships.get(namespaces)
        if found is None:
            found = self._memberships[namespaces] = Membership(
                namespaces, self._labelled, self.dependencies, self.places
            )
        return found

    def node_name(self, row: int) -> str:
        """Return the name of a row's node, '' for a row without one."""
        node = self._cluster.table.nodes[row] if self._cluster is not None else None
        return node.metadata.name if node is not None else ""

    def row_of(self, name: str) -> int | None:
        """Return the row of a node, None if it is unknown."""
        return self._rows.get(name)

    def node_names(self) -> list[str]:
        """Return the names of all rows."""
        return [self.node_name(row) for row in range(self._size())]

    def place_column(self, nodes: Nodes) -> Rows:
        """Return the place of each row of a view."""
        return nodes.part(self.places.column(self._size()))[: nodes.size]

    def spread(self, nodes: Nodes, rows: Rows, amounts: IntColumn | FloatColumn) -> IntColumn:
        """Add amounts up by row of the table; return the sums for the rows of a view."""
        sums = np.bincount(rows, weights=amounts, minlength=self._size())
        return nodes.part(sums)[: nodes.size].astype(np.int64)

    def take_off(self, raw: IntColumn, nodes: Nodes, rows: Rows, amounts: IntColumn) -> None:
        """Subtract amounts at rows of the table from a column of a view."""
        if nodes.is_live:
            np.subtract.at(raw, rows, amounts)  # few rows of all
        else:
            raw -= self.spread(nodes, rows, amounts)

    def rebuild(self, cluster: "Cluster") -> None:
        """Rebuild all state from `cluster`."""
        self.places = RowPlaces()
        for row in cluster.table.rows.values():
            node = cluster.table.nodes[row]
            if node is not None:
                self.places.set(row, node.metadata.labels)
        self._app_groups = {}
        for group in cluster.store.of("AppGroup").values():
            self._app_groups.setdefault(group.metadata.name, {})[group.metadata.namespace] = group
        super().rebuild(cluster)

    def apply(self, change: Change) -> None:
        """Apply one change."""
        if change.kind == "Node" and self._cluster is not None:
            self._follow_node(change, self._cluster)
        elif change.kind == "AppGroup":
            self._follow_group(change)
        elif change.kind == "NetworkTopologySlice":
            self.slices_version += 1
        else:
            super().apply(change)

    def passes_over(self, placed: Placed) -> bool:
        """Return whether a pod belongs to no AppGroup."""
        return GROUP_LABEL not in placed.pod.metadata.labels

    def is_same(self, before: Placed, after: Placed) -> bool:
        """Return whether two records of a pod on one node have the same effect on the counts."""
        return _labels(before) == _labels(after)

    def hold(self, placed: Placed, row: int) -> None:
        """Count a pod on a row."""
        self._count(placed, row, 1)

    def release(self, placed: Placed, row: int) -> None:
        """Stop counting a pod on a row."""
        self._count(placed, row, -1)

    def columns(self) -> Mapping[str, Any]:
        """Return pods by group, workload, row and place, and the default allocations."""
        found: dict[str, Any] = {
            f"{named.namespace}/{named.label}": sorted(
                (*cell, self.places.names[self.places.of(cell[1])]) for cell in pods.cells()
            )
            for named, pods in self._labelled.pods.items()
        }
        found["groups"] = sorted(self.membership(("default",)).columns().items())
        return {name: np.array([repr(value)]) for name, value in found.items()}

    def _size(self) -> int:
        return self._cluster.table.size if self._cluster is not None else 0

    def _count(self, placed: Placed, row: int, number: int) -> None:
        named, workload = _labels(placed)
        if named is None:
            return
        self._labelled.add(named, workload, row, number)
        for membership in self._memberships.values():
            membership.moved(named, workload, row, number)

    def _follow_node(self, change: Change, cluster: "Cluster") -> None:
        name = change.node.metadata.name
        if change.verb in ("add", "delete"):
            self.nodes_version += 1
        if change.verb == "add":
            self.places.set(cluster.table.rows[name], change.new.metadata.labels)
            super().apply(change)
        elif change.verb == "delete":
            row = self._rows[name]
            super().apply(change)
            self.places.set(row, _NONE)
        elif change.old.metadata.labels != change.new.metadata.labels:
            self.places.set(self._rows[name], change.new.metadata.labels)
            for placed in cluster.pods.on(name).values():
                named, _ = _labels(placed)
                if named is not None:
                    for membership in self._memberships.values():
                        membership.touch(named)

    def _follow_group(self, change: Change) -> None:
        old, new = change.old, change.new
        self.groups_version += 1
        group = new if new is not None else old
        name, namespace = group.metadata.name, group.metadata.namespace
        there = self._app_groups.setdefault(name, {})
        if change.verb == "delete":
            there.pop(namespace, None)
        else:
            there[namespace] = new
        if not there:
            del self._app_groups[name]
        if old is not None and new is not None and old.spec == new.spec:
            return  # a status was written
        self._labelled.renumber(name)
        for membership in self._memberships.values():
            membership.follow(group)


def _labels(placed: Placed) -> tuple[Named | None, str]:
    """Return the group and workload that a pod's labels name; None without the label."""
    meta = placed.pod.metadata
    label = meta.labels.get(GROUP_LABEL, "")
    return (
        (Named(meta.namespace, label), meta.labels.get(WORKLOAD_LABEL, "")) if label else (None, "")
    )
