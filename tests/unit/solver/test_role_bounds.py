"""Bounds of groups with several roles: never above the optimum, and tight in ordinary cases.

A greedy placement that meets the bounds is proven without a search, so loose bounds cost time.
"""

from random import Random

import msgspec
import numpy as np
import pytest

from scheduler.base.errors import StateError
from scheduler.groups.problem import checker
from scheduler.groups.problem.classes import ClassRule, PodClass
from scheduler.groups.problem.instance import DomainRule, Level, LevelRule, SolveLimits
from scheduler.groups.problem.parts import LikeParts
from scheduler.groups.problem.roles import Apart, GroupProblem, Role
from scheduler.groups.solver import tree
from scheduler.groups.solver.cpsat import stages
from scheduler.groups.solver.deadline import Deadline
from scheduler.groups.solver.roles import descent, heterogeneous, relaxation
from scheduler.groups.solver.roles.result import objective_of
from scheduler.groups.solver.roles.rolebounds import bounds
from scheduler.groups.solver.roles.subgroups import split
from tests.property import groups, rolegroups


def small_and_large(rng):
    """Return roles that request one unit or three, on up to five leaves."""
    depth = rng.choice((1, 2))
    paths = groups.paths(rng, depth, 4 if depth == 1 else 2)[:5]
    roles = tuple(
        Role(rng.randint(1, 2), (rng.choice((1, 3)),), (9,) * len(paths))
        for _ in range(rng.randint(2, 3))
    )
    return GroupProblem(
        roles,
        tuple((rng.randint(0, 7),) for _ in paths),
        (Level("first"), *(Level("second", LevelRule("spread")) for _ in range(depth - 1))),
        tuple(paths),
        sum(role.count for role in roles),
    )


def test_a_placement_with_a_violation_is_an_error_that_names_three():
    """For any counts: the error contains the first three violations that the checker finds."""
    found = []
    for number in range(60):
        rng = Random(f"checked {number}")
        group = small_and_large(rng)
        counts = np.array([[rng.choice((0, 0, 1)) for _ in group.paths] for _ in group.roles])
        wrong = checker.problems(group, tuple(map(tuple, counts.tolist())), [])
        found.append(len(wrong))
        if not wrong:
            assert heterogeneous._checked(group, counts)[0] == tuple(map(tuple, counts.tolist()))
            continue
        with pytest.raises(StateError) as error:
            heterogeneous._checked(group, counts)
        assert str(error.value).endswith(f"several roles: {'; '.join(wrong[:3])}")
    assert {0, 1, 4} <= set(found)


def test_bounds_of_one_resource_are_the_optimum_of_the_first_level():
    """The fewest units, and the largest sum of squares.

    Capacities of single leaves do not suffice for these: the small pods count once on each leaf.
    """
    compared = 0
    for number in range(50):
        group = small_and_large(Random(f"small and large {number}"))
        best = rolegroups.best(group)
        if best is not None:
            assert best[:2] == bounds(group)[:2], group
            compared += len(group.paths) > 1
    assert compared > 10


def test_bounds_of_racks_count_the_small_pods_once():
    """Two small and two large pods: a rack of two nodes with three units each takes three of them.

    By its nodes alone a rack takes all four, because each node takes both small pods.
    """
    paths = tuple((f"r{rack}", f"n{rack}{node}") for rack in range(2) for node in range(2))
    roles = tuple(Role(2, (request,), (9,) * len(paths)) for request in (1, 3))
    levels = (Level("rack"), Level("node"))
    group = GroupProblem(roles, ((3,),) * len(paths), levels, paths, 4)

    best = rolegroups.best(group)

    assert best is not None
    assert best[:2] == bounds(group)[:2] == [2, -(3 * 3 + 1)]


def own_preferences(rng):
    """Return two classes with a preference or a rule of their own, and ample capacity.

    Some have a bound pod.
    """
    depth = rng.choice((1, 2, 3))
    paths = groups.paths(rng, depth, 3 if depth == 1 else 2)[:4]
    sizes = [rng.randint(1, 2 if len(paths) > 3 else 3) for _ in range(2)]
    rules = (LevelRule("pack"), LevelRule("spread"), LevelRule("spread", max=1), LevelRule(max=2))
    bound = [[0] * len(paths) for _ in sizes]
    for fixed in bound:
        fixed[rng.randrange(len(paths))] = rng.choice((0, 0, 1))
    classes = (
        PodClass(
            f"c{at}",
            (at,),
            rules=(ClassRule(rng.randrange(depth), rng.choice(rules)),),
            fixed=tuple(fixed),
        )
        for at, fixed in enumerate(bound)
    )
    return GroupProblem(
        tuple(Role(size, (1,), (9,) * len(paths)) for size in sizes),
        ((9,),) * len(paths),
        tuple(Level(f"l{at}") for at in range(depth)),
        tuple(paths),
        sum(sizes),
        fixed=tuple(map(sum, zip(*bound, strict=True))),
        classes=tuple(classes),
        unwished=tuple(range(depth)),
    )


def test_bounds_of_classes_are_the_optimum_where_capacity_is_ample():
    """Each class prefers for itself: units of packed ones, and squares of spread ones."""
    compared = set()
    for number in range(60):
        group = own_preferences(Random(f"own {number}"))
        made = tree.build(group.homogeneous(), with_full=True)
        asked, best = stages.of_roles(group, made), rolegroups.best(group)
        if best is not None:
            for stage, bound, value in zip(asked, bounds(group), best, strict=True):
                # A largest count per unit is no part of the bound of the largest squares.
                limits = [group.classes[at].rules[0].rule.max for at in stage.of]
                if limits and not (stage.measure == "large" and any(limits)):
                    assert bound == value, (stage, group)
                    compared.add(stage.measure)
    assert compared == {"units", "large", "squares"}


