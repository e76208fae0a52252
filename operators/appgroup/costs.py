"""What the placed pods of an application cost each other: least, mean and greatest, by workload.

The same figures that NetworkOverhead scores by: 0 on one node, 1 in one zone, the table's cost between
zones and regions, 100 where nobody knows. Pure; the operator hands in nodes and tables.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

import msgspec

from operators.appgroup.status import ObservedPod
from scheduler.objects.groups import AppGroupSpec
from scheduler.objects.network import REGION_LABEL, ZONE_LABEL, NetworkTopology, Statistics
from scheduler.objects.node import Node

SAME_NODE, SAME_ZONE, UNKNOWN = 0, 1, 100


class Places(msgspec.Struct, frozen=True):
    """Region and zone of each node, and the known costs between them."""

    of_node: Mapping[str, tuple[str, str]] = {}
    regions: Mapping[tuple[str, str], int] = {}
    zones: Mapping[tuple[str, str], int] = {}

    def cost(self, node: str, other: str) -> int:
        """Return the cost from one node to another."""
        if node == other:
            return SAME_NODE
        here, there = self.of_node.get(node), self.of_node.get(other)
        if here is None or there is None or not any(there):
            return UNKNOWN
        if here == there:
            return SAME_ZONE
        if here[0] == there[0]:
            return self.zones.get((here[1], there[1]), UNKNOWN)
        return self.regions.get((here[0], there[0]), UNKNOWN)


def places(nodes: Iterable[Node], topology: NetworkTopology | None, weights: str) -> Places:
    """Return where nodes stand and what the table of that name says; status stands in for spec."""
    of_node = {
        node.metadata.name: (
            node.metadata.labels.get(REGION_LABEL, ""),
            node.metadata.labels.get(ZONE_LABEL, ""),
        )
        for node in nodes
    }
    tables: dict[str, dict[tuple[str, str], int]] = {REGION_LABEL: {}, ZONE_LABEL: {}}
    sources = () if topology is None else (topology.spec.weights, topology.status.weights)
    for listed in sources:
        chosen = [one for one in listed or () if one.name == weights]
        for level in (level for one in chosen for level in one.levels):
            table = tables.get(level.topology_key)
            if table is None:
                continue
            for origin in level.origins:
                for way in origin.ways:
                    if way.network_cost is not None:
                        table.setdefault((origin.origin, way.destination), way.network_cost)
        if chosen:
            break
    return Places(of_node, tables[REGION_LABEL], tables[ZONE_LABEL])


def statistics(
    spec: AppGroupSpec, pods: Iterable[ObservedPod], at: Places
) -> tuple[dict[str, Statistics], Statistics | None]:
    """Return the cost of each workload's placed pods to what they depend on, and of all together."""
    nodes: dict[str, list[str]] = defaultdict(list)
    for pod in pods:
        if pod.node:
            nodes[pod.workload].append(pod.node)
    by_workload: dict[str, Statistics] = {}
    everything: list[int] = []
    for entry in spec.members:
        costs = [
            at.cost(node, other)
            for dependency in entry.dependencies
            for node in nodes.get(entry.workload.label, ())
            for other in nodes.get(dependency.workload.label, ())
        ]
        if costs:
            by_workload[entry.workload.label] = _of(costs)
            everything += costs
    return by_workload, _of(everything) if everything else None


def _of(costs: list[int]) -> Statistics:
    return Statistics(min_cost=min(costs), avg_cost=sum(costs) // len(costs), max_cost=max(costs))
