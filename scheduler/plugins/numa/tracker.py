"""`Topologies`: the NUMA zones of all nodes, updated by every change of the cluster.

One for all profiles. `latest` has the last reports of agents. `reserving`, if a profile uses it,
has the free amounts after every pod that the figures do not include has used its share of every
zone: ours as soon as they are assumed, other schedulers' too. The plugin reads it and writes only
the marks of nodes to which a pod is being bound.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from scheduler.base.meters import Meters
from scheduler.framework import BoolColumn, Change, Node, PerShape, Placed
from scheduler.objects.reports.numa import NodeResourceTopology
from scheduler.plugins.numa.demand import ALWAYS_OFFERED, demand_of
from scheduler.plugins.numa.reserving import Following, Reserving
from scheduler.plugins.numa.zonecolumns import ZoneColumns
from scheduler.plugins.numa.zones import Zones, kubelet_settings, read_zones
from scheduler.state.columns import Column

if TYPE_CHECKING:
    from scheduler.state.cluster import Cluster

KIND = "NodeResourceTopology"
# The states of a node; `states.py` describes them.
WITHOUT, USED, BEHIND, STALE = "without", "used", "behind", "stale"
STATES: Final = (WITHOUT, USED, BEHIND, STALE)


class Topologies:
    """Tracks NodeResourceTopologies, nodes and pods."""

    kinds: tuple[str, ...] = (KIND,)

    def __init__(self) -> None:
        self.latest = ZoneColumns()
        self.reserving: Reserving | None = None
        # The requests of pods, computed once for all users.
        self.demand = PerShape(demand_of)
        self._cluster: Cluster | None = None
        self._rows: dict[str, int] = {}
        self._offers: dict[str, Column[np.bool_]] = {}
        # The number of those rows, and the generation of the column for which it is valid.
        self._offering: dict[str, tuple[int, int]] = {}
        # uid → node, of pods between reserve and the end of their binding
        self._in_flight: dict[str, str] = {}

    # The tracker's interface.

    def rebuild(self, cluster: "Cluster") -> None:
        """Rebuild from `cluster`."""
        self.latest = ZoneColumns()
        self._cluster = cluster
        self._rows = {}
        self._offers = {}
        self._offering = {}
        if self.reserving is not None:
            self.reserving.clear(cluster)
        self.latest.grow(cluster.table.size)
        for name in cluster.table.rows:
            self._node_came(name)

    def passes_over(self, _placed: Placed) -> bool:
        """Return whether no plugin reads the pods' use of zones, which plugins declare when they
        are made.
        """
        return self.reserving is None

    def apply(self, change: Change) -> None:
        """Apply one change."""
        if change.kind == "Pod":
            if self.reserving is not None:
                self.reserving.pod(change.before, change.after)
        elif change.kind == KIND:
            obj = change.new if change.new is not None else change.old
            name = obj.metadata.name
            if name in self._rows and not is_same(change.old, change.new):
                self._show(name, change.new)
        elif change.kind == "Node":
            self._node(change)

    def columns(self) -> Mapping[str, Any]:
        """Return the agents' reports, as columns by name."""
        return dict(self.latest.columns("published"))

    # Queries of the plugin.

    def reserve(self, following: Following) -> Reserving:
        """Return the only over-reserve cache, created on first use with the first caller's
        settings.
        """
        if self.reserving is None:
            self.reserving = Reserving(following, self.demand)
            if self._cluster is not None:
                self.rebuild(self._cluster)
        return self.reserving

    @property
    def is_empty(self) -> bool:
        """Return whether no node has a topology."""
        return self.latest.count == 0

    def topology(self, name: str) -> NodeResourceTopology | None:
        """Return the last report of a node."""
        if self._cluster is None:
            return None
        return self._cluster.store.of(KIND).get(name)

    def offers(self, resource: str, size: int) -> BoolColumn | None:
        """Return the rows whose node offers a resource; None if every one does."""
        if resource in ALWAYS_OFFERED:
            return None
        column = self._offers.get(resource)
        if column is None:
            column = self._offers[resource] = Column(np.bool_, fill=False)
            column.grow(max(self._rows.values(), default=-1) + 1)
            for node, row in self._nodes():
                column.set(row, resource in node.status.allocatable)
        column.grow(size)
        number, generation = self._offering.get(resource, (0, -1))
        if generation != column.generation:
            number = int(np.count_nonzero(column.values))
            self._offering[resource] = number, column.generation
        return None if number == len(self._rows) else column.values[:size]

    def names(self) -> list[str]:
        """Return the names of all nodes."""
        return list(self._rows)

    def left(self, name: str) -> dict[str, tuple[int, ...]]:
        """Return by resource the free amounts of each zone of a node, as used for decisions."""
        columns = self.latest if self.reserving is None else self.reserving.columns
        row = self._rows[name]
        number = int(columns.layout_ids[row])
        zones = len(columns.layouts[number].ids) if number >= 0 else 0
        found = {}
        for resource in columns.resources_of(row):
            matrix = columns.free(resource)
            if matrix is not None:
                found[resource] = tuple(matrix[row, :zones].tolist())
        return found

    def state_of(self, name: str) -> str:
        """Return the state of a node."""
        if self.topology(name) is None:
            return WITHOUT
        if self.reserving is None:
            return USED
        if self.reserving.is_stale(name):
            return STALE
        reserved = self.reserving.by_node.get(name)
        return BEHIND if reserved is not None and reserved.waiting is not None else USED

    def measure(self, meters: Meters) -> None:
        """Register gauges of the nodes' states."""
        meters.numa_nodes.read_from(self._counts)
        meters.numa_stale_since.read_from(self._stale_since)

    def _counts(self) -> dict[tuple[str, ...], float]:
        found = Counter(self.state_of(name) for name in self._rows)
        return {(state,): float(found[state]) for state in STATES}

    def _stale_since(self) -> float:
        since = {} if self.reserving is None else self.reserving.stale_since()
        return min(since.values(), default=0.0)

    # Discard-reserved: a node is excluded while a pod is being bound to it.

    def hold(self, uid: str, node: str) -> None:
        """Record that a pod was reserved on a node."""
        self._in_flight[uid] = node

    def release(self, uid: str) -> None:
        """Record that a pod is bound, or that its reservation was undone."""
        self._in_flight.pop(uid, None)

    @property
    def has_reserved(self) -> bool:
        """Return whether a pod is being bound to any node."""
        return bool(self._in_flight)

    def reserved_rows(self) -> list[int]:
        """Return the rows of nodes to which pods are being bound."""
        return [self._rows[node] for node in self._in_flight.values() if node in self._rows]

    # Applying changes.

    def _node(self, change: Change) -> None:
        name = change.node.metadata.name
        if change.verb == "add":
            self._node_came(name)
        elif change.verb == "delete":
            row = self._rows.pop(name)
            self.latest.clear(row)
            for column in self._offers.values():
                if row < len(column.values):
                    column.clear(row)
            if self.reserving is not None:
                self.reserving.drop(name, row)
        else:
            self._note_offers(change.node, self._rows[name])

    def _node_came(self, name: str) -> None:
        if self._cluster is None:
            return
        row = self._rows[name] = self._cluster.table.rows[name]
        self.latest.grow(row + 1)
        node = self._cluster.table.nodes[row]
        if node is not None:
            self._note_offers(node, row)
        if self.reserving is not None:
            self.reserving.add(name, row)
        topology = self.topology(name)
        if topology is not None:
            self._show(name, topology)

    def _note_offers(self, node: Node, row: int) -> None:
        for resource, column in self._offers.items():
            column.grow(row + 1)
            column.set(row, resource in node.status.allocatable)
        self.latest.touched.add(row)
        if self.reserving is not None:
            self.reserving.columns.touched.add(row)

    def _show(self, name: str, topology: NodeResourceTopology | None) -> None:
        row = self._rows[name]
        zones: Zones | None = None
        if topology is None:
            self.latest.clear(row)
        else:
            zones = read_zones(topology)
            self.latest.put(row, zones, kubelet_settings(topology))
        if self.reserving is not None:
            self.reserving.publish(name, topology, zones)

    def _nodes(self) -> Iterator[tuple[Node, int]]:
        if self._cluster is None:
            return
        for row in self._rows.values():
            node = self._cluster.table.nodes[row]
            if node is not None:
                yield node, row


def is_same(old: NodeResourceTopology | None, new: NodeResourceTopology | None) -> bool:
    """Return whether two versions are equal apart from the time of writing."""
    if old is None or new is None:
        return old is new
    return (
        old.zones == new.zones
        and old.attributes == new.attributes
        and old.topology_policies == new.topology_policies
        and old.metadata.annotations == new.metadata.annotations
    )
