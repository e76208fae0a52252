"""Shortest paths: the kernel against networkx on random networks, chains, nonsense."""

import random

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.base.errors import InputError
from scheduler.workers.paths import LARGEST_COST, UNREACHABLE, PathLinks, shortest


def by_networkx(links: PathLinks) -> list[list[int]]:
    """Return the costs as networkx finds them."""
    graph = nx.DiGraph()
    graph.add_nodes_from(range(links.nodes))
    for a, b, cost in zip(links.origins, links.targets, links.costs, strict=True):
        known = graph.get_edge_data(a, b, {"weight": cost})["weight"]
        graph.add_edge(a, b, weight=min(cost, known))
    found = dict(nx.all_pairs_dijkstra_path_length(graph))
    every = range(links.nodes)
    return [[found[a].get(b, UNREACHABLE) for b in every] for a in every]


def network(rng: random.Random, nodes: int, links: int) -> PathLinks:
    """Return a random directed network."""
    ends = [(rng.randrange(nodes), rng.randrange(nodes), rng.randrange(50)) for _ in range(links)]
    return links_of(nodes, ends)


def links_of(nodes: int, ends: list[tuple[int, int, int]]) -> PathLinks:
    """Return links from (origin, target, cost)."""
    origins, targets, costs = zip(*ends, strict=True) if ends else ((), (), ())
    return PathLinks(nodes, origins, targets, costs)


@given(st.data(), st.integers(1, 10))
def test_the_kernel_agrees_with_networkx(data: st.DataObject, nodes: int):
    """Every cost between every two nodes, also where no path leads, loops and double links
    included.
    """
    end = st.integers(0, nodes - 1)
    costs = st.integers(0, 60) | st.sampled_from([LARGEST_COST, 1, 0])
    links = links_of(nodes, data.draw(st.lists(st.tuples(end, end, costs), max_size=3 * nodes)))

    assert by_networkx(links) == shortest(links).tolist()


@pytest.mark.parametrize("seed", range(2))
def test_a_cluster_of_racks_agrees_with_networkx(seed: int):
    """A hundred nodes with few links each, so that paths have many hops."""
    links = network(random.Random(seed), 100, 250)

    assert by_networkx(links) == shortest(links).tolist()


def test_a_long_chain_in_bad_order_is_exact_too():
    """More hops than sweeps: the answer does not depend on the shape of the network."""
    order = list(range(150))
    random.Random(1).shuffle(order)
    links = PathLinks(150, tuple(order[:-1]), tuple(order[1:]), (1,) * 149)
    costs = shortest(links)

    assert 149 == costs[order[0], order[-1]]
    assert UNREACHABLE == costs[order[-1], order[0]]


@pytest.mark.parametrize(
    "links",
    [
        PathLinks(2, (0,), (2,), (1,)),
        PathLinks(2, (0,), (-1,), (1,)),
        PathLinks(2, (0,), (1,), (-1,)),
        PathLinks(2, (0,), (), (1,)),
        PathLinks(-1, (), (), ()),
    ],
)
def test_nonsense_is_refused(links):
    """A link to nowhere or a negative cost is reported as the caller's fault."""
    with pytest.raises(InputError):
        shortest(links)


def test_no_node_has_no_costs():
    """An empty network is a network."""
    assert (0, 0) == shortest(PathLinks(0, (), (), ())).shape
    assert [[0]] == shortest(PathLinks(1, (), (), ())).tolist()
    assert shortest(PathLinks(1, (), (), ())).dtype == np.int64
