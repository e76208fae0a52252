"""The tree of an instance as columns: units by level in path order, their capacities, allowed
counts.

Built once per solve. Level 0 is the root, level 1 the top level, the last level the leaves. The
children of a unit are adjacent and sorted by name. Leaves without capacity are omitted.
"""

import itertools
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from scheduler.base.errors import InputError
from scheduler.groups.problem.instance import Instance, Leaf, LevelRule

Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True)
class Tree:
    """Columns of a tree for a group of `least` to `size` pods.

    `starts[l][u]` to `starts[l][u + 1]` are the children of unit u of level l. `capacity[l]` is an
    upper bound of the pods of each unit under the rules at and below its level. `leaf` maps the
    units of the last level to the leaves of the instance. `bare` marks levels made of rules over
    sets of leaves, see scheduler.groups.solver.exact.layers.
    """

    size: int
    rules: tuple[LevelRule, ...]
    starts: tuple[Ints, ...]
    names: tuple[tuple[str, ...], ...]
    leaf: Ints
    slots: Ints
    fixed: Ints
    capacity: tuple[Ints, ...] = ()
    bare: tuple[int, ...] = ()
    least: int = 0
    levels_first: bool = False

    @property
    def depth(self) -> int:
        """Return the number of levels without the root."""
        return len(self.rules)

    def with_slots(self, slots: Ints) -> "Tree":
        """Return the tree with other slots per leaf of the instance; `capacity` is not updated."""
        return replace(self, slots=np.minimum(slots[self.leaf], self.size), capacity=())

    def units(self, level: int) -> int:
        """Return the number of units of a level; 0 is the root."""
        return 1 if level == 0 else len(self.names[level - 1])

    def parents(self, level: int) -> Ints:
        """Return, for each unit of a level (>= 1), its parent's index in the level above."""
        above = self.starts[level - 1]
        return np.repeat(np.arange(len(above) - 1), np.diff(above))

    def rule(self, level: int) -> LevelRule:
        """Return the rule of the units of a level (>= 1)."""
        return self.rules[level - 1]

    def used_below(self, level: int) -> int:
        """Return how many units are used under each used unit of a level, 0 if that is open.

        Below a bare level the rule of the next level that is not bare counts.
        """
        below = level + 1
        while below in self.bare:
            below += 1
        return self.rule(below).units_per_parent


