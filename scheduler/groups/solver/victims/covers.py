"""Lower bounds of the cost of freeing capacity in a few units, which no linear row implies.

Knapsacks over whole candidates, computed for many sets of units at once. The capacity that a
candidate frees in several units of a set is added up; its cost counts once. Used by
scheduler.groups.solver.victims.tightening.
"""

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np

from scheduler.groups.solver.costs import NEVER
from scheduler.groups.solver.tree import Ints

SETS = 4_000  # the limit of sets, because each one becomes a row of the model
SUMS = 20_000_000
CELLS = 1 << 16  # how many sums are computed at once


class Covers:
    """What each candidate frees in each unit; `counts[i]` is the number of evictions of candidate
    i.
    """

    def __init__(self, gains: Sequence[Mapping[int, int]], counts: Mapping[int, int]) -> None:
        found = sorted({index for gained in gains for index in gained})
        # Evictions of one candidate are items of 1, 2, 4, …: their sums are all numbers.
        self._items = [(index, part) for index in found for part in _parts(counts[index])]
        numbers: dict[int, list[int]] = {}
        for item, (index, _) in enumerate(self._items):
            numbers.setdefault(index, []).append(item)
        own = [[item for index in gained for item in numbers[index]] for gained in gains]
        self._width = max(map(len, own), default=0)
        nothing = len(self._items)
        self._own = np.full((len(gains), self._width), nothing, dtype=np.int64)
        self._gain = np.zeros((len(gains), nothing + 1), dtype=np.int64)
        for unit, items in enumerate(own):
            self._own[unit, : len(items)] = items
            self._gain[unit, items] = [
                gains[unit][index] * part for index, part in (self._items[item] for item in items)
            ]

    def sets(self, together: int, size: int) -> Ints:
        """Return all sets of `together` units as [set, unit]; no rows if they are too many."""
        units = len(self._own)
        number = math.comb(units, together)
        sums = number * together * self._width * size
        if number > 1 and (number > SETS or sums > SUMS):
            return np.zeros((0, together), dtype=np.int64)
        found = list(itertools.combinations(range(units), together))
        return np.array(found, dtype=np.int64).reshape(-1, together)

    def least(self, sets: Ints, needed: Ints, weights: Mapping[int, int]) -> Ints:
        """Return for each set the least weight that frees what it needs; NEVER if impossible."""
        weighed = [weights.get(index, 0) * part for index, part in self._items]
        costs = np.array([*weighed, 0], dtype=np.int64)
        found = np.zeros(len(sets), dtype=np.int64)
        at_once = max(1, CELLS // (int(needed.max(initial=0)) + 1))
        for first in range(0, len(sets), at_once):
            some = slice(first, first + at_once)
            items, gains = self._of(sets[some])
            found[some] = _knapsacks(gains, costs[items], np.maximum(needed[some], 0))
        return found

    def _of(self, sets: Ints) -> tuple[Ints, Ints]:
        """Return the items of each set and what each frees there; 0 for a repeated item."""
        items, gains = [], []
        for at in range(sets.shape[1]):
            own = self._own[sets[:, at]]
            by_unit = [self._gain[unit[:, None], own] for unit in sets.T]
            is_new = np.all([gained == 0 for gained in by_unit[:at]], axis=0)
            items.append(own)
            gains.append(sum(by_unit) * is_new)
        return np.hstack(items), np.hstack(gains)


def _parts(count: int) -> list[int]:
    """Return summands (1, 2, 4, …, rest) whose subset sums are exactly 0..count."""
    found, part = [], 1
    while count > 0:
        found.append(min(part, count))
        count -= part
        part *= 2
    return found


def _knapsacks(gains: Ints, costs: Ints, needed: Ints) -> Ints:
    """Return the least costs of items [set, item] whose gains reach what each set needs."""
    width = int(needed.max(initial=0)) + 1
    least = np.full((len(needed), width), NEVER, dtype=np.int64)
    least[:, 0] = 0
    counts = np.arange(width)
    for gain, cost in zip(gains.T, costs.T, strict=True):
        before = np.maximum(counts - gain[:, None], 0)
        np.minimum(least, np.take_along_axis(least, before, axis=1) + cost[:, None], out=least)
    return np.minimum(least[np.arange(len(needed)), needed], NEVER)
