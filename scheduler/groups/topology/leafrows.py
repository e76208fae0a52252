"""The leaves of a tree that a group can ever use: a few of each unit instead of all.

Under one parent leaves differ by their free slots alone. Of the leaves with k free slots a group of
n never needs more than the first n / k by name: members on later leaves could be exchanged with one
of them. Slots are capped at n. Likewise it needs at most n of the units above whose remaining
leaves have the same slots. The best placement is the same, down to the choice among equal units.
Pure columns.
"""

import itertools
from collections import Counter

import numpy as np

from scheduler.base.arrays import BoolColumn, IntColumn
from scheduler.framework.nodes import Nodes
from scheduler.groups.topology.tree import Topology

WORTHWHILE = 200  # with fewer leaves none is left out


def useful(
    tree: Topology, nodes: Nodes, slots: IntColumn, with_members: BoolColumn, size: int
) -> list[int] | None:
    """Return the leaves that a group of `size` can use, in the tree's order; None for all of them.

    `slots` are free slots by row; rows in `with_members` are kept.
    """
    rows, order = tree.rows(nodes), tree.order
    _, parents = tree.units_at(len(tree.levels) - 1)
    capacity = np.where(rows >= 0, np.minimum(slots[rows], size), 0)
    has_members = (rows >= 0) & with_members[rows]
    found = (capacity > 0) | has_members
    if np.count_nonzero(found) < WORTHWHILE:
        return None
    sorted_capacities, sorted_parents = capacity[order], parents[order]
    kept = has_members[order]
    first = np.flatnonzero(np.diff(sorted_parents, prepend=-1))
    which = np.cumsum(np.diff(sorted_parents, prepend=-1) != 0) - 1
    for k in range(1, int(capacity.max(initial=0)) + 1):
        enough = sorted_capacities >= k
        before: IntColumn = np.cumsum(enough) - enough
        nth: IntColumn = before - before[first][which]
        kept |= enough & (nth < size // k)
    found = np.zeros(len(rows), dtype=np.bool_)
    found[_without_like_units(tree, order[kept], parents, capacity, has_members, size)] = True
    return np.flatnonzero(found).tolist()


def _without_like_units(
    tree: Topology,
    leaves: IntColumn,
    parents: IntColumn,
    capacity: IntColumn,
    with_members: BoolColumn,
    size: int,
) -> IntColumn:
    """Return the leaves of units with at most `size` earlier identical siblings.

    `leaves` are in path order; the others are columns by leaf. A unit with members is identical to
    no other.
    """
    if not len(leaves):
        return leaves
    begins = np.diff(parents[leaves], prepend=-1) != 0
    starts = np.flatnonzero(begins)
    bounds = [*starts.tolist(), len(leaves)]
    # A unit's leaves are contiguous, so the slots of all units are sorted at once.
    capacities = capacity[leaves][np.lexsort((capacity[leaves], np.cumsum(begins)))]
    is_kept: list[bool] = []
    seen: Counter[tuple[tuple[str, ...], bytes]] = Counter()
    for start, end in itertools.pairwise(bounds):
        path = tree.leaves[leaves[start]][0]
        kind = (path[:-1], capacities[start:end].tobytes())
        seen[kind] += 1
        is_kept.append(not path or seen[kind] <= size)
    kept = np.logical_or(is_kept, np.logical_or.reduceat(with_members[leaves], starts))
    found: IntColumn = leaves[np.repeat(kept, np.diff(bounds))]
    return found
