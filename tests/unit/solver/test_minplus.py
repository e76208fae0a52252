"""Cost tables added up, beside the same done count by count."""

from random import Random

import numpy as np
import pytest

from scheduler.groups.solver.costs import NEVER
from scheduler.groups.solver.exact import minplus


def table(rng, words, length):
    """Return a random table in which ties are frequent and some counts impossible."""
    rows = [
        [rng.randrange(3) for _ in range(words)] if rng.random() < 0.8 else [NEVER] * words
        for _ in range(length)
    ]
    return np.array(rows, dtype=np.int64).T.reshape(words, length)


def possible(some):
    """Return the costs of a table by possible count."""
    return {n: tuple(cost) for n, cost in enumerate(some.T.tolist()) if cost[0] != NEVER}


def by_hand(first, second, most):
    """Return the least sums of two tables, in the order of their words."""
    best: dict[int, tuple[int, ...]] = {}
    for one, cost in possible(first).items():
        for other, more in possible(second).items():
            if one + other <= most:
                total = tuple(a + b for a, b in zip(cost, more, strict=True))
                best[one + other] = min(total, best.get(one + other, total))
    return best


@pytest.mark.parametrize("cells", [1, 5, minplus.CELLS])
@pytest.mark.parametrize("words", [1, 2, 3])
def test_merged_tables_hold_the_least_sums(monkeypatch, cells, words):
    """Whatever the number of words, and in however many blocks it is done."""
    monkeypatch.setattr(minplus, "CELLS", cells)
    rng = Random(f"{cells} {words}")
    for _ in range(20):
        length, width, most = rng.randint(1, 9), rng.randint(1, 9), rng.randint(0, 20)
        first, second = table(rng, words, length), table(rng, words, width)

        merged = minplus.merge(first, second, most, minplus.workspace(max(length, width) - 1))

        assert min(most, length + width - 2) + 1 == merged.shape[1]
        assert by_hand(first, second, most) == possible(merged)


@pytest.mark.parametrize("words", [1, 2, 3])
def test_the_smaller_of_two_tables_is_taken_count_by_count(words):
    """The shorter table ends with counts that cannot be."""
    rng = Random(words)
    for _ in range(20):
        first, second = table(rng, words, rng.randint(1, 6)), table(rng, words, rng.randint(1, 6))
        one, other = possible(first), possible(second)

        best = {n: min(each[n] for each in (one, other) if n in each) for n in {*one, *other}}
        assert best == possible(minplus.least(first, second))
