"""`closed`: the paths of least cost through a network (Dijkstra), in steps that do not block the
loop.

Up to some 200 places networkx runs here, one origin at a time; larger networks are passed to the
calculator's kernel in another process. Used for costs of paths that were not measured directly.
"""

import asyncio
from importlib import import_module
from typing import NamedTuple

import msgspec
import numpy as np
import structlog

from operators.operator import Calculator
from scheduler.base.arrays import IntColumn, IntMatrix

MOST_HERE = 200
MOST_PLACES = 2_000  # the answer is a matrix: 32 MB
LIMIT_S = 5.0  # groups wait for their solver meanwhile
NO_PATH = -1

_log = structlog.get_logger("operators.networktopology")


class Network(NamedTuple):
    """Directed links: number i leads from place `origins[i]` to `targets[i]` at `costs[i]` (>=
    0).
    """

    places: int
    origins: IntColumn
    targets: IntColumn
    costs: IntColumn


async def closed(network: Network, calculator: Calculator | None) -> IntMatrix | None:
    """Return the least costs from row to column, `NO_PATH` without a path.

    None for a network that is too large; it then lacks only paths and statistics.
    """
    if network.places <= MOST_HERE:
        return await _here(network)
    if calculator is None or network.places > MOST_PLACES:
        return None
    job = {
        "nodes": network.places,
        "origins": network.origins.tolist(),
        "targets": network.targets.tolist(),
        "costs": network.costs.tolist(),
    }
    outcome = await calculator.run("shortest_paths", msgspec.json.encode(job), LIMIT_S)
    if not outcome.ok:
        _log.warning("no shortest paths", places=network.places, error=outcome.message)
        return None
    return np.frombuffer(outcome.blob, dtype=np.int64).reshape(network.places, network.places)


async def _here(network: Network) -> IntMatrix:
    # The import takes an eighth of a second: not at each start, and not on the loop.
    nx = await asyncio.to_thread(import_module, "networkx")
    graph = nx.DiGraph()
    graph.add_weighted_edges_from(
        zip(network.origins.tolist(), network.targets.tolist(), network.costs.tolist(), strict=True)
    )
    costs = np.full((network.places, network.places), NO_PATH, dtype=np.int64)
    np.fill_diagonal(costs, 0)
    for origin in graph:
        found = nx.single_source_dijkstra_path_length(graph, origin)
        costs[origin, list(found)] = list(found.values())
        await asyncio.sleep(0)
    return costs