@pytest.mark.parametrize(("make", "number"), [(rolegroups.group, 40), (rolegroups.application, 8)])
def test_no_placement_is_better_than_a_bound_in_any_stage(make, number):
    """Each bound holds by itself, whatever the values of the stages before."""
    compared = 0
    for seed in range(number):
        group = make(Random(f"bounds {seed}"))
        values = [
            [value for _, _, value in objective_of(group, np.array(counts))]
            for counts in rolegroups.placements(group)
        ]
        if values:
            least = [min(column) for column in zip(*values, strict=True)]
            assert all(a <= b for a, b in zip(bounds(group), least, strict=True)), group
            compared += 1
    assert compared > 1


def test_the_relaxation_places_whole_parts():
    """Each rack has a multiple of two workers and a leader, the pods of one part."""
    paths = tuple((f"r{rack}", f"n{rack}{node}") for rack in range(3) for node in range(2))
    for copies in (1, 2, 3):
        roles = tuple(Role(copies * size, (1,), (9,) * len(paths)) for size in (2, 1))
        parts = (
            LikeParts("root", count=1, minimum=copies),
            LikeParts("part", 0, copies, 0, 3, (0, 1), (2, 1)),
        )
        levels = (Level("rack", LevelRule("spread")), Level("node"))
        group = GroupProblem(roles, ((2,),) * len(paths), levels, paths, 3 * copies, parts=parts)
        made = tree.build(group.homogeneous(), with_full=True)

        found = relaxation.best(group, stages.of_roles(group, made), SolveLimits(), 60.0)

        assert found.counts is not None
        assert split(group, found.counts.tolist()) is not None
        assert found.values == tuple(value for _, _, value in objective_of(group, found.counts))


def test_a_group_without_capacity_for_whole_parts_fits_nowhere():
    """Two nodes of two racks take two pods each, a part has three."""
    paths = (("r0", "a"), ("r1", "b"))
    parts = (
        LikeParts("root", count=1, minimum=1),
        LikeParts("part", 0, 1, 0, 3, (0, 1), (2, 1)),
    )
    roles = tuple(Role(size, (1,), (9, 9)) for size in (2, 1))
    group = GroupProblem(roles, ((2,), (2,)), (Level("rack"), Level("node")), paths, 3, parts=parts)
    made = tree.build(group.homogeneous(), with_full=True)

    found = relaxation.best(group, stages.of_roles(group, made), SolveLimits(), 60.0)
    smaller = msgspec.structs.replace(group, free=((3,), (2,)))

    assert found.is_none
    assert not relaxation.best(smaller, stages.of_roles(group, made), SolveLimits(), 60.0).is_none


def test_a_search_without_time_proves_nothing():
    """No unit was tried: it is unknown whether one of them takes all pods."""
    roles = tuple(Role(1, (1,), (1, 1)) for _ in range(2))
    paths = (("r0", "a"), ("r1", "b"))
    levels = (Level("rack", LevelRule(hard=True)), Level("node"))
    group = GroupProblem(roles, ((2,), (2,)), levels, paths, 2)

    found = heterogeneous._in_one_unit(group, 1, SolveLimits(), Deadline(0.0))

    assert (None, False) == (found.counts, found.is_proven)


def test_ample_capacity_is_used_without_time_for_a_search():
    """The greedy descent meets the bounds, so the placement is returned, and proven."""
    roles = tuple(Role(1, (request,), (1, 1)) for request in (1, 2))
    group = GroupProblem(roles, ((2,), (3,)), (Level("node"),), (("a",), ("b",)), 2)

    found = heterogeneous.solve(group, SolveLimits(total_s=0.0))

    assert ("placed", True) == (found.outcome, found.optimal)


def test_of_equally_good_units_the_first_is_used():
    """Two roles exclude each other on nodes, and need two nodes; the bound of each rack is one."""
    paths = tuple((f"r{rack}", f"n{rack}{node}") for rack in range(2) for node in range(2))
    roles = tuple(Role(1, (1,), (9,) * len(paths)) for _ in range(2))
    levels = (Level("rack", LevelRule(hard=True)), Level("node"))
    apart = Apart(tuple((leaf,) for leaf in range(len(paths))), 0, 1)
    group = GroupProblem(roles, ((9,),) * len(paths), levels, paths, 2, (apart,))

    found = heterogeneous.solve(group, SolveLimits())

    assert found.optimal
    assert [1, 1, 0, 0] == np.array(found.counts).sum(axis=0).tolist()


@pytest.mark.parametrize("is_filling", [True, False])
def test_the_descent_keeps_the_skew(is_filling):
    """A zone takes a further pod only if it then has at most one more than the other."""
    paths = (("a0",), ("a1",), ("b0",))
    role = Role(5, (1,), (9, 9, 9))
    rule = DomainRule(
        "zone", ((0, 1), (2,)), max_skew=1, existing=(0, 1), asking=(0,), counted=(0,)
    )
    group = GroupProblem((role,), ((9,), (9,), (2,)), (Level("node"),), paths, 5, domains=(rule,))

    (placed,) = descent.descent(group, is_filling=is_filling).tolist()

    assert (3, 2) == (placed[0] + placed[1], placed[2])
