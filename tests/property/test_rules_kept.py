"""A problem under all of its rules has the same placements; under fewer rules it has no fewer.

The search for a conflict, and with it every message that names rules, relies on both.
"""

from random import Random

import pytest

from scheduler.groups.problem import checker
from scheduler.groups.problem.roles import GroupProblem
from scheduler.groups.problem.rules import rules_of, under
from scheduler.groups.solver.roles.subgroups import split
from tests.property import partmaking, rolegroups
from tests.property.batches import batches
from tests.property.test_certificates import BATCH
from tests.property.test_checker import with_one_sort

KINDS = (
    rolegroups.group,
    rolegroups.classed,
    rolegroups.application,
    partmaking.parted,
    partmaking.ruled,
)
PLACEMENTS = 20

Counts = tuple[tuple[int, ...], ...]


def is_valid(group: GroupProblem, counts: Counts) -> bool:
    """Return whether a placement keeps all rules of a group."""
    pieces = split(group, counts) if group.parts else ()
    return not checker.problems(group, counts, pieces)


def most_of(rng: Random, group: GroupProblem) -> Counts:
    """Return a placement of most pods, in few leaves as often as in many."""
    leaves = rng.sample(range(len(group.paths)), rng.randint(1, len(group.paths)))
    rows = [[0] * len(group.paths) for _ in group.roles]
    for row, role in zip(rows, group.roles, strict=True):
        for _ in range(role.count):
            row[rng.choice(leaves)] += rng.random() < 0.9
    return tuple(map(tuple, rows))


@pytest.mark.parametrize("batch", batches(50, 2_000))
def test_fewer_rules_allow_no_fewer_placements(batch):
    """All rules allow the same placements as the problem, any subset of them at least these."""
    valid = forbidden = 0
    for number in range(BATCH):
        rng = Random(f"kept {batch}/{number}")
        made = KINDS[number % len(KINDS)](rng)
        asked = with_one_sort(rng, made) if rng.random() < 0.5 and not made.parts else made
        rules = frozenset(rules_of(asked))
        same = under(asked, rules)
        dropped = [under(asked, rules - {one}) for one in sorted(rules, key=str)]
        bare = under(asked, frozenset())
        for _ in range(PLACEMENTS):
            counts = most_of(rng, asked)
            is_allowed = is_valid(asked, counts)
            valid += is_allowed
            forbidden += not is_allowed and is_valid(bare, counts)

            assert is_allowed == is_valid(same, counts), (asked, counts)
            if is_allowed:
                assert all(is_valid(fewer, counts) for fewer in [*dropped, bare]), (asked, counts)
    assert min(valid, forbidden) > BATCH // 3
