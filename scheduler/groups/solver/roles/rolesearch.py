"""Solve a group of several roles with the CP-SAT model. Loaded only in the solver process."""

from collections.abc import Callable, Sequence

from scheduler.groups.problem.instance import SolveLimits
from scheduler.groups.problem.roles import GroupProblem
from scheduler.groups.solver.cpsat import cells, run, stages
from scheduler.groups.solver.cpsat.model import GroupModel
from scheduler.groups.solver.roles.result import RolesResult, objective_of


def minimize(
    group: GroupProblem,
    guess: RolesResult,
    bounds: Sequence[int],
    leading: Sequence[int],
    limits: SolveLimits,
    left_s: Callable[[], float],
    *,
    fullest: int = 0,
) -> RolesResult:
    """Return the best placement, minimising stage by stage from `guess` on.

    The first unit has at least `fullest` pods. `bounds` are lower bounds of the stages; those in
    `leading` hold only while all stages before them equal theirs.
    """
    model = GroupModel(cells.layout(group))
    if fullest:
        model.cp.add(model.pods[1][0] >= fullest)
    return run.minimize(
        model,
        stages.of_roles(group, model.tree),
        lambda counts: objective_of(group, counts),
        guess.counts,
        bounds,
        limits,
        left_s,
        leading=leading,
    )


def exists(group: GroupProblem, limits: SolveLimits, seconds: float) -> bool | None:
    """Return whether the minimum of a group fits, None if the time limit is reached first."""
    return run.exists(GroupModel(cells.layout(group)), limits, seconds)
