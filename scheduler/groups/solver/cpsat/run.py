"""Run the model stage by stage: CP-SAT minimises each stage, then its value is fixed.

Deterministic: one worker, a fixed seed, a fixed order of stages; two runs differ only if a time
limit is reached. A stage that is not proven keeps its best placement and bound, and the next stage
continues from there. Loaded only in the solver process.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from ortools.sat.python import cp_model

from scheduler.groups.problem.answer import SolvedStage
from scheduler.groups.problem.instance import SolveLimits
from scheduler.groups.solver.cpsat.model import GroupModel
from scheduler.groups.solver.cpsat.stages import Stage, Terms
from scheduler.groups.solver.roles.result import RolesResult
from scheduler.groups.solver.tree import Ints

MEANINGFUL_S = 0.02  # the least time for which a stage is started
REFINEMENTS = 8
Valuation: TypeAlias = list[tuple[str, str, int]]
Values: TypeAlias = Callable[[Ints], Valuation]


def minimize(
    model: GroupModel,
    stages: Sequence[Stage],
    values: Values,
    known: Ints | None,
    bounds: Sequence[int],
    limits: SolveLimits,
    left_s: Callable[[], float],
    *,
    leading: Sequence[int] = (),
) -> RolesResult:
    """Return the best placement, minimising stage by stage from `known` on.

    `values` returns (level, measure, value) of every stage for pods by role and leaf. `bounds` are
    lower bounds of the stages. The bounds in `leading` hold only while all earlier stages equal
    theirs.
    """
    terms, best = Terms(model), known
    reached = [] if best is None else values(best)  # of `best`; a valuation costs milliseconds
    done: list[SolvedStage] = []
    if best is not None:
        model.hint(best)
    for at, stage in enumerate(stages):
        lower = bounds[at]
        if at < len(leading) and all(
            one.value == leading[before] for before, one in enumerate(done)
        ):
            lower = max(lower, leading[at])
        value = None if best is None else reached[at][2]
        expression = None if value == lower else terms.expression(stage)
        left = min(limits.stage_s, left_s())
        if expression is not None and (left >= MEANINGFUL_S or best is None):
            model.cp.add(expression >= lower)
            model.cp.minimize(expression)
            for _ in range(REFINEMENTS):
                solver = solver_for(limits, min(left, left_s()))
                status = solver.solve(model.cp)
                if status == cp_model.INFEASIBLE and best is None:
                    return RolesResult(None, is_proven=True)
                if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
                    best, reached = _better(values, best, reached, model.counts(solver), at)
                lower = max(lower, _lower(solver, status))
                if best is None or reached[at][2] <= lower or status != cp_model.OPTIMAL:
                    break
                if not terms.refine(stage, best):
                    break
        if best is None:
            return RolesResult(None)
        level, measure, value = reached[at]
        done.append(SolvedStage(level, measure, value, min(lower, value), "CP-SAT"))
        model.cp.add((terms.expression(stage) if expression is None else expression) <= value)
        model.hint(best)
    return RolesResult(best, tuple(done), all(stage.proven for stage in done))


def exists(model: GroupModel, limits: SolveLimits, seconds: float) -> bool | None:
    """Return whether the model has a placement, None if the time limit is reached first."""
    status = solver_for(limits, seconds).solve(model.cp)
    if status == cp_model.INFEASIBLE:
        return False
    return True if status in (cp_model.OPTIMAL, cp_model.FEASIBLE) else None


def solver_for(limits: SolveLimits, seconds: float) -> cp_model.CpSolver:
    """Return a configured CP-SAT solver: one worker by default, fixed seed, no probing."""
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = limits.workers
    solver.parameters.random_seed = limits.seed
    solver.parameters.cp_model_probing_level = 0
    # With substitutions OR-Tools 9.15 ended the process over a wrong answer of its own
    # (tests/unit/solver/test_presolve.py).
    solver.parameters.presolve_substitution_level = 0
    solver.parameters.max_time_in_seconds = max(0.001, seconds)
    return solver


def _lower(solver: cp_model.CpSolver, status: Any) -> int:
    if status == cp_model.UNKNOWN or not np.isfinite(solver.best_objective_bound):
        return -(1 << 62)
    return int(np.ceil(solver.best_objective_bound - 1e-6))


def _better(
    values: Values, known: Ints | None, reached: Valuation, found: Ints, at: int
) -> tuple[Ints, Valuation]:
    """Return the new result and its values, or the known one if it is smaller so far."""
    new = values(found)
    if known is None or [one[2] for one in new[: at + 1]] <= [one[2] for one in reached[: at + 1]]:
        return found, new
    return known, reached
