"""Parts of a group as plain records: subgroups, each in one unit, of which some may be left out.

Parts form a tree: the root first, each part after its parent. Equal parts are one record with
their number; `scheduler.groups.solver.roles.subgroups` assigns the pods of a placement to the
single parts. Belongs to scheduler.groups.problem.roles.GroupProblem, whose `levels` are counted
from 0; no part is placed by the last one.
"""

from collections.abc import Sequence

import msgspec

from scheduler.groups.problem.instance import SolverRecord

ROOT = -1  # what the first part is in


class LikeParts(SolverRecord, frozen=True):
    """Like parts: `count` of them in each part `parent`, every one in one unit of `level` or left
    out.

    With a level of -1 it is where the part is that it is in. One that is not left out has at least
    `minimum` pods or, where others are in it, so many of those; of the group's `roles` up to
    `sizes` pods each. `fixed` counts its pods that are on each leaf already (empty: none). Such a
    part is one alone and never left out. Others in it come one by one then; pods of its own it gets
    until it has its minimum, or none. With a level `apart` (-1: none) it has at most one pod, fixed
    ones included, on any unit of that.
    """

    name: str
    parent: int = ROOT
    count: int = 1
    level: int = -1
    minimum: int = 1
    roles: tuple[int, ...] = ()
    sizes: tuple[int, ...] = ()
    fixed: tuple[int, ...] = ()
    apart: int = -1

    def among(self, leaves: Sequence[int]) -> "LikeParts":
        """Return the part restricted to these leaves."""
        if not self.fixed:
            return self
        return msgspec.structs.replace(self, fixed=tuple(self.fixed[leaf] for leaf in leaves))


class PlacedPart(SolverRecord, frozen=True):
    """One part that is not left out, in the piece `parent`; its new pods as (role, leaf, count)."""

    part: int
    parent: int = ROOT
    pods: tuple[tuple[int, int, int], ...] = ()


def inside(parts: Sequence[LikeParts]) -> list[list[int]]:
    """Return for each part the numbers of those that are in it."""
    found: list[list[int]] = [[] for _ in parts]
    for number, one in enumerate(parts):
        if one.parent != ROOT:
            found[one.parent].append(number)
    return found


def depths(parts: Sequence[LikeParts]) -> list[int]:
    """Return for each part the depth of the level whose unit contains it, 0 for the whole tree.

    A part inside another part is bound by the level of the outer one too.
    """
    found: list[int] = []
    for one in parts:
        above = 0 if one.parent == ROOT else found[one.parent]
        found.append(max(above, one.level + 1))
    return found


def totals(parts: Sequence[LikeParts]) -> list[int]:
    """Return for each part how many of it there are in the whole group."""
    found: list[int] = []
    for one in parts:
        found.append(one.count * (1 if one.parent == ROOT else found[one.parent]))
    return found


def has_fixed(parts: Sequence[LikeParts]) -> list[bool]:
    """Return for each part whether pods of it, or of parts in it, are bound already."""
    found = [any(one.fixed) for one in parts]
    for number in range(len(parts) - 1, 0, -1):
        if found[number]:
            found[parts[number].parent] = True
    return found


def least(parts: Sequence[LikeParts]) -> int:
    """Return the minimum number of pods with which the root is not left out; 1 if some are
    bound.
    """
    if any(has_fixed(parts)):
        return 1
    below = inside(parts)
    needed = [max(1, one.minimum) for one in parts]
    for number in range(len(parts) - 1, -1, -1):
        if below[number]:
            each = sorted(needed[at] for at in below[number] for _ in range(parts[at].count))
            needed[number] = sum(each[: max(1, parts[number].minimum)])
    return needed[0]


class WholePart(SolverRecord, frozen=True):
    """Identical parts that each have all their pods or none, in one unit: `sizes` by role."""

    depth: int
    sizes: tuple[int, ...]


def whole(parts: Sequence[LikeParts], roles: int) -> WholePart | None:
    """Return what all pods of a group of so many roles are in, where that is like parts in the root
    alone.
    """
    below = inside(parts)
    if any(has_fixed(parts)) or len(below[0]) != 1:
        return None
    sizes = [[0] * roles for _ in parts]
    for number in range(len(parts) - 1, 0, -1):
        one = parts[number]
        for role, size in zip(one.roles, one.sizes, strict=True):
            sizes[number][role] += size
        many = sum(parts[at].count for at in below[number]) or sum(one.sizes)
        if one.minimum < many:
            return None
        for at in below[number]:
            for role in range(roles):
                sizes[number][role] += parts[at].count * sizes[at][role]
    (first,) = below[0]
    depth = depths(parts)[first]
    return WholePart(depth, tuple(sizes[first])) if depth else None
