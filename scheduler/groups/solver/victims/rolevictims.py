"""Who has to go so that a group of unlike members fits: the least harm, stage by stage, by CP-SAT.

Budgets that are violated come first, then evicted pods from the highest priority down, then how
many are evicted at once. Loaded only where solving happens.
"""

from collections import defaultdict
from typing import Any

import msgspec
import numpy as np
from ortools.sat.python import cp_model

from scheduler.base.clock import perf_s
from scheduler.groups.problem.instance import SolveLimits
from scheduler.groups.problem.roles import GroupPreemption
from scheduler.groups.solver.cpsat import cells
from scheduler.groups.solver.cpsat.model import GroupModel
from scheduler.groups.solver.cpsat.run import solver_for
from scheduler.groups.solver.tree import Ints

LARGEST_COUNT = 1 << 30


class Harm(msgspec.Struct, frozen=True):
    """What is done by the best way that is known, none when `harm` is empty, and whether it is
    proven.

    `counts` are the pods by kind and leaf, those of the leaves that were asked about.
    """

    harm: tuple[int, ...]
    counts: Ints
    evicted: dict[int, int]
    is_proven: bool


def least_harm(problem: GroupPreemption, leaves: Ints, limits: SolveLimits, seconds: float) -> Harm:
    """Return the least harm that lets the minimum of a group in on these leaves."""
    model = _Victims(problem, leaves.tolist())
    until = perf_s() + seconds
    found = Harm((), np.zeros((0, 0), dtype=np.int64), {}, is_proven=True)
    for stage in model.harms():
        model.placed.cp.minimize(stage)
        solver = solver_for(limits, min(limits.stage_s, until - perf_s()))
        status = solver.solve(model.placed.cp)
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            is_no = status == cp_model.INFEASIBLE and not found.harm
            return msgspec.structs.replace(found, is_proven=is_no)
        value = round(solver.objective_value)
        gone = ((index, solver.value(one)) for index, one in model.gone.items())
        found = Harm(
            (*found.harm, value),
            model.placed.counts(solver),
            {index: count for index, count in gone if count},
            found.is_proven and status == cp_model.OPTIMAL,
        )
        model.placed.cp.add(stage <= value)
    return found


class _Victims:
    """The group's model on some leaves, and how many of each candidate leave them."""

    def __init__(self, problem: GroupPreemption, leaves: list[int]) -> None:
        self._problem = problem
        self._place = {leaf: at for at, leaf in enumerate(leaves)}
        self.gone: dict[int, Any] = {}
        cp = cp_model.CpModel()
        freed = self._freed(cp)
        layout = cells.single_leaves(problem.group.part(leaves), is_emptied=True)
        self.placed = GroupModel(layout, cp, freed)

    def harms(self) -> list[Any]:
        """Return what is to be kept small, the worst first."""
        problem, cp = self._problem, self.placed.cp
        over = []
        for number, budget in enumerate(problem.budgets):
            gone = [
                problem.candidates[index].budgets[number] * variable
                for index, variable in self.gone.items()
                if number in problem.candidates[index].budgets
            ]
            if gone:
                violated = cp.new_int_var(0, LARGEST_COUNT, f"v{number}")
                cp.add(violated >= sum(gone) - budget.allowed)
                over.append(violated)
        if problem.forbid:
            for violated in over:
                cp.add(violated == 0)
        # The same stages wherever the group is tried: what is done there is compared.
        nothing = cp.new_constant(0)
        stages: list[Any] = [sum(over, nothing)] if problem.budgets else []
        by_priority: dict[int, list[Any]] = {one.priority: [nothing] for one in problem.candidates}
        for index, variable in self.gone.items():
            one = problem.candidates[index]
            by_priority[one.priority].append(one.pods * variable)
        stages += [sum(by_priority[priority]) for priority in sorted(by_priority, reverse=True)]
        elastic = {index for group in problem.elastic for index in group.candidates}
        hit = [variable for index, variable in self.gone.items() if index not in elastic]
        hit += self._ended()
        stages.append(sum(hit) if hit else cp.new_constant(0))
        return stages

    def _ended(self) -> list[Any]:
        """Let elastic groups lose what they have to spare, or all; return who of them loses all."""
        cp, found = self.placed.cp, []
        for group in self._problem.elastic:
            going = [self.gone[index] for index in group.candidates if index in self.gone]
            if not going:
                continue
            counts = [self._problem.candidates[index].count for index in group.candidates]
            is_ended = cp.new_bool_var("")
            cp.add(sum(going) <= group.spare + (sum(counts) - group.spare) * is_ended)
            for index, count in zip(group.candidates, counts, strict=True):
                cp.add(self.gone[index] >= count * is_ended)
            found.append(is_ended)
        return found

    def _freed(self, cp: cp_model.CpModel) -> dict[tuple[int, int], Any]:
        """Make the variables of the candidates; return what they free, by leaf and resource."""
        freed: dict[tuple[int, int], list[Any]] = defaultdict(list)
        useful = {
            index
            for index, one in enumerate(self._problem.candidates)
            if not self._place.keys().isdisjoint(one.freed)
        }
        for group in self._problem.elastic:  # who goes with others frees nothing here
            if not useful.isdisjoint(group.candidates):
                useful.update(group.candidates)
        for index, one in enumerate(self._problem.candidates):
            here = {leaf: amounts for leaf, amounts in one.freed.items() if leaf in self._place}
            if index not in useful:
                continue
            self.gone[index] = cp.new_int_var(0, one.count, f"e{index}")
            for leaf, amounts in here.items():
                for resource, amount in enumerate(amounts):
                    freed[self._place[leaf], resource].append(amount * self.gone[index])
        return {key: sum(terms) for key, terms in freed.items()}
