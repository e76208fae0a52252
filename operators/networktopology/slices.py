"""NetworkTopologySlices: the measured paths between single nodes, in objects below the size limit.

Pure. A slice has the rows of some of one zone's nodes. A hash of a node's name selects its slice,
so that a new or deleted node moves no other row. A published cost is kept while the measured one is
within 5 % of it: the noise of measurements would otherwise rewrite every slice each time.
"""

import asyncio
import hashlib
import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple
from zlib import crc32

import msgspec
import numpy as np

from operators.cooperative import in_turns
from operators.networktopology.measured import LatencySamples, MeasuredNode
from scheduler.objects.kinds import BY_KIND
from scheduler.objects.meta import ObjectMeta, OwnerReference
from scheduler.objects.network import (
    ZONE_LABEL,
    Cost,
    NetworkTopology,
    NetworkTopologySlice,
    Origin,
)

# An object of the API server is limited to 1 MiB; the remainder is for its metadata.
MOST_BYTES = 900_000
MOST_PATHS = 2_000  # of one row: with the longest names they still fit
STILL = 20
API_VERSION = BY_KIND["NetworkTopology"].api_version


class PathRow(NamedTuple):
    """Paths from one node; `key` is the slice that contains them."""

    key: str
    origin: Origin


async def slices_of(
    topology: NetworkTopology,
    found: LatencySamples,
    published: Iterable[NetworkTopologySlice],
    now: str,
) -> dict[str, NetworkTopologySlice]:
    """Return the slices that should exist, by name; `published` are the existing ones."""
    before: dict[str, dict[str, Cost]] = defaultdict(dict)
    for one in published:
        for origin in one.origins:
            before[origin.origin].update((path.destination, path) for path in origin.paths)
        await asyncio.sleep(0)
    by_zone: dict[str, list[PathRow]] = defaultdict(list)
    async for handful in in_turns(_by_node(found), 50):
        for node, targets, costs in handful:
            known = before.get(node.name, {})
            paths = tuple(
                _published_cost(found.nodes[target].name, cost, known)
                for target, cost in zip(targets, costs, strict=True)
            )
            zone = node.labels.get(ZONE_LABEL, "")
            by_zone[zone] += _pieces(node.name, paths)
    meta = topology.metadata
    owner = OwnerReference(API_VERSION, "NetworkTopology", meta.name, meta.uid, controller=True)
    slices = {}
    for zone, rows in by_zone.items():
        for number, part in _parts(rows).items():
            name = _name(meta.name, zone, number)
            slices[name] = NetworkTopologySlice(
                metadata=ObjectMeta(name, meta.namespace, owner_references=(owner,)),
                topology=meta.name,
                origin_zone=zone,
                calculation_time=now,
                origins=tuple(part),
            )
        await asyncio.sleep(0)
    return slices


def is_same(one: NetworkTopologySlice, other: NetworkTopologySlice) -> bool:
    """Return whether two slices are equal except for their time of calculation."""
    return one.origins == other.origins and one.origin_zone == other.origin_zone


def _by_node(found: LatencySamples) -> Iterator[tuple[MeasuredNode, list[int], list[int]]]:
    """Yield each measured node with its targets, in order of their names, and the costs."""
    order = np.lexsort((found.targets, found.origins))
    origins = found.origins[order]
    bounds = np.flatnonzero(np.diff(origins, prepend=-1, append=-1)).tolist()
    for start, end in itertools.pairwise(bounds):
        rows = order[start:end]
        node = found.nodes[int(origins[start])]
        yield node, found.targets[rows].tolist(), found.latencies[rows].tolist()


def _published_cost(destination: str, cost: int, published: Mapping[str, Cost]) -> Cost:
    known = published.get(destination)
    if known is not None and _is_still(known.network_cost, cost):
        return known
    return Cost(destination=destination, network_cost=cost)


def _pieces(name: str, paths: tuple[Cost, ...]) -> Iterator[PathRow]:
    for start in range(0, len(paths), MOST_PATHS):
        yield PathRow(f"{name}/{start}", Origin(name, paths[start : start + MOST_PATHS]))


def _is_still(published: int | None, cost: int) -> bool:
    return published is not None and abs(cost - published) * STILL <= published


def _parts(rows: Sequence[PathRow]) -> dict[int, list[Origin]]:
    """Divide rows by their keys into a sufficient number of parts, a power of two."""
    sizes = [len(msgspec.json.encode(row.origin)) for row in rows]
    number = 1
    while True:
        parts: dict[int, list[Origin]] = defaultdict(list)
        weights: dict[int, int] = defaultdict(int)
        for row, size in zip(rows, sizes, strict=True):
            place = crc32(row.key.encode()) % number
            parts[place].append(row.origin)
            weights[place] += size
        if max(weights.values()) <= MOST_BYTES:
            return parts
        number *= 2


def _name(topology: str, zone: str, number: int) -> str:
    digest = hashlib.sha256(f"{topology}/{zone}".encode()).hexdigest()[:8]
    slug = re.sub(r"[^a-z0-9-]+", "-", f"{topology}-{zone}".lower())[:200].strip("-")
    return f"{slug}-{digest}-{number}"
