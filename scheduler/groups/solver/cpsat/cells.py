"""The layout that the CP-SAT model is built over: leaves grouped into cells by their capacity.

A cell has the leaves of one unit with equal capacity. A pattern states how many pods of each role
one leaf takes. The model counts how many leaves of a cell take each pattern; rules and stages about
single leaves are linear in these counts. With one role, leaves of a cell may differ in capacity.
Leaves that a rule distinguishes, or whose capacity depends on evictions, are cells of one leaf
without patterns. The victim search also merges leaves of a unit into one cell, as a relaxation.
Does not import ortools.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from scheduler.groups.problem import parts
from scheduler.groups.problem.instance import Instance, Level, LevelRule
from scheduler.groups.problem.roles import GroupProblem, Role
from scheduler.groups.solver import tree as trees
from scheduler.groups.solver.roles import likeleaves
from scheduler.groups.solver.tree import Bools, Ints, Tree, allowed

# With more patterns the model takes longer to build than a search without patterns.
MOST_PATTERNS = 30_000
ALL_PODS = -1  # represents all pods where an index of a class is expected


class Cell(msgspec.Struct, frozen=True):
    """Leaves of one unit, by index, and the patterns [pattern, role] that each may take.

    Without patterns it is a single leaf, or with `is_sum` several leaves of which only the sum
    counts. `at_least`, for one role only, has by pattern how many leaves have capacity for that
    many pods; without it each leaf may take every pattern.
    """

    leaves: tuple[int, ...]
    patterns: Ints | None = None
    at_least: tuple[int, ...] = ()
    is_sum: bool = False


class Layout(msgspec.Struct, frozen=True):
    """A group with its tree and cells; `own` is the same group with one leaf per cell.

    `tree` is the tree of the single leaves, `places` the tree of `own`.
    """

    group: GroupProblem
    tree: Tree
    cells: tuple[Cell, ...]
    own: GroupProblem
    places: Tree

    @property
    def has_patterns(self) -> bool:
        """Return whether rules and terms of the last level are stated over patterns."""
        return any(cell.patterns is not None or cell.is_sum for cell in self.cells)


def layout(group: GroupProblem) -> Layout:
    """Return the layout of a group with several roles: with patterns unless they are too many."""
    found = cells(group)
    if found is None:
        return single_leaves(group)
    own = _summed(group, found)
    whole = trees.build(group.homogeneous(), with_full=True)
    return Layout(group, whole, tuple(found), own, trees.build(own.homogeneous(), with_full=True))


def single_leaves(group: GroupProblem, *, is_emptied: bool = False) -> Layout:
    """Return the layout with one cell per leaf; with `is_emptied` free amounts are no limit."""
    whole = trees.build(group.homogeneous(is_emptied=is_emptied), with_full=True)
    single = tuple(Cell((leaf,)) for leaf in range(len(group.paths)))
    return Layout(group, whole, single, group, whole)


def one_role(instance: Instance, tree: Tree) -> Layout:
    """Return the layout of a group with one role."""
    return mixed(of_one_role(instance), tree, np.zeros(len(tree.leaf), dtype=np.bool_), ())


def mixed(
    group: GroupProblem, tree: Tree, is_alone: Bools, sums: Sequence[Sequence[int]]
) -> Layout:
    """Return the layout of one role with cells of single leaves, of sums, and of patterns.

    `is_alone` marks the single leaves; each of `sums` lists leaves that are merged; all others get
    patterns. Leaves are positions in the tree.
    """
    rest = ~is_alone
    parents = tree.parents(tree.depth).tolist()
    rows = tree.leaf.tolist()
    made = [(parents[at], Cell((rows[at],)), [at]) for at in np.flatnonzero(is_alone).tolist()]
    for together in sums:
        rest[list(together)] = False
        found = Cell(tuple(rows[at] for at in together), is_sum=True)
        made.append((parents[together[0]], found, list(together)))
    made += _histograms(group, tree, rest)
    made.sort(key=lambda one: one[0])
    found_cells = tuple(cell for _, cell, _ in made)
    places = _places(tree, [parent for parent, _, _ in made], [at for _, _, at in made])
    return Layout(group, tree, found_cells, _one_role_of(group, found_cells, places), places)


def of_one_role(instance: Instance) -> GroupProblem:
    """Return a group with one role as a `GroupProblem`, with its fixed pods."""
    fixed = tuple(leaf.fixed for leaf in instance.leaves)
    slots = tuple(
        trees.slots_of(leaf, instance.request if leaf.free else ()) - leaf.fixed
        for leaf in instance.leaves
    )
    return GroupProblem(
        (Role(instance.size - sum(fixed), (), slots),),
        ((),) * len(fixed),
        instance.levels,
        tuple(leaf.path for leaf in instance.leaves),
        max(0, instance.least - sum(fixed)),
        fixed=fixed if any(fixed) else (),
        domains=instance.domains,
    )


def memberships(group: GroupProblem) -> dict[int, tuple[tuple[int, int], ...]]:
    """Return for each leaf its (rule, set) index pairs in the sets of `DomainRule`s."""
    found: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for rule, domains in enumerate(group.domains):
        for number, leaves in enumerate(domains.sets):
            for leaf in leaves:
                found[leaf].append((rule, number))
    return {leaf: tuple(sets) for leaf, sets in found.items()}


def _histograms(group: GroupProblem, tree: Tree, among: Bools) -> list[tuple[int, Cell, list[int]]]:
    """Return (parent, cell, positions) of one-role cells: leaves of one unit, whatever their
    capacity.
    """
    sets_of = memberships(group)
    grouped: dict[tuple[int, int, tuple[tuple[int, int], ...]], list[int]] = defaultdict(list)
    parents = tree.parents(tree.depth).tolist()
    fixed, rows = tree.fixed.tolist(), tree.leaf.tolist()
    for at in np.flatnonzero(among).tolist():
        grouped[parents[at], fixed[at], sets_of.get(rows[at], ())].append(at)
    fits = allowed(tree.rule(tree.depth), tree.size)
    found = []
    for (parent, there, _), positions in sorted(grouped.items()):
        capacity = tree.capacity[tree.depth][positions]
        counts = [k for k in np.flatnonzero(fits[: int(capacity.max()) + 1]).tolist() if k >= there]
        counts = counts if there else [0, *counts]
        at_least = tuple(int((capacity >= k).sum()) for k in counts)
        patterns = np.array(counts, dtype=np.int64).reshape(-1, 1) - there
        leaves = tuple(rows[at] for at in positions)
        found.append((parent, Cell(leaves, patterns, at_least), positions))
    return found


def _places(tree: Tree, parents: Sequence[int], positions: Sequence[Sequence[int]]) -> Tree:
    """Return the tree with one leaf per cell; the rule of the last level is removed."""

    def summed(column: Ints) -> Ints:
        return np.array([column[list(at)].sum() for at in positions], dtype=np.int64)

    last = tree.depth - 1
    starts = np.searchsorted(np.array(parents, dtype=np.int64), np.arange(tree.units(last) + 1))
    return dataclasses.replace(
        tree,
        rules=(*tree.rules[:-1], LevelRule()),
        starts=(*tree.starts[:-1], starts),
        names=(*tree.names[:-1], tuple(str(at) for at in range(len(parents)))),
        leaf=np.arange(len(parents)),
        slots=summed(tree.slots),
        fixed=summed(tree.fixed),
        capacity=(*tree.capacity[:-1], summed(tree.capacity[tree.depth])),
    )


def _one_role_of(group: GroupProblem, found: Sequence[Cell], places: Tree) -> GroupProblem:
    """Return a group of one role with one leaf per cell."""
    first = [cell.leaves[0] for cell in found]
    role = msgspec.structs.replace(
        group.roles[0], slots=tuple((places.slots - places.fixed).tolist())
    )
    return msgspec.structs.replace(
        group,
        roles=(role,),
        free=tuple(_free_of(group, cell) for cell in found),
        paths=tuple(group.paths[leaf] for leaf in first),
        fixed=tuple(places.fixed.tolist()),
        domains=(),
    )


def _free_of(group: GroupProblem, cell: Cell) -> tuple[int, ...]:
    """Return the free amounts of a cell; only those of a single leaf may be negative."""
    rows = [group.free[leaf] for leaf in cell.leaves]
    if len(rows) == 1:
        return rows[0]
    return tuple(sum(max(0, each) for each in column) for column in zip(*rows, strict=True))


def cells(group: GroupProblem) -> list[Cell] | None:
    """Return the cells of a group, None if a rule distinguishes leaves or patterns are too many."""
    depth = len(group.levels)
    if group.apart or group.excluded or depth in parts.depths(group.parts):
        return None
    found: dict[Any, list[int]] = defaultdict(list)
    areas = group.costs.areas or (0,) * len(group.paths)
    sets_of = memberships(group)
    for leaf, (path, has) in enumerate(
        zip(group.paths, likeleaves.leaf_capacities(group), strict=True)
    ):
        fixed = group.fixed[leaf] if group.fixed else 0
        key_parts = group.bound_counts(leaf)
        above = trees.filled(path, depth)[:-1], sets_of.get(leaf, ())
        found[above, has, fixed, key_parts, areas[leaf]].append(leaf)
    known: dict[Any, Ints | None] = {}
    made, total = [], 0
    for key, leaves in found.items():
        shape = key[1:-1]
        if shape not in known:
            known[shape] = _patterns(group, leaves[0])
        patterns = known[shape]
        total += 0 if patterns is None else len(patterns)
        if patterns is None or total > MOST_PATTERNS:
            return None
        made.append(Cell(tuple(leaves), patterns))
    return made


def _patterns(group: GroupProblem, leaf: int) -> Ints | None:
    """Return all patterns of a leaf, None if they are too many."""
    free = np.array(group.free[leaf], dtype=np.int64)
    rows = np.zeros((1, len(group.roles)), dtype=np.int64)
    for number, role in enumerate(group.roles):
        request = np.array(role.request, dtype=np.int64)
        is_requested = request > 0
        most = min(role.count, role.slots[leaf])
        if is_requested.any():
            most = min(most, int((free[is_requested].clip(min=0) // request[is_requested]).min()))
        rows = np.repeat(rows, most + 1, axis=0)
        rows[:, number] = np.tile(np.arange(most + 1), len(rows) // (most + 1))
        if len(rows) > MOST_PATTERNS:
            return None
        needs = rows @ np.array([each.request for each in group.roles], dtype=np.int64)
        rows = rows[(needs <= free.clip(min=0)).all(axis=1)]
    return rows[[_is_valid(group, leaf, row) for row in rows]]


def _is_valid(group: GroupProblem, leaf: int, row: Ints) -> bool:
    """Return whether the rules of the last level, also those of classes, allow these pods on a
    leaf.
    """
    last = len(group.levels) - 1
    pods = int(row.sum()) + (group.fixed[leaf] if group.fixed else 0)
    if not _is_allowed(group.levels[last].rule, pods):
        return False
    mine = [pods_of(group, number, leaf, row.tolist()) for number in range(len(group.classes))]
    for number, one in enumerate(group.classes):
        own = (each.rule for each in one.rules if each.level == last)
        if not all(_is_allowed(rule, mine[number]) for rule in own):
            return False
    for rule in group.between:
        if rule.level != last:
            continue
        first, second = mine[rule.first], mine[rule.second]
        if rule.relation == "other" and first and second:
            return False
        if rule.relation == "with" and first and not second:
            return False
        if rule.relation == "one" and first != int(second > 0):
            return False
    return True


def _is_allowed(rule: LevelRule, pods: int) -> bool:
    return pods == 0 or bool(allowed(rule, pods)[pods])


def pods_of(group: GroupProblem, number: int, leaf: int, row: Sequence[int]) -> int:
    """Return the pods of a class on a leaf with a pattern, fixed ones included."""
    one = group.classes[number]
    return sum(row[role] for role in one.roles) + (one.fixed[leaf] if one.fixed else 0)


def _summed(group: GroupProblem, found: Sequence[Cell]) -> GroupProblem:
    """Return the group with one leaf per cell and without rules about single leaves."""
    last = len(group.levels) - 1

    def summed(column: Sequence[int]) -> tuple[int, ...]:
        return tuple(sum(max(0, column[leaf]) for leaf in one.leaves) for one in found)

    first = [one.leaves[0] for one in found]
    roles = (
        msgspec.structs.replace(role, slots=summed([min(most, role.count) for most in role.slots]))
        for role in group.roles
    )
    classes = (
        msgspec.structs.replace(
            one,
            fixed=summed(one.fixed) if one.fixed else (),
            rules=tuple(each for each in one.rules if each.level != last),
        )
        for one in group.classes
    )
    part = group.part(first)
    return msgspec.structs.replace(
        part,
        roles=tuple(roles),
        free=tuple(zip(*(summed(column) for column in zip(*group.free, strict=True)), strict=True))
        or ((),) * len(found),
        levels=(*group.levels[:-1], Level(group.levels[-1].name)),
        fixed=summed(group.fixed) if group.fixed else (),
        classes=tuple(classes),
        between=tuple(rule for rule in group.between if rule.level != last),
        costs=msgspec.structs.replace(part.costs, steps=part.costs.steps[:last]),
        parts=tuple(
            msgspec.structs.replace(
                one,
                fixed=summed(one.fixed) if one.fixed else (),
                apart=-1 if one.apart == last else one.apart,
            )
            for one in group.parts
        ),
    )
