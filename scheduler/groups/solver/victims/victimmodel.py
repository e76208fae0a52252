"""The CP-SAT model of one stage of the search for victims.

A boolean for each candidate; leaves that candidates stand on get a number of their own with a row
per resource, all others stay in histograms. Implied rows say how much the evictions have to yield:
without them the solver proves little. Loaded only where solving happens.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from ortools.sat.python import cp_model

from scheduler.groups.problem.instance import PreemptionInstance, SolveLimits
from scheduler.groups.solver.costs import NEVER
from scheduler.groups.solver.cpsat import variables
from scheduler.groups.solver.cpsat.constraints import ALL
from scheduler.groups.solver.cpsat.histogram import solver_for
from scheduler.groups.solver.cpsat.variables import LeafClass, Variables
from scheduler.groups.solver.tree import Bools, Tree, allowed
from scheduler.groups.solver.victims.covers import Covers
from scheduler.groups.solver.victims.freed import Choice, EvictionRoom
from scheduler.groups.solver.victims.yields import Group, Term, Yields


@dataclass(frozen=True)
class OpenLeaf(LeafClass):
    """A leaf whose room depends on who is evicted: one number instead of a histogram."""

    number: Any = None
    in_use: Any = 0

    @property
    def pods(self) -> Any:
        """Return the pods on the leaf."""
        return self.number

    @property
    def used(self) -> Any:
        """Return whether the leaf is used."""
        return self.in_use


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
        left_out = is_alone if alone is None else np.ones(len(is_alone), dtype=np.bool_)
        plain = variables.make(room.problem.instance, tree, left_out)
        self._cp = plain.cp
        self._together: dict[tuple[int, ...], Any] = {}
        self._choice = {
            index: self._cp.new_int_var(0, self._candidates[index].count, f"z{index}")
            for index in task.decided
        }
        opened = tuple(_open(plain, at) for at in np.flatnonzero(is_alone).tolist())
        summed = () if alone is None else self._summed(plain)
        self._variables = replace(
            plain, classes=plain.classes + opened + summed, leaving=self._leaving()
        )
        for constraint in ALL:
            constraint.build(self._variables)
        self._freed(opened)
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

    def _summed(self, plain: Variables) -> tuple[OpenLeaf, ...]:
        """Return one variable for all leaves of a unit that do not stand alone."""
        tree, cp = self._tree, self._cp
        rule = tree.rule(tree.depth)
        counts_use = rule.min > 1 or rule.units_per_parent > 0
        step = max(1, rule.factor)
        starts = tree.starts[tree.depth - 1].tolist()
        found = []
        for unit, (first, last) in enumerate(itertools.pairwise(starts)):
            here = [at for at in range(first, last) if self._rows[at] not in self._alone]
            rooms = tree.room[tree.depth][here]
            most = min(tree.size, int(rooms.sum()))
            values = cp_model.Domain.from_values(range(0, most + 1, step))
            number = cp.new_int_var_from_domain(values, f"sum{unit}")
            used: Any = 0
            if counts_use and here:
                used = cp.new_int_var(0, int((rooms > 0).sum()), f"leaves{unit}")
                cp.add(number >= max(1, rule.min) * used)
                cp.add(number <= int(rooms.max()) * used)
            found.append(OpenLeaf(unit, np.array(here), 0, (), {}, {}, number, used))
            leaves = [self._rows[at] for at in here]
            now = sum(self._yields.now[leaf] for leaf in leaves)
            in_use = plain.used[tree.depth - 1][unit]
            gained = self._sum(self._gained(leaves, self._yields.terms), tree.size)
            cp.add(number <= now * in_use + gained)
        return tuple(found)

    def _freed(self, opened: tuple[OpenLeaf, ...]) -> None:
        """Pods on a leaf of its own need no more than what is free there and what is freed."""
        by_leaf: dict[int, list[tuple[Any, tuple[int, ...]]]] = defaultdict(list)
        for index, variable in self._choice.items():
            for leaf, amounts in self._candidates[index].freed.items():
                by_leaf[leaf].append((variable, amounts))
        for one in opened:
            leaf = int(self._tree.leaf[one.positions[0]])
            pods = one.pods - one.held
            takes: Any = None
            for resource, need in enumerate(self._room.need.tolist()):
                if need <= 0:
                    continue
                freed = sum(amounts[resource] * each for each, amounts in by_leaf[leaf])
                free = int(self._yields.base[leaf, resource])
                if free >= 0:
                    self._cp.add(need * pods <= free + freed)
                    continue
                # Over-committed amounts hurt only who takes the leaf.
                if takes is None:
                    takes = self._cp.new_bool_var("")
                    self._cp.add(pods <= self._tree.size * takes)
                self._cp.add(need * pods <= free + freed).only_enforce_if(takes)

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
            for unit, pods in enumerate(self._variables.pods[level]):
                used, most = self._variables.used[level][unit], int(tree.room[level][unit])
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
        used = self._variables.used[level]

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


def _open(model: Variables, at: int) -> OpenLeaf:
    """Return the variable of a leaf that candidates stand on."""
    tree = model.tree
    fits = allowed(tree.rule(tree.depth), tree.size)
    most, held = int(tree.room[tree.depth][at]), int(tree.held[at])
    counts = [k for k in np.flatnonzero(fits[: most + 1]).tolist() if k >= held]
    domain = cp_model.Domain.from_values(counts if held else [0, *counts])
    number = model.cp.new_int_var_from_domain(domain, f"x_{at}")
    used: Any = 1 if held else 0
    if tree.rule(tree.depth).units_per_parent and not held:
        used = model.cp.new_bool_var(f"u_{at}")
        model.cp.add(number <= most * used)
        model.cp.add(number >= used)
    parent = int(np.searchsorted(tree.starts[tree.depth - 1], at, side="right")) - 1
    sets = variables.memberships(model.instance).get(int(tree.leaf[at]), ())
    return OpenLeaf(parent, np.array([at]), held, sets, {}, {}, number, used)


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
