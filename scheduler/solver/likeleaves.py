"""Leaves that nothing tells apart, wherever they are: what stands on one may as well stand on another.

Called by scheduler.solver.mixedleaves and scheduler.solver.mixedseveral, which know when that costs nothing.
"""

import numpy as np

from scheduler.solver import mixed
from scheduler.solver.kinds import Mixed
from scheduler.solver.tree import Ints


def numbers(group: Mixed) -> Ints:
    """Return for each leaf a number, the same for all that are like it: by room, slots, and who stands there."""
    found: dict[object, int] = {}
    held = group.held or (0,) * len(group.paths)
    slots = zip(*(kind.slots for kind in group.kinds), strict=True)
    return np.array(
        [
            found.setdefault((free, most, here, group.stand(leaf)), len(found))
            for leaf, (free, most, here) in enumerate(zip(group.free, slots, held, strict=True))
        ],
        dtype=np.int64,
    )


def dealt(group: Mixed, counts: Ints) -> Ints | None:
    """Return the same pods by kind and leaf on like leaves of one unit, the lowest with so many of each; None without one."""
    alike = numbers(group)
    used = np.flatnonzero(counts.any(axis=0))
    wanted = np.bincount(alike[used], minlength=int(alike.max(initial=0)) + 1)
    for level in range(len(group.levels) - 1, -1, -1):
        for leaves in mixed.units(group, level):
            if (np.bincount(alike[leaves], minlength=len(wanted)) < wanted).any():
                continue
            found = np.zeros_like(counts)
            for one in np.flatnonzero(wanted).tolist():
                mine = used[alike[used] == one]
                found[:, leaves[alike[leaves] == one][: len(mine)]] = counts[:, mine]
            return found
    return None
