"""Shortest paths between all nodes of a network as one numpy kernel, for the helper process.

Sweeps over the nodes: each takes the best of its incoming links for all origins at once, until
nothing changes. A thousand nodes with ten thousand links take a fraction of a second; long chains
fall back to the Floyd-Warshall algorithm, whose time does not depend on the graph's shape.
"""

import itertools

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.base.errors import InputError

UNREACHABLE = -1
LARGEST_COST = 1 << 40
MOST_NODES = 20_000
SWEEPS = 40
_FAR = (1 << 61) - 1  # twice that is still an int64


class PathLinks(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A directed network: link i leads from node `origins[i]` to `targets[i]` at `costs[i]` (>=
    0).
    """

    nodes: int
    origins: tuple[int, ...]
    targets: tuple[int, ...]
    costs: tuple[int, ...]


def shortest(links: PathLinks) -> NDArray[np.int64]:
    """Return [nodes, nodes]: the least cost from row to column, `UNREACHABLE` where no path leads.

    InputError for a link to nowhere, a negative cost or too many nodes.
    """
    _check(links)
    origins = np.array(links.origins, dtype=np.int64)
    targets = np.array(links.targets, dtype=np.int64)
    costs = np.array(links.costs, dtype=np.int64)
    # Transposed while computing: row v holds the costs from every origin to v.
    to = np.full((links.nodes, links.nodes), _FAR, dtype=np.int64)
    np.minimum.at(to, (targets, origins), costs)
    np.fill_diagonal(to, 0)
    order = np.argsort(targets, kind="stable")
    bounds = np.searchsorted(targets[order], np.arange(links.nodes + 1))
    spans = list(itertools.pairwise(bounds.tolist()))
    incoming = [
        (v, origins[order[slice(*spans[v])]], costs[order[slice(*spans[v])], None])
        for v in _walk(links)
        if spans[v][0] < spans[v][1]
    ]
    changed = np.ones(links.nodes, dtype=np.bool_)
    for sweep in range(SWEEPS):
        changed = _sweep(to, incoming if sweep % 2 == 0 else incoming[::-1], changed)
        if not changed.any():
            break
    else:
        _floyd(to)
    to[to >= _FAR] = UNREACHABLE
    return np.ascontiguousarray(to.T)


def _walk(links: PathLinks) -> list[int]:
    """Return the nodes ordered along paths, from nodes with few links on, to shorten the sweeps."""
    near: list[list[int]] = [[] for _ in range(links.nodes)]
    for a, b in zip(links.origins, links.targets, strict=True):
        near[a].append(b)
        near[b].append(a)
    seen = [False] * links.nodes
    found = []
    for start in sorted(range(links.nodes), key=lambda v: len(near[v])):
        stack = [start]
        while stack:
            v = stack.pop()
            if not seen[v]:
                seen[v] = True
                found.append(v)
                stack.extend(near[v])
    return found


def _check(links: PathLinks) -> None:
    if not 0 <= links.nodes <= MOST_NODES:
        raise InputError(f"{links.nodes} nodes are more than {MOST_NODES}")
    if not len(links.origins) == len(links.targets) == len(links.costs):
        raise InputError("origins, targets and costs are not equally many")
    ends = (*links.origins, *links.targets)
    if ends and not (min(ends) >= 0 and max(ends) < links.nodes):
        raise InputError("a link leads to a node that is not there")
    if links.costs and not (min(links.costs) >= 0 and max(links.costs) <= LARGEST_COST):
        raise InputError(f"a cost is not between 0 and {LARGEST_COST}")


def _sweep(
    to: NDArray[np.int64],
    incoming: list[tuple[int, NDArray[np.int64], NDArray[np.int64]]],
    before: NDArray[np.bool_],
) -> NDArray[np.bool_]:
    """Relax every node with a neighbour that changed; return which nodes changed now."""
    changed = np.zeros_like(before)
    for v, origins, costs in incoming:
        if not (before[origins].any() or changed[origins].any()):
            continue
        best = np.minimum((to[origins] + costs).min(axis=0), to[v])
        if not np.array_equal(best, to[v]):
            changed[v] = True
            to[v] = best
    return changed


def _floyd(to: NDArray[np.int64]) -> None:
    sums = np.empty_like(to)
    for k in range(len(to)):
        np.add(to[:, k, None], to[None, k, :], out=sums)
        np.minimum(to, sums, out=to)