def slots_of(leaf: Leaf, request: tuple[int, ...]) -> int:
    """Return how many pods of the group fit on a leaf, fixed pods included; 0 or more."""
    fits = [max(0, free) // need for free, need in zip(leaf.free, request, strict=True) if need > 0]
    if leaf.slots >= 0:
        fits.append(leaf.slots - leaf.fixed)
    if not fits:
        problem = "a leaf has neither slots nor capacity by resource"
        raise InputError(problem, where="/".join(leaf.path))
    return max(0, min(fits)) + leaf.fixed


def allowed(rule: LevelRule, size: int) -> Bools:
    """Return a mask over 0 to `size`: the pod counts that a used unit may have; 0 is excluded."""
    counts = np.arange(size + 1)
    fits: Bools = (counts >= max(1, rule.min)) & (counts % rule.factor == 0)
    if rule.max > 0:
        fits &= counts <= rule.max
    if rule.is_hard_spread:
        fits &= counts <= 1
    return fits


def floors(rule: LevelRule, size: int) -> Ints:
    """Return for each count from 0 to `size` the largest allowed count up to it, or 0."""
    counts = np.where(allowed(rule, size), np.arange(size + 1), 0)
    return np.maximum.accumulate(counts)


def build(instance: Instance, slots: Ints | None = None, *, with_full: bool = False) -> Tree:
    """Return the tree of an instance; `slots` overrides the capacity of its leaves.

    `with_full` keeps leaves without capacity. Raises InputError if the instance has no level, a
    repeated path, a path deeper than its levels, or more fixed pods than the group's size.
    """
    check(instance)
    leaves, depth = instance.leaves, len(instance.levels)
    if slots is None:
        slots = np.array([_slots_of(leaf, instance) for leaf in leaves])
    usable = [row for row, fits in enumerate(slots.tolist()) if fits > 0 or with_full]
    paths = [leaf.path if len(leaf.path) == depth else filled(leaf.path, depth) for leaf in leaves]
    order = sorted(usable, key=paths.__getitem__)
    starts, names = _columns([paths[row] for row in order], depth)
    rows = np.array(order, dtype=np.int64)
    fixed = np.array([leaves[row].fixed for row in order], dtype=np.int64)
    rules = tuple(level.rule for level in instance.levels)
    plain = Tree(
        instance.size,
        rules,
        starts,
        names,
        rows,
        np.minimum(slots[rows], instance.size) if len(rows) else rows,
        fixed,
        least=instance.least,
        levels_first=instance.levels_first,
    )
    return replace(plain, capacity=capacities(plain))


def capacities(tree: Tree) -> tuple[Ints, ...]:
    """Return the capacities by level, the root first; see `Tree`."""
    depth = tree.depth
    found: list[Ints] = [floors(tree.rule(depth), tree.size)[tree.slots]]
    for level in range(depth - 1, -1, -1):
        most = _sums(found[0], tree.starts[level], tree.rule(level + 1).units_per_parent)
        most = np.minimum(most, tree.size)
        found.insert(0, floors(tree.rule(level), tree.size)[most] if level else most)
    return tuple(found)


def _slots_of(leaf: Leaf, instance: Instance) -> int:
    if not leaf.free and leaf.slots >= leaf.fixed:
        return leaf.slots  # the common case, for up to ten thousand leaves
    return slots_of(leaf, instance.request if leaf.free else ())


def check(instance: Instance) -> None:
    """Raise InputError when the instance contradicts itself."""
    if not instance.levels:
        raise InputError("an instance needs at least one level")
    if instance.size < 1:
        raise InputError(f"a group of {instance.size} pods cannot be placed")
    if not 0 <= instance.minimum <= instance.size:
        raise InputError(f"a minimum of {instance.minimum} is not between 1 and {instance.size}")
    if sum([leaf.fixed for leaf in instance.leaves]) > instance.size:
        raise InputError("more pods are fixed than the group has")
    depth = len(instance.levels)
    paths = [leaf.path for leaf in instance.leaves]
    lengths = set(map(len, paths))
    whole = paths if lengths <= {depth} else [filled(path, depth) for path in paths]
    if len(set(whole)) < len(paths):
        raise InputError("two leaves have the same path")
    if not lengths <= set(range(1, depth + 1)):
        wrong = next(path for path in paths if not 1 <= len(path) <= depth)
        raise InputError(f"the path is not between 1 and {depth} long", where="/".join(wrong))


def filled(path: tuple[str, ...], depth: int) -> tuple[str, ...]:
    """Return a leaf's path padded with its last name to `depth` names."""
    missing = depth - len(path)
    return path + path[-1:] * missing if missing > 0 else path


def _columns(
    paths: list[tuple[str, ...]], depth: int
) -> tuple[tuple[Ints, ...], tuple[tuple[str, ...], ...]]:
    """Return the starts of each level's children and the units' names, from sorted paths."""
    starts: list[list[int]] = [[0]] + [[] for _ in range(depth - 1)]
    names: list[list[str]] = [[] for _ in range(depth)]
    before: tuple[str, ...] = ()
    for path in paths:
        above = path[:-1]
        if above != before:
            new = next((at for at, name in enumerate(before) if path[at] != name), 0)
            for at in range(new, depth - 1):
                starts[at + 1].append(len(names[at + 1]))
                names[at].append(path[at])
            before = above
        names[-1].append(path[-1])
    for at in range(depth):
        starts[at].append(len(names[at]))
    return (
        tuple(np.array(one, dtype=np.int64) for one in starts),
        tuple(tuple(one) for one in names),
    )


def _sums(children: Ints, starts: Ints, most_used: int) -> Ints:
    """Return the sum of the `most_used` largest children of each unit (0: of all of them)."""
    if most_used == 0:
        total = np.concatenate(([0], np.cumsum(children)))
        return np.asarray(total[starts[1:]] - total[starts[:-1]])
    parts = [np.sort(children[a:b])[-most_used:].sum() for a, b in itertools.pairwise(starts)]
    return np.array(parts, dtype=np.int64)
