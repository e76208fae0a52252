"""Solves the histogram model stage by stage and decodes the answer.

Deterministic: one worker, a fixed seed, stages in a fixed order; only a time limit that is reached
makes two runs differ. A stage that is not proven keeps its best answer with the bound, and the next
stages go on from it. Besides scheduler.groups.solver.victims.victimmodel the only module that runs
CP-SAT.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from ortools.sat.python import cp_model

from scheduler.groups.problem.answer import SolvedStage
from scheduler.groups.problem.instance import Instance, SolveLimits
from scheduler.groups.solver.cpsat import objective, variables
from scheduler.groups.solver.cpsat.constraints import ALL
from scheduler.groups.solver.cpsat.objective import Even, Objective
from scheduler.groups.solver.cpsat.variables import Variables
from scheduler.groups.solver.exact.decode import by_name
from scheduler.groups.solver.tree import Ints, Tree

MEANINGFUL_S = 0.02  # with less time than this a stage is not begun
REFINEMENTS = 8


class CpSatResult:
    """What CP-SAT has so far: counts per leaf of the tree (None: nothing), stages, exclusion."""

    def __init__(self) -> None:
        self.counts: Ints | None = None
        self.stages: list[SolvedStage] = []
        self.is_infeasible = False


def program(
    instance: Instance,
    tree: Tree,
    limits: SolveLimits,
    left_s: Callable[[], float],
    hint: Ints | None = None,
) -> CpSatResult:
    """Solve all stages within the limits; `hint` is a known placement per leaf of the tree."""
    found = CpSatResult()
    if int(tree.room[0][0]) < tree.least or not len(tree.slots):
        found.is_infeasible = True
        return found
    model = variables.make(instance, tree)
    for constraint in ALL:
        constraint.build(model)
    objective.narrow(model)
    if hint is not None:
        _hint(model, hint)
    for stage in objective.stages(model.tree):
        _run(model, stage, found, limits, left_s)
        if found.counts is None:
            break
    return found


def exists(instance: Instance, tree: Tree, limits: SolveLimits, seconds: float) -> bool | None:
    """Return whether there is a placement at all, None when time is over before that is known."""
    if int(tree.room[0][0]) < tree.least or not len(tree.slots):
        return False
    model = variables.make(instance, tree)
    for constraint in ALL:
        constraint.build(model)
    return verdict(solver_for(limits, seconds).solve(model.cp))


def verdict(status: Any) -> bool | None:
    """Return what a solver status proves about the existence of a solution, None for nothing."""
    if status == cp_model.INFEASIBLE:
        return False
    return True if status in (cp_model.OPTIMAL, cp_model.FEASIBLE) else None


def solver_for(limits: SolveLimits, seconds: float) -> cp_model.CpSolver:
    """Return a solver with our parameters: one worker unless asked, fixed seed, no probing."""
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = limits.workers
    solver.parameters.random_seed = limits.seed
    solver.parameters.cp_model_probing_level = 0
    # With substitutions OR-Tools 9.15 ended the process over a wrong answer of its own
    # (tests/unit/solver/test_presolve.py).
    solver.parameters.presolve_substitution_level = 0
    solver.parameters.max_time_in_seconds = max(0.001, seconds)
    return solver


def _run(
    model: Variables,
    stage: Objective,
    found: CpSatResult,
    limits: SolveLimits,
    left_s: Callable[[], float],
) -> None:
    """Minimise one stage and freeze it."""
    known = objective.bound(model.tree, stage)
    expression = stage.expression(model)
    left = min(limits.stage_s, left_s())
    if expression is None or (left < MEANINGFUL_S and found.counts is not None):
        found.stages.append(_stage(model, stage, found, known))
        return
    model.cp.add(expression >= known)
    model.cp.minimize(expression)
    best = known
    for _ in range(REFINEMENTS):
        solver = solver_for(limits, min(left, left_s()))
        status = solver.solve(model.cp)
        if status == cp_model.INFEASIBLE:
            found.is_infeasible = found.counts is None
            return
        if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            _take(model, solver, stage, found)
        best = max(best, _lower(solver, status))
        if found.counts is None:
            return
        reached = _value(model, stage, found.counts) <= best
        if reached or status != cp_model.OPTIMAL:
            break
        if not isinstance(stage, Even) or not stage.refine(
            model, level_counts(model.tree, stage.level, found.counts)
        ):
            break
    if found.counts is None:
        return
    done = _stage(model, stage, found, best)
    found.stages.append(done)
    model.cp.add(expression <= done.value)
    model.cp.clear_hints()  # type: ignore[no-untyped-call]
    _hint(model, found.counts)


def _take(
    model: Variables, solver: cp_model.CpSolver, stage: Objective, found: CpSatResult
) -> None:
    """Keep the solver's answer unless the one we have is better in this stage."""
    counts = _decode(model, solver)
    if found.counts is None or _value(model, stage, counts) <= _value(model, stage, found.counts):
        found.counts = counts


def _lower(solver: cp_model.CpSolver, status: Any) -> int:
    if status == cp_model.UNKNOWN and not np.isfinite(solver.best_objective_bound):
        return -(1 << 62)
    return int(np.ceil(solver.best_objective_bound - 1e-6))


def _stage(model: Variables, stage: Objective, found: CpSatResult, lower: int) -> SolvedStage:
    assert found.counts is not None  # noqa: S101
    value = _value(model, stage, found.counts)
    name = model.instance.levels[stage.level - 1].name if stage.level else ""
    return SolvedStage(name, stage.measure, value, min(lower, value), "CP-SAT")


def level_counts(tree: Tree, level: int, counts: Ints) -> Ints:
    """Return the pods of each unit of a level."""
    for each in range(tree.depth, level, -1):
        counts = np.bincount(tree.parents(each), counts, tree.units(each - 1)).astype(np.int64)
    return counts


def _value(model: Variables, stage: Objective, counts: Ints) -> int:
    if stage.measure == "leftOut":
        return model.tree.size - int(counts.sum())
    pods = level_counts(model.tree, stage.level, counts)
    if stage.measure == "units":
        return int((pods > 0).sum())
    squares = int((pods * pods).sum())
    return -squares if stage.measure == "large" else squares


def _decode(model: Variables, solver: cp_model.CpSolver) -> Ints:
    counts = np.zeros(len(model.tree.slots), dtype=np.int64)
    for one in model.classes:
        taken = {k: solver.value(var) for k, var in one.taken.items()}
        if any(taken.values()):
            counts[one.positions] = by_name(model.tree.slots[one.positions], taken)
    return counts


def _hint(model: Variables, counts: Ints) -> None:
    """Hand the solver a known placement to start from."""
    for level in range(1, model.tree.depth):
        pods = level_counts(model.tree, level, counts).tolist()
        for unit, number in enumerate(pods):
            model.cp.add_hint(model.pods[level][unit], number)
            model.cp.add_hint(model.used[level][unit], int(number > 0))
    for one in model.classes:
        here = counts[one.positions]
        for k, var in one.taken.items():
            model.cp.add_hint(var, int((here == k).sum()))
