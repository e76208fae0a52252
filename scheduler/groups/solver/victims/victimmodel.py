"""The CP-SAT model of one stage of the search for victims.

A boolean for each candidate; leaves that candidates stand on get a number of their own with a row
per resource, all others stay in histograms. Implied rows say how much the evictions have to yield:
without them the solver proves little. Loaded only where solving happens.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from ortools.sat.python import cp_model

from scheduler.groups.problem.instance import PreemptionInstance, SolveLimits
from scheduler.groups.solver.costs import NEVER
from scheduler.groups.solver.cpsat import cells
from scheduler.groups.solver.cpsat.cells import Layout
from scheduler.groups.solver.cpsat.model import GroupModel
from scheduler.groups.solver.cpsat.run import solver_for
from scheduler.groups.solver.tree import Bools, Tree
from scheduler.groups.solver.victims.covers import Covers
from scheduler.groups.solver.victims.freed import Choice, EvictionRoom
from scheduler.groups.solver.victims.yields import Group, Term, Yields


@dataclass(frozen=True)
class StageTask:
    """One stage: candidates that are decided, those imagined gone, values that must be kept.

    `weights` is what is minimised, by candidate (None: violated budgets); `frozen` are
    (weights, value) of earlier stages, `violations` the most that may be violated (None: any).
    With `counts_ended` elastic groups count that lose more than they have to spare.
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


