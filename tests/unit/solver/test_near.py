"""Members with traffic are placed near one another without search: marginal costs and their sum."""

from random import Random

import msgspec
import numpy as np

from scheduler.groups.problem import checker
from scheduler.groups.problem.classes import PodClass, Traffic, TrafficCosts
from scheduler.groups.problem.instance import Level, SolveLimits
from scheduler.groups.problem.roles import GroupProblem, Role
from scheduler.groups.solver.roles import heterogeneous
from scheduler.groups.solver.traffic.neighbours import TrafficPrices, near_by
from tests.property import rolegroups

CASES = 60


def cost(group, counts):
    """Return the cost of a placement, by the plain count of the check."""
    terms = checker.objective(group, counts.tolist())
    return next(value for _, measure, value in terms if measure == "cost")


def test_what_one_pod_more_costs_is_the_difference():
    """On every leaf, the cost of one more pod is the difference of the costs of both placements,
    with costs by level and between areas, and with traffic within a class.
    """
    looked_at = 0
    for number in range(CASES):
        rng = Random(f"near {number}")
        group = rolegroups.classed(rng)
        if not group.traffic:
            continue
        rows = [[rng.randint(0, 2) for _ in group.paths] for _ in group.roles]
        counts, costs = np.array(rows, dtype=np.int64), TrafficPrices(group)
        before = cost(group, counts)
        for kind in range(len(group.roles)):
            more = costs.more(costs.class_of[kind], counts)
            for leaf in range(len(group.paths)):
                counts[kind, leaf] += 1
                assert cost(group, counts) - before == more[leaf], group
                counts[kind, leaf] -= 1
                looked_at += 1
    assert looked_at > CASES


def pipeline(free):
    """Return three classes with traffic in a row, on leaves of two racks with this capacity."""
    kinds = tuple(Role(count, (1,), (9,) * len(free)) for count in (1, 4, 4))
    return GroupProblem(
        kinds,
        tuple((amount,) for amount in free),
        (Level("rack"), Level("node")),
        tuple((f"r{at % 2}", f"n{at}") for at in range(len(free))),
        9,
        classes=tuple(PodClass(f"c{at}", (at,)) for at in range(3)),
        traffic=(Traffic(0, 1, 3), Traffic(1, 2, 1)),
        costs=TrafficCosts((10, 1)),
        unwished=(0, 1),
    )


def test_the_best_of_all_starts_needs_no_search_where_a_rack_is_large_enough():
    """All are on the leaves of one rack, and no pod would cost less on another leaf."""
    group = pipeline([3, 5, 3, 5, 2, 0])
    found = min(cost(group, counts) for counts in near_by(group) if counts.sum() == group.wanted)

    assert found == heterogeneous.solve(group, SolveLimits(20.0, 60.0)).stages[0].bound


def test_what_does_not_fit_is_left_out_and_nothing_is_overbooked():
    """With capacity for seven of nine, seven are placed."""
    group = pipeline([2, 2, 1, 1, 1, 0])
    for counts in near_by(group):
        assert 7 == counts.sum()
        bare = msgspec.structs.replace(group, minimum=1)
        assert not checker.problems(bare, counts.tolist())
