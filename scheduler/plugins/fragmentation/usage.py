"""What part of the worth on a node the resources beside it let pods use, in expectation.

A dynamic program tries a number of random pods of the mix one after the other: a pod is placed if what
is left beside and what worth is left suffice. The table holds the expected worth that is placed.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Random pods tried on a node.
TRIES = 80


def expected_use(
    demands: Sequence[tuple[float, float, float]],
    beside_cells: int,
    worth_cells: int,
    worth_step: float,
    tries: int = TRIES,
) -> Floats:
    """Return the expected worth placed for each (cells of the resource beside, cells of worth).

    `demands` are (cells beside, cells of worth, share) per shape; fractions of a cell are spread over
    the two next whole numbers, so that the expectation is exact. Shares add up to 1 at most; the rest
    are pods that the node does not admit.
    """
    moves = _whole_moves(demands)
    table = np.zeros((beside_cells + 1, worth_cells + 1))
    for _ in range(tries):
        gain = np.zeros_like(table)
        for (beside, worth), share in moves:
            if beside <= beside_cells and worth <= worth_cells:
                inner = table[: beside_cells + 1 - beside, : worth_cells + 1 - worth]
                gain[beside:, worth:] += share * (
                    inner + worth * worth_step - table[beside:, worth:]
                )
        table += gain
    return table


def _whole_moves(
    demands: Sequence[tuple[float, float, float]],
) -> list[tuple[tuple[int, int], float]]:
    merged: dict[tuple[int, int], float] = {}
    for beside, worth, share in demands:
        for whole_beside, part in _split(beside):
            for whole_worth, part_2 in _split(worth):
                key = (whole_beside, whole_worth)
                merged[key] = merged.get(key, 0.0) + share * part * part_2
    return sorted((key, share) for key, share in merged.items() if share > 0)


def _split(value: float) -> tuple[tuple[int, float], ...]:
    low = int(value)
    rest = value - low
    return ((low, 1.0 - rest), (low + 1, rest)) if rest > 1e-9 else ((low, 1.0),)


def interpolated(table: Floats, beside: Floats, worth: Floats) -> Floats:
    """Return the table's value at fractional cells, bilinear; beyond its edge as at the edge."""
    beside = np.clip(beside, 0.0, table.shape[0] - 1)
    worth = np.clip(worth, 0.0, table.shape[1] - 1)
    low = np.minimum(beside.astype(np.int64), table.shape[0] - 2)
    low_worth = np.minimum(worth.astype(np.int64), table.shape[1] - 2)
    part, part_worth = beside - low, worth - low_worth
    near = table[low, low_worth] * (1 - part_worth) + table[low, low_worth + 1] * part_worth
    far = table[low + 1, low_worth] * (1 - part_worth) + table[low + 1, low_worth + 1] * part_worth
    return np.asarray(near * (1 - part) + far * part)
