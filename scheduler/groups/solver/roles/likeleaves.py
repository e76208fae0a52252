"""Equal leaves, in any unit: pods can move from one to another without violating a rule.

Called by scheduler.groups.solver.roles.patterns, and by
scheduler.groups.solver.traffic.trafficleaves and scheduler.groups.solver.traffic.trafficunits if
the move does not change the cost.
"""

import numpy as np

from scheduler.groups.problem.roles import GroupProblem
from scheduler.groups.solver.roles import result
from scheduler.groups.solver.tree import Ints


def leaf_capacities(group: GroupProblem) -> list[tuple[int, ...]]:
    """Return by leaf its usable capacity: of each resource, and slots of each role.

    The total of requests is a multiple of their greatest common divisor, so amounts are rounded
    down to a multiple of it.
    """
    requests = np.array([role.request for role in group.roles], dtype=np.int64)
    counts = np.array([role.count for role in group.roles], dtype=np.int64)
    grain = np.maximum(np.gcd.reduce(requests, axis=0), 1)
    free = np.array(group.free, dtype=np.int64).reshape(len(group.paths), -1).clip(min=0)
    free = np.minimum(free - free % grain, counts @ requests)
    slots = np.array([role.slots for role in group.roles], dtype=np.int64)
    slots = np.minimum(slots, counts[:, None])
    return list(map(tuple, np.concatenate((free, slots.T), axis=1).tolist()))


def numbers(group: GroupProblem) -> Ints:
    """Return a number per leaf; leaves with equal capacity and equal bound pods share a number."""
    found: dict[object, int] = {}
    fixed = group.fixed or (0,) * len(group.paths)
    return np.array(
        [
            found.setdefault((has, here, group.bound_counts(leaf)), len(found))
            for leaf, (has, here) in enumerate(zip(leaf_capacities(group), fixed, strict=True))
        ],
        dtype=np.int64,
    )


def dealt(group: GroupProblem, counts: Ints) -> Ints | None:
    """Return the placement moved onto equal leaves of one unit; None if no unit has enough.

    The first unit with enough equal leaves of each number is used.
    """
    classes = numbers(group)
    used = np.flatnonzero(counts.any(axis=0))
    wanted = np.bincount(classes[used], minlength=int(classes.max(initial=0)) + 1)
    for level in range(len(group.levels) - 1, -1, -1):
        for leaves in result.units(group, level):
            if (np.bincount(classes[leaves], minlength=len(wanted)) < wanted).any():
                continue
            found = np.zeros_like(counts)
            for one in np.flatnonzero(wanted).tolist():
                mine = used[classes[used] == one]
                found[:, leaves[classes[leaves] == one][: len(mine)]] = counts[:, mine]
            return found
    return None
