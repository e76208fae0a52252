"""One process in a simulated cluster: the real daemon with its client and helper, and its end."""

from __future__ import annotations

import asyncio
from contextvars import copy_context
from math import inf
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from scheduler.base.meters import Meters
from scheduler.daemon import Daemon, DaemonOptions
from scheduler.daemon.loop import TURN_S
from scheduler.kube.writing.effects import EffectLimits
from scheduler.serve.app import Address
from scheduler.workers.jobs import KINDS
from scheduler.workers.pool import JobOutcome
from tests.simulated.invariants import Breach, BrokenError, Invariant
from tests.simulated.network import Wiring
from tests.simulated.turns import PROCESS, Turns
from tests.unit.kube.memoryapi import LoopClock

if TYPE_CHECKING:
    from tests.simulated.cluster import SimulatedCluster

# This module runs on a loop with virtual time: its delays cost nothing.
pytestmark = pytest.mark.looptime

# The clock skew between processes and the server.
SKEWS_S = (0.0, 0.0, -300.0, 300.0)
# A terminated process drains for ten seconds, and releases the lease within ten more.
MOST_TO_END_S = 60.0
# So few connections that a run can use all of them.
PLACES = EffectLimits(binds=64)


class Inline:
    """The helper process without a process; some problems take a while."""

    def __init__(self, random: Random) -> None:
        self._random = random

    async def start(self) -> None:
        """Do nothing."""

    async def close(self) -> None:
        """Do nothing."""

    async def run(self, kind: str, payload: Any, limit_s: float) -> JobOutcome:
        """Run the job at once."""
        del limit_s
        data = payload if isinstance(payload, bytes) else msgspec.json.encode(payload)
        body, blob = KINDS[kind](data)
        await asyncio.sleep(self._random.choice((0.01, 0.01, 0.01, 0.4, 2.0)))
        return JobOutcome("done", body, blob)


class Strides:
    """A stopwatch whose readings increase by a small step, sometimes by a large one.

    The machine's own would make runs of one seed differ: the duration of a turn determines how much
    more it does.
    """

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._now_s = 0.0

    def __call__(self) -> float:
        """Return seconds since an arbitrary time."""
        self._now_s += self._random.choice((1e-6, 1e-5, 1e-4, TURN_S))
        return self._now_s


class Replica:
    """One process; `kill` leaves it no time to release anything."""

    def __init__(self, cluster: SimulatedCluster, number: int) -> None:
        self.wiring = Wiring(cluster.store, Random(cluster.random.getrandbits(32)))
        self.wiring.accident = cluster.refusal
        self.wiring.audit, self.wiring.process = cluster.audit, number
        self.wiring.bookmark_s = cluster.setting.bookmark_s
        cluster.audit.deadlines_s[number] = cluster.setting.lease.renew_deadline_s
        self.number = number
        # When it had last received all events, and how many watches that takes.
        self.informed_at = -inf
        # Since when it has had no obstacle to that, as far as it was checked.
        self.whole_since = inf
        self.most_flows = 0
        self.meters = Meters()
        self.daemon = Daemon(
            cluster.loaded,
            cluster.registry,
            self.wiring,  # type: ignore[arg-type]
            clock=LoopClock(cluster.random.choice(SKEWS_S)),
            random=Random(cluster.random.getrandbits(32)),
            meters=self.meters,
            options=DaemonOptions(
                "simulated",
                Address(port=0),
                seed=number,
                stopwatch=Strides(cluster.random.getrandbits(32)),
                limits=PLACES,
            ),
        )
        self.daemon._solving._pool = Inline(Random(number))  # type: ignore[assignment]
        self.task: asyncio.Task[int] | None = None
        self.was_asked = False

    @property
    def leads(self) -> bool:
        """Return whether it runs, and leads."""
        is_alive = self.task is not None and not self.task.done()
        return is_alive and self.daemon.engine.is_leading

    @property
    def is_busy(self) -> bool:
        """Return whether it has any request in flight."""
        engine = self.daemon.engine
        work = sum(queue.queued + queue.in_flight for queue in self.daemon._executor._all)
        return bool(work or len(engine.bindings) or len(engine.preemptions))

    def start(self) -> None:
        """Start the process."""
        own = copy_context()
        own.run(PROCESS.set, self.number)
        self.task = asyncio.create_task(self.daemon.run(), context=own)

    def stop(self) -> None:
        """Stop, as with SIGSTOP, on a loop that supports it."""
        loop = asyncio.get_running_loop()
        if isinstance(loop, Turns):
            loop.freeze(self.number)

    def go_on(self) -> None:
        """Continue, as with SIGCONT."""
        loop = asyncio.get_running_loop()
        if isinstance(loop, Turns):
            loop.thaw(self.number)

    async def kill(self) -> None:
        """Die at once: sent requests arrive, and no others are sent."""
        self.go_on()
        self.wiring.cut_off()
        await self._ended()

    async def leave(self) -> None:
        """End as after SIGTERM."""
        self.was_asked = True
        self.daemon.stop()
        await self._over("it was asked to end")
        if fault := self.fault():
            raise BrokenError([Breach(Invariant.ENDS, self.wiring.clock.now(), fault)])

    async def _ended(self) -> None:
        self.was_asked = True
        assert self.task is not None
        self.task.cancel()
        await self._over("it was killed")

    async def _over(self, why: str) -> None:
        """Wait until it has ended; record a violation if it does not."""
        assert self.task is not None
        done, _ = await asyncio.wait({self.task}, timeout=MOST_TO_END_S)
        if not done:
            what = f"{self.number} runs {MOST_TO_END_S:.0f} s after {why}"
            raise BrokenError([Breach(Invariant.ENDS, self.wiring.clock.now(), what)])

    def fault(self) -> str:
        """Return the fault of its end: a process ends with code 0 when asked to, and by itself only
        after losing the lease, with code 1.
        """
        if self.task is None or not self.task.done() or self.task.cancelled():
            return ""
        if error := self.task.exception():
            return f"{self.number} ended with {error!r}"
        code = self.task.result()
        if (self.was_asked and code == 0) or (self.daemon._has_lost and code == 1):
            return ""
        how = "when it was asked to" if self.was_asked else "by itself"
        return f"{self.number} ended {how} with {code}"
