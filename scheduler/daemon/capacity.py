"""The metric of free capacity: how many more pods of the configured shapes fit, counted in a helper
process.

Only the leader counts. A shape that cannot be counted has no sample, which an alert can distinguish
from 0.
"""

import asyncio
from collections.abc import Mapping

import msgspec
import structlog

from scheduler.base.clock import Clock, perf_s
from scheduler.base.errors import TrellisError
from scheduler.base.meters import Meters
from scheduler.daemon.answering import AnswerPool, cluster_of
from scheduler.engine.engine import Engine
from scheduler.explain.questions import Question, ShapeCapacity

# Counting takes no more of the helper's time than this, however large the cluster is.
SHARE = 0.1

_log = structlog.get_logger()


class CapacityWatch:
    """Counts `shapes`, manifests by name, every `interval_s` seconds while `run` runs."""

    def __init__(
        self,
        engine: Engine,
        helper: AnswerPool,
        clock: Clock,
        meters: Meters,
        shapes: Mapping[str, str],
        interval_s: float,
    ) -> None:
        self._engine = engine
        self._helper = helper
        self._clock = clock
        self._shapes = dict(shapes)
        self._interval_s = interval_s
        self._problems: dict[str, str] = {}
        self.counts: dict[str, int] = {}
        meters.capacity.read_from(lambda: self.counts)

    async def run(self) -> None:
        """Count again and again until cancelled."""
        while True:
            began = perf_s()
            await self.count()
            await asyncio.sleep(max(self._interval_s, (perf_s() - began) / SHARE))

    async def count(self) -> None:
        """Count once; log a failure when it is new."""
        self.counts = {} if not self._engine.is_leading else await self._counted()

    async def _counted(self) -> dict[str, int]:
        question = Question("capacity", shapes=self._shapes)
        try:
            body = await self._helper.ask(question, cluster_of(self._engine, self._clock.now()))
            found = msgspec.json.decode(body, type=ShapeCapacity)
        except (TrellisError, OSError) as error:
            found = ShapeCapacity({}, dict.fromkeys(self._shapes, str(error)))
        for name, text in found.problems.items():
            if self._problems.get(name) != text:
                _log.warning("a shape cannot be counted", shape=name, reason=text)
        self._problems = found.problems
        return found.counts
