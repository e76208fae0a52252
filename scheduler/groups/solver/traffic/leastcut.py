"""The minimum traffic between two non-empty parts of a group, over all divisions of its pods.

Used for lower bounds of the traffic cost (scheduler.groups.solver.traffic.trafficbound,
scheduler.groups.solver.traffic.trafficunits).
"""

import numpy as np

from scheduler.groups.solver.tree import Ints

# With more divisions only the minimum over all of them is computed, not one per size.
MOST_DIVISIONS = 300_000


def least_cut(weights: Ints, numbers: Ints) -> int:
    """Return the minimum traffic between two non-empty parts of the pods; 0 for fewer than two
    pods.

    `weights` is symmetric and has by role the traffic of a pair, `numbers` the pods of each role.
    As a function of one role's pods in a part, the cut is linear, or concave if the role has
    traffic with itself. The minimum is therefore at an end: each role is undivided, or one pod is
    alone.
    """
    there = np.flatnonzero(numbers)
    if numbers.sum() < 2:
        return 0
    weights, numbers = weights[np.ix_(there, there)], numbers[there]
    alone = int((weights @ numbers - weights.diagonal()).min())
    whole = weights * np.outer(numbers, numbers)
    np.fill_diagonal(whole, 0)
    return min(alone, _of_vertices(whole)) if len(there) > 1 else alone


def least_cuts(weights: Ints, numbers: Ints) -> Ints:
    """Return [n]: the minimum traffic between n pods and all others, for n from 0 to all.

    `weights` and `numbers` are as for `least_cut`.
    """
    pods = int(numbers.sum())
    divisions = np.array([np.zeros(len(numbers), dtype=np.int64)])
    if np.prod(numbers.astype(np.float64) + 1) > MOST_DIVISIONS:
        found = np.full(pods + 1, least_cut(weights, numbers), dtype=np.int64)
        found[[0, pods]] = 0
        return found
    for role, number in enumerate(numbers.tolist()):
        many = len(divisions)
        divisions = np.repeat(divisions, number + 1, axis=0)
        divisions[:, role] = np.tile(np.arange(number + 1), many)
    cut = ((divisions @ weights) * (numbers - divisions)).sum(axis=1)
    found = np.full(pods + 1, cut.max(initial=0), dtype=np.int64)
    np.minimum.at(found, divisions.sum(axis=1), cut)
    return found


def _of_vertices(weights: Ints) -> int:
    """Return the minimum cut of a graph of two vertices or more (Stoer and Wagner's algorithm)."""
    weights = weights.copy()
    left = list(range(len(weights)))
    found = []
    while len(left) > 1:
        near = weights[left[0]].copy()
        order = [left[0]]
        open_ones = left[1:]
        while open_ones:
            order.append(max(open_ones, key=near.__getitem__))
            open_ones.remove(order[-1])
            near += weights[order[-1]]
        last, before = order[-1], order[-2]
        found.append(int(sum(weights[last, each] for each in left if each != last)))
        weights[before] += weights[last]
        weights[:, before] += weights[:, last]
        left.remove(last)
    return min(found)
