"""The CP-SAT model of a group: pods of each role on the cells of its leaves, under all its rules.

x[role, cell] counts pods. What a unit holds is a sum of them, and rules and stages of levels refer
to these sums only, for one role and for several. Cells (scheduler.groups.solver.cpsat.cells) have
patterns, or are single leaves; of those that nothing tells apart the first takes the most, which
leaves out placements that differ in names alone. Loaded only where solving happens.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from ortools.sat.python import cp_model

from scheduler.groups.solver.cpsat import cells
from scheduler.groups.solver.cpsat.cells import Cell, Layout
from scheduler.groups.solver.cpsat.classes import ClassModel
from scheduler.groups.solver.cpsat.domains import DomainRows, values_of
from scheduler.groups.solver.cpsat.parts import PartModel
from scheduler.groups.solver.cpsat.patterns import LeafPatterns
from scheduler.groups.solver.exact.decode import by_name
from scheduler.groups.solver.tree import Ints, allowed


class CellVariables(msgspec.Struct, frozen=True):
    """A cell's pods and its used leaves as expressions, and how many leaves take which pattern."""

    pods: Any
    used: Any
    taken: tuple[Any, ...] = ()


class GroupModel:
    """The variables and rules of one group over a layout.

    `order` has the cells in the order of the tree, `parents` the unit above each.
    `pods[level][unit]` and `used[level][unit]` start with the root and end above the leaves,
    `cells` are by their number. `freed` is what evictions add to a (cell, resource), `leaving` how
    many others they take from a (rule between members, set); their variables are in `cp`.
    """

    def __init__(
        self,
        layout: Layout,
        cp: cp_model.CpModel | None = None,
        freed: Mapping[tuple[int, int], Any] | None = None,
        leaving: Mapping[tuple[int, int], Any] | None = None,
    ) -> None:
        self.cp = cp or cp_model.CpModel()
        self.layout = layout
        self.group, self.tree = layout.group, layout.tree
        self._own = layout.own
        self.order: list[int] = layout.places.leaf.tolist()
        self.x: dict[tuple[int, int], Any] = {}
        self._make_pods()
        self._make_units()
        parents = layout.places.parents(layout.places.depth).tolist()
        self.parents = dict(zip(self.order, parents, strict=True))
        self.cells = [self._cell(number) for number in range(len(layout.cells))]
        self._add_up()
        self._fit(freed or {})
        self._keep_apart()
        self._thin_excluded()
        self._domains(leaving or {})
        self.classes = ClassModel(self.cp, self._own, layout.places, self.x)
        self.patterns = LeafPatterns(self)
        self.parts = PartModel(self.cp, self._own, layout.places, self.x)
        if layout.has_patterns:
            self.patterns.limit()
        elif freed is None:
            self._order_like_leaves()

    def counts(self, solver: cp_model.CpSolver) -> Ints:
        """Return the pods by role and leaf of a solution, without held ones."""
        found = np.zeros((len(self.group.kinds), len(self.group.paths)), dtype=np.int64)
        for number, (cell, made) in enumerate(zip(self.layout.cells, self.cells, strict=True)):
            if cell.patterns is None:
                for kind in range(len(self.group.kinds)):
                    if (kind, number) in self.x and not cell.is_sum:
                        found[kind, cell.leaves[0]] = solver.value(self.x[kind, number])
                continue
            many = [solver.value(y) for y in made.taken]
            found[:, list(cell.leaves)] = self._dealt(cell, many)
        return found

    def _dealt(self, cell: Cell, many: Sequence[int]) -> Ints:
        """Return the pods [role, leaf] of a cell's leaves when so many of them take each
        pattern.
        """
        assert cell.patterns is not None  # noqa: S101
        if cell.at_least:
            held = self.held_on(cell)
            pods = (cell.patterns[:, 0] + held).tolist()
            taken = {k: n for k, n in zip(pods, many, strict=True) if k and n}
            if not taken:
                return np.zeros((1, len(cell.leaves)), dtype=np.int64)
            slots = self._slots[list(cell.leaves)]
            return (by_name(slots, taken) - held).reshape(1, -1)
        # The fullest first, so that of like leaves the first hold the most.
        order = np.lexsort((*-cell.patterns.T, -cell.patterns.sum(axis=1)))
        rows = np.repeat(order, [many[at] for at in order])
        return np.asarray(cell.patterns[rows].T)

    @property
    def _slots(self) -> Ints:
        """Return the slots of each leaf, held pods included."""
        slots = np.zeros(len(self.group.paths), dtype=np.int64)
        slots[self.tree.leaf] = self.tree.slots
        return slots

    def hint(self, counts: Ints) -> None:
        """Hand the solver a known placement to start from."""
        cp = self.cp
        cp.clear_hints()  # type: ignore[no-untyped-call]
        for number, (cell, made) in enumerate(zip(self.layout.cells, self.cells, strict=True)):
            columns = counts[:, list(cell.leaves)]
            for kind, pods in enumerate(columns.sum(axis=1).tolist()):
                if (kind, number) in self.x:
                    cp.add_hint(self.x[kind, number], pods)
            if cell.patterns is not None:
                there = Counter(map(tuple, columns.T.tolist()))
                for row, y in zip(cell.patterns.tolist(), made.taken, strict=True):
                    cp.add_hint(y, there[tuple(row)])
        for level in range(1, self.tree.depth):
            for unit, pods in enumerate(self.on_units(counts, level).tolist()):
                cp.add_hint(self.pods[level][unit], pods)
                cp.add_hint(self.used[level][unit], int(pods > 0))

    def on_units(self, counts: Ints, level: int) -> Ints:
        """Return the pods of each unit of a level, held ones included."""
        tree = self.tree
        pods = counts.sum(axis=0)[tree.leaf] + tree.held
        for each in range(tree.depth, level, -1):
            pods = np.bincount(tree.parents(each), pods, tree.units(each - 1)).astype(np.int64)
        return pods

    def _make_pods(self) -> None:
        for number, kind in enumerate(self._own.kinds):
            for at in self.order:
                most = min(kind.count, kind.slots[at])
                if most > 0:
                    self.x[number, at] = self.cp.new_int_var(0, most, f"x{number}_{at}")
            mine = [x for (which, _), x in self.x.items() if which == number]
            self.cp.add(sum(mine) <= kind.count)

    def _make_units(self) -> None:
        tree, cp = self.tree, self.cp
        self.pods: list[list[Any]] = [[cp.new_int_var(tree.least, tree.size, "placed")]]
        self.used: list[list[Any]] = [[1]]
        for level in range(1, tree.depth):
            fits = allowed(tree.rule(level), tree.size)
            made = [
                self._unit(values_of(fits, most), f"{level}_{unit}")
                for unit, most in enumerate(tree.room[level].tolist())
            ]
            self.pods.append([pods for pods, _ in made])
            self.used.append([used for _, used in made])

    def _unit(self, values: cp_model.Domain, name: str) -> tuple[Any, Any]:
        """Return the pods of a unit with these values, and whether it is used."""
        pods = self.cp.new_int_var_from_domain(values, f"n{name}")
        used = self.cp.new_bool_var(f"y{name}")
        self.cp.add(pods >= 1).only_enforce_if(used)
        self.cp.add(pods == 0).only_enforce_if(~used)
        return pods, used

    def _cell(self, number: int) -> CellVariables:
        cell = self.layout.cells[number]
        new = sum(self.x.get((kind, number), 0) for kind in range(len(self._own.kinds)))
        if cell.is_sum:
            return self._sum_cell(cell, new)
        if cell.patterns is not None:
            return self._pattern_cell(number, cell)
        tree = self.tree
        at = self._position[cell.leaves[0]]
        most, held = int(tree.slots[at]), int(tree.held[at])
        fits = allowed(tree.rule(tree.depth), tree.size)
        pods, used = self._unit(values_of(fits, max(most, held)), f"_{number}")
        self.cp.add(pods == new + held)
        return CellVariables(pods, used)

    @property
    def _position(self) -> dict[int, int]:
        """Return the position of each leaf in the tree."""
        if not hasattr(self, "_positions"):
            self._positions = {leaf: at for at, leaf in enumerate(self.tree.leaf.tolist())}
        return self._positions

    def _pattern_cell(self, number: int, cell: Cell) -> CellVariables:
        """A number of leaves for each pattern; with capacities that differ, no more of them take
        so many pods than have so much.
        """
        assert cell.patterns is not None  # noqa: S101
        cp, many = self.cp, len(cell.leaves)
        most = cell.at_least or (many,) * len(cell.patterns)
        taken = [cp.new_int_var(0, each, "") for each in most]
        cp.add(sum(taken) == many)
        for kind in range(len(self.group.kinds)):
            terms = zip(cell.patterns[:, kind].tolist(), taken, strict=True)
            cp.add(sum(pods * y for pods, y in terms if pods) == self.x.get((kind, number), 0))
        held = self.held_on(cell)
        rows = (cell.patterns.sum(axis=1) + held).tolist()
        if cell.at_least:
            scale = self._scale(number)
            for at, (pods, least) in enumerate(zip(rows, cell.at_least, strict=True)):
                if pods:
                    cp.add(sum(taken[at:]) <= least * scale)
        return CellVariables(
            sum(pods * y for pods, y in zip(rows, taken, strict=True) if pods),
            sum(y for pods, y in zip(rows, taken, strict=True) if pods),
            tuple(taken),
        )

    def _scale(self, number: int) -> Any:
        """Return what capacity rows of a cell's leaves are scaled by: the use of the unit above.

        It is the most valuable tightening, except for pack below spread, where it was measured to
        hinder.
        """
        last = self.tree.depth - 1
        above = self.tree.rule(last).kind if last else "pack"
        is_scaled = last > 0 and not (
            self.tree.rule(self.tree.depth).kind == "pack" and above == "spread"
        )
        return self.used[last][self.parents[number]] if is_scaled else 1

    def _sum_cell(self, cell: Cell, new: Any) -> CellVariables:
        """One number for all leaves: what their rule allows of the sum."""
        tree, cp = self.tree, self.cp
        rule = tree.rule(tree.depth)
        capacity = tree.room[tree.depth][[self._position[leaf] for leaf in cell.leaves]]
        most = min(tree.size, int(capacity.sum()))
        values = cp_model.Domain.from_values(range(0, most + 1, max(1, rule.factor)))
        pods = cp.new_int_var_from_domain(values, "")
        cp.add(pods == new)
        used: Any = 0
        if rule.min > 1 or rule.units_per_parent > 0:
            used = cp.new_int_var(0, int((capacity > 0).sum()), "")
            cp.add(pods >= max(1, rule.min) * used)
            cp.add(pods <= int(capacity.max(initial=0)) * used)
        return CellVariables(pods, used)

    def held_on(self, cell: Cell) -> int:
        """Return how many pods are held on each leaf of a cell."""
        return self.group.held[cell.leaves[0]] if self.group.held else 0

    def _add_up(self) -> None:
        """Pods add up from cells to the root; each used parent uses as many units as its rule
        states.
        """
        tree, cp = self.tree, self.cp
        for level in range(tree.depth):
            wanted = tree.rule(level + 1).units_per_parent
            for unit, pods in enumerate(self.pods[level]):
                below, used = self._below(level, unit)
                cp.add(sum(below) == pods)
                if wanted:
                    cp.add(sum(used) == wanted * self.used[level][unit])

    def _below(self, level: int, unit: int) -> tuple[list[Any], list[Any]]:
        """Return the pods and the use of what is directly below a unit."""
        starts = (self.tree if level + 1 < self.tree.depth else self.layout.places).starts[level]
        below = slice(int(starts[unit]), int(starts[unit + 1]))
        if level + 1 < self.tree.depth:
            return self.pods[level + 1][below], self.used[level + 1][below]
        made = [self.cells[number] for number in self.order[below]]
        return [one.pods for one in made], [one.used for one in made]

    def _fit(self, freed: Mapping[tuple[int, int], Any]) -> None:
        """No cell gives more of a resource than is free there, and what evictions add."""
        group, cp = self._own, self.cp
        for at in self.order:
            if self.layout.cells[at].is_sum:
                continue
            here = [
                (kind.request, self.x[number, at])
                for number, kind in enumerate(group.kinds)
                if (number, at) in self.x
            ]
            for resource, free in enumerate(group.free[at]):
                takes = [request[resource] * x for request, x in here if request[resource]]
                if not takes:
                    continue
                more = freed.get((at, resource), 0)
                if free >= 0:
                    cp.add(sum(takes) <= free + more)
                    continue
                # An over-committed leaf limits only pods that come there.
                takers = [x for request, x in here if request[resource]]
                is_used = cp.new_bool_var("")
                cp.add(sum(takers) == 0).only_enforce_if(~is_used)
                cp.add(sum(takes) <= free + more).only_enforce_if(is_used)

    def _keep_apart(self) -> None:
        cp = self.cp
        for rule in self._own.apart:
            for one in rule.sets:
                first = [x for leaf in one if (x := self.x.get((rule.first, leaf))) is not None]
                if rule.first == rule.second:
                    cp.add(sum(first) <= 1)
                    continue
                second = [x for leaf in one if (x := self.x.get((rule.second, leaf))) is not None]
                if first and second:
                    side = cp.new_bool_var("")
                    cp.add(sum(first) == 0).only_enforce_if(side)
                    cp.add(sum(second) == 0).only_enforce_if(~side)

    def _thin_excluded(self) -> None:
        """Of roles that cannot be on a leaf together in such numbers, one at least has fewer
        there.
        """
        here = set(self.order)
        for one in self._own.excluded:
            for leaf in (leaf for leaf in one.leaves if leaf in here):
                wanted = [(number, count) for number, count in enumerate(one.counts) if count]
                if any((number, leaf) not in self.x for number, _ in wanted):
                    continue  # one of them never comes here
                fewer = []
                for number, count in wanted:
                    fewer.append(self.cp.new_bool_var(""))
                    self.cp.add(self.x[number, leaf] <= count - 1).only_enforce_if(fewer[-1])
                self.cp.add_bool_or(fewer)

    def _domains(self, leaving: Mapping[tuple[int, int], Any]) -> None:
        sets_of = cells.memberships(self.group)
        total = sum(self.group.held)
        for number, rule in enumerate(self.group.domains):
            pods: list[Any] = [0] * len(rule.sets)
            for cell, made in zip(self.layout.cells, self.cells, strict=True):
                for which, each in sets_of.get(cell.leaves[0], ()):
                    if which == number:
                        pods[each] = pods[each] + made.pods
            held = [sum(self.group.held[at] for at in one) if total else 0 for one in rule.sets]
            gone = {
                at: expression for (which, at), expression in leaving.items() if which == number
            }
            more = self.pods[0][0] - total
            DomainRows(self.cp, rule, pods, held, gone, more=more, size=self.tree.size)

    def _order_like_leaves(self) -> None:
        """Of leaves that nothing tells apart, let the first hold the most."""
        group, tree = self.group, self.tree
        sets_of: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for number, rule in enumerate(group.apart):
            for at, leaves in enumerate(rule.sets):
                for leaf in leaves if len(leaves) > 1 else ():
                    sets_of[leaf].append((number, at))
        for number, combination in enumerate(group.excluded):
            for leaf in combination.leaves:
                sets_of[leaf].append((-1, number))
        talks = group.costs.areas or (0,) * len(group.paths)
        last: dict[Any, int] = {}
        for position, leaf in enumerate(self.order):
            slots = tuple(kind.slots[leaf] for kind in group.kinds)
            alone = tuple(any(leaves == (leaf,) for leaves in rule.sets) for rule in group.apart)
            held = int(tree.held[position])
            stands = (talks[leaf], *group.stand(leaf))
            sets = tuple(sets_of[leaf])
            same = (self.parents[leaf], group.free[leaf], slots, held, sets, alone, stands)
            if same in last:
                self.cp.add(self.cells[last[same]].pods >= self.cells[leaf].pods)
            last[same] = leaf
