"""`InlineSolver`: instances that the solver answers in milliseconds, solved within the turn.

Waking another process and waiting for it takes longer than that, and the group has no nodes
meanwhile. The instance's size decides, not the clock, so a replay reaches the same answers.
"""

from collections.abc import Sequence

import msgspec

from scheduler.base.errors import InputError
from scheduler.base.meters import Meters
from scheduler.framework.calls import CallResult, SolverCall
from scheduler.groups.problem.answer import SolvedStage
from scheduler.groups.solver.questions import Solution, at_once


class InlineSolver:
    """Solves small instances; counts them like those of the helper process."""

    def __init__(self, meters: Meters) -> None:
        self._meters = meters

    def answer(self, call: SolverCall) -> CallResult | None:
        """Return the answer; None for an instance that is too large or invalid."""
        try:
            found = at_once(call.instance)
        except InputError:
            return None  # the helper process reports the error
        if found is None:
            return None
        observe_duration(self._meters, "done", found.placed.seconds)
        count_solution(self._meters, found)
        # Seconds differ from run to run, and are written to the group's object.
        placed = msgspec.structs.replace(found.placed, seconds=0.0)
        return CallResult(200, body=msgspec.structs.replace(found, placed=placed))


def observe_duration(meters: Meters, result: str, seconds: float) -> None:
    """Observe how long a question took, in the helper process or inline."""
    meters.solver_duration.labels(result).observe(seconds)


def count_solution(meters: Meters, solution: Solution) -> None:
    """Count a solution by question, solver and outcome, and observe its gap and its time."""
    found = solution.victims or solution.roles or solution.placed
    is_eviction = solution.victims is not None or bool(solution.roles and solution.roles.evicted)
    kind = "evict" if is_eviction else "place"
    status: str = found.outcome
    if status == "placed":
        status = "optimal" if found.optimal else "feasible"
        meters.solver_gap.labels(kind).observe(gap_ratio(found.stages))
    solver = getattr(found, "solver", "")
    meters.solver_solutions.labels(kind, solver, status).inc()
    meters.solver_search.labels(kind).observe(found.seconds)


def gap_ratio(stages: Sequence[SolvedStage]) -> float:
    """Return the largest gap between a stage's value and its proven bound, as a fraction of the
    value.

    Capped at 1: without any proof the bound is close to nothing.
    """
    gaps = (stage.gap / max(1, abs(stage.value)) for stage in stages)
    return min(1.0, max(gaps, default=0.0))