class Model:
    """The model of one stage; `alone` are leaves with variables of their own (None: no sums at
    all).
    """

    def __init__(
        self,
        room: EvictionRoom,
        task: StageTask,
        tree: Tree,
        yields: Yields,
        alone: set[int] | None,
    ) -> None:
        self._room, self._task, self._tree, self._yields = room, task, tree, yields
        self._candidates = room.problem.candidates
        touched = {leaf for leaf, terms in yields.terms.items() if terms}
        self._alone = touched if alone is None else alone
        self._rows: list[int] = tree.leaf.tolist()
        is_alone = np.array([leaf in self._alone for leaf in self._rows], dtype=np.bool_)
        self._cp = cp_model.CpModel()
        self._together: dict[tuple[int, ...], Any] = {}
        self._choice = {
            index: self._cp.new_int_var(0, self._candidates[index].count, f"z{index}")
            for index in task.decided
        }
        sums = () if alone is None else _by_unit(tree, ~is_alone)
        layout = cells.mixed(room.group(yields.base), tree, is_alone, sums)
        freed, leaving = self._freed(layout), self._leaving()
        self._model = GroupModel(layout, self._cp, freed, leaving)
        self._limit_sums(layout)
        self._ended = self._elastic()
        self._goal = self._new_goal()
        self._implied()
        self._keep()

    def solve(self, limits: SolveLimits, seconds: float, hint: Choice | None) -> StageDecision:
        """Minimise the stage."""
        for index, variable in self._choice.items():
            if hint is not None:
                self._cp.add_hint(variable, hint.get(index, 0))
        solver = solver_for(limits, seconds)
        # What goes together on a leaf bounds well only as linear rows: proofs where there were
        # none.
        solver.parameters.linearization_level = 2
        status = solver.solve(self._cp)
        if status == cp_model.INFEASIBLE:
            return StageDecision(None, 0, is_infeasible=True)
        bound = max(0, int(np.ceil(solver.best_objective_bound - 1e-6)))
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return StageDecision(None, bound)
        chosen = {index: solver.value(variable) for index, variable in self._choice.items()}
        return StageDecision({index: n for index, n in chosen.items() if n}, bound)

    def _leaving(self) -> dict[tuple[int, int], Any]:
        """Return how many existing pods leave each set of each rule between members."""
        found: dict[tuple[int, int], Any] = {}
        for rule, domains in enumerate(self._room.problem.instance.domains):
            for index in (*self._task.decided, *self._task.gone):
                one = self._candidates[index]
                times = self._choice.get(index, one.count)
                for number, pods in one.counted.get(domains.name, {}).items():
                    found[rule, number] = found.get((rule, number), 0) + pods * times
        return found

    def _elastic(self) -> list[Any]:
        """Let elastic groups lose what they have to spare, or all; return who of them loses all.

        Of a group that is imagined gone nothing is decided here.
        """
        found = []
        for group in self._room.problem.elastic:
            if not all(index in self._choice for index in group.candidates):
                continue
            counts = [self._candidates[index].count for index in group.candidates]
            is_ended = self._cp.new_bool_var("")
            going = sum(self._choice[index] for index in group.candidates)
            self._cp.add(going <= group.spare + (sum(counts) - group.spare) * is_ended)
            for index, count in zip(group.candidates, counts, strict=True):
                self._cp.add(self._choice[index] >= count * is_ended)
            found.append(is_ended)
        return found

    def _term(self, group: tuple[int, ...]) -> Any:
        """Return the variable that says that all of a group of candidates go."""
        if len(group) == 1:
            return self._choice[group[0]]
        if group not in self._together:
            both = self._cp.new_bool_var("")
            for index in group:
                self._cp.add(both <= self._choice[index])
            self._cp.add(both >= sum(self._choice[index] for index in group) - len(group) + 1)
            self._together[group] = both
        return self._together[group]

    def _gained(self, leaves: Iterable[int], terms: dict[int, list[Term]]) -> dict[Group, int]:
        """Return the room that evictions make on some leaves, by who has to go for it."""
        gains: dict[Group, int] = defaultdict(int)
        for leaf in leaves:
            for gain, group in terms[leaf]:
                gains[group] += gain
        return gains

    def _sum(self, gains: dict[Group, int], most: int) -> Any:
        """Return gains as an expression; none has to count for more than `most`."""
        return sum(min(most, gain) * self._term(group) for group, gain in gains.items() if gain)

    def _limit_sums(self, layout: Layout) -> None:
        """The sums of leaves are at most what is free there and what evictions yield."""
        tree, last = self._tree, self._tree.depth - 1
        for number, cell in enumerate(layout.cells):
            if not cell.is_sum:
                continue
            now = sum(self._yields.now[leaf] for leaf in cell.leaves)
            in_use = self._model.used[last][self._model.parents[number]]
            gained = self._sum(self._gained(cell.leaves, self._yields.terms), tree.size)
            self._cp.add(self._model.cells[number].pods <= now * in_use + gained)

    def _freed(self, layout: Layout) -> dict[tuple[int, int], Any]:
        """Return what evictions free of a resource on each leaf of its own."""
        number_of = {
            cell.leaves[0]: number
            for number, cell in enumerate(layout.cells)
            if cell.patterns is None and not cell.is_sum
        }
        freed: dict[tuple[int, int], list[Any]] = defaultdict(list)
        for index, variable in self._choice.items():
            for leaf, amounts in self._candidates[index].freed.items():
                for resource, amount in enumerate(amounts):
                    if leaf in number_of:
                        freed[number_of[leaf], resource].append(amount * variable)
        return {key: sum(terms) for key, terms in freed.items()}

    def _implied(self) -> None:
        """Each unit's pods fit into what is free below it and what the evictions there yield."""
        tree = self._tree
        unit_of = np.arange(len(self._rows))
        for level in range(tree.depth - 1, -1, -1):
            unit_of = tree.parents(level + 1)[unit_of]
            below: list[list[int]] = [[] for _ in range(tree.units(level))]
            for leaf, unit in zip(self._rows, unit_of.tolist(), strict=True):
                below[unit].append(leaf)
            free = [sum(self._yields.now[leaf] for leaf in leaves) for leaves in below]
            gained = [self._gained(leaves, self._yields.upper) for leaves in below]
            for unit, pods in enumerate(self._model.pods[level]):
                used, most = self._model.used[level][unit], int(tree.room[level][unit])
                self._cp.add(free[unit] * used + self._sum(gained[unit], most) >= pods)
            if level <= 1:
                self._covered(level, free, gained)

    def _covered(self, level: int, free: list[int], gained: list[dict[Group, int]]) -> None:
        """What it costs to free enough in the units that take the group is a lower limit.

        The root is such a unit; below it they are known to be so many.
        """
        weights, tree = self._task.weights, self._tree
        together = tree.rule(1).units_per_parent if level else 1
        if weights is None or together == 0:
            return
        counts = {index: one.count for index, one in enumerate(self._candidates)}
        covers = Covers([{who[0]: gain for who, gain in one.items()} for one in gained], counts)
        sets = covers.sets(together, tree.size)
        needed = tree.least - np.array(free, dtype=np.int64)[sets].sum(axis=1)
        used = self._model.used[level]

        def rows(these: Bools) -> Iterator[list[Any]]:
            return (
                [used[unit] for unit in units] if level else [] for units in sets[these].tolist()
            )

        open_ones = np.ones(len(sets), dtype=np.bool_)
        least = np.zeros(len(sets), dtype=np.int64)
        for kept, value in (*self._task.frozen, (weights, NEVER - 1)):
            least[open_ones] = covers.least(sets[open_ones], needed[open_ones], kept)
            open_ones &= least <= value
        for all_used in rows(~open_ones):
            self._cp.add_bool_or([~one for one in all_used])
        for all_used, cost in zip(rows(open_ones), least[open_ones].tolist(), strict=True):
            self._cp.add(self._goal >= cost).only_enforce_if(all_used)

    def _new_goal(self) -> Any:
        """Return the variable that is minimised."""
        problem, task = self._room.problem, self._task
        if task.weights is None:
            total: Any = _violations(self._cp, problem, task, self._choice)
            most = sum(one.count * sum(one.budgets.values()) for one in problem.candidates)
        else:
            ended = self._ended if task.counts_ended else []
            total = sum(weight * self._choice[index] for index, weight in task.weights.items())
            total += sum(ended)
            most = len(ended) + sum(
                weight * self._candidates[index].count for index, weight in task.weights.items()
            )
        goal = self._cp.new_int_var(0, most, "goal")
        self._cp.add(goal == total)
        self._cp.minimize(goal)
        return goal

    def _keep(self) -> None:
        """Keep what earlier stages have decided."""
        problem, task = self._room.problem, self._task
        if task.violations is not None and task.weights is not None:
            over = _violations(self._cp, problem, task, self._choice)
            self._cp.add(over <= task.violations)
        for weights, value in task.frozen:
            known = sum(weight * self._choice[index] for index, weight in weights.items())
            self._cp.add(known <= value)


def _by_unit(tree: Tree, among: Bools) -> list[list[int]]:
    """Return the positions of these leaves by the unit above them."""
    starts = tree.starts[tree.depth - 1].tolist()
    units = ([at for at in range(*ends) if among[at]] for ends in itertools.pairwise(starts))
    return [positions for positions in units if positions]


def _violations(
    cp: cp_model.CpModel, problem: PreemptionInstance, task: StageTask, choice: dict[int, Any]
) -> Any:
    """Return the pods beyond what budgets allow, as an expression."""
    over = []
    for number, budget in enumerate(problem.budgets):
        gone = [
            (problem.candidates[index].budgets[number], variable)
            for index, variable in choice.items()
            if number in problem.candidates[index].budgets
        ]
        if gone:
            most = sum(
                problem.candidates[i].budgets.get(number, 0) * problem.candidates[i].count
                for i in task.decided
            )
            violated = cp.new_int_var(0, most, f"v{number}")
            cp.add(violated >= sum(n * each for n, each in gone) - budget.allowed)
            over.append(violated)
    return sum(over)
