"""The value of a device's remainder: dual prices of one-dimensional bin packing.

The pods that share a device are items, a device is a bin. The linear program "pack the mix into the
fewest devices" (Gilmore and Gomory 1961) is solved by column generation with a revised simplex
method; its duals price an item in devices. The value of a remainder is that of the best set of
items that fits.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

# Cells per device. Sizes are rounded up to whole cells.
CELLS = 200
_MOST_PIVOTS = 2000
# An entering pattern improves on a device by more than this.
_GAIN = 1e-9

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def hole_values(sizes: Sequence[int], shares: Sequence[float], cells: int = CELLS) -> Floats:
    """Return the value in devices of 0..`cells` free cells of one device.

    `sizes` are distinct, in cells, 1..`cells`; `shares` are their frequencies, positive. The result
    never decreases and ends with 1. Without sizes only an unused device has a value.
    """
    values = np.zeros(cells + 1)
    if len(sizes):
        order = np.argsort(sizes)
        duals = _duals(np.asarray(sizes)[order], np.asarray(shares, dtype=float)[order], cells)
        values = _best_sets(np.asarray(sizes)[order], duals, cells)[0]
    values[cells] = 1.0
    return np.minimum(values, 1.0)


def _duals(sizes: Ints, demand: Floats, cells: int) -> Floats:
    """Return the price of each size, in devices, at an optimum of the packing program."""
    count = len(sizes)
    # One size per device is a feasible basis.
    basis = np.diag((cells // sizes).astype(float))
    amounts = demand / np.diag(basis)
    duals = _prices(basis)
    for _ in range(_MOST_PIVOTS):
        values, copies = _best_sets(sizes, duals, cells)
        if values[cells] <= 1 + _GAIN:
            break
        entering = _pattern(sizes, copies, cells)
        direction = np.linalg.solve(basis, entering)
        ratios = np.full(count, np.inf)
        np.divide(amounts, direction, out=ratios, where=direction > _GAIN)
        leaving = int(ratios.argmin())
        step = ratios[leaving]
        amounts = np.maximum(amounts - step * direction, 0.0)
        amounts[leaving] = step
        basis[:, leaving] = entering
        duals = _prices(basis)
    return np.maximum(duals, 0.0)


def _prices(basis: Floats) -> Floats:
    return np.asarray(np.linalg.solve(basis.T, np.ones(len(basis))), dtype=np.float64)


def _best_sets(sizes: Ints, prices: Floats, cells: int) -> tuple[Floats, list[Ints]]:
    """Return the best value for each number of cells, and per size the number of copies added
    last.
    """
    best = np.zeros(cells + 1)
    copies: list[Ints] = []
    for size, price in zip(sizes.tolist(), prices.tolist(), strict=True):
        taken = np.zeros(cells + 1, dtype=np.int64)
        before = best
        for number in range(1, cells // size + 1) if price > 0 else ():
            offered = before[: cells + 1 - number * size] + number * price
            better = offered > best[number * size :] + 1e-15
            if number == 1:
                best = before.copy()
            best[number * size :][better] = offered[better]
            taken[number * size :][better] = number
        copies.append(taken)
    return best, copies


def _pattern(sizes: Ints, copies: list[Ints], cells: int) -> Floats:
    """Return how often each size is in the best set of a whole device."""
    pattern = np.zeros(len(sizes))
    left = cells
    for index in range(len(sizes) - 1, -1, -1):
        pattern[index] = copies[index][left]
        left -= int(pattern[index] * sizes[index])
    return pattern
