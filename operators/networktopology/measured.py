"""From measured latencies between nodes to costs between regions, zones and segments.

Pure except for the shortest paths (see `paths`). The operator writes the table into
`status.weights`, never into the user's spec. An unmeasured pair has no cost: it counts as the most
expensive, never as free. Published costs are shortest paths, so a known detour beats a slower
direct path.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from operators.cooperative import in_turns
from operators.networktopology.paths import NO_PATH, Network, closed
from operators.networktopology.readings import Reading
from operators.operator import Calculator
from scheduler.base.arrays import BoolColumn, FloatColumn, IntColumn, IntMatrix, Rows
from scheduler.base.clock import rfc3339
from scheduler.objects.network import (
    NETPERF_COSTS,
    REGION_LABEL,
    ZONE_LABEL,
    Cost,
    Edge,
    Origin,
    Statistics,
    TopologyCosts,
    Weights,
)

SEGMENT_LABEL = "topology.kubernetes.io/segment"
LEVELS = (REGION_LABEL, ZONE_LABEL, SEGMENT_LABEL)
# An object ends at about 1.5 MiB; a cost takes about 60 bytes, an edge about 200.
MOST_PATHS = 8_000
MOST_EDGES = 2_000


class MeasuredNode(msgspec.Struct, frozen=True):
    """A node with its relevant labels."""

    name: str
    labels: Mapping[str, str] = {}


class LatencySamples(NamedTuple):
    """Latencies between nodes as columns; nodes by their number, `at` in seconds since the
    epoch.
    """

    nodes: Sequence[MeasuredNode]
    origins: Rows
    targets: Rows
    latencies: IntColumn
    at: FloatColumn


class LabelLatencies(NamedTuple):
    """Measurements between the values of one label, in both directions, the lower name first."""

    level: str
    values: tuple[str, ...]
    first: IntColumn
    second: IntColumn
    means: IntColumn
    counts: IntColumn
    newest: FloatColumn


class Calculated(msgspec.Struct, frozen=True):
    """The table and the measurements behind it.

    `paths` and `nodes` are the numbers of measured paths and nodes, `left_out` the number of costs
    beyond the object's size limit.
    """

    table: Weights
    edges: tuple[Edge, ...] = ()
    paths: int = 0
    nodes: int = 0
    left_out: int = 0


async def samples(
    nodes: Iterable[MeasuredNode], reading: Reading, read_at: float
) -> LatencySamples:
    """Return the latencies between known nodes; entries without a time have the response's age."""
    listed = sorted(nodes, key=lambda node: node.name)
    number = {node.name: place for place, node in enumerate(listed)}
    known = []
    async for handful in in_turns(reading.latencies.items()):
        known += [
            (number[pair[0]], number[pair[1]], latency, reading.taken.get(pair, read_at))
            for pair, latency in handful
            if pair[0] in number and pair[1] in number and pair[0] != pair[1]
        ]
    origins, targets, values, times = zip(*known, strict=True) if known else ((), (), (), ())
    return LatencySamples(
        listed,
        np.array(origins, dtype=np.intp),
        np.array(targets, dtype=np.intp),
        np.array(values, dtype=np.int64),
        np.array(times, dtype=np.float64),
    )


async def calculated(
    found: LatencySamples,
    calculator: Calculator | None = None,
    *,
    name: str = NETPERF_COSTS,
    unit_us: int = 1,
) -> Calculated:
    """Return the table of costs between the values of each label that at least one node has.

    The edge between two values is the mean of the measurements between their nodes, in both
    directions. Zones are connected inside their region only; the edges of regions cover the rest.
    """
    in_use = [level for level in LEVELS if any(level in node.labels for node in found.nodes)]
    by_node = await closed(_network(found), calculator) if len(found.origins) else None
    tables, edges, left, left_out = [], [], MOST_PATHS, 0
    for level in in_use:
        between = measured_between(found, level)
        network = _both_directions(between)
        costs = await closed(network, calculator)
        rows = _rows(between, _direct(network) if costs is None else costs)
        if sum(map(len, rows)) > left:
            rows = _rows(between, _direct(network))
        if sum(map(len, rows)) > left:
            left_out += sum(map(len, rows))
            rows = [() for _ in rows]
        left -= sum(map(len, rows))
        inside = _inside(found, between, by_node)
        await asyncio.sleep(0)
        origins = zip(between.values, rows, inside, strict=True)
        tables.append(
            TopologyCosts(
                topology_key=level,
                origin_list=tuple(
                    Origin(origin=value, cost_list=paths, origin_intra_statistics=reported)
                    for value, paths, reported in origins
                ),
            )
        )
        edges += list(_edges(between, unit_us))
    table = Weights(name=name, topology_list=tuple(tables))
    ends = len(np.union1d(found.origins, found.targets))
    return Calculated(table, tuple(edges[:MOST_EDGES]), len(found.origins), ends, left_out)


