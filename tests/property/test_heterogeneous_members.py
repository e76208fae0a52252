"""Groups of heterogeneous members under level rules, compared with enumeration: placed if and only
if possible, optimally, and with true proofs.
"""

import itertools
from random import Random

import msgspec
import pytest

from scheduler.groups.problem.instance import SolveLimits
from scheduler.groups.problem.rules import rules_of, uncovered, under
from scheduler.groups.solver.explain import explain
from scheduler.groups.solver.roles import heterogeneous
from scheduler.groups.solver.victims import freed, severalroles
from tests.property import rolegroups
from tests.property.test_certificates import batches

BATCH = 25
LIMITS = SolveLimits(stage_s=20.0, total_s=120.0)


@pytest.mark.parametrize("batch", batches(25, 2_000))
def test_placed_as_well_as_can_be_if_and_only_if_it_fits(batch):
    """The outcome, every stage's value and every bound are those of the best of all placements."""
    for number in range(BATCH):
        group = rolegroups.group(Random(f"unlike {batch}/{number}"))
        found = heterogeneous.solve(group, LIMITS)
        best = rolegroups.best(group)

        assert found.optimal, group
        assert ("infeasible" if best is None else "placed") == found.outcome, group
        if best is not None:
            assert best == [stage.value for stage in found.stages], group
            assert best == [stage.bound for stage in found.stages], group


@pytest.mark.parametrize("batch", batches(25, 1_000))
def test_classes_are_placed_as_well_as_can_be_if_and_only_if_they_fit(batch):
    """With classes, rules between them, bound pods and costs: outcome and every term of the
    objective.
    """
    placed = 0
    for number in range(BATCH):
        group = rolegroups.classed(Random(f"classes {batch}/{number}"))
        found = heterogeneous.solve(group, LIMITS)
        best = rolegroups.best(group)

        assert found.optimal, group
        assert ("infeasible" if best is None else "placed") == found.outcome, group
        if best is not None:
            assert best == [stage.value for stage in found.stages], group
            assert best == [stage.bound for stage in found.stages], group
            placed += 1
    assert placed >= BATCH // 8


@pytest.mark.parametrize("batch", batches(25, 1_000))
def test_what_is_in_the_way_is_smallest_and_true(batch):
    """No smaller set of the rules conflicts, and relaxing the named ones helps."""
    refused = 0
    for number in range(BATCH):
        group = rolegroups.classed(Random(f"refused {batch}/{number}"))
        advice = explain(group, LIMITS)
        bare = [msgspec.structs.replace(one, fits_without=False) for one in advice.conflict]

        assert fits(group) == (not bare), group
        if not bare:
            continue
        rules = frozenset(rules_of(group))
        if bare[0].rule == "size":
            assert not fits(under(group, frozenset())), group
            continue
        refused += 1
        assert advice.smallest
        assert not fits(under(group, frozenset(bare))), group
        for some in itertools.combinations(sorted(rules, key=str), len(bare) - 1):
            assert fits(under(group, frozenset(some))), (group, some)
        for one, rule in zip(advice.conflict, bare, strict=True):
            is_enough = fits(under(group, rules - {rule})) and not uncovered(group, (rule,))
            assert one.fits_without == is_enough, group
        without = rules - frozenset(advice.give_up)
        assert fits(under(group, without)), group
    assert refused


def fits(group):
    """Return whether there is a placement, by enumeration."""
    return next(rolegroups.placements(group), None) is not None


@pytest.mark.parametrize("batch", batches(25, 1_000))
def test_no_other_victims_do_less_harm(batch):
    """The victims suffice, are minimal, and are proven to be; none are evicted if that does not
    help.
    """
    for number in range(BATCH):
        rng = Random(f"victims {batch}/{number}")
        made = (rolegroups.classed, rolegroups.group, rolegroups.begun)[number % 3]
        problem = rolegroups.preemption(rng, made(rng))
        found = severalroles.solve(problem, LIMITS)
        best = rolegroups.least_harm(problem)

        assert ("infeasible" if best is None else "placed") == found.outcome, problem
        assert found.optimal
        if best is not None:
            assert best == harm(problem, found.evicted), problem


@pytest.mark.parametrize("batch", batches(25, 1_000))
def test_the_unit_whose_victims_do_the_least_harm_is_chosen(batch):
    """All members must be in one unit, and several units can be emptied for them."""
    placed = 0
    for number in range(BATCH):
        rng = Random(f"units {batch}/{number}")
        group = msgspec.structs.replace(rolegroups.begun(rng), fixed=())
        problem = rolegroups.preemption(rng, group)
        found = severalroles.solve(problem, LIMITS)
        best = rolegroups.least_harm(problem)

        assert ("infeasible" if best is None else "placed") == found.outcome, problem
        assert found.optimal
        if best is not None:
            assert best == harm(problem, found.evicted), problem
            placed += 1
    assert placed


def harm(problem, evicted):
    """Return the harm of an answer's evictions, in the order of importance."""
    gone = [(evicted.get(at, 0), one) for at, one in enumerate(problem.candidates)]
    priorities = sorted({one.priority for one in problem.candidates}, reverse=True)
    pods = [sum(n * one.pods for n, one in gone if one.priority == each) for each in priorities]
    return (*pods, freed.groups(problem, evicted))
