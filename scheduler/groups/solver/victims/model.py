"""The CP-SAT model of one stage of the search for victims: which candidates are evicted, over the
model of the group that they make way for.

The same for groups of one role and of several; scheduler.groups.solver.victims.tightening adds what
bounds a group of one role. Loaded only where solving happens.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from ortools.sat.python import cp_model

from scheduler.groups.problem.instance import DomainRule, SolveLimits
from scheduler.groups.solver.cpsat.cells import Layout
from scheduler.groups.solver.cpsat.model import GroupModel
from scheduler.groups.solver.cpsat.run import solver_for
from scheduler.groups.solver.victims.freed import Choice, EvictionProblem


@dataclass(frozen=True)
class StageTask:
    """One stage: candidates that are decided, those assumed evicted, values that must be kept.

    `weights` is what is minimised, by candidate (None: violated budgets); `frozen` are
    (weights, value) of earlier stages, `violations` the most that may be violated (None: any).
    With `counts_ended` elastic groups count that lose more than their surplus.
    """

    decided: tuple[int, ...]
    gone: tuple[int, ...]
    weights: dict[int, int] | None
    frozen: tuple[tuple[dict[int, int], int], ...] = ()
    violations: int | None = None
    counts_ended: bool = False


@dataclass(frozen=True)
class StageDecision:
    """What a stage found: the evictions among `decided` (None: nothing yet), and a lower limit."""

    chosen: dict[int, int] | None
    bound: int
    is_infeasible: bool = False


class EvictionModel:
    """The model of one stage over a layout; what the candidates assumed evicted free is free in
    it already.

    `cp`, `choice` (how many evictions of a candidate are made), `group` and `goal` may be used to
    add rows.
    """

    def __init__(
        self,
        problem: EvictionProblem,
        task: StageTask,
        layout: Layout,
        domains: tuple[DomainRule, ...] = (),
    ) -> None:
        self._problem, self.task = problem, task
        self._candidates = problem.candidates
        self.cp = cp_model.CpModel()
        self.choice = {
            index: self.cp.new_int_var(0, self._candidates[index].count, f"z{index}")
            for index in task.decided
        }
        leaving = self._leaving(domains)
        self.group = GroupModel(layout, self.cp, self._freed(layout), leaving)
        self._ended = self._elastic()
        self.goal = self._new_goal()
        self._keep()

    def solve(self, limits: SolveLimits, seconds: float, hint: Choice | None) -> StageDecision:
        """Minimise the stage."""
        for index, variable in self.choice.items():
            if hint is not None:
                self.cp.add_hint(variable, hint.get(index, 0))
        solver = solver_for(limits, seconds)
        # What goes together on a leaf bounds well only as linear rows: proofs where there were
        # none.
        solver.parameters.linearization_level = 2
        status = solver.solve(self.cp)
        if status == cp_model.INFEASIBLE:
            return StageDecision(None, 0, is_infeasible=True)
        bound = max(0, int(np.ceil(solver.best_objective_bound - 1e-6)))
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return StageDecision(None, bound)
        chosen = {index: solver.value(variable) for index, variable in self.choice.items()}
        return StageDecision({index: n for index, n in chosen.items() if n}, bound)

    def _leaving(self, domains: tuple[DomainRule, ...]) -> dict[tuple[int, int], Any]:
        """Return how many existing pods leave each set of each rule between members."""
        found: dict[tuple[int, int], Any] = {}
        for rule, one_rule in enumerate(domains):
            for index in (*self.task.decided, *self.task.gone):
                one = self._candidates[index]
                times = self.choice.get(index, one.count)
                for number, pods in one.counted.get(one_rule.name, {}).items():
                    found[rule, number] = found.get((rule, number), 0) + pods * times
        return found

    def _freed(self, layout: Layout) -> Mapping[tuple[int, int], Any]:
        """Return what evictions free of a resource on each single leaf."""
        number_of = {
            cell.leaves[0]: number
            for number, cell in enumerate(layout.cells)
            if cell.patterns is None and not cell.is_sum
        }
        freed: dict[tuple[int, int], list[Any]] = defaultdict(list)
        for index, variable in self.choice.items():
            for leaf, amounts in self._candidates[index].freed.items():
                for resource, amount in enumerate(amounts):
                    if leaf in number_of:
                        freed[number_of[leaf], resource].append(amount * variable)
        return {key: sum(terms) for key, terms in freed.items()}

    def _elastic(self) -> list[Any]:
        """Let elastic groups lose their surplus, or all; return which of them lose all.

        Of a group that is assumed evicted nothing is decided here.
        """
        found = []
        for group in self._problem.elastic:
            if not all(index in self.choice for index in group.candidates):
                continue
            counts = [self._candidates[index].count for index in group.candidates]
            is_ended = self.cp.new_bool_var("")
            going = sum(self.choice[index] for index in group.candidates)
            self.cp.add(going <= group.surplus + (sum(counts) - group.surplus) * is_ended)
            for index, count in zip(group.candidates, counts, strict=True):
                self.cp.add(self.choice[index] >= count * is_ended)
            found.append(is_ended)
        return found

    def _new_goal(self) -> Any:
        """Return the variable that is minimised."""
        problem, task = self._problem, self.task
        if task.weights is None:
            total = self._violations()
            most = sum(one.count * sum(one.budgets.values()) for one in problem.candidates)
        else:
            ended = self._ended if task.counts_ended else []
            total = sum(weight * self.choice[index] for index, weight in task.weights.items())
            total += sum(ended)
            most = len(ended) + sum(
                weight * self._candidates[index].count for index, weight in task.weights.items()
            )
        goal = self.cp.new_int_var(0, most, "goal")
        self.cp.add(goal == total)
        self.cp.minimize(goal)
        return goal

    def _keep(self) -> None:
        """Keep what earlier stages have decided."""
        task = self.task
        if task.violations is not None and task.weights is not None:
            self.cp.add(self._violations() <= task.violations)
        for weights, value in task.frozen:
            known = sum(weight * self.choice[index] for index, weight in weights.items())
            self.cp.add(known <= value)

    def _violations(self) -> Any:
        """Return the pods beyond what budgets allow, as an expression."""
        over = []
        for number, budget in enumerate(self._problem.budgets):
            gone = [
                (self._candidates[index].budgets[number], variable)
                for index, variable in self.choice.items()
                if number in self._candidates[index].budgets
            ]
            if gone:
                most = sum(
                    self._candidates[i].budgets.get(number, 0) * self._candidates[i].count
                    for i in self.task.decided
                )
                violated = self.cp.new_int_var(0, most, f"v{number}")
                self.cp.add(violated >= sum(n * each for n, each in gone) - budget.allowed)
                over.append(violated)
        return sum(over)
