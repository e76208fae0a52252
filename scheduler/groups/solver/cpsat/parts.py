"""The parts of a group in the CP-SAT model: how many copies of each part are in each unit.

One variable per part and unit of its level; copies are not distinguished. The rows require enough
pods and parts for all copies; scheduler.groups.solver.roles.subgroups assigns them to single copies
afterwards. Loaded only in the solver process.
"""

import itertools
from typing import Any

import numpy as np

from scheduler.groups.problem import parts
from scheduler.groups.solver.cpsat.leaves import LeafModel, LeafVariables


class PartModel(LeafModel):
    """The variables of the parts of a group, over a model's x[role, leaf]."""

    def __init__(self, variables: LeafVariables) -> None:
        super().__init__(variables)
        self._inside = parts.inside(self._group.parts)
        self._depths = parts.depths(self._group.parts)
        self._totals = parts.totals(self._group.parts)
        self._has_fixed = parts.has_fixed(self._group.parts)
        self.many = [self._numbers(number) for number in range(len(self._group.parts))]
        if self._group.parts:
            self._cp.add(sum(self.many[0]) == 1)
        for number in range(len(self._group.parts)):
            if self._inside[number]:
                self._around(number)
            else:
                self._own(number)
                self._keep_apart(number)

    def on_leaves(self, number: int) -> dict[int, Any]:
        """Return for each leaf the number of copies of a part in the unit of the leaf."""
        units = self._leaves(self._depths[number])
        together = zip(units, self.many[number], strict=True)
        return {leaf: many for leaves, many in together for leaf in leaves}

    def _numbers(self, number: int) -> list[Any]:
        """Return the number of copies of a part in each unit; 1 where its bound pods are."""
        units = self._leaves(self._depths[number])
        if not self._has_fixed[number]:
            most = self._totals[number]
            return [self._cp.new_int_var(0, most, f"p{number}_{at}") for at in range(len(units))]
        holding = [any(self._is_fixed(number, leaf) for leaf in leaves) for leaves in units]
        if sum(holding) != 1:
            self._cp.add_bool_or([])  # bound pods in several units: infeasible
        return [self._cp.new_constant(int(here)) for here in holding]

    def _is_fixed(self, number: int, leaf: int) -> bool:
        one = self._group.parts[number]
        if one.fixed and one.fixed[leaf]:
            return True
        return any(self._is_fixed(at, leaf) for at in self._inside[number])

    def _own(self, number: int) -> None:
        """Add rows: at most `sizes` pods of each role per copy, at least the minimum of all."""
        one, cp = self._group.parts[number], self._cp
        for leaves, many in zip(self._leaves(self._depths[number]), self.many[number], strict=True):
            pods = [self._pods(role, leaves) for role in one.roles]
            for each, size in zip(pods, one.sizes, strict=True):
                cp.add(each <= size * many)
            if not self._has_fixed[number]:
                cp.add(sum(pods) >= one.minimum * many)
                continue
            missing = one.minimum - sum(one.fixed)
            if missing > 1 and pods:
                grows = cp.new_bool_var("")
                cp.add(sum(pods) >= missing).only_enforce_if(grows)
                cp.add(sum(pods) == 0).only_enforce_if(~grows)

    def _keep_apart(self, number: int) -> None:
        """Allow at most one pod of each copy on a unit: no more pods there than copies around
        it.
        """
        one = self._group.parts[number]
        if one.apart < 0:
            return
        many = self.on_leaves(number)
        for leaves in self._leaves(max(one.apart + 1, self._depths[number])):
            here = [self._x.get((role, leaf), 0) for role in one.roles for leaf in leaves]
            fixed = sum(one.fixed[leaf] for leaf in leaves) if one.fixed else 0
            self._cp.add(sum(here) + fixed <= many[leaves[0]])

    def _around(self, number: int) -> None:
        """Add rows: at most `count` of each inner part per copy, at least the minimum of all."""
        below = {at: self._by_unit(at, self._depths[number]) for at in self._inside[number]}
        needed = 1 if self._has_fixed[number] else self._group.parts[number].minimum
        for unit, many in enumerate(self.many[number]):
            for at, units in below.items():
                self._cp.add(units[unit] <= self._group.parts[at].count * many)
            self._cp.add(sum(units[unit] for units in below.values()) >= needed * many)

    def _by_unit(self, number: int, depth: int) -> list[Any]:
        """Return the number of copies of a part in each unit of a level at or above its own."""
        bounds = np.arange(len(self.many[number]) + 1)
        for each in range(self._depths[number] - 1, depth - 1, -1):
            bounds = bounds[self._tree.starts[each]]
        return [
            sum(self.many[number][start:end]) for start, end in itertools.pairwise(bounds.tolist())
        ]

    def _pods(self, role: int, leaves: list[int]) -> Any:
        """Return a variable for the pods of a role on these leaves."""
        here = [x for leaf in leaves if (x := self._x.get((role, leaf))) is not None]
        if not here:
            return self._cp.new_constant(0)
        pods = self._cp.new_int_var(0, self._group.roles[role].count, "")
        self._cp.add(pods == sum(here))
        return pods
