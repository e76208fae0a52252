"""The parts of a group in the CP-SAT model: how many of each are in each unit.

One number for each part and each unit of its level: like parts are not named. That there are pods,
and parts, enough for each of them says nothing of who has which, and need not:
scheduler.groups.solver.roles.subgroups deals them out. Loaded only where solving happens.
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
        """Return for each leaf the number of pieces of a part in the unit around it."""
        units = self._leaves(self._depths[number])
        together = zip(units, self.many[number], strict=True)
        return {leaf: many for leaves, many in together for leaf in leaves}

    def _numbers(self, number: int) -> list[Any]:
        """Return the number of pieces of a part in each unit of its level: 1 where its pods are
        bound.
        """
        units = self._leaves(self._depths[number])
        if not self._has_fixed[number]:
            most = self._totals[number]
            return [self._cp.new_int_var(0, most, f"p{number}_{at}") for at in range(len(units))]
        holding = [any(self._is_fixed(number, leaf) for leaf in leaves) for leaves in units]
        if sum(holding) != 1:
            self._cp.add_bool_or([])  # it stands in several units: nothing is right
        return [self._cp.new_constant(int(here)) for here in holding]

    def _is_fixed(self, number: int, leaf: int) -> bool:
        one = self._group.parts[number]
        if one.fixed and one.fixed[leaf]:
            return True
        return any(self._is_fixed(at, leaf) for at in self._inside[number])

    def _own(self, number: int) -> None:
        """Pods of each role for at most so many parts, of all roles for at least so many."""
        one, cp = self._group.parts[number], self._cp
        needed = max(1, one.minimum)
        for leaves, many in zip(self._leaves(self._depths[number]), self.many[number], strict=True):
            pods = [self._pods(role, leaves) for role in one.roles]
            for each, size in zip(pods, one.sizes, strict=True):
                cp.add(each <= size * many)
            if not self._has_fixed[number]:
                cp.add(sum(pods) >= needed * many)
                continue
            missing = needed - sum(one.fixed)
            if missing > 1 and pods:
                grows = cp.new_bool_var("")
                cp.add(sum(pods) >= missing).only_enforce_if(grows)
                cp.add(sum(pods) == 0).only_enforce_if(~grows)

    def _keep_apart(self, number: int) -> None:
        """Allow one pod of each part on a unit: no more pods than equal parts use the unit."""
        one = self._group.parts[number]
        if one.apart < 0:
            return
        many = self.on_leaves(number)
        for leaves in self._leaves(max(one.apart + 1, self._depths[number])):
            here = [self._x.get((role, leaf), 0) for role in one.roles for leaf in leaves]
            fixed = sum(one.fixed[leaf] for leaf in leaves) if one.fixed else 0
            self._cp.add(sum(here) + fixed <= many[leaves[0]])

    def _around(self, number: int) -> None:
        """Parts of each sort for at most so many around them, of all for at least so many."""
        below = {at: self._by_unit(at, self._depths[number]) for at in self._inside[number]}
        needed = 1 if self._has_fixed[number] else max(1, self._group.parts[number].minimum)
        for unit, many in enumerate(self.many[number]):
            for at, units in below.items():
                self._cp.add(units[unit] <= self._group.parts[at].count * many)
            self._cp.add(sum(units[unit] for units in below.values()) >= needed * many)

    def _by_unit(self, number: int, depth: int) -> list[Any]:
        """Return the number of pieces of a part in each unit of a level at or above its own."""
        bounds = np.arange(len(self.many[number]) + 1)
        for each in range(self._depths[number] - 1, depth - 1, -1):
            bounds = bounds[self._tree.starts[each]]
        return [
            sum(self.many[number][start:end]) for start, end in itertools.pairwise(bounds.tolist())
        ]

    def _pods(self, role: int, leaves: list[int]) -> Any:
        """Return a variable for the pods of a role on some leaves."""
        here = [x for leaf in leaves if (x := self._x.get((role, leaf))) is not None]
        if not here:
            return self._cp.new_constant(0)
        pods = self._cp.new_int_var(0, self._group.roles[role].count, "")
        self._cp.add(pods == sum(here))
        return pods
