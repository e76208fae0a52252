"""Costs and violations of roles, by figures that can be computed by hand."""

import msgspec
import pytest

from scheduler.groups.problem import checker
from scheduler.groups.problem.classes import ClassRule, PairRule, PodClass, Traffic, TrafficCosts
from scheduler.groups.problem.instance import Level, LevelRule, SolveLimits
from scheduler.groups.problem.roles import GroupProblem, Role
from scheduler.groups.solver.roles import heterogeneous

LIMITS = SolveLimits(stage_s=20.0, total_s=60.0)
HEAD, WORKERS = 0, 1


def group(**changes) -> GroupProblem:
    """Return two racks of two nodes with capacity for three pods each.

    One head and four workers of one slot.
    """
    plain = GroupProblem(
        (Role(1, (1,), (3,) * 4), Role(4, (1,), (3,) * 4)),
        ((3,),) * 4,
        (Level("rack"), Level("node")),
        (("a", "1"), ("a", "2"), ("b", "3"), ("b", "4")),
        5,
        classes=(PodClass("head", (0,)), PodClass("workers", (1,))),
    )
    return msgspec.structs.replace(plain, **changes)


def test_the_cost_counts_every_pair_with_traffic():
    """Head on 1.

    Workers: one beside it, one on 2, two in the other rack: 0 + 1 + 2 times (1 + 10), all times 3.
    """
    costs = TrafficCosts(steps=(10, 1))
    connected = group(traffic=(Traffic(HEAD, WORKERS, 3),), costs=costs)
    counts = ((1, 0, 0, 0), (1, 1, 2, 0))
    assert ("", "cost", 3 * (0 + 1 + 22)) == checker.objective(connected, counts)[-1]

    areas = TrafficCosts(areas=(0, 0, 1, 1), matrix=((2, 7), (5, 3)))
    among = group(traffic=(Traffic(WORKERS, WORKERS, 1),), costs=areas)
    # In the first area two pods, 2 ordered pairs at 2; the same in the second at 3; across 4 at 7
    # and 4 at 5.
    assert ("", "cost", 4 + 6 + 28 + 20) == checker.objective(among, counts)[-1]


@pytest.mark.parametrize(
    ("relation", "counts", "text"),
    [
        ("same", ((1, 0, 0, 0), (2, 0, 2, 0)), "head and workers are in several units of rack"),
        ("other", ((1, 0, 0, 0), (0, 2, 2, 0)), "head and workers meet in a unit of rack"),
        ("with", ((1, 0, 0, 0), (0, 0, 2, 2)), "head stands in a unit of rack without workers"),
        ("one", ((1, 0, 0, 0), (2, 0, 2, 0)), "not one pod of head in each unit of rack with"),
    ],
)
def test_a_broken_rule_between_classes_is_named(relation, counts, text):
    """The solution keeps it, or there is none where it cannot be kept."""
    ruled = group(between=(PairRule(relation, HEAD, WORKERS, 0),))
    assert any(one.startswith(text) for one in checker.problems(ruled, counts))

    found = heterogeneous.solve(ruled, LIMITS)
    assert "placed" == found.outcome
    assert found.optimal


def test_a_class_keeps_its_own_rule_whatever_the_others_do():
    """Workers one to a node, the head anywhere: with three nodes for four workers that is
    infeasible.
    """
    spread = (ClassRule(1, LevelRule("spread", hard=True)),)
    classes = (PodClass("head", (0,)), PodClass("workers", (1,), rules=spread))
    found = heterogeneous.solve(group(classes=classes), LIMITS)
    assert (1, 1, 1, 1) == found.counts[WORKERS]

    three = (Role(1, (1,), (3,) * 4), Role(4, (1,), (3, 3, 3, 0)))
    found = heterogeneous.solve(group(classes=classes, roles=three), LIMITS)
    assert ("infeasible", True) == (found.outcome, found.optimal)


def test_an_area_that_is_cheap_is_chosen_where_no_level_wishes_for_anything():
    """Each rack has capacity for six pods: all are placed where traffic is cheaper."""
    connected = group(
        traffic=(Traffic(HEAD, WORKERS, 1),),
        costs=TrafficCosts(areas=(0, 0, 1, 1), matrix=((9, 9), (9, 1))),
        unwished=(0, 1),
    )
    found = heterogeneous.solve(connected, LIMITS)
    assert [("cost", 4, 4), ("leaves", 2, 2)] == [
        (one.measure, one.value, one.bound) for one in found.stages
    ]
