"""Assign members, in the order of their index, to leaves so that consecutive members are close.

A crossing of a level is a pair of consecutive members in two different units of it. The number of
members of each role on each leaf is given; members of one role are interchangeable. Crossings are
minimised level by level from the top. A walk along the tree is proven optimal if it meets a lower
bound on each level, as it does for one role without bound members. Otherwise a search over all
orders decides, if it is small enough. Pure functions.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

import msgspec

Path = tuple[str, ...]
# A state of the search: the places left, in the order of their keys, and the last leaf.
State = tuple[tuple[int, ...], int]
# The limit of states of the search; so many take about 0.1 s.
MOST_STATES: Final = 20_000


class Position(msgspec.Struct, frozen=True):
    """A member in the order: its role, and its leaf if it is bound."""

    role: int
    leaf: int | None = None


class Ranking(msgspec.Struct, frozen=True):
    """The leaf of each member; per level from the top the crossings and their lower bound."""

    leaves: tuple[int, ...]
    crossings: tuple[int, ...]
    bound: tuple[int, ...]

    @property
    def is_proven(self) -> bool:
        """Return whether no order has fewer crossings, level by level from the top."""
        return self.crossings == self.bound


def ranked(
    positions: Sequence[Position], free: Mapping[tuple[int, int], int], paths: Sequence[Path]
) -> Ranking:
    """Return the order with the fewest crossings.

    `free` are the places by (leaf, role); the waiting members take all of them. `paths` has the
    units of each leaf from the top, the leaf itself last.
    """
    found = _Walk(positions, free, paths).leaves()
    crossings = crossings_of(found, paths)
    bound = _lower_bound(positions, free, paths)
    if crossings != bound and _states(free) <= MOST_STATES:
        found = _searched(positions, free, paths)
        crossings = bound = crossings_of(found, paths)
    return Ranking(tuple(found), crossings, bound)


def crossings_of(leaves: Sequence[int], paths: Sequence[Path]) -> tuple[int, ...]:
    """Return per level the number of crossings of an order of leaves."""
    depth = len(paths[0]) if paths else 0
    counts = [0] * depth
    for one, other in pairwise(leaves):
        if one != other:
            for level in range(_common(paths[one], paths[other]), depth):
                counts[level] += 1
    return tuple(counts)


def _common(one: Path, other: Path) -> int:
    """Return on how many levels, from the top, two leaves are in the same unit."""
    for level, (a, b) in enumerate(zip(one, other, strict=True)):
        if a != b:
            return level
    return len(one)


# The order along the tree.


class _Walk:
    """A walk over the tree in the order of the members; it fills a unit before it leaves it."""

    def __init__(
        self,
        positions: Sequence[Position],
        free: Mapping[tuple[int, int], int],
        paths: Sequence[Path],
    ) -> None:
        self._positions = positions
        self._left = {key: number for key, number in free.items() if number}
        self._paths = paths
        # Per role the leaves with places left, in the order of the tree.
        self._open: dict[int, list[tuple[Path, int]]] = {}
        for leaf, role in self._left:
            self._open.setdefault(role, []).append((paths[leaf], leaf))
        for leaves in self._open.values():
            leaves.sort()

    def leaves(self) -> list[int]:
        """Return the leaf of each position."""
        found: list[int] = []
        target: int | None = None
        for place, position in enumerate(self._positions):
            leaf, role = position.leaf, position.role
            if leaf is None:
                is_row = place and self._positions[place - 1] == position
                if not is_row or (target is not None and not self._left.get((target, role))):
                    target = self._target(place)
                leaf = self._next(role, found[-1] if found else None, target)
                self._take(leaf, role)
            found.append(leaf)
        return found

    def _next(self, role: int, last: int | None, target: int | None) -> int:
        """Return the leaf that is nearest to the last one; of equally near ones the farthest from
        the target.
        """
        if last is not None and self._left.get((last, role)):
            return last
        leaves = self._open[role]
        first, end = 0, len(leaves)
        if last is not None:
            path = self._paths[last]
            at = bisect_left(leaves, (path, last))
            beside = [leaves[one][0] for one in (at - 1, at) if 0 <= one < end]
            prefix = path[: max(_common(path, one) for one in beside)]
            first = bisect_left(leaves, prefix, key=lambda one: one[0][: len(prefix)])
            end = bisect_right(leaves, prefix, key=lambda one: one[0][: len(prefix)])
        ends = (leaves[first], leaves[end - 1])
        if target is None:
            return ends[0][1]
        # Leaves are in tree order: the farthest from the target is the first or the last of them.
        return min(ends, key=lambda one: _common(self._paths[target], one[0]))[1]

    def _target(self, place: int) -> int | None:
        """Return the leaf where the current run of members should end, None if no bound member
        follows.
        """
        role = self._positions[place].role
        rest = self._positions[place:]
        after = next((one for one in rest if one.leaf is not None or one.role != role), None)
        if after is None or after.leaf is not None:
            return None if after is None else after.leaf
        others, own = self._open[after.role], self._open[role]
        for depth in range(len(self._paths[0]), 0, -1):
            shared = {path[:depth] for path, _ in others}
            leaf = next((leaf for path, leaf in own if path[:depth] in shared), None)
            if leaf is not None:
                return leaf
        return None

    def _take(self, leaf: int, role: int) -> None:
        self._left[leaf, role] -= 1
        if not self._left[leaf, role]:
            leaves = self._open[role]
            del leaves[bisect_left(leaves, (self._paths[leaf], leaf))]


# Lower bounds.


def _lower_bound(
    positions: Sequence[Position], free: Mapping[tuple[int, int], int], paths: Sequence[Path]
) -> tuple[int, ...]:
    """Return, per level, a lower bound on the number of crossings of any order.

    It is the greater one of two bounds: by the used units, and by the runs of consecutive waiting
    members of one role.
    """
    depth = len(paths[0]) if paths else 0
    return tuple(
        max(_by_units(positions, free, paths, one), _by_rows(positions, free, paths, one))
        for one in range(depth)
    )


def _by_units(
    positions: Sequence[Position],
    free: Mapping[tuple[int, int], int],
    paths: Sequence[Path],
    level: int,
) -> int:
    """Return the number of used units minus one: each unit after the first is entered by a
    crossing.
    """
    used = {paths[leaf][: level + 1] for (leaf, _), number in free.items() if number}
    used |= {paths[one.leaf][: level + 1] for one in positions if one.leaf is not None}
    return max(0, len(used) - 1)


def _by_rows(
    positions: Sequence[Position],
    free: Mapping[tuple[int, int], int],
    paths: Sequence[Path],
    level: int,
) -> int:
    """Return a lower bound of crossings: inside rows of roles with one row, and between rows.

    Two neighbouring rows without a common unit have a crossing between them.
    """
    units: dict[int, set[Path]] = {}
    for (leaf, role), number in free.items():
        if number:
            units.setdefault(role, set()).add(paths[leaf][: level + 1])
    rows: list[tuple[int | None, set[Path]]] = []
    for one in positions:
        if one.leaf is not None:
            rows.append((None, {paths[one.leaf][: level + 1]}))
        elif not rows or rows[-1][0] != one.role:
            rows.append((one.role, units[one.role]))
    number_of = Counter(role for role, _ in rows)
    total = 0
    for place, (row_role, places) in enumerate(rows):
        # A role with several rows: its places are not assigned to a row.
        if row_role is not None and number_of[row_role] == 1:
            total += len(places) - 1
        total += bool(place) and rows[place - 1][1].isdisjoint(places)
    return total


def _states(free: Mapping[tuple[int, int], int]) -> int:
    states = max(1, len(free))
    for number in free.values():
        states *= number + 1
        if states > MOST_STATES:
            return states
    return states


def _searched(
    positions: Sequence[Position], free: Mapping[tuple[int, int], int], paths: Sequence[Path]
) -> list[int]:
    """Return an order with the fewest crossings, by dynamic programming over (places left, last
    leaf).
    """
    keys = [key for key, number in free.items() if number]
    start: dict[State, tuple[tuple[int, ...], State | None]] = {
        (tuple(free[key] for key in keys), -1): ((0,) * len(paths[0]), None)
    }
    layers = [start]
    for position in positions:
        layer: dict[State, tuple[tuple[int, ...], State | None]] = {}
        for state, (cost, _) in layers[-1].items():
            left, last = state
            for number, leaf in _choices(position, keys, left):
                after = (
                    left if number < 0 else (*left[:number], left[number] - 1, *left[number + 1 :])
                )
                total = cost if last < 0 else _added(cost, paths[last], paths[leaf])
                known = layer.get((after, leaf))
                if known is None or total < known[0]:
                    layer[after, leaf] = (total, state)
        layers.append(layer)
    best: State | None = min(layers[-1], key=lambda one: (layers[-1][one][0], one))
    found: list[int] = []
    for layer in reversed(layers[1:]):
        if best is not None:
            found.append(best[1])
            best = layer[best][1]
    return found[::-1]


def _choices(
    position: Position, keys: Sequence[tuple[int, int]], left: Sequence[int]
) -> list[tuple[int, int]]:
    """Return the (place, leaf) pairs of a position; the place of a bound member is -1."""
    if position.leaf is not None:
        return [(-1, position.leaf)]
    return [
        (number, leaf)
        for number, (leaf, role) in enumerate(keys)
        if role == position.role and left[number]
    ]


def _added(cost: tuple[int, ...], one: Path, other: Path) -> tuple[int, ...]:
    first = _common(one, other)
    return tuple(value + (level >= first) for level, value in enumerate(cost))
