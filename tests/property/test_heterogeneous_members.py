"""Groups of heterogeneous members under level rules, compared with enumeration: placed if and only
if possible, optimally, and with true proofs.
"""

from random import Random

import msgspec
import pytest

from scheduler.groups.problem.roles import GroupProblem, LeafConflict
from scheduler.groups.solver.roles import heterogeneous, linkflows, rolesearch
from scheduler.groups.solver.roles.result import RolesResult
from scheduler.groups.solver.roles.rolebounds import bounds
from scheduler.groups.solver.victims import severalroles
from tests.property import rolegroups
from tests.property.answerchecks import (
    LIMITS,
    assert_conflict,
    assert_least_harm,
    assert_optimal,
    fits,
)
from tests.property.batches import batches

BATCH = 25


@pytest.mark.parametrize("batch", batches(25, 2_000))
def test_placed_as_well_as_can_be_if_and_only_if_it_fits(batch):
    """The outcome, every stage's value and every bound are those of the best of all placements."""
    for number in range(BATCH):
        group = rolegroups.group(Random(f"unlike {batch}/{number}"))
        assert_optimal(group, heterogeneous.solve(group, LIMITS))


@pytest.mark.parametrize("batch", batches(25, 1_000))
def test_classes_are_placed_as_well_as_can_be_if_and_only_if_they_fit(batch):
    """For classes, rules between them, bound pods and costs, the outcome and every term of the
    objective are right.
    """
    placed = 0
    for number in range(BATCH):
        group = rolegroups.classed(Random(f"classes {batch}/{number}"))
        placed += assert_optimal(group, heterogeneous.solve(group, LIMITS))
    assert placed >= BATCH // 8


def equal_leaves(rng: Random) -> GroupProblem:
    """Return a problem with at most two roles, without rules, whose leaves are identical."""
    drawn = rolegroups.group(rng)
    leaves, resources = len(drawn.paths), len(drawn.free[0])
    return msgspec.structs.replace(
        drawn,
        roles=tuple(msgspec.structs.replace(role, slots=(9,) * leaves) for role in drawn.roles[:2]),
        free=((rng.randint(3, 6),) * resources,) * leaves,
        apart=(),
        fixed=(),
        domains=(),
        minimum=1,
    )


def test_excluded_combinations_are_on_no_leaf():
    """Combinations that a filter rejected, on some of equal leaves: the best of all others."""
    placed = 0
    for number in range(20):
        rng = Random(f"excluded {number}")
        plain = equal_leaves(rng)
        combinations = tuple(
            LeafConflict(
                tuple(leaf for leaf in range(len(plain.paths)) if rng.random() < 0.6),
                tuple(rng.randint(0, min(2, role.count)) for role in plain.roles),
            )
            for _ in range(2)
        )
        excluded = tuple(one for one in combinations if any(one.counts) and one.leaves)
        group = msgspec.structs.replace(plain, excluded=excluded)
        if assert_optimal(group, heterogeneous.solve(group, LIMITS)):
            placed += rolegroups.best(group) != rolegroups.best(plain)
    assert placed


def test_equal_leaves_with_different_exclusions_are_not_interchangeable():
    """CP-SAT alone finds the optimum: pods are ordered only on leaves without a difference."""
    for number in range(50):
        rng = Random(f"order {number}")
        plain = equal_leaves(rng)
        rejected = (1, *(rng.randint(0, 1) for _ in plain.roles[1:]))
        group = msgspec.structs.replace(plain, excluded=(LeafConflict((0,), rejected),))
        found = rolesearch.minimize(
            group, RolesResult(None), bounds(group), (), LIMITS, lambda: 60.0
        )

        assert (rolegroups.best(group) or []) == found.values, group


def test_traffic_is_split_among_as_many_receivers_as_there_are():
    """CP-SAT alone finds the optimum where a link's traffic depends on their number."""
    compared = 0
    for number in range(120, 160):
        group = rolegroups.application(Random(f"links {number}"))
        several = any(len(linkflows.receiving(group, flow)) > 1 for flow in group.flows)
        size = rolegroups.rows_of([role.count for role in group.roles], len(group.paths))
        if group.links and several and size < 1_500:
            found = rolesearch.minimize(
                group, RolesResult(None), bounds(group), (), LIMITS, lambda: 60.0
            )
            assert (rolegroups.best(group) or []) == found.values, group
            compared += 1
    assert compared > 2


@pytest.mark.parametrize("batch", batches(25, 1_000))
def test_conflict_sets_are_minimal_and_true(batch):
    """No smaller set of the rules conflicts, and relaxing the named ones helps."""
    refused = 0
    for number in range(BATCH):
        group = rolegroups.classed(Random(f"refused {batch}/{number}"))
        refused += assert_conflict(group, is_placed=fits(group))
    assert refused


@pytest.mark.parametrize("batch", batches(25, 1_000))
def test_no_other_victims_do_less_harm(batch):
    """The victims suffice, are minimal, and are proven to be; none are evicted if that does not
    help.
    """
    for number in range(BATCH):
        rng = Random(f"victims {batch}/{number}")
        made = (rolegroups.classed, rolegroups.group, rolegroups.partly_bound)[number % 3]
        problem = rolegroups.preemption(rng, made(rng))
        assert_least_harm(problem, severalroles.solve(problem, LIMITS))


@pytest.mark.parametrize("batch", batches(25, 1_000))
def test_the_unit_whose_victims_do_the_least_harm_is_chosen(batch):
    """All members must be in one unit, and several units can be emptied for them."""
    placed = 0
    for number in range(BATCH):
        rng = Random(f"units {batch}/{number}")
        group = msgspec.structs.replace(rolegroups.partly_bound(rng), fixed=())
        problem = rolegroups.preemption(rng, group)
        placed += assert_least_harm(problem, severalroles.solve(problem, LIMITS))
    assert placed
