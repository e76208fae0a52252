"""Scores are the same whether they were worked out in floats or, for large amounts, in integers."""

import numpy as np
import pytest

from scheduler.plugins.loadaware.grid import LoadColumns
from scheduler.plugins.loadaware.scoring import usage_scores, weighing_of

LEFT = [-1, 0, 1, 28, 29, 57, 99, 100]


def scores(offered, *, packs):
    """Return the scores of rows with `LEFT` left of `offered`."""
    grid = LoadColumns(1)
    grid.grow(len(LEFT))
    for row in range(len(LEFT)):
        grid.offer(row, [offered])
    weighing = weighing_of(["cpu"], {"cpu": 1}, 0, packs=packs)
    scale = max(offered // 100, 1)
    left = np.array([one * scale for one in LEFT])
    return grid.divisors.dtype.kind, usage_scores(
        weighing, {0: left}, {0: grid.divisors[0]}
    ).tolist()


@pytest.mark.parametrize(
    ("packs", "expected"),
    [(False, [0, *LEFT[1:]]), (True, [0, 100, 99, 72, 71, 43, 1, 0])],
)
@pytest.mark.parametrize(("offered", "kind"), [(100, "f"), (100 * 2**49, "i")])
def test_floats_and_integers_agree(offered, kind, packs, expected):
    """Amounts beyond the exact range of floats are divided as integers."""
    assert scores(offered, packs=packs) == (kind, expected)
