"""Parts of a group (its subgroups) as plain records: each part is placed in one unit or left out.

Parts form a tree, listed with the root first and each part after its parent. One record stands for
`count` identical parts; `scheduler.groups.solver.roles.subgroups` assigns the pods of a placement
to single parts. Part of scheduler.groups.problem.roles.GroupProblem; `level` is an index into its
`levels`. The last level, the leaves, is not allowed.
"""

from collections.abc import Sequence

import msgspec

from scheduler.groups.problem.instance import SolverRecord

ROOT = -1  # the parent of the first part


class LikeParts(SolverRecord, frozen=True):
    """Identical parts: `count` copies inside each copy of the part `parent`.

    Each copy is in one unit of `level`, or is omitted. With a level of -1 it is in the unit of its
    parent. A copy that contains other parts has at least `minimum` of these; any other copy has at
    least `minimum` pods, and at most `sizes` pods of each of `roles`; `minimum` is at least 1.
    `fixed` counts its bound pods by leaf (empty: none). A part with bound pods has one copy, which
    is never omitted. Its inner parts are added one by one; its own pods are added in the number
    that the minimum lacks, or more. With a level `apart` (-1: none) a copy has at most one pod,
    bound ones included, on any unit of that level.
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
    """One placed copy of a part: `parent` is the index of the placed part around it.

    `pods` has its new pods as (role, leaf, count).
    """

    part: int
    parent: int = ROOT
    pods: tuple[tuple[int, int, int], ...] = ()


def inside(parts: Sequence[LikeParts]) -> list[list[int]]:
    """Return for each part the indices of the parts directly inside it."""
    found: list[list[int]] = [[] for _ in parts]
    for number, one in enumerate(parts):
        if one.parent != ROOT:
            found[one.parent].append(number)
    return found


def depths(parts: Sequence[LikeParts]) -> list[int]:
    """Return for each part the depth of the unit that contains it, 0 for the root of the tree.

    A part is also bound by the levels of the parts around it.
    """
    found: list[int] = []
    for one in parts:
        above = 0 if one.parent == ROOT else found[one.parent]
        found.append(max(above, one.level + 1))
    return found


def totals(parts: Sequence[LikeParts]) -> list[int]:
    """Return for each part the number of its copies in the whole group."""
    found: list[int] = []
    for one in parts:
        found.append(one.count * (1 if one.parent == ROOT else found[one.parent]))
    return found


def has_fixed(parts: Sequence[LikeParts]) -> list[bool]:
    """Return for each part whether it or a part inside it has bound pods."""
    found = [any(one.fixed) for one in parts]
    for number in range(len(parts) - 1, 0, -1):
        if found[number]:
            found[parts[number].parent] = True
    return found


def least(parts: Sequence[LikeParts]) -> int:
    """Return the minimum number of pods that the root part needs; 1 if some pods are bound."""
    if any(has_fixed(parts)):
        return 1
    below = inside(parts)
    needed = [one.minimum for one in parts]
    for number in range(len(parts) - 1, -1, -1):
        if below[number]:
            each = sorted(needed[at] for at in below[number] for _ in range(parts[at].count))
            needed[number] = sum(each[: parts[number].minimum])
    return needed[0]


class WholePart(SolverRecord, frozen=True):
    """Identical parts of which each has all its pods or none, in one unit at `depth`.

    `sizes` has the pods of one part by role.
    """

    depth: int
    sizes: tuple[int, ...]


def whole(parts: Sequence[LikeParts], roles: int) -> WholePart | None:
    """Return the parts directly in the root if they are identical and each needs all its pods.

    Return None otherwise, also if pods are bound or if the parts need no common unit. `roles` is
    the number of roles of the group.
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
