"""`AskedParts`: the page and the capacity metric, computed in one helper process."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from scheduler.base.clock import Clock
from scheduler.base.meters import Meters
from scheduler.config import Loaded, to_log
from scheduler.daemon.answering import AnswerPool, AnswerSettings
from scheduler.daemon.capacity import CapacityWatch
from scheduler.daemon.page import DaemonPage
from scheduler.daemon.records.decisions import DecisionHistory
from scheduler.engine.engine import Engine
from scheduler.serve.access import RequestAuthorizer, ReviewedUser
from scheduler.serve.pageroutes import PageView


class AskedParts:
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
