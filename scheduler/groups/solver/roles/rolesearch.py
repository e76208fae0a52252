"""Unlike members stage by stage: each term is minimised by CP-SAT and frozen before the next one.

Over patterns of like leaves where these are few (scheduler.groups.solver.roles.patterns), else over
single leaves. Loaded only where solving happens.
"""

from collections.abc import Callable, Sequence

import numpy as np
from ortools.sat.python import cp_model

from scheduler.groups.problem.answer import SolvedStage
from scheduler.groups.problem.instance import SolveLimits
from scheduler.groups.problem.roles import GroupProblem
from scheduler.groups.solver.cpsat.histogram import MEANINGFUL_S, solver_for, verdict
from scheduler.groups.solver.roles import patterns, rolestages
from scheduler.groups.solver.roles.result import RolesResult, objective_of
from scheduler.groups.solver.roles.rolemodel import RolesModel
from scheduler.groups.solver.tree import Ints


def minimize(
    group: GroupProblem,
    guess: RolesResult,
    bounds: Sequence[int],
    alike: Sequence[int],
    limits: SolveLimits,
    left_s: Callable[[], float],
    *,
    fullest: int = 0,
) -> RolesResult:
    """Return the best placement stage by stage, from what is known, with at least `fullest` pods in
    the first unit.

    `bounds` follow from the room. `alike` are those of the first stages for pods that are alike:
    each holds while all before it are met.
    """
    found = patterns.cells(group)
    model = RolesModel(group) if found is None else patterns.PatternModel(group, found)
    if fullest:
        model.cp.add(model.pods[1][0] >= fullest)
    best = guess.counts
    if best is not None:
        model.hint(best)
    told: list[SolvedStage] = []
    for at, stage in enumerate(rolestages.stages(group, model.tree)):
        known = bounds[at]
        if at < len(alike) and all(one.value == alike[before] for before, one in enumerate(told)):
            known = max(known, alike[at])
        value = None if best is None else objective_of(group, best)[at][2]
        lower = known
        expression = None if value == known else model.expression(stage)
        left = min(limits.stage_s, left_s())
        if expression is not None and (left >= MEANINGFUL_S or best is None):
            model.cp.add(expression >= known)
            model.cp.minimize(expression)
            solver = solver_for(limits, left)
            status = solver.solve(model.cp)
            if status == cp_model.INFEASIBLE and best is None:
                return RolesResult(None, is_proven=True)
            if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
                best = _better(group, best, model.counts(solver), at)
            if np.isfinite(solver.best_objective_bound) and status != cp_model.UNKNOWN:
                lower = max(known, int(np.ceil(solver.best_objective_bound - 1e-6)))
        if best is None:
            return RolesResult(None)
        level, measure, value = objective_of(group, best)[at]
        told.append(SolvedStage(level, measure, value, min(lower, value), "CP-SAT"))
        expression = expression if expression is not None else model.expression(stage)
        model.cp.add(expression <= value)
        model.hint(best)
    return RolesResult(best, tuple(told), all(stage.proven for stage in told))


def exists(group: GroupProblem, limits: SolveLimits, seconds: float) -> bool | None:
    """Return whether at least the minimum of a group fits, None when time is over before that is
    known.
    """
    found = patterns.cells(group)
    model = RolesModel(group) if found is None else patterns.PatternModel(group, found)
    return verdict(solver_for(limits, seconds).solve(model.cp))


def _better(group: GroupProblem, known: Ints | None, found: Ints, at: int) -> Ints:
    """Return what is found unless what is known is better up to this stage."""
    if known is None:
        return found
    ours, other = (
        [one[2] for one in objective_of(group, each)[: at + 1]] for each in (known, found)
    )
    return found if other <= ours else known
