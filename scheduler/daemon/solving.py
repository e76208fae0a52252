"""The daemon's solver: carries `Solve` effects to the helper process, and its solutions back.

The process is started with the first job. A cluster without groups, or with small ones only (the
engine solves those itself), never starts it. Operators also use it for long calculations. Owns the
pool; does not depend on groups.
"""

import msgspec
import structlog

from scheduler.base.clock import perf_s
from scheduler.base.meters import Meters
from scheduler.engine.effects import Answer, Solve
from scheduler.groups.cycle.inline import count_solution, observe_duration
from scheduler.groups.solver.questions import Solution
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
        """Send one question; return failures as answers too."""
        del submitted_at
        await self._pool.start()
        started = perf_s()
        outcome = await self._pool.run("question", effect.instance, effect.limit_s)
        observe_duration(self._meters, outcome.code, perf_s() - started)
        if not outcome.ok:
            _log.warning("the solver gave no answer", why=outcome.code, message=outcome.message)
        code = _CODES.get(outcome.code, 0)
        body = msgspec.json.decode(outcome.body) if outcome.ok else None
        if body is not None:
            count_solution(self._meters, msgspec.convert(body, Solution, str_keys=True))
        answer = Answer(effect.id, code, outcome.code, outcome.message, body)
        return answer, Response(code, reason=outcome.code, message=outcome.message)

    async def run(self, kind: str, payload: bytes, limit_s: float) -> JobOutcome:
        """Run a job of another kind, after the jobs that were submitted earlier."""
        await self._pool.start()
        return await self._pool.run(kind, payload, limit_s)

    async def close(self) -> None:
        """End the helper process."""
        await self._pool.close()
