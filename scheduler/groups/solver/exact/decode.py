"""Turn the number of leaves that take k pods into leaves: the first by name takes the most."""

from collections.abc import Mapping

import numpy as np

from scheduler.groups.solver.tree import Ints, Tree


def by_name(slots: Ints, taken: Mapping[int, int]) -> Ints:
    """Return the counts of leaves in name order, given that `taken[k]` leaves take k pods.

    Each leaf takes the largest remaining count that leaves a valid assignment for the others.
    """
    highest = max(int(slots.max()), *taken)
    left = np.zeros(highest + 1, dtype=np.int64)
    for k, number in taken.items():
        left[k] = number
    # slack[k]: the number of leaves with at least k slots, minus that of counts of at least k
    slack = _at_least(np.bincount(slots, minlength=highest + 1)) - _at_least(left)
    counts = np.zeros(len(slots), dtype=np.int64)
    remaining = int(left[1:].sum())
    for at, capacity in enumerate(slots.tolist()):
        if not remaining:
            break
        tight = np.flatnonzero(slack[1 : capacity + 1] <= 0)
        least = int(tight[-1]) + 1 if len(tight) else 0
        options = np.flatnonzero(left[1 : capacity + 1]) + 1
        chosen = int(options[-1]) if len(options) and options[-1] >= least else 0
        counts[at] = chosen
        if chosen:
            left[chosen] -= 1
            remaining -= 1
        slack[chosen + 1 : capacity + 1] -= 1
    return counts


def canonical(tree: Tree, counts: Ints) -> Ints:
    """Return the counts with equal leaves of each parent in name order, unless pods are fixed."""
    done = counts.copy()
    starts = tree.starts[tree.depth - 1]
    taken = np.concatenate(([0], np.cumsum(counts > 0)))
    fixed = np.concatenate(([0], np.cumsum(tree.fixed)))
    has_pods, has_fixed = np.diff(taken[starts]) > 0, np.diff(fixed[starts]) > 0
    for unit in np.flatnonzero(has_pods & ~has_fixed).tolist():
        here = slice(int(starts[unit]), int(starts[unit + 1]))
        numbers = np.bincount(counts[here]).tolist()
        done[here] = by_name(tree.slots[here], {k: n for k, n in enumerate(numbers) if k and n})
    return done


def _at_least(numbers: Ints) -> Ints:
    return np.cumsum(numbers[::-1])[::-1]
