"""How much two parts of a group say to each other at least, whatever the parts.

Called for lower limits of the cost of traffic (scheduler.groups.solver.traffic.trafficbound,
scheduler.groups.solver.traffic.trafficunits).
"""

import numpy as np

from scheduler.groups.solver.tree import Ints

# With more divisions of the pods than this, only the best of all is computed.
MOST_DIVISIONS = 300_000


def least_cut(weights: Ints, numbers: Ints) -> int:
    """Return the least sum over pairs of pods in two parts of all, neither of them empty; 0 for a
    single pod or none.

    `weights` is symmetric and has by role the traffic of a pair, `numbers` has the pods of each.
    The cut is linear in the pods of a role that are in one part, or concave if the role has traffic
    with itself. So at the least each role is whole in one part, or one pod is alone there.
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
    """Return [n] the least sum over pairs of n pods and all others, for n from 0 to all; weights as
    for `least_cut`.
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
    """Return the least sum of weights between two parts of two vertices or more (Stoer and Wagner's
    algorithm).
    """
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
