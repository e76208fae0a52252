"""The bound by node classes: never above a plan, and equal to it where each pod needs a node."""

from __future__ import annotations

import pytest

from scheduler.moves.solver.classes import class_bound
from scheduler.moves.solver.planner import SearchLimits, expanded, plan
from scheduler.moves.solver.problem import Claim, Fit, Free, Node, Pod, Problem, Role, Unit
from tests.perf.moves import cluster
from tests.unit.moves.clusters import enumerated, random_problem


@pytest.mark.parametrize("part", range(4))
def test_it_is_a_bound_of_small_clusters(part):
    """No plan has fewer units of the highest priorities than the bound, and none exists where the
    bound excludes every plan.
    """
    useful = 0
    for seed in range(40 * part, 40 * part + 40):
        problem = expanded(random_problem(seed, 6))
        bound = class_bound(problem, 5.0, 0)
        cost = enumerated(problem)
        if cost is not None:
            assert not bound.is_infeasible, seed
            assert bound.units <= cost[: len(bound.units)], seed
            useful += any(bound.units)
    assert useful


def nodes_of(free, pods, goal, number=1):
    """Return nodes with free GPUs, each with its pods, and `number` spare nodes of 7 free GPUs."""
    nodes = [Node(f"n{at}", (one,)) for at, one in enumerate(free)]
    nodes += [Node(f"s{at}", (7,)) for at in range(number)]
    records = tuple(
        Pod(f"p{at}-{n}", at, (size,), 0)
        for at, own in enumerate(pods)
        for n, size in enumerate(own)
    )
    units = tuple(Unit(pod.name, (at,)) for at, pod in enumerate(records))
    everywhere = (frozenset(range(len(nodes))),)
    return Problem(("gpu",), tuple(nodes), records, units, everywhere, goal)


WHOLE = Fit((Claim("job", (Role((8,), 2, 0),)),))


@pytest.mark.parametrize(
    ("goal", "spare", "units"),
    [
        # Two pods of 6 GPUs are on nodes of their own, and one spare node takes one of them.
        (WHOLE, 1, 4),
        (WHOLE, 2, 2),
        (Free(2, -1, (0, 1, 2)), 1, 4),
        (Free(2, -1, (0, 1, 2)), 2, 2),
    ],
)
def test_each_departure_needs_a_destination(goal, spare, units):
    """The third node has three pods of 1 GPU, which cost more and fit beside a pod of 6."""
    problem = nodes_of((2, 2, 5), ((6,), (6,), (1, 1, 1)), goal, spare)

    assert (units,) == class_bound(problem, 5.0, 0).units
    answer = plan(problem)
    assert (units, True) == (len(answer.moves), answer.proven)


def test_a_goal_without_destinations_is_infeasible():
    """Without a spare node no node takes a pod of 6 GPUs."""
    problem = nodes_of((2, 2, 5), ((6,), (6,), (1, 1, 1)), WHOLE, 0)

    assert class_bound(problem, 5.0, 0).is_infeasible


@pytest.mark.parametrize("seed", [1, 2])
def test_a_fill_of_many_nodes_is_proven_at_once(seed):
    """150 nodes, three jobs of 8 whole nodes: the model over all nodes needs no search."""
    answer = plan(cluster(150, 0.3, 3, 8, seed), SearchLimits(20.0))

    assert answer.proven
    assert answer.seconds < 10.0


def test_amounts_that_decide_nothing_do_not_weaken_the_bound():
    """Each node has another free amount of CPU, and pods are kept from nodes by their number."""
    known = cluster(120, 0.3, 3, 8, 3)
    nodes = tuple(
        node._replace(free=(node.free[0], node.free[1] - at % 50, node.free[2]))
        for at, node in enumerate(known.nodes)
    )
    thirds = tuple(frozenset(at for at in range(120) if at % 3 != own) for own in range(3))
    pods = tuple(pod._replace(destinations=1 + at % 3) for at, pod in enumerate(known.pods))
    sets = (*known.destination_sets, *thirds)
    mixed = known._replace(nodes=nodes, pods=pods, destination_sets=sets)

    assert class_bound(known, 5.0, 0) == class_bound(mixed, 5.0, 0)
    assert any(class_bound(known, 5.0, 0).units)


def test_a_bound_that_a_plan_reaches_ends_the_calculation():
    """A bound of the GPUs alone that equals the plan needs no second model."""
    problem = nodes_of((2, 2, 5), ((6,), (6,), (1, 1, 1)), WHOLE, 2)

    assert class_bound(problem, 5.0, 0, (2,)) == class_bound(problem, 5.0, 0)
