"""From measured latencies between nodes to costs between regions, zones and segments.

Pure: the operator fetches the measurements, calls `measured_weights` and writes the table into
`status.weights` (never into the user's spec). What was not measured has no cost at all: it counts as
the most expensive, never as free. Published costs are shortest paths, so a detour that is known beats
a direct way that is slower.
"""

from __future__ import annotations

import heapq
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from fractions import Fraction

import msgspec

from scheduler.objects.network import (
    NETPERF_COSTS,
    REGION_LABEL,
    ZONE_LABEL,
    Cost,
    Origin,
    TopologyCosts,
    Weights,
)

SEGMENT_LABEL = "topology.kubernetes.io/segment"
LEVELS = (REGION_LABEL, ZONE_LABEL, SEGMENT_LABEL)

# Both spellings in use; the unit stands in the key.
_KEY = re.compile(
    r"netperf[._]p(?P<percentile>\d{1,2})[._]latency[._](?P<unit>milli|micro)seconds"
    r"\.origin\.(?P<origin>.+?)\.destination\.(?P<destination>.+)"
)

Pair = tuple[str, str]
Graph = dict[str, dict[str, Fraction]]


class MeasuredNode(msgspec.Struct, frozen=True):
    """A node and the labels of it that matter."""

    name: str
    labels: Mapping[str, str] = {}


class Reading(msgspec.Struct, frozen=True):
    """Latencies by (origin node, destination node) in the unit of the source; what was unreadable."""

    latencies: dict[Pair, int]
    refused: tuple[str, ...] = ()


def read_config_map(data: Mapping[str, str], percentile: int = 90) -> Reading:
    """Read measurements from a ConfigMap in either spelling of its keys.

    Costs are the numbers as they stand: milliseconds or microseconds, whichever the map uses. Where it
    mixes both, milliseconds are turned into microseconds. A bad number is named and left out.
    """
    found: dict[Pair, tuple[str, int]] = {}
    refused = []
    for key, text in sorted(data.items()):
        match = _KEY.fullmatch(key)
        if match is None or int(match["percentile"]) != percentile:
            continue
        pair = (match["origin"], match["destination"])
        # Python's int takes blanks and underscores, the source never means those.
        if not (text.isascii() and text.isdigit()):
            refused.append(f'{key}: "{text}" is not a whole number')
            continue
        found[pair] = (match["unit"], int(text))
    units = {unit for unit, _ in found.values()}
    factor = {"milli": 1000 if len(units) > 1 else 1, "micro": 1}
    return Reading(
        {pair: value * factor[unit] for pair, (unit, value) in found.items()}, tuple(refused)
    )


def measured_weights(
    nodes: Iterable[MeasuredNode],
    latencies: Mapping[Pair, int],
    name: str = NETPERF_COSTS,
    levels: Iterable[str] = LEVELS,
) -> Weights:
    """Return the table of costs between the values of each topology label that some node has.

    The edge between two values is the mean of what was measured between their nodes, either way. Zones
    are connected inside their region only; what lies beyond is the region's business.
    """
    known = {node.name: node for node in nodes}
    in_use = [level for level in levels if any(level in node.labels for node in known.values())]
    tables = tuple(_level(level, known, latencies) for level in in_use)
    return Weights(name=name, topology_list=tables)


def shortest(graph: Graph, start: str) -> dict[str, Fraction]:
    """Return the cost of the cheapest way from `start` to all that can be reached (Dijkstra)."""
    found: dict[str, Fraction] = {}
    ahead = [(Fraction(0), start)]
    while ahead:
        cost, here = heapq.heappop(ahead)
        if here in found:
            continue
        found[here] = cost
        for there, step in graph.get(here, {}).items():
            if there not in found:
                heapq.heappush(ahead, (cost + step, there))
    return found


def _level(
    level: str, nodes: Mapping[str, MeasuredNode], latencies: Mapping[Pair, int]
) -> TopologyCosts:
    values = sorted({node.labels.get(level, "") for node in nodes.values()})
    measured: dict[Pair, list[int]] = defaultdict(list)
    for (origin, destination), latency in latencies.items():
        one, other = nodes.get(origin), nodes.get(destination)
        if one is None or other is None or latency < 0:
            continue
        ends = sorted((one.labels.get(level, ""), other.labels.get(level, "")))
        if ends[0] == ends[1] or (level == ZONE_LABEL and _differ(one, other)):
            continue
        measured[ends[0], ends[1]].append(latency)
    graph: Graph = {}
    for (first, second), figures in measured.items():
        mean = Fraction(sum(figures), len(figures))
        graph.setdefault(first, {})[second] = mean
        graph.setdefault(second, {})[first] = mean
    return TopologyCosts(
        topology_key=level,
        origin_list=tuple(
            Origin(
                origin=value,
                cost_list=tuple(
                    Cost(destination=there, network_cost=round(cost))
                    for there, cost in sorted(shortest(graph, value).items())
                    if there != value
                ),
            )
            for value in values
        ),
    )


def _differ(one: MeasuredNode, other: MeasuredNode) -> bool:
    return one.labels.get(REGION_LABEL, "") != other.labels.get(REGION_LABEL, "")
