"""The least cost to free an amount in a few units, compared with all choices."""

import itertools
from random import Random

import numpy as np
import pytest

from scheduler.groups.solver.costs import NEVER
from scheduler.groups.solver.victims.covers import SETS, Covers


def by_hand(gains, counts, weights, units, needed):
    """Return the least weight of any choice that frees enough in some units."""
    best = NEVER
    for choice in itertools.product(*(range(count + 1) for count in counts.values())):
        times = dict(zip(counts, choice, strict=True))
        freed = sum(times[index] * gain for unit in units for index, gain in gains[unit].items())
        if freed >= needed:
            best = min(best, sum(weights.get(index, 0) * n for index, n in times.items()))
    return best


@pytest.mark.parametrize("together", [1, 2, 3])
def test_the_least_is_the_least_of_all_choices(together):
    """A victim that frees in several units of a set is counted once, and like ones one by one."""
    for seed in range(8):
        rng = Random(f"{together} {seed}")
        counts = {index: rng.choice((1, 1, 3)) for index in range(5)}
        gains = [
            {index: rng.randint(1, 4) for index in counts if rng.random() < 0.6} for _ in range(4)
        ]
        weights = {index: rng.randint(0, 5) for index in counts if index != 2}
        covers = Covers(gains, counts)
        sets = covers.sets(together, 20)
        needed = np.array([rng.randint(-1, 20) for _ in sets])

        expected = [
            by_hand(gains, counts, weights, units, want)
            for units, want in zip(sets.tolist(), needed.tolist(), strict=True)
        ]
        assert expected == covers.least(sets, needed, weights).tolist()


def test_too_many_sets_are_left_alone_and_one_never_is():
    """Every set would become a row of the model; the set of the whole cluster is always used."""
    assert 0 == len(Covers([{0: 1}] * SETS, {0: 1}).sets(2, 1))
    assert [[0]] == Covers([{0: 1}], {0: 1}).sets(1, 10**9).tolist()


@pytest.mark.parametrize("count", range(1, 20))
def test_evictions_of_one_candidate_are_items_with_all_sums(count):
    """Items of 1, 2, 4, … and a rest: some of them add up to each number, and none to more."""
    items = [int(one) for one in Covers([{0: 1}], {0: count})._gain[0] if one]
    sums = {sum(some) for n in range(len(items) + 1) for some in itertools.combinations(items, n)}

    assert set(range(count + 1)) == sums
    assert 2 ** (len(items) - 1) <= count
