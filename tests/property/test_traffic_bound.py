"""The lower bound of traffic cost, compared with every placement, and with placing pods one by one.

For small applications the bound is never above the least cost of any placement of all pods, and
usually equal to it. For larger ones no answer costs more than pods placed one after the other where
each costs least.
"""

from random import Random

import msgspec
import numpy as np
import pytest

from scheduler.groups.problem import checker
from scheduler.groups.problem.classes import PodClass, Traffic, TrafficCosts
from scheduler.groups.problem.instance import Level, SolveLimits
from scheduler.groups.problem.roles import GroupProblem, Role
from scheduler.groups.solver.deadline import Deadline
from scheduler.groups.solver.roles import heterogeneous, result
from scheduler.groups.solver.traffic import trafficbound
from scheduler.groups.solver.traffic.neighbours import near_by
from tests.property import rolegroups
from tests.property.batches import batches

BATCH = 25
LIMITS = SolveLimits(stage_s=20.0, total_s=60.0)


def cost(group, counts):
    """Return the cost of a placement, by the plain count of the checker."""
    terms = checker.objective(group, [list(map(int, row)) for row in counts])
    return next((value for _, measure, value in terms if measure == "cost"), 0)


def cheapest(group):
    """Return the least cost of all placements of all pods, by enumeration.

    None without one.
    """
    whole = msgspec.structs.replace(group, minimum=group.wanted)
    return min((cost(group, counts) for counts in rolegroups.placements(whole)), default=None)


def pair_by_pair(group, counts):
    """Return the cost of a placement, summed over all pairs of pods."""
    leaves = [
        [
            leaf
            for leaf, path in enumerate(group.paths)
            for _ in range(sum(int(counts[role][leaf]) for role in one.roles))
        ]
        + [leaf for leaf, pods in enumerate(one.fixed) for _ in range(pods)]
        for one in group.classes
    ]
    total = 0
    for traffic in group.traffic:
        for at, here in enumerate(leaves[traffic.first]):
            for other, there in enumerate(leaves[traffic.second]):
                if traffic.first == traffic.second and at == other:
                    continue
                total += traffic.weight * cost_of_pair(group, here, there)
    return total


def cost_of_pair(group, here, there):
    """Return the cost of traffic from a pod on one leaf to a pod on another."""
    costs, total = group.costs, 0
    if costs.areas:
        total += costs.matrix[costs.areas[here]][costs.areas[there]]
    for level, step in enumerate(costs.steps, 1):
        total += step * (group.paths[here][:level] != group.paths[there][:level])
    return total


def test_the_cost_is_that_of_all_pairs():
    """The traffic cost equals the sum over pairs of pods, with areas, levels, fixed pods and
    traffic within a class. A pod has no traffic with itself.
    """
    for number in range(100):
        rng = Random(f"pairs {number}")
        group = rolegroups.application(rng) if number % 2 else rolegroups.classed(rng)
        own = tuple(Traffic(at, at, rng.randint(1, 3)) for at in range(len(group.classes)))
        group = msgspec.structs.replace(group, traffic=group.traffic + own)
        counts = [[rng.randint(0, 2) for _ in group.paths] for _ in group.roles]
        assert cost(group, counts) == pair_by_pair(group, counts), number


@pytest.mark.parametrize("batch", batches(25, 1_000))
def test_no_placement_costs_less_than_the_limit(batch):
    """The bound holds with areas and levels, limits of paths and links, bound pods and scarce
    capacity.
    """
    looked_at = met = 0
    for number in range(BATCH):
        rng = Random(f"talk {batch}/{number}")
        group = rolegroups.application(rng) if number % 2 else rolegroups.classed(rng)
        best = cheapest(group) if group.traffic else None
        if not best:
            continue
        limits = [
            trafficbound.least(group, value, LIMITS, lambda: 60.0)
            for value in (best, best + 1, 3 * best)
        ]
        assert max(limits) <= best, group
        looked_at += 1
        met += limits[-1] == best
    assert looked_at
    assert met >= looked_at // 4


def test_two_leaves_are_filled_so_that_least_is_cut():
    """Eight pods in a ring of four workloads, where no leaf takes more than five: two ties of four
    pairs are cut.
    """
    kinds = tuple(Role(2, (1,), (9, 9, 9)) for _ in range(4))
    group = GroupProblem(
        kinds,
        ((5,), (5,), (2,)),
        (Level("node"),),
        (("a",), ("b",), ("c",)),
        8,
        classes=tuple(PodClass(f"w{at}", (at,)) for at in range(4)),
        traffic=tuple(Traffic(at, (at + 1) % 4, 1) for at in range(4)),
        costs=TrafficCosts((3,)),
        unwished=(0,),
    )
    assert 3 * 8 == cheapest(group) == trafficbound.least(group, 100, LIMITS, lambda: 60.0)
    assert 0 == trafficbound.least(group, 0, LIMITS, lambda: 60.0)
    found = heterogeneous.solve(group, LIMITS)
    assert found.optimal
    assert ["cost", 24, 24] == [
        found.stages[0].measure,
        found.stages[0].value,
        found.stages[0].bound,
    ]


