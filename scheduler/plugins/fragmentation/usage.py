"""The share of a node's device value that its other resources let pods use, in expectation.

A dynamic program tries a number of random pods of the mix in order: a pod is placed if the limiting
resource and the remaining value suffice. The table has the expected value placed.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Random pods tried on a node.
TRIES = 80


def expected_use(
    demands: Sequence[tuple[float, float, float]],
    beside_cells: int,
    worth_cells: int,
    worth_step: float,
    tries: int = TRIES,
) -> Floats:
    """Return the expected value placed for each (cells of the limiting resource, cells of value).

    `demands` are (cells of the resource, cells of value, share) per shape; fractions of a cell are
    split between the two next whole numbers, so that the expectation is exact. Shares add up to 1
    at most; the rest are pods that the node does not admit.
    """
    moves = [
        (beside, worth, share)
        for (beside, worth), share in _whole_moves(demands)
        if beside <= beside_cells and worth <= worth_cells
    ]
    size = (beside_cells + 1, worth_cells + 1)
    kept, gain = np.ones(size), np.zeros(size)
    for beside, worth, share in moves:
        kept[beside:, worth:] -= share
        gain[beside:, worth:] += share * worth * worth_step
    table = np.zeros(size)
    part = np.empty(size)
    for _ in range(tries):
        grown = table * kept + gain
        for beside, worth, share in moves:
            inner = part[beside:, worth:]
            rows, columns = size[0] - beside, size[1] - worth
            np.multiply(table[:rows, :columns], share, out=inner)
            grown[beside:, worth:] += inner
        table = grown
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


def interpolated(tables: Floats, numbers: Ints, beside: Floats, worth: Floats) -> Floats:
    """Return the values of tables at fractional cells, bilinear; beyond an edge as at the edge.

    `tables` are [number, cells of the resource, cells of value]; each row has the number of its
    table.
    """
    _, rows, columns = tables.shape
    beside = np.clip(beside, 0.0, rows - 1)
    worth = np.clip(worth, 0.0, columns - 1)
    low = np.minimum(beside.astype(np.int64), rows - 2)
    low_worth = np.minimum(worth.astype(np.int64), columns - 2)
    part, part_worth = beside - low, worth - low_worth
    flat = tables.reshape(-1)
    at = (numbers * rows + low) * columns + low_worth
    near = flat[at] * (1 - part_worth) + flat[at + 1] * part_worth
    at += columns
    far = flat[at] * (1 - part_worth) + flat[at + 1] * part_worth
    return np.asarray(near * (1 - part) + far * part)
