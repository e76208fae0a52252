"""Which group sizes fit at all: sets of counts as bits of one number, added up over the tree.

Much faster than the cost tables because nothing is weighed. Used where only yes or no is asked: by
scheduler.solver.conflict for the rules in the way, and by scheduler.solver.victims.
"""

from __future__ import annotations

import itertools

import numpy as np

from scheduler.solver.instance import Rule
from scheduler.solver.tree import Tree, allowed


def sizes(tree: Tree) -> int:
    """Return the sizes from 0 to the tree's own that fit under all rules, as bits."""
    depth = tree.depth
    mask = (1 << (tree.size + 1)) - 1
    counts = _bits(allowed(tree.rule(depth), tree.size))
    below = [_leaf(tree, at, counts) for at in range(len(tree.slots))]
    for level in range(depth - 1, -1, -1):
        rule = tree.rule(level + 1)
        starts = tree.starts[level].tolist()
        fits = _bits(allowed(tree.rule(level), tree.size)) | 1 if level else mask
        below = [
            _together(below[first:last], rule, mask) & fits
            for first, last in itertools.pairwise(starts)
        ]
    return below[0]


def fits(tree: Tree) -> bool:
    """Return whether the whole group fits."""
    return bool(sizes(tree) >> tree.size & 1)


def added(first: int, second: int) -> int:
    """Return all sums of a count of one set and a count of the other."""
    if first.bit_count() < second.bit_count():
        first, second = second, first
    total = 0
    while second:
        lowest = second & -second
        total |= first << lowest.bit_length() - 1
        second ^= lowest
    return total


def _leaf(tree: Tree, at: int, fits: int) -> int:
    slots, held = int(tree.slots[at]), int(tree.held[at])
    counts = fits & ((1 << (slots + 1)) - 1)
    return counts >> held << held if held else counts | 1


def _together(units: list[int], rule: Rule, mask: int) -> int:
    """Return the counts that units hold together, with just so many of them used when that binds."""
    wanted = rule.units_per_parent
    if not wanted:
        total = 1
        for number, each in _alike(units):
            for _ in range(number):
                total = added(total, each) & mask
                if total == mask:
                    break
        return total
    rows = [1] + [0] * wanted
    for each in units:
        used = each & ~1
        for row in range(wanted, 0, -1):
            unused = rows[row] if each & 1 else 0
            rows[row] = unused | (added(rows[row - 1], used) & mask if rows[row - 1] else 0)
        rows[0] = rows[0] if each & 1 else 0
    return rows[wanted] | rows[0]


def _alike(units: list[int]) -> list[tuple[int, int]]:
    """Return (number, counts) of units with the same counts."""
    numbers: dict[int, int] = {}
    for each in units:
        numbers[each] = numbers.get(each, 0) + 1
    return [(number, each) for each, number in numbers.items()]


def _bits(fits: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> int:
    return int.from_bytes(np.packbits(fits, bitorder="little").tobytes(), "little")
