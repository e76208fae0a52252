"""Sums over the patterns of cells, and the rules of classes and parts about single leaves.

Loaded only in the solver process.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from scheduler.groups.solver.cpsat import cells
from scheduler.groups.solver.cpsat.cells import ALL_PODS
from scheduler.groups.solver.cpsat.variables import GroupVariables


class LeafPatterns:
    """The patterns of a model's cells, and the variables of how many leaves take each."""

    def __init__(self, model: GroupVariables) -> None:
        self._model = model

    def limit(self) -> None:
        """Add the rules of classes and parts about single leaves."""
        self._rules_of_classes()
        self._parts_on_leaves()

    def sum(self, measure: Callable[[int, Sequence[int]], int]) -> Any:
        """Return the sum over all leaves of `measure` of their patterns."""
        return sum(
            measured * y
            for number in range(len(self._model.cells))
            for row, y in self.rows(number)
            if (measured := measure(number, row))
        )

    def pairs(self, first: int, second: int) -> Any:
        """Return the number of pairs of pods of two classes that share a leaf."""
        return self.sum(
            lambda number, row: self.pods(number, row, first) * self.pods(number, row, second)
        )

    def rows(self, number: int) -> Iterable[tuple[list[int], Any]]:
        """Return the patterns of a cell, each with the variable that counts the leaves using it."""
        patterns = self._model.layout.cells[number].patterns
        if patterns is None:
            return ()
        return zip(patterns.tolist(), self._model.cells[number].taken, strict=True)

    def pods(self, number: int, row: Sequence[int], of: int) -> int:
        """Return the pods of a class, or ALL_PODS, that a pattern puts on a leaf; fixed pods
        included.
        """
        cell = self._model.layout.cells[number]
        if of == ALL_PODS:
            return sum(row) + self._model.fixed_on(cell)
        return cells.pods_of(self._model.group, of, cell.leaves[0], row)

    def _rules_of_classes(self) -> None:
        """Limit how many leaves a class uses under each used parent; one leaf for `same`."""
        group, last = self._model.group, self._model.tree.depth
        for number, one in enumerate(group.classes):
            for own in one.rules:
                if own.level == last - 1 and own.rule.units_per_parent:
                    above = self._model.classes.used(number, last - 1)
                    self._use(own.rule.units_per_parent, number, above)
        for rule in group.between:
            if rule.level == last - 1 and rule.relation == "same":
                self._model.cp.add(sum(self._with((rule.first, rule.second))) <= 1)

    def _parts_on_leaves(self) -> None:
        """Limit a leaf's pods of parts that allow one pod per leaf to the copies around it."""
        enough: dict[tuple[int, int], Any] = {}
        for at, part in enumerate(self._model.group.parts):
            if part.apart != self._model.tree.depth - 1:
                continue
            on_leaves = self._model.parts.on_leaves(at)
            for number, cell in enumerate(self._model.layout.cells):
                fixed = part.fixed[cell.leaves[0]] if part.fixed else 0
                many, leaves = on_leaves[number], len(cell.leaves)
                rows = [
                    (fixed + sum(row[role] for role in part.roles), y)
                    for row, y in self.rows(number)
                ]
                self._model.cp.add(sum(pods * y for pods, y in rows if pods) <= leaves * many)
                for least in sorted({pods for pods, _ in rows if pods > 1}):
                    key = many.index, least
                    if key not in enough:
                        enough[key] = self._model.cp.new_bool_var("")
                        self._model.cp.add(many >= least).only_enforce_if(enough[key])
                    fuller = sum(y for pods, y in rows if pods >= least)
                    self._model.cp.add(fuller <= leaves * enough[key])

    def _use(self, wanted: int, of: int, above: list[Any]) -> None:
        """Require `number` leaves with pods of a class under each parent that it uses."""
        used: dict[int, list[Any]] = defaultdict(list)
        for number in self._model.order:
            for row, y in self.rows(number):
                if self.pods(number, row, of):
                    used[self._model.parents[number]].append(y)
        for unit, parent in enumerate(above):
            self._model.cp.add(sum(used[unit]) == wanted * parent)

    def _with(self, classes: tuple[int, ...]) -> list[Any]:
        """Return the variables of all patterns with pods of any of these classes."""
        return [
            y
            for number in range(len(self._model.cells))
            for row, y in self.rows(number)
            if any(self.pods(number, row, of) for of in classes)
        ]
