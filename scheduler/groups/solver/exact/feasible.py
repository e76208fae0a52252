"""Which group sizes fit: sets of pod counts as bits of an integer, combined over the tree.

Faster than the cost tables because no costs are computed. Used for feasibility alone, by
scheduler.groups.solver.explain and scheduler.groups.solver.victims.search.
"""

import itertools
from collections.abc import Callable, Iterable

import numpy as np

from scheduler.groups.solver.exact.layers import Layers, Masks
from scheduler.groups.solver.tree import Tree, allowed


def sizes(layers: Layers, late: Callable[[], bool] = lambda: False) -> int | None:
    """Return the sizes from 0 to the tree's size that fit, as bits; None if `late` returns true."""
    found = 0
    for masks in layers.choices(0):
        if late():
            return None
        found |= _sizes(layers.tree, masks)
    return found


def fits(layers: Layers) -> bool:
    """Return whether the group fits, with at least its minimum of pods."""
    tree = layers.tree
    return any(_sizes(tree, masks) >> tree.least for masks in layers.choices())


def _sizes(tree: Tree, masks: Masks) -> int:
    """Return the sizes that fit under one choice of masks for the bare levels, as bits."""
    depth = tree.depth
    mask = (1 << (tree.size + 1)) - 1
    counts = _bits(allowed(tree.rule(depth), tree.size))
    below: list[list[int]] = [[_leaf(tree, at, counts)] for at in range(len(tree.slots))]
    for level in range(depth - 1, -1, -1):
        wanted = tree.used_below(level)
        starts = tree.starts[level].tolist()
        fits = _bits(allowed(tree.rule(level), tree.size)) | 1 if level else mask
        own = [_bits(here) for here in masks[level]] if level in masks else None
        units = []
        for unit, (first, last) in enumerate(itertools.pairwise(starts)):
            rows = _together(below[first:last], wanted, mask, is_bare=level + 1 in tree.bare)
            if wanted and level not in tree.bare:
                rows = [rows[wanted] | rows[0]]
            here = fits if own is None else fits & own[unit]
            units.append([row & here for row in rows])
        below = units
    return below[0][0]


def added(first: int, second: int) -> int:
    """Return the set of all sums of one count from each of two sets, as bits."""
    if first.bit_count() < second.bit_count():
        first, second = second, first
    total = 0
    while second:
        lowest = second & -second
        total |= first << lowest.bit_length() - 1
        second ^= lowest
    return total


def _leaf(tree: Tree, at: int, fits: int) -> int:
    slots, fixed = int(tree.slots[at]), int(tree.fixed[at])
    counts = fits & ((1 << (slots + 1)) - 1)
    return counts >> fixed << fixed if fixed else counts | 1


def _together(units: list[list[int]], wanted: int, mask: int, *, is_bare: bool) -> list[int]:
    """Return the counts that sibling units hold together, one set per number of used units.

    Without a rule on the number of used units there is one set. A bare unit has such sets itself;
    the used units below it count.
    """
    if not wanted:
        total = 1
        for number, each in _multiplicities([rows[0] for rows in units]):
            for _ in range(number):
                total = added(total, each) & mask
                if total == mask:
                    break
        return [total]
    found = [1] + [0] * wanted
    for rows in units:
        own = rows if is_bare else [rows[0] & 1, rows[0] & ~1]
        found = [
            _any(
                added(found[row - used], some) & mask
                for used, some in enumerate(own[: row + 1])
                if some and found[row - used]
            )
            for row in range(wanted + 1)
        ]
    return found


def _any(some: Iterable[int]) -> int:
    total = 0
    for each in some:
        total |= each
    return total


def _multiplicities(units: list[int]) -> list[tuple[int, int]]:
    """Return (number of units, counts) for units with equal sets of counts."""
    numbers: dict[int, int] = {}
    for each in units:
        numbers[each] = numbers.get(each, 0) + 1
    return [(number, each) for each, number in numbers.items()]


def _bits(fits: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> int:
    return int.from_bytes(np.packbits(fits, bitorder="little").tobytes(), "little")
