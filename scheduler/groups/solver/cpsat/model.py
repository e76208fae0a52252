"""The CP-SAT model of a group: the variables of a layout and the rows of all rules.

Rules of levels use only sums of pods by unit, for one role and for several. Among identical leaves
the first takes the most pods, which excludes placements that differ only in names. Loaded only in
the solver process.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from ortools.sat.python import cp_model

from scheduler.groups.problem.instance import DomainRule
from scheduler.groups.solver.cpsat import cells
from scheduler.groups.solver.cpsat.cells import Layout
from scheduler.groups.solver.cpsat.domains import DomainRows, skew_rows
from scheduler.groups.solver.cpsat.patterns import LeafPatterns
from scheduler.groups.solver.cpsat.variables import GroupVariables


class GroupModel(GroupVariables):
    """The model of one group over a layout.

    `freed` has what evictions add to a (cell, resource), `leaving` how many existing pods they
    remove from a (rule, set) of the rules over sets of leaves; both are expressions over variables
    of `cp`.
    """

    def __init__(
        self,
        layout: Layout,
        cp: cp_model.CpModel | None = None,
        freed: Mapping[tuple[int, int], Any] | None = None,
        leaving: Mapping[tuple[int, int], Any] | None = None,
    ) -> None:
        super().__init__(layout, cp)
        self.patterns = LeafPatterns(self)
        self._add_up()
        self._fit(freed or {})
        self._keep_apart()
        self._thin_excluded()
        self._domains(leaving or {})
        if layout.has_patterns:
            self.patterns.limit()
        elif freed is None:
            self._order_like_leaves()

    def _add_up(self) -> None:
        """Sum pods from the cells to the root; each used parent has as many used units as its rule
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
        """Return the pods and the used flags of the children of a unit."""
        starts = (self.tree if level + 1 < self.tree.depth else self.layout.places).starts[level]
        below = slice(int(starts[unit]), int(starts[unit + 1]))
        if level + 1 < self.tree.depth:
            return self.pods[level + 1][below], self.used[level + 1][below]
        made = [self.cells[number] for number in self.order[below]]
        return [one.pods for one in made], [one.used for one in made]

    def _fit(self, freed: Mapping[tuple[int, int], Any]) -> None:
        """Limit the use of each resource of a cell to what is free plus what evictions free."""
        group, cp = self._own, self.cp
        for at in self.order:
            if self.layout.cells[at].is_sum:
                continue
            here = [
                (role.request, self.x[number, at])
                for number, role in enumerate(group.roles)
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
                # A leaf with a negative free amount rejects new pods; without new pods it is valid.
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
        """Exclude the combinations that do not fit together: one role has fewer pods there."""
        here = set(self.order)
        for one in self._own.excluded:
            for leaf in (leaf for leaf in one.leaves if leaf in here):
                wanted = [(number, count) for number, count in enumerate(one.counts) if count]
                if any((number, leaf) not in self.x for number, _ in wanted):
                    continue  # the role has fewer slots here than the combination
                fewer = []
                for number, count in wanted:
                    fewer.append(self.cp.new_bool_var(""))
                    self.cp.add(self.x[number, leaf] <= count - 1).only_enforce_if(fewer[-1])
                self.cp.add_bool_or(fewer)

    def _domains(self, leaving: Mapping[tuple[int, int], Any]) -> None:
        sets_of = cells.memberships(self.group)
        total = sum(self.group.fixed)
        for number, rule in enumerate(self.group.domains):
            if rule.asking:
                self._spread_roles(number, rule, sets_of, leaving)
                continue
            pods: list[Any] = [0] * len(rule.sets)
            for cell, made in zip(self.layout.cells, self.cells, strict=True):
                for which, each in sets_of.get(cell.leaves[0], ()):
                    if which == number:
                        pods[each] = pods[each] + made.pods
            fixed = [sum(self.group.fixed[at] for at in one) if total else 0 for one in rule.sets]
            gone = {
                at: expression for (which, at), expression in leaving.items() if which == number
            }
            more = self.pods[0][0] - total
            DomainRows(self.cp, rule, pods, fixed, gone, more=more, size=self.tree.size)

    def _spread_roles(
        self,
        number: int,
        rule: DomainRule,
        sets_of: Mapping[int, tuple[tuple[int, int], ...]],
        leaving: Mapping[tuple[int, int], Any],
    ) -> None:
        """Limit the skew of the counted roles in each set, where pods of asking roles are
        placed.
        """
        after: list[Any] = [
            old - leaving.get((number, at), 0) for at, old in enumerate(rule.existing)
        ]
        arriving: list[Any] = [0] * len(rule.sets)
        for at, cell in enumerate(self.layout.cells):
            own = [each for which, each in sets_of.get(cell.leaves[0], ()) if which == number]
            asking = sum(self.x.get((role, at), 0) for role in rule.asking)
            for each in own:
                after[each] += sum(self.x.get((role, at), 0) for role in rule.counted)
                arriving[each] += asking
            if not own:
                self.cp.add(asking <= 0)
        size = self.group.wanted
        skew_rows(self.cp, rule, after, arriving, size)

    def _order_like_leaves(self) -> None:
        """Break the symmetry of identical leaves: order them by descending number of pods."""
        group, tree = self.group, self.tree
        sets_of: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for number, rule in enumerate(group.apart):
            for at, leaves in enumerate(rule.sets):
                for leaf in leaves if len(leaves) > 1 else ():
                    sets_of[leaf].append((number, at))
        for number, combination in enumerate(group.excluded):
            for leaf in combination.leaves:
                sets_of[leaf].append((-1, number))
        for leaf, memberships in cells.memberships(group).items():
            sets_of[leaf] += [(-2 - number, at) for number, at in memberships]
        areas = group.costs.areas or (0,) * len(group.paths)
        last: dict[Any, int] = {}
        for position, leaf in enumerate(self.order):
            slots = tuple(role.slots[leaf] for role in group.roles)
            alone = tuple(any(leaves == (leaf,) for leaves in rule.sets) for rule in group.apart)
            fixed = int(tree.fixed[position])
            key_parts = (areas[leaf], *group.bound_counts(leaf))
            sets = tuple(sets_of[leaf])
            same = (self.parents[leaf], group.free[leaf], slots, fixed, sets, alone, key_parts)
            if same in last:
                self.cp.add(self.cells[last[same]].pods >= self.cells[leaf].pods)
            last[same] = leaf
