"""Leaves that a group cannot use are left out of its model, with the same result."""

from random import Random

import numpy as np
import pytest

from scheduler.framework.nodes import Nodes
from scheduler.groups.problem.instance import Instance, Leaf
from scheduler.groups.solver.solve import solve
from scheduler.groups.topology import leafrows
from scheduler.groups.topology.tree import Topology
from scheduler.state.cluster import Cluster
from tests.property import groups
from tests.property.making import make_node


def live(tree):
    """Return the nodes of a tree as a cluster has them, and their rows in the order of its
    leaves.
    """
    cluster = Cluster()
    for _, name in tree.leaves:
        cluster.put_node(make_node(name))
    nodes = Nodes(cluster.table, cluster.pods)
    return nodes, np.array(nodes.rows_of(name for _, name in tree.leaves))


def useful(tree, by_leaf, fixed, size):
    """Return the leaves of the model, given capacity and bound pods by leaf."""
    nodes, rows = live(tree)
    slots = np.zeros(nodes.size, dtype=np.int64)
    on_rows = np.zeros(nodes.size, dtype=np.bool_)
    slots[rows], on_rows[rows] = by_leaf, fixed
    return leafrows.useful(tree, nodes, slots, on_rows, size)


def random_tree(rng):
    """Return a tree with shuffled names, the capacity by leaf, some leaves with members, and a
    group for it.
    """
    depth = rng.choice([1, 2, 2, 3])
    paths = groups.paths(rng, depth, 7)
    names = [f"n{at:03}" for at in range(len(paths))]
    rng.shuffle(names)
    found = tuple((path[:-1], name) for path, name in zip(paths, names, strict=True))
    most = rng.choice([2, 3, 8])
    slots = np.array([rng.choice([0, rng.randint(0, most)]) for _ in found])
    fixed = np.array([rng.random() < 0.05 and slot > 0 for slot in slots])
    size = max(int(fixed.sum()), rng.randint(1, 6))
    levels = groups.levels(rng, depth, 0.5)
    return (
        Topology("t", "test", tuple(one.name for one in levels), found),
        slots,
        fixed,
        size,
        levels,
    )


@pytest.mark.parametrize("seed", range(100))
def test_the_best_placement_stays_the_same(seed, monkeypatch):
    """The placement by leaf is equal, so the choice among ties as well, with rules and bound
    pods.
    """
    monkeypatch.setattr(leafrows, "WORTHWHILE", 0)
    rng = Random(f"thin {seed}")
    tree, slots, fixed, size, levels = random_tree(rng)

    kept = useful(tree, slots, fixed, size)

    whole = asked(tree, range(len(tree.leaves)), slots, fixed, size, levels)
    thin = asked(tree, kept, slots, fixed, size, levels)
    assert placed(whole) == placed(thin)
    assert len(kept) <= np.count_nonzero(slots)


def asked(tree, leaves, slots, fixed, size, levels):
    """Return the question about some of the leaves."""
    found = tuple(
        Leaf((*tree.leaves[at][0], tree.leaves[at][1]), int(slots[at]), fixed=int(fixed[at]))
        for at in leaves
    )
    return Instance(levels, found, size)


def placed(instance):
    """Return the placement and its quality."""
    answer = solve(instance)
    pairs = zip(instance.leaves, answer.counts, strict=False)
    where = {leaf.path: pods for leaf, pods in pairs if pods}
    return answer.outcome, [stage.value for stage in answer.stages], where


def test_many_like_racks_shrink_to_as_many_as_the_group_has_pods():
    """A group of two in a hundred idle racks of ten nodes is a question about two racks."""
    tree = Topology(
        "t",
        "test",
        ("rack", "node"),
        tuple(((f"r{rack:02}",), f"n{rack:02}-{at}") for rack in range(100) for at in range(10)),
    )

    kept = useful(tree, np.full(1000, 8), np.zeros(1000, dtype=np.bool_), 2)

    assert [0, 1, 10, 11] == kept
