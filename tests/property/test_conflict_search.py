"""Every statement of an advice is true, however many trials are undecided and whenever the time
ends.

Random systems of rules: conflicting sets are supersets of some minimal sets. The oracle has all
answers; for the search some are withheld, and trials are limited.
"""

import itertools
from random import Random

import msgspec
import pytest

from scheduler.groups.problem.answer import Conflict
from scheduler.groups.problem.conflict import MOST_NAMED, advice_of
from scheduler.groups.problem.instance import SolveLimits
from scheduler.groups.problem.rules import rules_of, under
from scheduler.groups.solver.explain import explain
from tests.property import rolegroups
from tests.property.batches import batches

BATCH = 25


def system(rng):
    """Return rules, and their minimal conflicting sets."""
    rules = [Conflict("", "rule", str(n)) for n in range(rng.randint(1, 9))]
    sizes = [rng.choice([1, 1, 2, 2, 3, 4]) for _ in range(rng.randint(1, 4))]
    return rules, [frozenset(rng.sample(rules, min(size, len(rules)))) for size in sizes]


def bare(conflict):
    """Return rules as the search received them."""
    return frozenset(msgspec.structs.replace(one, fits_without=False) for one in conflict)


@pytest.mark.parametrize("unknown_share", [0.0, 0.2, 0.7])
@pytest.mark.parametrize("seed", range(40))
def test_what_is_stated_is_true_whatever_stays_unknown(seed, unknown_share):
    """The named rules conflict, and a placement exists without the rules to give up. If all trials
    are decided, both sets have the fewest rules.
    """
    rng = Random(f"search {seed}/{unknown_share}")
    rules, minimal = system(rng)
    budget = rng.choice([3, 10, 1000]) if unknown_share else 10_000
    asked = []

    def fits(kept):
        return not any(one <= kept for one in minimal)

    def trial(kept):
        asked.append(kept)
        return None if rng.random() < unknown_share else fits(kept)

    found = advice_of(rules, trial, lambda: len(asked) > budget)
    everything = frozenset(rules)

    assert len(asked) == len(set(asked))
    assert not found.is_size
    if found.conflict:
        assert not fits(bare(found.conflict))
    if found.give_up:
        assert fits(everything - frozenset(found.give_up))
    for one in found.conflict:
        assert not one.fits_without or fits(everything - bare((one,)))
    if found.smallest:
        assert len(found.conflict) == min(map(len, minimal))
    if not unknown_share:
        assert found.smallest
        sets = (
            some
            for number in range(len(rules) + 1)
            for some in itertools.combinations(rules, number)
            if fits(everything - frozenset(some))
        )
        assert len(next(sets)) == len(found.give_up)
        for one in found.conflict:
            assert one.fits_without == fits(everything - bare((one,)))


def test_a_search_without_time_names_no_long_list():
    """A list of twelve rules that were not reduced would be correct, but no help."""
    rules = [Conflict("", "rule", str(n)) for n in range(2 * MOST_NAMED)]
    asked = []

    def fits(kept):
        asked.append(kept)
        return not kept

    found = advice_of(rules, fits, lambda: bool(asked))

    assert ((), ()) == (found.conflict, found.give_up)
    assert not found.is_size


@pytest.mark.parametrize("total_s", [0.0, 0.05])
@pytest.mark.parametrize("batch", batches(25, 500))
def test_advice_for_heterogeneous_members_is_true_under_any_time_limit(batch, total_s):
    """By enumeration: the named rules conflict, and a placement exists without the rules to give
    up.
    """
    for number in range(BATCH):
        group = rolegroups.classed(Random(f"in time {batch}/{number}"))
        if rolegroups.fits(group):
            continue
        limits = SolveLimits(stage_s=total_s, total_s=total_s)
        advice = explain(group, limits, is_infeasible=True)
        rules = frozenset(rules_of(group))

        if advice.is_size:
            assert not rolegroups.fits(under(group, frozenset())), group
            continue
        kept = bare(advice.conflict)
        assert not kept or not rolegroups.fits(under(group, kept)), group
        for some in [advice.give_up, *((one,) for one in advice.conflict if one.fits_without)]:
            if some:
                without = under(group, rules - bare(some))
                assert rolegroups.fits(without), (group, some)
