"""A group of several roles by the CP-SAT model: stage by stage from what is known.

Loaded only where solving happens.
"""

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
    """Return the best placement stage by stage, from `guess` on, with at least `fullest` pods in
    the first unit.

    `bounds` are lower limits of the stages; each of `leading` holds while all before it are met.
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
    """Return whether at least the minimum of a group fits, None when time is over before that is
    known.
    """
    return run.exists(GroupModel(cells.layout(group)), limits, seconds)
