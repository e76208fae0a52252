"""Problems and answers of a group as nodes: assignments, costs, bound members, and free slots."""

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from scheduler.framework.calls import SolverCall
from scheduler.groups.args import ClusterTopologyPlacementGroupArgs
from scheduler.groups.capacity import FreeSlots, lack_of
from scheduler.groups.description.spec import GroupNode, GroupSpec
from scheduler.groups.planning import classproblem, homogeneous, repairs, shapes
from scheduler.groups.planning.planning import NodeProblem
from scheduler.groups.planning.preferences import PreferredPlaces
from scheduler.groups.problem.instance import Instance, Leaf, Level
from scheduler.objects.plain import read_pod
from scheduler.state.cluster import Cluster
from scheduler.testing import pod
from tests.property.making import make_node

RACK = "example.com/rack"


def members(count: int, **labels: str) -> list[Any]:
    """Return pods p0, p1, … with uids u0, u1, …"""
    manifests = [pod(f"p{at}", labels=labels) for at in range(count)]
    return [
        read_pod(one | {"metadata": one["metadata"] | {"uid": f"u{at}"}})
        for at, one in enumerate(manifests)
    ]


def two_racks(least: tuple[int, ...] = ()) -> NodeProblem:
    """Return a problem of three members, with one node in each of two racks."""
    leaves = tuple(Leaf((f"r{at}", f"n{at}"), 3, fixed=sum(least[at : at + 1])) for at in (0, 1))
    instance = Instance((Level("rack"), Level("node")), leaves, 3)
    return NodeProblem(instance, (0, 1), ("n0", "n1"), least=least)


def test_a_member_whose_slice_is_in_a_unit_is_assigned_there():
    """All other members are assigned to the remaining places in order."""
    homes = {"u0": ("r1",), "u2": ("r0",)}

    found = repairs.assign(two_racks(), (2, 1), members(3), homes)

    assert {"u0": "n1", "u1": "n0", "u2": "n0"} == found


@pytest.mark.parametrize("least", [(), (1, 0), (1, 1)])
def test_without_slices_members_are_assigned_in_order(least):
    """Members are assigned in order, also to nodes with a required minimum (`least`)."""
    found = repairs.assign(two_racks(least), (2, 1), members(3), {})

    assert {"u0": "n0", "u1": "n0", "u2": "n1"} == found


@pytest.mark.parametrize(
    ("nodes", "expected_text"),
    [
        (("n0", "n0"), ""),
        (("n0", "n1"), "bound members of its group inner are in several places by"),
        (("elsewhere",), "bound members of its group inner are in several places by"),
    ],
)
def test_bound_members_in_several_units_of_their_level_are_named(nodes, expected_text):
    """A node outside of the topology is a place of its own."""
    inner = GroupNode("default/g", "inner", 1, RACK)
    root = GroupNode("default/root", "root", 1, is_composite=True, groups=(inner,))
    topology = SimpleNamespace(levels=(RACK, "node"), paths={"n0": ("r0",), "n1": ("r1",)})
    named = members(1, **{"scheduling.x-k8s.io/pod-group": "g"})[0]
    bound = [SimpleNamespace(pod=named, node=node) for node in nodes]

    found = shapes.conflicting_domains(root, cast(Any, topology), cast(Any, bound))

    assert found.startswith(expected_text)
    assert bool(found) == bool(expected_text)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_the_cost_of_a_path_is_that_of_nodes_plus_that_of_areas(depth):
    """Only the last level has a step: the least cost between two nodes of one area."""
    costs = np.array([[1, 7], [9, 3]])
    network = SimpleNamespace(costs=costs, areas=np.array([0, 0, 1]))

    found = classproblem._between_nodes(cast(Any, network), depth)

    assert ((0,) * (depth - 1) + (1,), (0, 0, 1)) == (found.steps, found.areas)
    assert (costs - 1).tolist() == [list(row) for row in found.matrix]


@pytest.mark.parametrize(
    ("amounts", "facts", "rows"),
    [((1, 4), (2, 4), [1, 2, 4]), (None, (2,), None), ((1,), None, None), (None, None, None)],
)
def test_rows_that_changed_are_computed_again(amounts, facts, rows):
    """Changed rows are computed again, or all rows if a log does not reach back far enough."""
    slots = FreeSlots()
    slots._table = cast(
        Any,
        SimpleNamespace(
            amounts_touched=SimpleNamespace(since=lambda _: amounts),
            facts_touched=SimpleNamespace(since=lambda _: facts),
        ),
    )
    found = slots._touched((0, 0))

    assert rows == (None if isinstance(found, slice) else found.tolist())


@pytest.mark.parametrize("slots", [1, 3])
@pytest.mark.parametrize("has_gpus", [False, True])
def test_each_member_needs_one_pod_and_what_all_members_request(slots, has_gpus):
    """The head requests no GPU: nodes whose GPUs are in use may have capacity for it."""
    cluster = Cluster()
    cluster.put_node(make_node("n0", pods=slots, allocatable={"gpu.example.com/gpu": 2}))
    free = FreeSlots()
    free.rebuild(cluster)
    requests = [{"cpu": 1000, "gpu.example.com/gpu": 4}, {"cpu": 1000}][not has_gpus :]
    for count in range(1, slots + 2):
        lack = lack_of(GroupSpec("default", "g"), count, members(2), requests, None)

        assert (count <= slots) == free.may_suffice(lack)


@pytest.mark.parametrize("is_thin", [False, True])
@pytest.mark.parametrize("prefers", [False, True])
def test_advice_is_requested_only_where_it_is_used(monkeypatch, is_thin, prefers):
    """A refusal of preferred places, or of some leaves, is followed by another question."""
    instance = Instance((Level("node"),), (Leaf(("n0",), 1),), 1)
    problem = NodeProblem(instance, (0,), ("n0",), is_thin=is_thin)
    monkeypatch.setattr(homogeneous, "_node_problem", lambda *_args, **_more: problem)
    slots = np.array([1])
    fits = SimpleNamespace(slots=slots, shared_domain=None)
    task = SimpleNamespace(
        spec=GroupSpec("default", "g"),
        tree=None,
        bound=(),
        context=SimpleNamespace(members=members(1), fits=lambda _: fits),
        allowed=lambda slots: slots,
    )
    tools = SimpleNamespace(args=ClusterTopologyPlacementGroupArgs())
    preferred = PreferredPlaces(slots) if prefers else None

    call = homogeneous.HomogeneousPlacement(cast(Any, task), cast(Any, tools), preferred).question()

    assert isinstance(call, SolverCall)
    assert cast(Any, call.instance).advise == (not is_thin and not prefers)
