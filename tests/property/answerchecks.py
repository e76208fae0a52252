"""Checks of the solver's answers about heterogeneous members against enumeration.

The oracles are `rolegroups`, and `partmaking` for groups of groups. Each function raises
AssertionError with the problem.
"""

import itertools
from collections.abc import Mapping

import msgspec

from scheduler.groups.problem.instance import SolveLimits
from scheduler.groups.problem.roles import GroupAnswer, GroupPreemption, GroupProblem
from scheduler.groups.problem.rules import rules_of, uncovered, under
from scheduler.groups.solver.explain import explain
from scheduler.groups.solver.victims import freed
from tests.property import partmaking, rolegroups

LIMITS = SolveLimits(stage_s=20.0, total_s=120.0)


def best_of(group: GroupProblem) -> list[int] | None:
    """Return the best values of all placements, None without one."""
    return partmaking.best(group) if group.parts else rolegroups.best(group)


def fits(group: GroupProblem) -> bool:
    """Return whether there is a placement, by enumeration."""
    return partmaking.best(group) is not None if group.parts else rolegroups.fits(group)


def assert_optimal(group: GroupProblem, found: GroupAnswer) -> bool:
    """Compare the outcome, every stage's value and every bound with the best of all placements.

    Return whether the group is placed.
    """
    best = best_of(group)
    assert found.optimal, group
    assert ("infeasible" if best is None else "placed") == found.outcome, group
    if best is not None:
        assert best == [stage.value for stage in found.stages], group
        assert best == [stage.bound for stage in found.stages], group
    return best is not None


def assert_least_harm(problem: GroupPreemption, found: GroupAnswer) -> bool:
    """Check that the victims suffice, are minimal, and are proven to be.

    Return whether the group is placed.
    """
    best = rolegroups.least_harm(problem, fits)
    assert ("infeasible" if best is None else "placed") == found.outcome, problem
    assert found.optimal
    if best is not None:
        assert best == _harm(problem, found.evicted), problem
    return best is not None


def _harm(problem: GroupPreemption, evicted: Mapping[int, int]) -> tuple[int, ...]:
    """Return the harm of an answer's evictions, in the order of importance."""
    gone = [(evicted.get(at, 0), one) for at, one in enumerate(problem.candidates)]
    priorities = sorted({one.priority for one in problem.candidates}, reverse=True)
    pods = [sum(n * one.pods for n, one in gone if one.priority == each) for each in priorities]
    return (*pods, freed.groups(problem, dict(evicted)))


def assert_conflict(group: GroupProblem, *, is_placed: bool) -> bool:
    """Check that no smaller set of rules conflicts than the reported one, that each rule is stated
    truly, and that relaxing the named ones helps.

    Return whether the conflict names any rule but the size.
    """
    advice = explain(group, LIMITS)
    bare = [msgspec.structs.replace(one, fits_without=False) for one in advice.conflict]
    assert is_placed == (not bare), group
    if not bare:
        return False
    if bare[0].rule == "size":
        assert not fits(under(group, frozenset())), group
        return False
    rules = frozenset(rules_of(group))
    assert advice.smallest
    assert not fits(under(group, frozenset(bare))), group
    for some in itertools.combinations(sorted(rules, key=str), len(bare) - 1):
        assert fits(under(group, frozenset(some))), (group, some)
    for one, rule in zip(advice.conflict, bare, strict=True):
        is_enough = fits(under(group, rules - {rule})) and not uncovered(group, (rule,))
        assert one.fits_without == is_enough, group
    assert fits(under(group, rules - frozenset(advice.give_up))), group
    return True