def measured_between(found: LatencySamples, level: str) -> LabelLatencies:
    """Return the mean measurements between the values of a label."""
    values = sorted({node.labels.get(level, "") for node in found.nodes})
    number = {value: place for place, value in enumerate(values)}
    code = np.array([number[node.labels.get(level, "")] for node in found.nodes], dtype=np.int64)
    ends = np.sort(np.stack((code[found.origins], code[found.targets])), axis=0)
    counts = ends[0] != ends[1]
    if level == ZONE_LABEL:
        counts &= _in_one_region(found)
    keys, which = np.unique(ends[0][counts] * len(values) + ends[1][counts], return_inverse=True)
    sums, newest = np.zeros(len(keys), dtype=np.int64), np.zeros(len(keys))
    np.add.at(sums, which, found.latencies[counts])
    np.maximum.at(newest, which, found.at[counts])
    times = np.bincount(which, minlength=len(keys))
    first, second = np.divmod(keys, max(len(values), 1))
    means = (2 * sums + times) // (2 * np.maximum(times, 1))  # to the nearest, halves up
    return LabelLatencies(level, tuple(values), first, second, means, times, newest)


def _in_one_region(found: LatencySamples) -> BoolColumn:
    regions = np.array([node.labels.get(REGION_LABEL, "") for node in found.nodes], dtype=object)
    same: BoolColumn = (regions[found.origins] == regions[found.targets]).astype(np.bool_)
    return same


def _network(found: LatencySamples) -> Network:
    """Return the paths between nodes; one measured in one direction serves both."""
    size = len(found.nodes)
    there = found.origins * size + found.targets
    back = found.targets * size + found.origins
    missing = ~np.isin(back, there)
    return Network(
        size,
        np.concatenate((found.origins, found.targets[missing])),
        np.concatenate((found.targets, found.origins[missing])),
        np.concatenate((found.latencies, found.latencies[missing])),
    )


def _both_directions(between: LabelLatencies) -> Network:
    return Network(
        len(between.values),
        np.concatenate((between.first, between.second)),
        np.concatenate((between.second, between.first)),
        np.concatenate((between.means, between.means)),
    )


def _direct(network: Network) -> IntMatrix:
    """Return the matrix of the links themselves."""
    costs = np.full((network.places, network.places), NO_PATH, dtype=np.int64)
    costs[network.origins, network.targets] = network.costs
    return costs


def _rows(between: LabelLatencies, costs: IntMatrix) -> list[tuple[Cost, ...]]:
    return [
        tuple(
            Cost(destination=between.values[there], network_cost=int(row[there]))
            for there in np.flatnonzero(row != NO_PATH).tolist()
            if there != here
        )
        for here, row in enumerate(costs)
    ]


def _inside(
    found: LatencySamples, between: LabelLatencies, costs: IntMatrix | None
) -> list[Statistics | None]:
    """Return minimum, mean and maximum cost between the nodes of each value, None where unknown."""
    if costs is None:
        return [None] * len(between.values)
    values = [node.labels.get(between.level, "") for node in found.nodes]
    reported: list[Statistics | None] = []
    for value in between.values:
        rows = np.array([place for place, one in enumerate(values) if one == value], dtype=np.intp)
        inside = costs[np.ix_(rows, rows)]
        np.fill_diagonal(inside, NO_PATH)
        inside = inside[inside != NO_PATH]
        if not len(inside):
            reported.append(None)
            continue
        reported.append(
            Statistics(
                min_cost=int(inside.min()),
                avg_cost=int(inside.sum()) // len(inside),
                max_cost=int(inside.max()),
            )
        )
    return reported


def _edges(between: LabelLatencies, unit_us: int) -> Iterator[Edge]:
    for place in range(len(between.means)):
        yield Edge(
            topology_key=between.level,
            origin=between.values[between.first[place]],
            destination=between.values[between.second[place]],
            latency_microseconds=int(between.means[place]) * unit_us,
            samples=int(between.counts[place]),
            measurement_time=rfc3339(between.newest[place]),
        )
