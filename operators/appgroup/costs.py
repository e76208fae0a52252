"""Network costs between the placed pods of an application: minimum, mean, maximum, by workload.

The figures are those of NetworkOverhead's score and of `explain`: 0 on one node, 1 in one zone, the
table's cost between zones and regions (`objects.networkpaths`), 100 for an unknown cost. Pure; the
operator passes nodes and tables.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import TypeAlias

import msgspec

from operators.appgroup.status import ObservedPod
from operators.cooperative import Steps, at_once
from scheduler.objects.groups.appgroup import AppGroupSpec
from scheduler.objects.groups.grouporder import MOST_WORKLOADS, finder
from scheduler.objects.network import REGION_LABEL, ZONE_LABEL, NetworkTopology, Statistics
from scheduler.objects.networkpaths import REGION, ZONE, PathTable
from scheduler.objects.node import Node

SAME_NODE, SAME_ZONE, UNKNOWN = 0, 1, 100
FEW = 64  # pairs of nodes that are evaluated one by one
PODS_AT_A_TIME, WORKLOADS_AT_A_TIME = 4000, 100

Summed: TypeAlias = tuple[dict[str, Statistics], Statistics | None]


class NodePlaces(msgspec.Struct, frozen=True):
    """Region and zone of each node, and the known costs between them."""

    of_node: Mapping[str, tuple[str, str]] = {}
    paths: PathTable | None = None

    def cost(self, node: str, other: str) -> int:
        """Return the cost from one node to another."""
        return SAME_NODE if node == other else self.apart(node, other)

    def apart(self, node: str, other: str) -> int:
        """Return the cost from one node to another one that is in the same place as `other`."""
        here, there = self.of_node.get(node), self.of_node.get(other)
        if here is None or there is None or not any(there):
            return UNKNOWN
        if here == there:
            return SAME_ZONE
        if self.paths is None:
            return UNKNOWN
        ends = (ZONE, here[1], there[1]) if here[0] == there[0] else (REGION, here[0], there[0])
        found = self.paths.cost(*ends)
        return UNKNOWN if found is None else found


def places(nodes: Iterable[Node], topology: NetworkTopology | None, weights: str) -> NodePlaces:
    """Return the places of nodes and the table of that name; status replaces a missing spec."""
    of_node = {
        node.metadata.name: (
            node.metadata.labels.get(REGION_LABEL, ""),
            node.metadata.labels.get(ZONE_LABEL, ""),
        )
        for node in nodes
    }
    return NodePlaces(of_node, None if topology is None else PathTable(topology, weights))


def statistics(spec: AppGroupSpec, pods: Iterable[ObservedPod], at: NodePlaces) -> Summed:
    """Return the cost of each workload's placed pods to their dependencies, and the total."""
    return at_once(summing(spec, pods, at))


def summing(spec: AppGroupSpec, pods: Iterable[ObservedPod], at: NodePlaces) -> Steps[Summed]:
    """Calculate `statistics` in steps."""
    nodes: dict[str, Counter[str]] = defaultdict(Counter)
    for number, pod in enumerate(pods, 1):
        if pod.node:
            nodes[pod.workload][pod.node] += 1
        if not number % PODS_AT_A_TIME:
            yield
    by_workload: dict[str, Statistics] = {}
    everything: Counter[int] = Counter()
    members = spec.members[:MOST_WORKLOADS]
    find = finder(members)
    for number, entry in enumerate(members, 1):
        if not number % WORKLOADS_AT_A_TIME:
            yield
        costs: Counter[int] = Counter()
        here = nodes.get(entry.workload.label)
        for dependency in entry.dependencies if here else ():
            there = nodes.get(find(dependency.workload) or dependency.workload.label)
            if here and there:
                costs.update(_pairs(here, there, at))
        if costs:
            by_workload[entry.workload.label] = _of(costs)
            everything.update(costs)
    return by_workload, _of(everything) if everything else None


def _pairs(here: Counter[str], there: Counter[str], at: NodePlaces) -> Counter[int]:
    """Return the number of pairs of pods by cost; pods of one place are equivalent unless they
    share a node.
    """
    found: Counter[int] = Counter()
    if len(here) * len(there) <= FEW:
        for node, count in here.items():
            for second, number in there.items():
                found[at.cost(node, second)] += count * number
        return found
    sides = [_by_place(side, at) for side in (here, there)]
    for place, (count, node) in sides[0].items():
        for other, (number, second) in sides[1].items():
            cost = at.apart(node, second) if place == other else at.cost(node, second)
            found[cost] += count * number
    for node in here.keys() & there.keys():
        together = here[node] * there[node]
        found[at.apart(node, node)] -= together
        found[SAME_NODE] += together
    return +found


def _by_place(nodes: Counter[str], at: NodePlaces) -> dict[object, tuple[int, str]]:
    """Return the number of pods by place, with one of its nodes."""
    found: dict[object, tuple[int, str]] = {}
    for node, count in nodes.items():
        place = at.of_node.get(node)
        before, first = found.get(place, (0, node))
        found[place] = before + count, first
    return found


def _of(costs: Counter[int]) -> Statistics:
    mean = sum(cost * number for cost, number in costs.items()) // costs.total()
    return Statistics(min_cost=min(costs), avg_cost=mean, max_cost=max(costs))