@pytest.mark.parametrize(("areas", "least"), [(2, 2 * 5 + 2), (3, 3 * 5 + 3)])
def test_a_ring_over_equal_areas_is_bounded_by_its_cuts(areas, least):
    """Each area takes two pods, on two leaves: every second pair is in one area and pays 1.

    All other pairs pay 5. In two areas the least cut counts once, in three each area has its own.
    """
    pods, leaves = 2 * areas, range(2 * areas)
    group = GroupProblem(
        tuple(Role(1, (1,), (1,) * pods) for _ in leaves),
        ((1,),) * pods,
        (Level("node"),),
        tuple((f"n{leaf}",) for leaf in leaves),
        pods,
        classes=tuple(PodClass(f"w{at}", (at,)) for at in leaves),
        traffic=tuple(Traffic(at, (at + 1) % pods, 1) for at in leaves),
        costs=TrafficCosts(
            (1,),
            tuple(leaf // 2 for leaf in leaves),
            tuple(tuple(4 * (a != b) for b in range(areas)) for a in range(areas)),
        ),
        unwished=(0,),
    )
    (stage, *_) = heterogeneous.solve(group, LIMITS).stages

    assert ("cost", least) == (stage.measure, stage.value)
    assert least == trafficbound.least(group, 100, LIMITS, lambda: 60.0)


def test_the_traffic_bound_gets_its_share_of_the_time(monkeypatch):
    """The rest is for the search."""
    given = []

    def least(*args):
        given.append(args[-1]())
        return 0

    monkeypatch.setattr(trafficbound, "least", least)
    group = next(
        group
        for number in range(100)
        if (group := rolegroups.application(Random(f"share {number}"))).traffic
        and cheapest(group) is not None
    )
    whole = msgspec.structs.replace(group, minimum=group.wanted)
    counts = np.array(next(rolegroups.placements(whole)))
    guess = result.valid(whole, counts)
    heterogeneous._paid(whole, guess, [0] * len(guess.values), LIMITS, Deadline(10.0))

    (left_s,) = given
    assert 0 < 10.0 * heterogeneous.PAID_PART - left_s < 1.0


def test_roles_with_too_many_patterns_are_omitted_from_the_bound(monkeypatch):
    """Thirteen pods make too many patterns; two others with traffic are never on one leaf."""
    monkeypatch.setattr(trafficbound, "MOST_PATTERNS", 3)
    kinds = (Role(13, (1, 0), (13, 13)), *(Role(1, (1, 1), (1, 1)) for _ in range(2)))
    group = GroupProblem(
        kinds,
        ((20, 1), (20, 1)),
        (Level("node"),),
        (("a",), ("b",)),
        15,
        classes=tuple(PodClass(f"w{at}", (at,)) for at in range(3)),
        traffic=(Traffic(0, 1, 1), Traffic(1, 2, 1)),
        costs=TrafficCosts((3,)),
        unwished=(0,),
    )

    assert 3 == cheapest(group) == trafficbound.least(group, 100, LIMITS, lambda: 60.0)


def application(rng):
    """Return an application of some twenty pods on sixteen leaves in four zones, as
    tests.perf.whole has them.
    """
    count, leaves = rng.randint(4, 8), range(16)
    kinds = tuple(
        Role(rng.randint(1, 4), (rng.choice([1, 2, 4]),), (99,) * 16) for _ in range(count)
    )
    ties = {(rng.randrange(at), at) for at in range(1, count) for _ in range(2)}
    matrix = [[0 if a == b else rng.randint(2, 14) for b in range(4)] for a in range(4)]
    return GroupProblem(
        kinds,
        tuple((rng.randint(0, 16),) for _ in leaves),
        (Level("node"),),
        tuple((f"n{leaf}",) for leaf in leaves),
        sum(kind.count for kind in kinds),
        classes=tuple(PodClass(f"w{at}", (at,)) for at in range(count)),
        traffic=tuple(Traffic(*tie, 1) for tie in sorted(ties)),
        costs=TrafficCosts((1,), tuple(leaf // 4 for leaf in leaves), tuple(map(tuple, matrix))),
        unwished=(0,),
    )


def one_by_one(group, order):
    """Return the greedy placement: each pod goes where it adds the least cost to the pods before
    it; of equal leaves the emptiest is used.
    """
    counts = np.zeros((len(group.roles), len(group.paths)), dtype=np.int64)
    free = [amounts[0] for amounts in group.free]
    for kind in order:
        for _ in range(group.roles[kind].count):
            prices = []
            for leaf in range(len(free)):
                if free[leaf] < group.roles[kind].request[0]:
                    continue
                counts[kind, leaf] += 1
                prices.append((cost(group, counts), -free[leaf], leaf))
                counts[kind, leaf] -= 1
            if not prices:
                return None
            leaf = min(prices)[2]
            counts[kind, leaf] += 1
            free[leaf] -= group.roles[kind].request[0]
    return counts


@pytest.mark.parametrize("batch", batches(25, 250))
def test_no_application_is_dearer_than_its_pods_one_by_one(batch):
    """Before any search, an application costs at most as much as its pods placed one by one, in the
    listed order or in reverse.
    """
    compared = 0
    for number in range(2):
        group = application(Random(f"one by one {batch}/{number}"))
        listed = range(len(group.roles))
        alone = [one_by_one(group, order) for order in (listed, listed[::-1])]
        prices = [cost(group, counts) for counts in alone if counts is not None]
        whole = [each for each in near_by(group) if int(each.sum()) == group.wanted]
        if prices:
            assert min(cost(group, each) for each in whole) <= min(prices), group
            compared += 1
    assert compared
