"""`HelperParts`: the page and the capacity metric, computed in one helper process.

The metric of free capacity is how many more pods of the configured shapes fit. Only the leader
counts. A shape that cannot be counted has no sample, which an alert can distinguish from 0.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import msgspec
import structlog

from scheduler.base.clock import Clock, perf_s
from scheduler.base.errors import TrellisError
from scheduler.base.meters import Meters
from scheduler.config import Loaded, to_log
from scheduler.daemon.answering import AnswerPool, AnswerSettings, cluster_of
from scheduler.daemon.page import DaemonPage
from scheduler.daemon.records.decisions import DecisionHistory
from scheduler.engine.engine import Engine
from scheduler.explain.questions import Question, ShapeCapacity
from scheduler.serve.access import RequestAuthorizer, ReviewedUser
from scheduler.serve.pageroutes import PageView

# Counting takes no more of the helper's time than this, however large the cluster is.
SHARE = 0.1

_log = structlog.get_logger()


class HelperParts:
    """The enabled `parts`; `show` is the page's function, None without a page.

    `jobs` is the module of the helper process; '' disables page and metric. `origin` is what the
    page's header states of this daemon.
    """

    def __init__(
        self,
        engine: Engine,
        history_log: DecisionHistory,
        access: RequestAuthorizer,
        clock: Clock,
        meters: Meters,
        loaded: Loaded,
        jobs: str,
        origin: Mapping[str, str] | None = None,
    ) -> None:
        helper = AnswerPool(clock, AnswerSettings(jobs, to_log(loaded, "") if jobs else ""))
        self._helper = helper
        self.parts: list[DaemonPage | CapacityWatch] = []
        self.show: Callable[[ReviewedUser, str], Awaitable[PageView]] | None = None
        capacity = loaded.trellis.capacity
        if jobs and loaded.trellis.page.enabled:
            page = DaemonPage(engine, history_log, access, clock, helper, origin)
            self.show = page.show
            self.parts.append(page)
        if jobs and capacity.shapes:
            shapes = {one.name: one.manifest for one in capacity.shapes}
            watch = CapacityWatch(engine, helper, clock, meters, shapes, capacity.interval_seconds)
            self.parts.append(watch)

    async def run(self) -> None:
        """Keep all parts up to date until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for part in self.parts:
                tasks.create_task(part.run())

    async def close(self) -> None:
        """End the helper process."""
        await self._helper.close()


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
            body = await self._helper.answer(question, cluster_of(self._engine, self._clock.now()))
            found = msgspec.json.decode(body, type=ShapeCapacity)
        except (TrellisError, OSError) as error:
            found = ShapeCapacity({}, dict.fromkeys(self._shapes, str(error)))
        for name, text in found.problems.items():
            if self._problems.get(name) != text:
                _log.warning("a shape cannot be counted", shape=name, reason=text)
        self._problems = found.problems
        return found.counts
