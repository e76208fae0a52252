"""`NodeTable`: one row per node, one column per fact.

Rows never move: a node keeps its row until it is deleted, then the row is reused. All amounts are
int64: CPU in milli, everything else in whole units. `Cluster` is the only writer.
"""

from collections.abc import Mapping
from hashlib import blake2b
from typing import Final

import numpy as np

from scheduler.base.arrays import BoolColumn, HashColumn, IntColumn, ObjectColumn
from scheduler.objects.node import Node
from scheduler.state.columns import Column
from scheduler.state.counts.touched import Touched
from scheduler.state.features import FeatureIndex
from scheduler.state.images import ImageIndex
from scheduler.state.labels import LabelIndex
from scheduler.state.podindex import Placed
from scheduler.state.ports import HostPorts
from scheduler.state.resources import CPU, LARGEST, MEMORY, PODS, ResourceIndex, amounts
from scheduler.state.taints import TaintIndex

# The values of a row without a node.
NO_NODE: Final = Node()


def stable_hash(text: str) -> int:
    """Return a 64-bit hash that is the same in every process."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


class NodeTable:
    """The nodes of the cluster in columns."""

    def __init__(self) -> None:
        self.rows: dict[str, int] = {}
        self.nodes: list[Node | None] = []
        self.resources = ResourceIndex()
        self.labels = LabelIndex()
        self.taints = TaintIndex()
        self.images = ImageIndex()
        self.features = FeatureIndex()
        # Conditions of nodes as `Type=Status`.
        self.conditions = FeatureIndex()
        self.ports = HostPorts()
        self.amounts_touched = Touched()
        self.facts_touched = Touched()
        self._free: list[int] = []
        self._allocatable: list[Column[np.int64]] = []
        self._requested: list[Column[np.int64]] = []
        self._scored: dict[str, Column[np.int64]] = {
            CPU: Column(np.int64),
            MEMORY: Column(np.int64),
        }
        self._exists: Column[np.bool_] = Column(np.bool_, fill=False)
        self._unschedulable: Column[np.bool_] = Column(np.bool_, fill=False)
        self._name_hash: Column[np.uint64] = Column(np.uint64)
        self._names: ObjectColumn = np.array([], dtype=np.object_)
        self._names_at = -1
        self._name_ranks: IntColumn = np.array([], dtype=np.int64)
        self._ranked_at = -1
        self._widen()

    def __len__(self) -> int:
        """Return the number of nodes (rows may be more)."""
        return len(self.rows)

    @property
    def size(self) -> int:
        """Return the number of rows, freed ones included."""
        return len(self.nodes)

    @property
    def exists(self) -> BoolColumn:
        """Return the rows that hold a node."""
        return self._exists.values

    @property
    def unschedulable(self) -> BoolColumn:
        """Return the rows whose node has spec.unschedulable."""
        return self._unschedulable.values

    @property
    def name_hash(self) -> HashColumn:
        """Return a stable 64-bit hash of each node's name."""
        return self._name_hash.values

    @property
    def generation(self) -> int:
        """Return a number that changes when nodes are added or removed."""
        return self._exists.generation

    @property
    def names(self) -> ObjectColumn:
        """Return the names of all rows, '' for a row without a node; cached until nodes change."""
        if self._names_at != self.generation:
            texts = [node.metadata.name if node is not None else "" for node in self.nodes]
            self._names, self._names_at = np.array(texts, dtype=np.object_), self.generation
        return self._names

    @property
    def name_ranks(self) -> IntColumn:
        """Return each row's rank among all names; cached until nodes change."""
        if self._ranked_at != self.generation:
            # Of objects: an array of texts would hold every name at the length of the longest.
            order = sorted(range(self.size), key=self.names.tolist().__getitem__)
            self._name_ranks = np.empty(self.size, np.int64)
            self._name_ranks[order] = np.arange(self.size)
            self._ranked_at = self.generation
        return self._name_ranks

    def name(self, row: int) -> str:
        """Return the name of the node in a row."""
        node = self.nodes[row]
        return node.metadata.name if node is not None else ""

    def allocatable(self, resource: str) -> IntColumn:
        """Return each node's allocatable amount of a resource; 0 if the node lacks it."""
        return self._amounts(self._allocatable, resource)

    def requested(self, resource: str) -> IntColumn:
        """Return the requests of placed pods for a resource; for `pods` their number."""
        return self._amounts(self._requested, resource)

    def overcommitted(self) -> int:
        """Return how many nodes have pods that request more than the node offers."""
        short = np.zeros(self.size, np.bool_)
        for resource in self.resources:
            short |= self.requested(resource) > self.allocatable(resource)
        return int(np.count_nonzero(short))

    def short(self, row: int, requests: Mapping[str, int]) -> frozenset[str]:
        """Return the resources (and pod slots) whose allocated amount on a row exceeds its
        allocatable one.
        """
        short: set[str] = set()
        for name in (*requests, PODS):
            index = self.resources.get(name)
            if index is not None:
                given = self._allocatable[index].values[row]
                if self._requested[index].values[row] > given:
                    short.add(name)
        return frozenset(short)

    def scored(self, resource: str) -> IntColumn:
        """Return the requests of cpu or memory with assumed amounts for containers without."""
        return self._scored[resource].values

    def reserve(self, count: int) -> None:
        """Create free rows for `count` nodes at once, which is less expensive than one by one."""
        more = range(self.size, self.size + count - len(self._free))
        if more:
            self.nodes += [None] * len(more)
            self._free += reversed(more)
            for column in self._all_columns():
                column.grow(self.size)
            self._describe(more[-1], NO_NODE)

    def put(self, node: Node, pods: Mapping[str, Placed]) -> int:
        """Add or replace a node; `pods` already count on it. ObjectError changes nothing."""
        # Scores are percentages: a hundred times the amount of a node must fit an int64. And a pod
        # that requests the largest amount must not fit.
        given = amounts(node.status.allocatable)
        offers = {name: max(-LARGEST, min(amount, LARGEST - 1)) for name, amount in given.items()}
        name = node.metadata.name
        row = self.rows.get(name)
        if row is None:
            row = self._new_row(name)
            self.nodes[row] = node
            for placed in pods.values():
                self.hold(row, placed)
        self.nodes[row] = node
        for resource in offers:
            self.resources.column(resource)
        self._widen()
        for resource, column in zip(self.resources, self._allocatable, strict=True):
            if column.values[row] != offers.get(resource, 0):
                column.set(row, offers.get(resource, 0))
                self.amounts_touched.add(row)
        self.facts_touched.add(row)
        if self._unschedulable.values[row] != node.spec.unschedulable:
            self._unschedulable.set(row, node.spec.unschedulable)
        self._describe(row, node)
        return row

    def remove(self, name: str, pods: Mapping[str, Placed]) -> int:
        """Remove a node and return its row; `pods` stop counting on it."""
        row = self.rows.pop(name)
        for placed in pods.values():
            self.release(row, placed)
        self.nodes[row] = None
        for column in self._allocatable:
            column.clear(row)
        self.amounts_touched.add(row)
        self.facts_touched.add(row)
        self._exists.clear(row)
        self._unschedulable.clear(row)
        self._describe(row, NO_NODE)
        self._free.append(row)
        return row

    def _describe(self, row: int, node: Node) -> None:
        self.labels.set(row, node.metadata.labels)
        self.taints.set(row, node.spec.taints)
        self.images.set(row, node.status.images)
        self.features.set(row, node.status.declared_features)
        conditions = tuple(f"{one.type}={one.status}" for one in node.status.conditions)
        self.conditions.set(row, conditions)

    def hold(self, row: int, placed: Placed) -> None:
        """Count a pod on a row."""
        self._count(row, placed, 1)
        if placed.shape.host_ports:
            self.ports.hold(row, placed.shape.host_ports)

    def release(self, row: int, placed: Placed) -> None:
        """Take a pod off a row."""
        self._count(row, placed, -1)
        if placed.shape.host_ports:
            self.ports.release(row, placed.shape.host_ports)

    def _count(self, row: int, placed: Placed, sign: int) -> None:
        self.amounts_touched.add(row)
        for resource, amount in placed.requests.items():
            index = self.resources.get(resource)
            if index is None:
                index = self.resources.column(resource)
                self._widen()
            self._requested[index].add(row, sign * amount)
        self._requested[self.resources.column(PODS)].add(row, sign)
        cpu, memory = placed.scored_requests
        self._scored[CPU].add(row, sign * cpu)
        self._scored[MEMORY].add(row, sign * memory)

    def _amounts(self, columns: list[Column[np.int64]], resource: str) -> IntColumn:
        index = self.resources.get(resource)
        if index is None:
            return np.zeros(self.size, dtype=np.int64)
        return columns[index].values

    def _new_row(self, name: str) -> int:
        if self._free:
            row = self._free.pop()
        else:
            row = len(self.nodes)
            self.nodes.append(None)
            for column in self._all_columns():
                column.grow(row + 1)
        self.rows[name] = row
        self.amounts_touched.add(row)
        self._exists.set(row, True)
        self._name_hash.set(row, stable_hash(name))
        return row

    def _all_columns(self) -> list[Column[np.int64] | Column[np.bool_] | Column[np.uint64]]:
        return [
            *self._allocatable,
            *self._requested,
            *self._scored.values(),
            self._exists,
            self._unschedulable,
            self._name_hash,
        ]

    def _widen(self) -> None:
        """Add columns for each new resource."""
        while len(self._allocatable) < len(self.resources):
            self._allocatable.append(Column(np.int64, 0, self.size))
            self._requested.append(Column(np.int64, 0, self.size))
