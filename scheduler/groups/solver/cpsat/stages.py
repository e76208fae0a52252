"""The stages of the objective, the most important first: records, bounds, and expressions.

The order is that of scheduler.groups.problem.checker.objective: members left out; the preferences
of each level from the top, of all pods, then of each class (or of all parts, summed); traffic cost;
used leaves. Does not import ortools, as modules that are loaded at start import the records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from scheduler.groups.problem.checklevels import MEASURES
from scheduler.groups.problem.instance import Kind
from scheduler.groups.problem.roles import GroupProblem
from scheduler.groups.solver.cpsat.cells import ALL_PODS
from scheduler.groups.solver.tree import Ints, Tree

if TYPE_CHECKING:
    from scheduler.groups.solver.cpsat.model import GroupModel

ALL: tuple[int, ...] = ()
LARGEST_SQUARE = 1 << 40
MANY_ROWS = 20_000  # above this, tangents are added only where a placement violates them


class Stage(msgspec.Struct, frozen=True):
    """A measure that is minimised at a level (from 1; 0: the whole tree).

    `of` has the indices of classes whose values are summed; empty: all pods.
    """

    level: int
    measure: str
    of: tuple[int, ...] = ALL


LEFT_OUT = Stage(0, "leftOut")


def of_one_role(tree: Tree) -> list[Stage]:
    """Return the stages of a group with one role."""
    found = [
        Stage(level, measure)
        for level in range(1, tree.depth + 1)
        for measure in MEASURES[tree.rule(level).kind]
    ]
    if tree.least == tree.size:
        return found
    return [*found, LEFT_OUT] if tree.levels_first else [LEFT_OUT, *found]


def of_roles(group: GroupProblem, tree: Tree) -> list[Stage]:
    """Return the stages of a group with several roles in its tree."""
    plain = of_one_role(tree)
    found = [one for one in plain if one == LEFT_OUT]
    for level in range(1, tree.depth + 1):
        if level - 1 not in group.unwished:
            found += [one for one in plain if one.level == level]
        found += _of_classes(group, level)
    if group.traffic:
        found.append(Stage(0, "cost"))
    if tree.depth - 1 in group.unwished:
        found.append(Stage(tree.depth, "leaves"))
    return found


def _of_classes(group: GroupProblem, level: int) -> list[Stage]:
    kinds = [
        (number, own.rule.kind)
        for number, one in enumerate(group.classes)
        for own in one.rules
        if own.level == level - 1
    ]
    together: list[tuple[Kind, tuple[int, ...]]] = [(kind, (number,)) for number, kind in kinds]
    if group.parts:
        each = [(kind, tuple(at for at, its in kinds if its == kind)) for kind in MEASURES]
        together = [(kind, those) for kind, those in each if those]
    return [Stage(level, measure, those) for kind, those in together for measure in MEASURES[kind]]


def bound(tree: Tree, stage: Stage) -> int:
    """Return a lower bound on the value of a stage that counts all pods, from capacities alone."""
    level = stage.level
    if stage.measure == "leftOut":
        return 0
    capacity = np.sort(tree.capacity[level])[::-1]
    if stage.measure == "units":
        fewest = np.searchsorted(np.cumsum(capacity), tree.least) + 1
        return max(int(fewest), tree.rule(level).units_per_parent, 1)
    if stage.measure == "large":
        before = np.concatenate(([0], np.cumsum(capacity)[:-1]))
        filled = np.clip(tree.size - before, 0, capacity)
        return -int((filled * filled).sum())
    units = tree.rule(level).partitions if level == 1 else 0
    units = units or int((capacity > 0).sum())
    share, rest = divmod(tree.least, max(1, units))
    return rest * (share + 1) ** 2 + (units - rest) * share**2


class Terms:
    """The stages of a model as expressions; the ones of squares get more tangents later."""

    def __init__(self, model: GroupModel) -> None:
        self._model = model
        self._squares: dict[Stage, list[Any]] = {}

    def expression(self, stage: Stage) -> Any:
        """Return the expression of a stage, to be minimised."""
        if stage.measure == "leftOut":
            return self._model.tree.size - self._model.pods[0][0]
        if stage.measure == "cost":
            return self._model.classes.cost() + self._cost_of_leaves()
        is_last = stage.level == self._model.tree.depth
        if is_last and self._model.layout.has_patterns:
            return self._over_patterns(stage)
        if stage.measure in ("units", "leaves"):
            of_classes = (
                one for at in stage.of for one in self._model.classes.used(at, stage.level)
            )
            return sum(of_classes if stage.of else self._all_units(stage.level)[1])
        squares = self._squares[stage] = []
        counts = self._counts(stage)
        is_lazy = sum(most for _, most in counts) > MANY_ROWS
        for pods, most in counts:
            square = self._model.cp.new_int_var(0, min(most * most, LARGEST_SQUARE), "")
            squares.append(square)
            if stage.measure == "large":
                self._model.cp.add_multiplication_equality(square, [pods, pods])
                continue
            # A variable above these tangents is at least the square, for integers exactly.
            for k in self._touched(most, len(counts)) if is_lazy else range(most):
                self._model.cp.add(square >= (2 * k + 1) * pods - k * (k + 1))
        return -sum(squares) if stage.measure == "large" else sum(squares)

    def refine(self, stage: Stage, counts: Ints) -> bool:
        """Add the tangents at a placement's counts; return False if there were none to add."""
        squares = self._squares.get(stage)
        if stage.measure != "squares" or stage.of or squares is None:
            return False
        if sum(most for _, most in self._counts(stage)) <= MANY_ROWS:
            return False
        pods, _ = self._all_units(stage.level)
        for unit, many in enumerate(self._model.on_units(counts, stage.level).tolist()):
            for k in (many - 1, many) if many else ():
                self._model.cp.add(squares[unit] >= (2 * k + 1) * pods[unit] - k * (k + 1))
        return True

    def _touched(self, most: int, units: int) -> list[int]:
        """Return the counts of the first tangents: 0 and those around an even share."""
        share = min(most - 1, self._model.tree.size // max(1, units))
        return sorted({0, *range(max(0, share - 2), min(most, share + 3))})

    def _all_units(self, level: int) -> tuple[list[Any], list[Any]]:
        """Return the pods and used flags of the units of a level, leaves included."""
        if level < self._model.tree.depth:
            return self._model.pods[level], self._model.used[level]
        made = [self._model.cells[number] for number in self._model.order]
        return [one.pods for one in made], [one.used for one in made]

    def _counts(self, stage: Stage) -> list[tuple[Any, int]]:
        """Return the pods of each unit that a stage counts, and their upper bound."""
        if stage.of:
            return [
                (pods, max(self._model.classes.most(at), 1))
                for at in stage.of
                for pods in self._model.classes.pods(at, stage.level)
            ]
        tree = self._model.tree
        capacity = tree.slots if stage.level == tree.depth else tree.capacity[stage.level]
        pods, _ = self._all_units(stage.level)
        return [(one, max(int(most), 1)) for one, most in zip(pods, capacity.tolist(), strict=True)]

    def _over_patterns(self, stage: Stage) -> Any:
        each = stage.of or (ALL_PODS,)
        if stage.measure in ("units", "leaves"):
            return self._model.patterns.sum(
                lambda at, row: sum(self._model.patterns.pods(at, row, of) > 0 for of in each)
            )
        sign = -1 if stage.measure == "large" else 1
        return self._model.patterns.sum(
            lambda at, row: sign * sum(self._model.patterns.pods(at, row, of) ** 2 for of in each)
        )

    def _cost_of_leaves(self) -> Any:
        """Return the cost of traffic between leaves: all pairs minus those on one leaf."""
        step = sum(self._model.group.costs.steps[self._model.tree.depth - 1 :])
        if not step or not self._model.layout.has_patterns:
            return 0
        terms = []
        for one in self._model.group.traffic:
            pairs = self._model.classes.pairs(one)
            same = self._model.patterns.pairs(one.first, one.second)
            terms.append(one.weight * (pairs - same))
        return step * sum(terms)
