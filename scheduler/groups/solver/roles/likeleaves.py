"""Leaves that nothing tells apart, wherever they are: what stands on one may as well stand on
another.

Called by scheduler.groups.solver.roles.patterns, and by
scheduler.groups.solver.traffic.trafficleaves and scheduler.groups.solver.traffic.trafficunits,
which know when it costs nothing.
"""

import numpy as np

from scheduler.groups.problem.roles import GroupProblem
from scheduler.groups.solver.roles import result
from scheduler.groups.solver.tree import Ints


def leaf_capacities(group: GroupProblem) -> list[tuple[int, ...]]:
    """Return by leaf what it has that its pods can use: of each resource, and slots of each role.

    What pods take in all is a multiple of what their requests have in common, so the rest of an
    amount is of no use.
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
    """Return for each leaf a number, the same for all that are like it: by capacity, and by the
    pods that are there.
    """
    found: dict[object, int] = {}
    fixed = group.fixed or (0,) * len(group.paths)
    return np.array(
        [
            found.setdefault((has, here, group.stand(leaf)), len(found))
            for leaf, (has, here) in enumerate(zip(leaf_capacities(group), fixed, strict=True))
        ],
        dtype=np.int64,
    )


def dealt(group: GroupProblem, counts: Ints) -> Ints | None:
    """Return the same pods by role and leaf on like leaves of one unit, the lowest with so many of
    each; None without one.
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
