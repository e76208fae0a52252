"""The daemon's solver: `Solve` effects go to the helper process, its solutions come back as
answers.

What takes a few milliseconds is answered on the spot: to wake another process, and to wait for it
beside the API server, takes longer than that. The process is started when the first other job
comes, so that a cluster without groups, or with small ones only, never carries it. Operators have
their long computations done there too. Owns the pool; knows nothing of groups.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
import structlog

from scheduler.base.clock import perf_s
from scheduler.base.errors import InputError
from scheduler.base.meters import Meters
from scheduler.engine.effects import Answer, Solve
from scheduler.groups.problem.answer import SolvedStage
from scheduler.groups.solver.questions import Solution, at_once
from scheduler.kube.api import Response
from scheduler.workers.pool import JobOutcome, WorkerPool

_CODES = {"done": 200, "invalid": 422, "error": 500}
_log = structlog.get_logger()


class Solving:
    """Carries out `Solve` effects, one after the other."""

    def __init__(self, meters: Meters, pool: WorkerPool | None = None) -> None:
        self._pool = pool or WorkerPool()
        self._meters = meters

    async def carry(self, effect: Solve, submitted_at: float) -> tuple[Answer, Response]:
        """Ask once; every way it can go wrong is an answer."""
        del submitted_at
        started = perf_s()
        if (found := _on_the_spot(effect.instance)) is not None:
            self._meters.solver_duration.labels("done").observe(perf_s() - started)
            self._count(found)
            body = msgspec.json.decode(msgspec.json.encode(found))
            return Answer(effect.id, 200, "done", "", body), Response(200, reason="done")
        await self._pool.start()
        started = perf_s()
        outcome = await self._pool.run("question", effect.instance, effect.limit_s)
        self._meters.solver_duration.labels(outcome.code).observe(perf_s() - started)
        if not outcome.ok:
            _log.warning("the solver gave no answer", why=outcome.code, message=outcome.message)
        code = _CODES.get(outcome.code, 0)
        body = msgspec.json.decode(outcome.body) if outcome.ok else None
        if body is not None:
            self._count(msgspec.convert(body, Solution, str_keys=True))
        answer = Answer(effect.id, code, outcome.code, outcome.message, body)
        return answer, Response(code, reason=outcome.code, message=outcome.message)

    async def run(self, kind: str, payload: bytes, limit_s: float) -> JobOutcome:
        """Run a job of another kind, after those that came before it."""
        await self._pool.start()
        return await self._pool.run(kind, payload, limit_s)

    def _count(self, solution: Solution) -> None:
        found = solution.victims or solution.mixed or solution.placed
        is_eviction = solution.victims is not None or bool(
            solution.mixed and solution.mixed.evicted
        )
        kind = "evict" if is_eviction else "place"
        status: str = found.outcome
        if status == "placed":
            status = "optimal" if found.optimal else "feasible"
            self._meters.solver_gap.labels(kind).observe(gap_ratio(found.stages))
        solver = getattr(found, "solver", "")
        self._meters.solver_solutions.labels(kind, solver, status).inc()
        self._meters.solver_search.labels(kind).observe(found.seconds)

    async def close(self) -> None:
        """End the helper process."""
        await self._pool.close()


def _on_the_spot(question: Any) -> Solution | None:
    """Answer a small question; a fault in it is the longer way's to tell."""
    try:
        return at_once(question)
    except InputError:
        return None


def gap_ratio(stages: Sequence[SolvedStage]) -> float:
    """Return the largest gap between a stage's value and its proven bound, as a part of the value.

    1 stands for more than that as well: without any proof the bound is next to nothing.
    """
    gaps = (stage.gap / max(1, abs(stage.value)) for stage in stages)
    return min(1.0, max(gaps, default=0.0))
