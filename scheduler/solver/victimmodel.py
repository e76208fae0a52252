"""The CP-SAT model of one stage of the search for victims.

A boolean for each candidate; leaves that candidates stand on get a number of their own with a row per
resource, all others stay in histograms. Implied rows say how much the evictions have to yield: without
them the solver proves little. Loaded only where solving happens.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from ortools.sat.python import cp_model

from scheduler.solver import variables
from scheduler.solver.constraints import ALL
from scheduler.solver.cpsat import solver_for
from scheduler.solver.eviction import Choice, Room
from scheduler.solver.instance import Limits, Preemption
from scheduler.solver.tree import Ints, Tree, allowed, floors
from scheduler.solver.variables import LeafClass, Variables


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
class Task:
    """One stage: candidates that are decided, those imagined gone, values that must be kept.

    `weights` is what is minimised, by candidate (None: violated budgets); `frozen` are
    (weights, value) of earlier stages, `violations` the most that may be violated (None: any).
    """

    decided: tuple[int, ...]
    gone: tuple[int, ...]
    weights: dict[int, int] | None
    frozen: tuple[tuple[dict[int, int], int], ...] = ()
    violations: int | None = None


@dataclass(frozen=True)
class Decision:
    """What a stage found: the evictions among `decided` (None: nothing yet), and a lower limit."""

    chosen: dict[int, int] | None
    bound: int
    is_infeasible: bool = False


def minimise(
    room: Room, task: Task, limits: Limits, seconds: float, hint: Choice | None = None
) -> Decision:
    """Run one stage."""
    everybody = {index: room.problem.candidates[index].count for index in task.decided + task.gone}
    tree = room.tree(everybody)
    model, choice = _model(room, task, tree)
    weights = task.weights
    if weights is None:
        goal: Any = _violations(model.cp, room.problem, task, choice)
    else:
        goal = sum(weight * choice[index] for index, weight in weights.items())
    model.cp.minimize(goal)
    for index, variable in choice.items():
        if hint is not None:
            model.cp.add_hint(variable, hint.get(index, 0))
    solver = solver_for(limits, seconds)
    status = solver.solve(model.cp)
    if status == cp_model.INFEASIBLE:
        return Decision(None, 0, is_infeasible=True)
    bound = max(0, int(np.ceil(solver.best_objective_bound - 1e-6)))
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Decision(None, bound)
    chosen = {index: solver.value(variable) for index, variable in choice.items()}
    return Decision({index: n for index, n in chosen.items() if n}, bound)


def _model(room: Room, task: Task, tree: Tree) -> tuple[Variables, dict[int, Any]]:
    """Return the model with all rows but the goal, and the variables of the candidates."""
    touched = {leaf for index in task.decided for leaf in room.problem.candidates[index].freed}
    is_open = np.array([leaf in touched for leaf in tree.leaf.tolist()], dtype=np.bool_)
    model = variables.make(room.problem.instance, tree, is_open)
    opened = tuple(_open(model, at) for at in np.flatnonzero(is_open).tolist())
    model = replace(model, classes=model.classes + opened)
    for constraint in ALL:
        constraint.build(model)
    candidates = room.problem.candidates
    choice = {
        index: model.cp.new_int_var(0, candidates[index].count, f"z{index}")
        for index in task.decided
    }
    gone = {index: candidates[index].count for index in task.gone}
    base = room.free.copy()
    for index, times in gone.items():
        for leaf, amounts in candidates[index].freed.items():
            base[leaf] += times * np.array(amounts, dtype=np.int64)
    _freed(model, room, base, opened, choice)
    _implied(model, room, base, choice)
    for weights, value in task.frozen:
        model.cp.add(sum(weight * choice[index] for index, weight in weights.items()) <= value)
    if task.violations is not None and task.weights is not None:
        model.cp.add(_violations(model.cp, room.problem, task, choice) <= task.violations)
    return model, choice


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


def _freed(
    model: Variables,
    room: Room,
    base: Ints,
    opened: tuple[OpenLeaf, ...],
    choice: dict[int, Any],
) -> None:
    """Pods on an open leaf need no more than what is free there and what evictions free."""
    by_leaf: dict[int, list[tuple[Any, tuple[int, ...]]]] = defaultdict(list)
    for index, variable in choice.items():
        for leaf, amounts in room.problem.candidates[index].freed.items():
            by_leaf[leaf].append((variable, amounts))
    for one in opened:
        leaf = int(model.tree.leaf[one.positions[0]])
        for resource, need in enumerate(room.need.tolist()):
            if need > 0:
                freed = sum(amounts[resource] * each for each, amounts in by_leaf[leaf])
                # Over-committed amounts hurt only who takes the leaf.
                free = int(base[leaf, resource])
                pods = one.pods - one.held
                if free >= 0:
                    model.cp.add(need * pods <= free + freed)
                else:
                    takes = model.cp.new_bool_var("")
                    model.cp.add(pods <= model.tree.size * takes)
                    model.cp.add(need * pods <= free + freed).only_enforce_if(takes)


def _implied(model: Variables, room: Room, base: Ints, choice: dict[int, Any]) -> None:
    """Each unit's pods fit into what is free below it and what the evictions there can yield."""
    tree = model.tree
    rule = tree.rule(tree.depth)
    floor = floors(rule, tree.size)
    now = floor[np.minimum(room.slots(base) + room.held, tree.size)]
    later = np.zeros_like(now)
    later[tree.leaf] = tree.room[tree.depth]
    gains = _gains(room, base, later - now, max(1, rule.factor), choice, rule.min > 1)
    position = {leaf: at for at, leaf in enumerate(tree.leaf.tolist())}
    unit_of = np.arange(len(tree.leaf))
    free = np.array([now[leaf] for leaf in tree.leaf.tolist()], dtype=np.int64)
    for level in range(tree.depth - 1, -1, -1):
        parents = tree.parents(level + 1)
        unit_of = parents[unit_of]
        free = np.bincount(parents, free, tree.units(level)).astype(np.int64)
        yields: dict[int, dict[int, int]] = defaultdict(lambda: defaultdict(int))
        for index, by_leaf in gains.items():
            for leaf, gain in by_leaf.items():
                if leaf in position:
                    yields[int(unit_of[position[leaf]])][index] += gain
        for unit, pods in enumerate(model.pods[level]):
            more = sum(gain * choice[index] for index, gain in yields[unit].items())
            used = model.used[level][unit]
            model.cp.add(int(free[unit]) * used + more >= pods)


def _gains(
    room: Room, base: Ints, most: Ints, factor: int, choice: dict[int, Any], has_least: bool
) -> dict[int, dict[int, int]]:
    """Return an upper limit of the pods that each candidate alone makes room for on each leaf."""
    asked = np.flatnonzero(room.need > 0)
    per = np.maximum(base[:, asked], 0) // room.need[asked] if len(asked) else None
    gains: dict[int, dict[int, int]] = {}
    for index in choice:
        found = {}
        for leaf, amounts in room.problem.candidates[index].freed.items():
            gain = int(most[leaf])
            if per is not None and not has_least:
                tightest = int(asked[int(per[leaf].argmin())])
                alone = -(-amounts[tightest] // int(room.need[tightest]))
                gain = min(gain, -(-alone // factor) * factor)
            if gain > 0:
                found[leaf] = gain
        gains[index] = found
    return gains


def _violations(
    cp: cp_model.CpModel, problem: Preemption, task: Task, choice: dict[int, Any]
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
