"""The CP-SAT model of one stage of the victim search: evictions plus the group's placement.

The same model for groups of one role and of several; scheduler.groups.solver.victims.tightening
adds bounds for one role. Loaded only in the solver process.
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
    """One stage: `decided` candidates are variables, `gone` ones are assumed evicted.

    `weights` is the objective by candidate (None: violated budgets). `frozen` has (weights, value)
    of earlier stages, whose values must not rise; `violations` limits the violations (None: no
    limit). With `counts_ended` the elastic groups that lose more than their surplus are added to
    the objective.
    """

    decided: tuple[int, ...]
    gone: tuple[int, ...]
    weights: dict[int, int] | None
    frozen: tuple[tuple[dict[int, int], int], ...] = ()
    violations: int | None = None
    counts_ended: bool = False


@dataclass(frozen=True)
class StageDecision:
    """The result of a stage: evictions among `decided` (None: none found), and a lower bound."""

    chosen: dict[int, int] | None
    bound: int
    is_infeasible: bool = False


class EvictionModel:
    """The model of one stage over a layout, whose free amounts include those of `gone` candidates.

    Callers may add rows over `cp`, `choice` (evictions per candidate), `group` and `goal`.
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
        # Full linearization bounds joint evictions of a leaf; without it stages stay unproven.
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
        """Return the number of existing pods that leave each (rule, set) of the rules over sets."""
        found: dict[tuple[int, int], Any] = {}
        for rule, one_rule in enumerate(domains):
            for index in (*self.task.decided, *self.task.gone):
                one = self._candidates[index]
                times = self.choice.get(index, one.count)
                for number, pods in one.counted.get(one_rule.name, {}).items():
                    found[rule, number] = found.get((rule, number), 0) + pods * times
        return found

    def _freed(self, layout: Layout) -> Mapping[tuple[int, int], Any]:
        """Return what evictions free of each resource on each single leaf, as expressions."""
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
        """Let each elastic group lose up to its surplus or all pods; return the flags of losing
        all.

        Groups assumed evicted have no variables here.
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
        """Add the values of earlier stages as upper limits."""
        task = self.task
        if task.violations is not None and task.weights is not None:
            self.cp.add(self._violations() <= task.violations)
        for weights, value in task.frozen:
            known = sum(weight * self.choice[index] for index, weight in weights.items())
            self.cp.add(known <= value)

    def _violations(self) -> Any:
        """Return the number of evictions beyond what budgets allow, as an expression."""
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
