"""The invariant of heterogeneous members and the joint objective: a thousand random small groups
compared with enumeration.

Two to four classes in trees of two to four levels with unequal nodes, rules of classes and between
them, costs, bound pods. Every fourth one is a group of groups, in half of these with rules of
single groups; every fourth is an application with random path costs. Checked are the placement,
every term of the objective by name, the conflict, and the victims. The long form has all thousand,
and 200 that need victims.
"""

import itertools
from random import Random

import numpy as np
import pytest

from scheduler.groups.problem import checker
from scheduler.groups.solver.roles import heterogeneous
from scheduler.groups.solver.roles.result import objective_of
from scheduler.groups.solver.victims import severalroles
from tests.property import partmaking, rolegroups
from tests.property.answerchecks import LIMITS, assert_conflict, assert_least_harm, best_of, fits
from tests.property.batches import batches

BATCH, NEEDED = 25, 5


def group_of(number, rng):
    """Return a case."""
    if number % 4 == 1:
        return rolegroups.application(rng)
    if number % 4:
        return rolegroups.classed(rng)
    return partmaking.parted(rng) if number % 8 else partmaking.ruled(rng)


@pytest.mark.parametrize("batch", batches(25, 1_000))
def test_the_message_of_a_group_is_true(batch):
    """A group is placed if and only if it fits, and every term of the objective is minimal.

    If it does not fit, the reported conflict is true and has the fewest rules.
    """
    placed = refused = 0
    for number in range(BATCH):
        group = group_of(number, Random(f"invariant {batch}/{number}"))
        found, best = heterogeneous.solve(group, LIMITS), best_of(group)
        assert found.optimal, group
        assert ("infeasible" if best is None else "placed") == found.outcome, group
        if best is None:
            refused += assert_conflict(group, is_placed=False)
            continue
        placed += 1
        assert not checker.problems(group, found.counts, found.pieces), group
        terms = objective_of(group, np.array(found.counts))
        reported = [(one.level, one.measure, one.value) for one in found.stages]
        assert terms == reported, group
        assert best == [value for _, _, value in terms] == [one.bound for one in found.stages]
    assert placed >= BATCH // 8
    assert refused


@pytest.mark.parametrize("batch", batches(25, 200 // NEEDED * BATCH))
def test_no_other_victims_do_less_harm_where_some_are_needed(batch):
    """For each group that fits only after evictions, the victims suffice, their harm is minimal,
    and the solver proves it.
    """
    needed = 0
    for number in itertools.count():
        rng = Random(f"victims of the invariant {batch}/{number}")
        problem = rolegroups.preemption(rng, group_of(number, rng))
        if fits(problem.group):
            continue
        found = severalroles.solve(problem, LIMITS)
        if not assert_least_harm(problem, found):
            continue
        assert found.evicted
        needed += 1
        if needed == NEEDED:
            break
