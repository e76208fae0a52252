"""Shortest paths: the kernel against a plain Dijkstra on random networks, chains, nonsense."""

import heapq
import random

import numpy as np
import pytest

from scheduler.base.errors import InputError
from scheduler.workers.paths import UNREACHABLE, Links, shortest


def dijkstra(links: Links, origin: int) -> list[int]:
    """Return the costs from one node, the text-book way."""
    out: dict[int, list[tuple[int, int]]] = {}
    for a, b, cost in zip(links.origins, links.targets, links.costs, strict=True):
        out.setdefault(a, []).append((b, cost))
    costs = [UNREACHABLE] * links.nodes
    heap = [(0, origin)]
    while heap:
        cost, node = heapq.heappop(heap)
        if cost >= costs[node]:
            continue
        costs[node] = cost
        for target, more in out.get(node, []):
            heapq.heappush(heap, (cost + more, target))
    return costs


def network(rng: random.Random, nodes: int, links: int) -> Links:
    """Return a random directed network."""
    ends = [(rng.randrange(nodes), rng.randrange(nodes), rng.randrange(50)) for _ in range(links)]
    origins, targets, costs = zip(*ends, strict=True) if ends else ((), (), ())
    return Links(nodes, origins, targets, costs)


@pytest.mark.parametrize("seed", range(20))
def test_the_kernel_agrees_with_dijkstra(seed):
    """Every cost between every two nodes, also where no path leads."""
    rng = random.Random(seed)
    nodes = rng.randint(1, 30)
    links = network(rng, nodes, rng.randint(0, 3 * nodes))

    assert [dijkstra(links, origin) for origin in range(nodes)] == shortest(links).tolist()


def test_a_long_chain_in_bad_order_is_exact_too():
    """More hops than sweeps: the answer does not depend on the shape of the network."""
    order = list(range(150))
    random.Random(1).shuffle(order)
    links = Links(150, tuple(order[:-1]), tuple(order[1:]), (1,) * 149)
    costs = shortest(links)

    assert 149 == costs[order[0], order[-1]]
    assert UNREACHABLE == costs[order[-1], order[0]]


@pytest.mark.parametrize(
    "links",
    [
        Links(2, (0,), (2,), (1,)),
        Links(2, (0,), (-1,), (1,)),
        Links(2, (0,), (1,), (-1,)),
        Links(2, (0,), (), (1,)),
        Links(-1, (), (), ()),
    ],
)
def test_nonsense_is_refused(links):
    """A link to nowhere or a negative cost is the caller's fault and said so."""
    with pytest.raises(InputError):
        shortest(links)


def test_no_node_has_no_costs():
    """An empty network is a network."""
    assert (0, 0) == shortest(Links(0, (), (), ())).shape
    assert [[0]] == shortest(Links(1, (), (), ())).tolist()
    assert shortest(Links(1, (), (), ())).dtype == np.int64
