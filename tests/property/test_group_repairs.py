"""Repairs of groups that lost members, compared with all placements: valid rules are kept, and
repairs are made if possible.
"""

import itertools
from random import Random

import pytest

from scheduler.groups.planning import repairs
from scheduler.groups.planning.planning import NodeProblem
from scheduler.groups.problem.instance import Instance, Leaf, Level, LevelRule
from scheduler.groups.solver.solve import solve

RULES = (
    LevelRule(factor=2),
    LevelRule(factor=3),
    LevelRule(min=2),
    LevelRule("spread", hard=True),
    LevelRule("pack", hard=True),
)


def situation(random: Random) -> Instance:
    """Return some racks of nodes with bound members, and one or two more to place, any number of
    them.
    """
    rule = random.choice(RULES)
    leaves = []
    for rack in range(random.randint(2, 3)):
        for node in range(random.randint(1, 2)):
            fixed = random.choice((0, 0, 1, 1, 2))
            slots = fixed + random.choice((0, 0, 1, 2))
            if slots:
                leaves.append(Leaf((f"r{rack}", f"r{rack}n{node}"), slots, fixed=fixed))
    fixed = sum(leaf.fixed for leaf in leaves)
    size = fixed + random.randint(1, 3)
    least = fixed + 1
    levels = (Level("rack", rule), Level("node"))
    return Instance(levels, tuple(leaves), size, minimum=least if least < size else 0)


def racks(instance: Instance, counts: tuple[int, ...]) -> dict[str, int]:
    """Return the pods of each rack."""
    found: dict[str, int] = {}
    for leaf, count in zip(instance.leaves, counts, strict=True):
        found[leaf.path[0]] = found.get(leaf.path[0], 0) + count
    return found


def breaks_more(instance: Instance, counts: tuple[int, ...]) -> bool:
    """Return whether a placement breaks the rule of racks where bound members do not, or more than
    these do.
    """
    rule = instance.levels[0].rule
    before = racks(instance, tuple(leaf.fixed for leaf in instance.leaves))
    after = racks(instance, counts)
    for rack, count in after.items():
        fixed = before[rack]
        if count == fixed:
            continue
        whole = -(-max(fixed, rule.min) // rule.factor) * rule.factor
        if (count % rule.factor or count < rule.min) and not (fixed and count <= whole):
            return True
        if rule.is_hard_spread and count > 1:
            return True
    used, had = (sum(map(bool, each.values())) for each in (after, before))
    return bool(rule.units_per_parent) and used > max(rule.units_per_parent, had)


def placements(instance: Instance):
    """Yield all placements of some more pods that leave the bound ones unchanged."""
    free = [range(leaf.fixed, leaf.slots + 1) for leaf in instance.leaves]
    for counts in itertools.product(*free):
        if instance.least <= sum(counts) <= instance.size:
            yield counts


def check(seed: int) -> bool:
    """Check one situation.

    Return whether a repair exists that the unrelaxed rules forbid.
    """
    instance = situation(Random(f"repairs {seed}"))
    if not instance.leaves or not any(leaf.fixed for leaf in instance.leaves):
        return False
    rows = tuple(range(len(instance.leaves)))
    site = NodeProblem(instance, rows, tuple(leaf.path[-1] for leaf in instance.leaves))
    strict = solve(instance)
    if strict.outcome == "placed":
        return False
    mended = repairs.mended(site, {}).instance
    answer = solve(mended)
    possible = [one for one in placements(instance) if not breaks_more(instance, one)]
    if answer.outcome != "placed":
        assert not possible or not mended_at_all(instance), (instance, possible[:3])
        return False
    new = [n - leaf.fixed for n, leaf in zip(answer.counts, mended.leaves, strict=True)]
    counts = tuple(leaf.fixed + n for n, leaf in zip(new, instance.leaves, strict=True))
    assert all(n <= leaf.slots for n, leaf in zip(counts, instance.leaves, strict=True))
    assert not breaks_more(instance, counts), (instance, counts)
    return True


def mended_at_all(instance: Instance) -> bool:
    """Return whether a part of a group may be placed: otherwise all or none are requested."""
    return instance.is_elastic


@pytest.mark.parametrize("first", range(0, 200, 100))
def test_a_partial_repair_breaks_nothing_new(first: int):
    """If any repair is possible one is found, and no rule is broken that was kept before."""
    assert sum(check(seed) for seed in range(first, first + 100)) >= 10


@pytest.mark.long
@pytest.mark.parametrize("first", range(1000, 5000, 500))
def test_many_partial_repairs(first: int):
    """The invariant holds in four thousand situations."""
    for seed in range(first, first + 500):
        check(seed)
