"""From how many leaves take k pods to which: the leaf whose name comes first takes the most it can."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from scheduler.solver.tree import Ints, Tree


def by_name(slots: Ints, taken: Mapping[int, int]) -> Ints:
    """Return the counts of leaves in name order; `taken[k]` of them take k pods.

    Every leaf gets the largest count still to be given that leaves room for the rest.
    """
    highest = max(int(slots.max()), *taken)
    left = np.zeros(highest + 1, dtype=np.int64)
    for k, number in taken.items():
        left[k] = number
    # slack[k]: leaves with k slots or more beyond the counts of k or more
    slack = _at_least(np.bincount(slots, minlength=highest + 1)) - _at_least(left)
    counts = np.zeros(len(slots), dtype=np.int64)
    remaining = int(left[1:].sum())
    for at, room in enumerate(slots.tolist()):
        if not remaining:
            break
        tight = np.flatnonzero(slack[1 : room + 1] <= 0)
        least = int(tight[-1]) + 1 if len(tight) else 0
        options = np.flatnonzero(left[1 : room + 1]) + 1
        chosen = int(options[-1]) if len(options) and options[-1] >= least else 0
        counts[at] = chosen
        if chosen:
            left[chosen] -= 1
            remaining -= 1
        slack[chosen + 1 : room + 1] -= 1
    return counts


def canonical(tree: Tree, counts: Ints) -> Ints:
    """Return the counts with like leaves of each parent in name order; held pods leave all in place."""
    if tree.held.any():
        return counts
    done = counts.copy()
    starts = tree.starts[tree.depth - 1]
    for first, last in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        here = counts[first:last]
        if here.any():
            numbers = np.bincount(here)
            taken = {k: int(numbers[k]) for k in range(1, len(numbers)) if numbers[k]}
            done[first:last] = by_name(tree.slots[first:last], taken)
    return done


def _at_least(numbers: Ints) -> Ints:
    return np.cumsum(numbers[::-1])[::-1]
