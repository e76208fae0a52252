"""Groups of groups compared with enumeration: placed if and only if enough of their parts can be,
and optimally.

The oracle (`partmaking`) names every part and tries all its placements. In every other group, parts
have rules of their own.
"""

from random import Random

import msgspec
import pytest

from scheduler.groups.problem import checkparts
from scheduler.groups.problem.parts import PlacedPart
from scheduler.groups.solver.roles import heterogeneous
from scheduler.groups.solver.victims import severalroles
from tests.property import partmaking, rolegroups
from tests.property.answerchecks import (
    LIMITS,
    assert_conflict,
    assert_least_harm,
    assert_optimal,
    fits,
)
from tests.property.batches import batches

BATCH = 25
MAKERS = (partmaking.parted, partmaking.ruled)


@pytest.mark.parametrize("batch", batches(50, 2_000))
def test_placed_as_well_as_can_be_if_and_only_if_enough_parts_fit(batch):
    """The outcome, every stage's value and every bound are those of the best of all placements."""
    placed = 0
    for number in range(BATCH):
        group = MAKERS[number % 2](Random(f"parts {batch}/{number}"))
        placed += assert_optimal(group, heterogeneous.solve(group, LIMITS))
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
def test_conflict_sets_are_minimal_and_true(batch):
    """No smaller set of the parts' requirements conflicts, and giving up the named ones helps."""
    refused = 0
    for number in range(BATCH):
        group = MAKERS[number % 2](Random(f"refused parts {batch}/{number}"))
        refused += assert_conflict(group, is_placed=fits(group))
    assert refused


@pytest.mark.parametrize("batch", batches(25, 500))
def test_no_other_victims_do_less_harm(batch):
    """The victims suffice, are minimal, and are proven to be; none are evicted if that does not
    help.
    """
    made = 0
    for number in range(BATCH):
        rng = Random(f"victims of parts {batch}/{number}")
        problem = rolegroups.preemption(rng, MAKERS[number % 2](rng))
        made += assert_least_harm(problem, severalroles.solve(problem, LIMITS))
    assert made
