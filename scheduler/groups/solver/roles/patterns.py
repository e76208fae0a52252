"""The model of unlike members over leaves that are alike: how many of them take which pods
together.

Leaves of one unit with the same room are a cell. A pattern is what one leaf may take, of each kind
a number, and y[cell, pattern] is how many of the cell's leaves take it. Whatever is said of single
leaves, rules and stages and what it costs to be on different ones, is then linear in y. Above the
leaves the model of scheduler.groups.solver.roles.rolemodel holds, with cells for leaves. Loaded
only where solving happens.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
import numpy as np
from ortools.sat.python import cp_model

from scheduler.groups.problem import parts
from scheduler.groups.problem.instance import Level, LevelRule
from scheduler.groups.problem.roles import GroupProblem
from scheduler.groups.solver import tree
from scheduler.groups.solver.roles import likeleaves
from scheduler.groups.solver.roles.rolemodel import RolesModel
from scheduler.groups.solver.roles.rolestages import RolesStage
from scheduler.groups.solver.tree import Ints

# With more patterns than this the model takes longer to build than a search without them.
MOST_PATTERNS = 30_000
EVERYBODY = -1  # beside the numbers of classes


class Cell(msgspec.Struct, frozen=True):
    """Like leaves of one unit, and the patterns [pattern, kind] that each of them may take."""

    leaves: tuple[int, ...]
    patterns: Ints


def cells(group: GroupProblem) -> list[Cell] | None:
    """Return the leaves of a group by what they may take, None where that is not to be said so."""
    depth = len(group.levels)
    if group.apart or group.excluded or depth in parts.depths(group.parts):
        return None  # they tell leaves apart
    found: dict[Any, list[int]] = defaultdict(list)
    areas = group.costs.areas or (0,) * len(group.paths)
    for leaf, (path, has) in enumerate(zip(group.paths, likeleaves.room(group), strict=True)):
        held = group.held[leaf] if group.held else 0
        stands = group.stand(leaf)
        above = tree.filled(path, depth)[:-1]
        found[above, has, held, stands, areas[leaf]].append(leaf)
    known: dict[Any, Ints | None] = {}
    made, total = [], 0
    for key, leaves in found.items():
        kind = key[1:-1]
        if kind not in known:
            known[kind] = _patterns(group, leaves[0])
        patterns = known[kind]
        total += 0 if patterns is None else len(patterns)
        if patterns is None or total > MOST_PATTERNS:
            return None
        made.append(Cell(tuple(leaves), patterns))
    return made


def _patterns(group: GroupProblem, leaf: int) -> Ints | None:
    """Return all that a leaf may take, None when that is too much."""
    free = np.array(group.free[leaf], dtype=np.int64)
    rows = np.zeros((1, len(group.kinds)), dtype=np.int64)
    for number, kind in enumerate(group.kinds):
        request = np.array(kind.request, dtype=np.int64)
        asked = request > 0
        most = min(kind.count, kind.slots[leaf])
        if asked.any():
            most = min(most, int((free[asked].clip(min=0) // request[asked]).min()))
        rows = np.repeat(rows, most + 1, axis=0)
        rows[:, number] = np.tile(np.arange(most + 1), len(rows) // (most + 1))
        if len(rows) > MOST_PATTERNS:
            return None
        needs = rows @ np.array([each.request for each in group.kinds], dtype=np.int64)
        rows = rows[(needs <= free.clip(min=0)).all(axis=1)]
    return rows[[_may_stand(group, leaf, row) for row in rows]]


def _may_stand(group: GroupProblem, leaf: int, row: Ints) -> bool:
    """Whether the rules of the last level, and those of classes there, let a leaf take these
    pods.
    """
    last = len(group.levels) - 1
    pods = int(row.sum()) + (group.held[leaf] if group.held else 0)
    if not _is_allowed(group.levels[last].rule, pods):
        return False
    mine = [_pods_of(group, number, leaf, row.tolist()) for number in range(len(group.classes))]
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
    return pods == 0 or bool(tree.allowed(rule, pods)[pods])


def _pods_of(group: GroupProblem, number: int, leaf: int, row: Sequence[int]) -> int:
    one = group.classes[number]
    return sum(row[kind] for kind in one.kinds) + (one.held[leaf] if one.held else 0)


class PatternModel:
    """The variables and rules of one group over cells; the same to its user as `RolesModel`."""

    def __init__(self, group: GroupProblem, found: list[Cell]) -> None:
        self._group = group
        self._cells = found
        self._inner = RolesModel(_summed(group, found), is_summed=True)
        self.cp: cp_model.CpModel = self._inner.cp
        self.pods = self._inner.pods
        self.tree = tree.build(group.alike(), with_full=True)
        self._last = len(group.levels)
        self._y = [
            [self.cp.new_int_var(0, len(one.leaves), "") for _ in one.patterns] for one in found
        ]
        for number, (one, taken) in enumerate(zip(found, self._y, strict=True)):
            self.cp.add(sum(taken) == len(one.leaves))
            for kind in range(len(group.kinds)):
                x = self._inner.x.get((kind, number), 0)
                terms = zip(one.patterns[:, kind].tolist(), taken, strict=True)
                self.cp.add(sum(pods * y for pods, y in terms if pods) == x)
        self._keep_numbers()
        self._keep_apart()

    def counts(self, solver: cp_model.CpSolver) -> Ints:
        """Return the pods by kind and leaf of a solution."""
        found = np.zeros((len(self._group.kinds), len(self._group.paths)), dtype=np.int64)
        for one, taken in zip(self._cells, self._y, strict=True):
            numbers = [solver.value(y) for y in taken]
            # The fullest first, so that of like leaves the first hold the most.
            order = np.lexsort((*-one.patterns.T, -one.patterns.sum(axis=1)))
            rows = np.repeat(order, [numbers[at] for at in order])
            found[:, list(one.leaves)] = one.patterns[rows].T
        return found

    def hint(self, counts: Ints) -> None:
        """Hand the solver a known placement to start from."""
        self.cp.clear_hints()  # type: ignore[no-untyped-call]
        for number, (one, taken) in enumerate(zip(self._cells, self._y, strict=True)):
            columns = counts[:, list(one.leaves)].T
            there = Counter(map(tuple, columns.tolist()))
            for row, y in zip(one.patterns.tolist(), taken, strict=True):
                self.cp.add_hint(y, there[tuple(row)])
            for kind, pods in enumerate(columns.sum(axis=0).tolist()):
                if (kind, number) in self._inner.x:
                    self.cp.add_hint(self._inner.x[kind, number], pods)

    def expression(self, stage: RolesStage) -> Any:
        """Return what a stage minimises."""
        if stage.measure == "cost":
            return self._inner.expression(stage) + self._apart()
        if stage.level < self._last:
            return self._inner.expression(stage)
        each = stage.of or (EVERYBODY,)
        if stage.measure in ("units", "leaves"):
            return self._sum(
                lambda number, row: sum(self._pods(number, row, of) > 0 for of in each)
            )
        sign = -1 if stage.measure == "large" else 1
        return self._sum(
            lambda number, row: sign * sum(self._pods(number, row, of) ** 2 for of in each)
        )

    def _keep_numbers(self) -> None:
        """How many leaves are used under each used parent, by all or by a class; one leaf for
        `same`.
        """
        group, last = self._group, self._last
        wanted = group.levels[-1].rule.units_per_parent
        if wanted:
            self._use(wanted, EVERYBODY, self._inner.used[last - 1])
        for number, one in enumerate(group.classes):
            for own in one.rules:
                if own.level == last - 1 and own.rule.units_per_parent:
                    above = self._inner.classes.used(number, last - 1)
                    self._use(own.rule.units_per_parent, number, above)
        for rule in group.between:
            if rule.level == last - 1 and rule.relation == "same":
                self.cp.add(sum(self._with((rule.first, rule.second))) <= 1)

    def _keep_apart(self) -> None:
        """No leaf has more pods of parts that have one there each than there are such parts around
        it.
        """
        enough: dict[tuple[int, int], Any] = {}
        for at, part in enumerate(self._group.parts):
            if part.apart != self._last - 1:
                continue
            on_leaves = self._inner.parts.on_leaves(at)
            for number, cell in enumerate(self._cells):
                held = part.held[cell.leaves[0]] if part.held else 0
                many, leaves = on_leaves[number], len(cell.leaves)
                rows = [
                    (held + sum(row[kind] for kind in part.kinds), y)
                    for row, y in self._rows(number)
                ]
                self.cp.add(sum(pods * y for pods, y in rows if pods) <= leaves * many)
                for least in sorted({pods for pods, _ in rows if pods > 1}):
                    key = many.index, least
                    if key not in enough:
                        enough[key] = self.cp.new_bool_var("")
                        self.cp.add(many >= least).only_enforce_if(enough[key])
                    fuller = sum(y for pods, y in rows if pods >= least)
                    self.cp.add(fuller <= leaves * enough[key])

    def _use(self, wanted: int, of: int, above: list[Any]) -> None:
        """So many leaves of each used parent are used."""
        parents = self._inner.tree.parents(self._last).tolist()
        used: dict[int, list[Any]] = defaultdict(list)
        for at, number in enumerate(self._inner.leaf):
            for row, y in self._rows(number):
                if self._pods(number, row, of):
                    used[parents[at]].append(y)
        for unit, parent in enumerate(above):
            self.cp.add(sum(used[unit]) == wanted * parent)

    def _with(self, classes: tuple[int, ...]) -> list[Any]:
        """Return the numbers of leaves with pods of any of these classes."""
        return [
            y
            for number in range(len(self._cells))
            for row, y in self._rows(number)
            if any(self._pods(number, row, of) for of in classes)
        ]

    def _apart(self) -> Any:
        """Return what it costs that pods which talk are on different leaves: all pairs but those on
        one.
        """
        group = self._group
        step = sum(group.costs.steps[self._last - 1 :])
        if not step:
            return 0
        terms = []
        for one in group.traffic:
            pairs = self._inner.classes.pairs(one)
            inside = self._sum(lambda number, row, one=one: (  # type: ignore[misc]
                self._pods(number, row, one.first) * self._pods(number, row, one.second)
            ))  # fmt: skip
            terms.append(one.weight * (pairs - inside))
        return step * sum(terms)

    def _sum(self, measure: Callable[[int, Sequence[int]], int]) -> Any:
        """Return the sum over all leaves of what a pattern in a cell measures."""
        return sum(
            measured * y
            for number in range(len(self._cells))
            for row, y in self._rows(number)
            if (measured := measure(number, row))
        )

    def _rows(self, number: int) -> Iterable[tuple[list[int], Any]]:
        return zip(self._cells[number].patterns.tolist(), self._y[number], strict=True)

    def _pods(self, number: int, row: Sequence[int], of: int) -> int:
        """Return the pods of a class, or of EVERYBODY, on a leaf of a cell with a pattern, held
        ones included.
        """
        leaf = self._cells[number].leaves[0]
        if of == EVERYBODY:
            return sum(row) + (self._group.held[leaf] if self._group.held else 0)
        return _pods_of(self._group, of, leaf, row)


def _summed(group: GroupProblem, found: Sequence[Cell]) -> GroupProblem:
    """Return the group with a leaf for each cell, and without what is said of single leaves."""
    last = len(group.levels) - 1

    def summed(column: Sequence[int]) -> tuple[int, ...]:
        return tuple(sum(max(0, column[leaf]) for leaf in one.leaves) for one in found)

    first = [one.leaves[0] for one in found]
    kinds = (
        msgspec.structs.replace(kind, slots=summed([min(most, kind.count) for most in kind.slots]))
        for kind in group.kinds
    )
    classes = (
        msgspec.structs.replace(
            one,
            held=summed(one.held) if one.held else (),
            rules=tuple(each for each in one.rules if each.level != last),
        )
        for one in group.classes
    )
    part = group.part(first)
    return msgspec.structs.replace(
        part,
        kinds=tuple(kinds),
        free=tuple(zip(*(summed(column) for column in zip(*group.free, strict=True)), strict=True))
        or ((),) * len(found),
        levels=(*group.levels[:-1], Level(group.levels[-1].name)),
        held=summed(group.held) if group.held else (),
        classes=tuple(classes),
        between=tuple(rule for rule in group.between if rule.level != last),
        costs=msgspec.structs.replace(part.costs, steps=part.costs.steps[:last]),
        parts=tuple(
            msgspec.structs.replace(
                one,
                held=summed(one.held) if one.held else (),
                apart=-1 if one.apart == last else one.apart,
            )
            for one in group.parts
        ),
    )
