"""The variables of the CP-SAT model: pods of each role per cell, pods and use of each unit.

x[role, cell] counts pods; the pods of a unit are sums of these. Loaded only in the solver process.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from ortools.sat.python import cp_model

from scheduler.groups.solver.cpsat.cells import Cell, Layout
from scheduler.groups.solver.cpsat.classes import ClassModel
from scheduler.groups.solver.cpsat.domains import values_of
from scheduler.groups.solver.cpsat.leaves import LeafVariables
from scheduler.groups.solver.cpsat.parts import PartModel
from scheduler.groups.solver.exact.decode import by_name
from scheduler.groups.solver.tree import Ints, allowed


class CellVariables(msgspec.Struct, frozen=True):
    """The pods and used leaves of a cell as expressions, and the number of leaves per pattern."""

    pods: Any
    used: Any
    taken: tuple[Any, ...] = ()


class GroupVariables:
    """The variables of one group over a layout, and the rows inside each cell.

    `order` lists the cells in tree order, `parents` the unit above each. `pods[level][unit]` and
    `used[level][unit]` are for the levels from the root to the one above the leaves; `cells` is by
    index of the cell.
    """

    def __init__(self, layout: Layout, cp: cp_model.CpModel | None) -> None:
        self.cp = cp or cp_model.CpModel()
        self.layout = layout
        self.group, self.tree = layout.group, layout.tree
        self._own = layout.own
        self._position = {leaf: at for at, leaf in enumerate(self.tree.leaf.tolist())}
        self.order: list[int] = layout.places.leaf.tolist()
        self.x: dict[tuple[int, int], Any] = {}
        self._make_pods()
        self._make_units()
        parents = layout.places.parents(layout.places.depth).tolist()
        self.parents = dict(zip(self.order, parents, strict=True))
        on_leaves = LeafVariables(self.cp, self._own, layout.places, self.x)
        self.classes, self.parts = ClassModel(on_leaves), PartModel(on_leaves)
        self.cells = [self._cell(number) for number in range(len(layout.cells))]

    def counts(self, solver: cp_model.CpSolver) -> Ints:
        """Return the pods by role and leaf of a solution, fixed pods excluded."""
        found = np.zeros((len(self.group.roles), len(self.group.paths)), dtype=np.int64)
        for number, (cell, made) in enumerate(zip(self.layout.cells, self.cells, strict=True)):
            if cell.patterns is None:
                for role in range(len(self.group.roles)):
                    if (role, number) in self.x and not cell.is_sum:
                        found[role, cell.leaves[0]] = solver.value(self.x[role, number])
                continue
            many = [solver.value(y) for y in made.taken]
            found[:, list(cell.leaves)] = self._dealt(cell, many)
        return found

    def _dealt(self, cell: Cell, many: Sequence[int]) -> Ints:
        """Return the pods [role, leaf] on the leaves of a cell, given how many leaves take each
        pattern.
        """
        assert cell.patterns is not None  # noqa: S101
        if cell.at_least:
            fixed = self.fixed_on(cell)
            pods = (cell.patterns[:, 0] + fixed).tolist()
            taken = {k: n for k, n in zip(pods, many, strict=True) if k and n}
            if not taken:
                return np.zeros((1, len(cell.leaves)), dtype=np.int64)
            slots = self._slots[list(cell.leaves)]
            return (by_name(slots, taken) - fixed).reshape(1, -1)
        # Full patterns go to the first leaves, so that of identical leaves the first has the most.
        order = np.lexsort((*-cell.patterns.T, -cell.patterns.sum(axis=1)))
        rows = np.repeat(order, [many[at] for at in order])
        return np.asarray(cell.patterns[rows].T)

    @property
    def _slots(self) -> Ints:
        """Return the slots of each leaf of a cell, fixed pods included."""
        slots = np.zeros(len(self.group.paths), dtype=np.int64)
        slots[self.tree.leaf] = self.tree.slots
        return slots

    def hint(self, counts: Ints) -> None:
        """Pass a known placement to the solver as a hint."""
        cp = self.cp
        cp.clear_hints()  # type: ignore[no-untyped-call]
        for number, (cell, made) in enumerate(zip(self.layout.cells, self.cells, strict=True)):
            columns = counts[:, list(cell.leaves)]
            for role, pods in enumerate(columns.sum(axis=1).tolist()):
                if (role, number) in self.x:
                    cp.add_hint(self.x[role, number], pods)
            if cell.patterns is not None:
                there = Counter(map(tuple, columns.T.tolist()))
                for row, y in zip(cell.patterns.tolist(), made.taken, strict=True):
                    cp.add_hint(y, there[tuple(row)])
        for level in range(1, self.tree.depth):
            for unit, pods in enumerate(self.on_units(counts, level).tolist()):
                cp.add_hint(self.pods[level][unit], pods)
                cp.add_hint(self.used[level][unit], int(pods > 0))

    def on_units(self, counts: Ints, level: int) -> Ints:
        """Return the pods of each unit of a level as expressions, fixed pods included."""
        tree = self.tree
        pods: Ints = counts.sum(axis=0)[tree.leaf] + tree.fixed
        for each in range(tree.depth, level, -1):
            pods = np.bincount(tree.parents(each), pods, tree.units(each - 1)).astype(np.int64)
        return pods

    def _make_pods(self) -> None:
        for number, role in enumerate(self._own.roles):
            for at in self.order:
                most = min(role.count, role.slots[at])
                if most > 0:
                    self.x[number, at] = self.cp.new_int_var(0, most, f"x{number}_{at}")
            mine = [x for (which, _), x in self.x.items() if which == number]
            self.cp.add(sum(mine) <= role.count)

    def _make_units(self) -> None:
        tree, cp = self.tree, self.cp
        self.pods: list[list[Any]] = [[cp.new_int_var(tree.least, tree.size, "placed")]]
        self.used: list[list[Any]] = [[1]]
        for level in range(1, tree.depth):
            fits = allowed(tree.rule(level), tree.size)
            made = [
                self._unit(values_of(fits, most), f"{level}_{unit}")
                for unit, most in enumerate(tree.capacity[level].tolist())
            ]
            self.pods.append([pods for pods, _ in made])
            self.used.append([used for _, used in made])

    def _unit(self, values: cp_model.Domain, name: str) -> tuple[Any, Any]:
        """Return variables for the pods of a unit, with the allowed values, and for its use."""
        pods = self.cp.new_int_var_from_domain(values, f"n{name}")
        used = self.cp.new_bool_var(f"y{name}")
        self.cp.add(pods >= 1).only_enforce_if(used)
        self.cp.add(pods == 0).only_enforce_if(~used)
        return pods, used

    def _cell(self, number: int) -> CellVariables:
        cell = self.layout.cells[number]
        new = sum(self.x.get((role, number), 0) for role in range(len(self._own.roles)))
        if cell.is_sum:
            return self._sum_cell(cell, new)
        if cell.patterns is not None:
            return self._pattern_cell(number, cell)
        tree = self.tree
        at = self._position[cell.leaves[0]]
        most, fixed = int(tree.slots[at]), int(tree.fixed[at])
        fits = allowed(tree.rule(tree.depth), tree.size)
        pods, used = self._unit(values_of(fits, max(most, fixed)), f"_{number}")
        self.cp.add(pods == new + fixed)
        return CellVariables(pods, used)

    def _pattern_cell(self, number: int, cell: Cell) -> CellVariables:
        """Return a cell with a variable per pattern: the number of leaves that take it.

        If the capacities differ, at most as many leaves take n pods or more as have capacity for n.
        """
        assert cell.patterns is not None  # noqa: S101
        cp, many = self.cp, len(cell.leaves)
        most = cell.at_least or (many,) * len(cell.patterns)
        taken = [cp.new_int_var(0, each, "") for each in most]
        cp.add(sum(taken) == many)
        for role in range(len(self.group.roles)):
            terms = zip(cell.patterns[:, role].tolist(), taken, strict=True)
            cp.add(sum(pods * y for pods, y in terms if pods) == self.x.get((role, number), 0))
        fixed = self.fixed_on(cell)
        rows = (cell.patterns.sum(axis=1) + fixed).tolist()
        if cell.at_least:
            scale = self._scale(number)
            for at, (pods, least) in enumerate(zip(rows, cell.at_least, strict=True)):
                if pods:
                    cp.add(sum(taken[at:]) <= least * scale)
        used = sum(y for pods, y in zip(rows, taken, strict=True) if pods)
        # As sums of `new`, OR-Tools 9.15 aborted the process over an invalid answer of its own
        # (tests/unit/solver/test_presolve.py).
        total = sum(pods * y for pods, y in zip(rows, taken, strict=True) if pods)
        return CellVariables(total, used, tuple(taken))

    def _scale(self, number: int) -> Any:
        """Return the factor of a cell's capacity rows: the used flag of the unit above.

        It was measured to tighten most, except for pack below spread, where it slows the search.
        """
        last = self.tree.depth - 1
        above = self.tree.rule(last).kind if last else "pack"
        is_scaled = last > 0 and not (
            self.tree.rule(self.tree.depth).kind == "pack" and above == "spread"
        )
        return self.used[last][self.parents[number]] if is_scaled else 1

    def _sum_cell(self, cell: Cell, new: Any) -> CellVariables:
        """Return a cell with one variable for all its leaves, within what their rule allows in
        total.
        """
        tree, cp = self.tree, self.cp
        rule = tree.rule(tree.depth)
        capacity = tree.capacity[tree.depth][[self._position[leaf] for leaf in cell.leaves]]
        most = min(tree.size, int(capacity.sum()))
        values = cp_model.Domain.from_values(range(0, most + 1, rule.factor))
        pods = cp.new_int_var_from_domain(values, "")
        cp.add(pods == new)
        used: Any = 0
        if rule.min > 1 or rule.units_per_parent > 0:
            used = cp.new_int_var(0, int((capacity > 0).sum()), "")
            cp.add(pods >= max(1, rule.min) * used)
            cp.add(pods <= int(capacity.max(initial=0)) * used)
        return CellVariables(pods, used)

    def fixed_on(self, cell: Cell) -> int:
        """Return how many pods are fixed on each leaf of a cell."""
        return self.group.fixed[cell.leaves[0]] if self.group.fixed else 0
