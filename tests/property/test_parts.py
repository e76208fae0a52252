"""Groups of groups compared with enumeration: placed if and only if enough of their parts can be,
and optimally.

The oracle (`partmaking`) names every part and tries all its placements. In every other group, parts
have rules of their own.
"""

import itertools
from random import Random

import msgspec
import pytest

from scheduler.groups.problem import checkparts
from scheduler.groups.problem.instance import SolveLimits
from scheduler.groups.problem.parts import PlacedPart
from scheduler.groups.problem.rules import rules_of, under
from scheduler.groups.solver.explain import explain
from scheduler.groups.solver.roles import heterogeneous
from scheduler.groups.solver.victims import severalroles
from tests.property import partmaking, rolegroups
from tests.property.test_certificates import batches
from tests.property.test_heterogeneous_members import harm

BATCH = 25
MAKERS = (partmaking.parted, partmaking.ruled)
LIMITS = SolveLimits(stage_s=20.0, total_s=120.0)


@pytest.mark.parametrize("batch", batches(50, 2_000))
def test_placed_as_well_as_can_be_if_and_only_if_enough_parts_fit(batch):
    """The outcome, every stage's value and every bound are those of the best of all placements."""
    placed = 0
    for number in range(BATCH):
        group = MAKERS[number % 2](Random(f"parts {batch}/{number}"))
        found = heterogeneous.solve(group, LIMITS)
        best = partmaking.best(group)

        assert found.optimal, group
        assert ("infeasible" if best is None else "placed") == found.outcome, group
        if best is not None:
            assert best == [stage.value for stage in found.stages], group
            assert best == [stage.bound for stage in found.stages], group
            placed += 1
    assert placed >= BATCH // 3


@pytest.mark.parametrize("batch", batches(25, 500))
def test_a_part_that_is_not_whole_is_found_out(batch):
    """A pod without a part, a surplus part, and a part with too few pods are each detected as
    wrong.
    """
    broken = 0
    for number in range(BATCH):
        group = MAKERS[number % 2](Random(f"broken {batch}/{number}"))
        found = heterogeneous.solve(group, LIMITS)
        if found.outcome != "placed":
            continue
        pieces = list(found.pieces)
        at = next(n for n, piece in enumerate(pieces) if piece.pods)
        without = msgspec.structs.replace(pieces[at], pods=pieces[at].pods[1:])

        assert not checkparts.problems(group, found.counts, pieces)
        assert checkparts.problems(group, found.counts, [*pieces[:at], without, *pieces[at + 1 :]])
        assert checkparts.problems(group, found.counts, [*pieces, PlacedPart(0)])
        broken += 1
    assert broken


@pytest.mark.parametrize("batch", batches(25, 500))
def test_a_rule_of_its_own_that_a_part_breaks_is_found_out(batch):
    """A placement without these rules is either wrong by them, or valid."""
    broken = kept = 0
    for number in range(BATCH):
        group = partmaking.ruled(Random(f"own rules {batch}/{number}"))
        parts = tuple(msgspec.structs.replace(one, apart=-1) for one in group.parts)
        found = heterogeneous.solve(msgspec.structs.replace(group, parts=parts, classes=()), LIMITS)
        if found.outcome != "placed":
            continue
        wrong = checkparts.problems(group, found.counts, found.pieces)
        best = partmaking.best(group)

        assert wrong or best is not None, group
        broken += bool(wrong)
        kept += not wrong
    assert broken
    assert kept


@pytest.mark.parametrize("batch", batches(25, 500))
def test_what_is_in_the_way_is_smallest_and_true(batch):
    """No smaller set of the parts' requirements conflicts, and giving up the named ones helps."""
    refused = 0
    for number in range(BATCH):
        group = MAKERS[number % 2](Random(f"refused parts {batch}/{number}"))
        advice = explain(group, LIMITS)
        bare = [msgspec.structs.replace(one, fits_without=False) for one in advice.conflict]

        assert fits(group) == (not bare), group
        if not bare:
            continue
        if bare[0].rule == "size":
            assert not fits(under(group, frozenset())), group
            continue
        refused += 1
        rules = frozenset(rules_of(group))
        assert advice.smallest
        assert not fits(under(group, frozenset(bare))), group
        for some in itertools.combinations(sorted(rules, key=str), len(bare) - 1):
            assert fits(under(group, frozenset(some))), (group, some)
        without = rules - frozenset(advice.give_up)
        assert fits(under(group, without)), group
    assert refused


def fits(group):
    """Return whether there is a placement, by enumeration."""
    return partmaking.best(group) is not None


@pytest.mark.parametrize("batch", batches(25, 500))
def test_no_other_victims_do_less_harm(batch):
    """The victims suffice, are minimal, and are proven to be; none are evicted if that does not
    help.
    """
    made = 0
    for number in range(BATCH):
        rng = Random(f"victims of parts {batch}/{number}")
        problem = rolegroups.preemption(rng, MAKERS[number % 2](rng))
        found = severalroles.solve(problem, LIMITS)
        best = rolegroups.least_harm(problem, fits)

        assert ("infeasible" if best is None else "placed") == found.outcome, problem
        assert found.optimal
        if best is not None:
            assert best == harm(problem, found.evicted), problem
            made += 1
    assert made
