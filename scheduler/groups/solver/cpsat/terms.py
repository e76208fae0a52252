"""The terms of the objective over the model: one expression for each stage.

Loaded only where solving happens.
"""

from typing import Any

from scheduler.groups.solver.cpsat.model import GroupModel
from scheduler.groups.solver.cpsat.patterns import ALL_PODS
from scheduler.groups.solver.cpsat.stages import Stage
from scheduler.groups.solver.tree import Ints

LARGEST_SQUARE = 1 << 40
MANY_ROWS = 20_000  # above this, tangents are added when an answer asks for them


class Terms:
    """The stages of a model as expressions; those of squares may grow tangents later."""

    def __init__(self, model: GroupModel) -> None:
        self._model = model
        self._squares: dict[Stage, list[Any]] = {}

    def expression(self, stage: Stage) -> Any:
        """Return what a stage minimises."""
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
            # The square of a whole number is the least above these tangents.
            for k in self._touched(most, len(counts)) if is_lazy else range(most):
                self._model.cp.add(square >= (2 * k + 1) * pods - k * (k + 1))
        return -sum(squares) if stage.measure == "large" else sum(squares)

    def refine(self, stage: Stage, counts: Ints) -> bool:
        """Add the tangents that a placement touches; False when the expression was exact."""
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
        """Return where tangents touch at first: at 0 and around an even share."""
        share = min(most - 1, self._model.tree.size // max(1, units))
        return sorted({0, *range(max(0, share - 2), min(most, share + 3))})

    def _all_units(self, level: int) -> tuple[list[Any], list[Any]]:
        """Return pods and use of the units of a level, leaves included."""
        if level < self._model.tree.depth:
            return self._model.pods[level], self._model.used[level]
        made = [self._model.cells[number] for number in self._model.order]
        return [one.pods for one in made], [one.used for one in made]

    def _counts(self, stage: Stage) -> list[tuple[Any, int]]:
        """Return the pods of each unit that a stage counts, and how many they are at most."""
        if stage.of:
            return [
                (pods, max(self._model.classes.most(at), 1))
                for at in stage.of
                for pods in self._model.classes.pods(at, stage.level)
            ]
        tree = self._model.tree
        capacity = tree.slots if stage.level == tree.depth else tree.room[stage.level]
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
        """Return what traffic between pods on different leaves costs: all pairs but those on one
        leaf.
        """
        step = sum(self._model.group.costs.steps[self._model.tree.depth - 1 :])
        if not step or not self._model.layout.has_patterns:
            return 0
        terms = []
        for one in self._model.group.traffic:
            pairs = self._model.classes.pairs(one)
            same = self._model.patterns.pairs(one.first, one.second)
            terms.append(one.weight * (pairs - same))
        return step * sum(terms)
