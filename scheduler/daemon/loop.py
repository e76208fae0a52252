"""`Loop`: the one task that owns the engine.

It takes a batch of events, applies each, lets the engine try a number of pods, hands the effects
out and sleeps until the next event or the engine's next deadline. All other tasks only put events
into the inbox, so nothing here needs a lock. No turn blocks asyncio's loop for much longer than
`TURN_S`. While pods are active, at most half of that time is spent on events, so that a flood of
events does not delay these pods.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

from scheduler.base.clock import Clock, perf_s
from scheduler.base.meters import Meters
from scheduler.daemon.inbox import Arrived, Inbox
from scheduler.engine.effects import Effects, Event
from scheduler.engine.engine import Engine
from scheduler.framework.running.measure import Stopwatch

TURN_S = 0.010
MOST_EVENTS = 400
AT_A_TIME = 16
MOST_CYCLES = 32
MOST_IN_FLIGHT = 1000


class TurnRecord(Protocol):
    """Receives events as they arrive and each turn when it ends (`DecisionFile`)."""

    def arrive(self, event: Event, /) -> int:
        """Return the size of the event's text."""

    def record(
        self, now: float, arrived: list[Arrived], cycles: int, effects: tuple[Effects, ...], /
    ) -> None:
        """Record one turn."""


class Outside(Protocol):
    """The receiver of effects (`kube.effects.Executor`)."""

    def submit(self, effects: tuple[Effects, ...], /) -> None:
        """Take effects in the engine's order; returns at once."""

    async def wait_capacity(self) -> None:
        """Wait while too much is queued."""


class Loop:
    """Drives one engine; `after_turn` is called after each turn, `record` receives its events and
    effects.

    The number of events per turn depends on their duration by `stopwatch`, the number of attempts
    on the duration of earlier attempts.
    """

    def __init__(
        self,
        engine: Engine,
        inbox: Inbox,
        outside: Outside,
        clock: Clock,
        meters: Meters,
        *,
        after_turn: Callable[[], None],
        record: TurnRecord | None = None,
        stopwatch: Stopwatch = perf_s,
    ) -> None:
        self._engine = engine
        self._inbox = inbox
        self._outside = outside
        self._clock = clock
        self._duration = meters.engine_run_duration
        self._after_turn = after_turn
        self._record = record
        self._read_s = stopwatch
        self._cycles = 16

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            await self._inbox.wait(self._patience_s())
            await self._outside.wait_capacity()
            self.turn()
            # Watches and answers are other tasks of this loop: let them in.
            await asyncio.sleep(0)

    def turn(self) -> None:
        """Apply a batch of events, try some pods, submit the effects."""
        started_s = self._read_s()
        now = self._clock.now()
        events = self._take_in(now, started_s)
        cycles = max(0, min(self._cycles, self._free_bindings()))
        trying_s = self._read_s()
        effects = self._engine.run(now, cycles)
        if self._record is not None:
            self._record.record(now, events, cycles, effects)
        if effects:
            self._outside.submit(effects)
        self._after_turn()
        ended_s = self._read_s()
        self._duration.observe(ended_s - started_s)
        self._pace(ended_s - trying_s)

    def _take_in(self, now: float, started_s: float) -> list[Arrived]:
        """Pass pending events to the engine, at most a turn's share; return them."""
        taken: list[Arrived] = []
        most_s = TURN_S / 2 if self._engine.has_work() else TURN_S
        while len(taken) < MOST_EVENTS and (some := self._inbox.take(AT_A_TIME)):
            for event, _ in some:
                self._engine.handle(event, now)
            taken += some
            if self._read_s() - started_s > most_s:
                break
        return taken

    def _pace(self, took_s: float) -> None:
        """Try more pods in the next turn where trying them took little time, fewer where it took
        long.

        The time of taking in events does not count: a burst of events would otherwise reduce the
        number of attempts.
        """
        if took_s > TURN_S:
            self._cycles = max(1, self._cycles // 2)
        elif took_s < TURN_S / 2:
            self._cycles = min(MOST_CYCLES, self._cycles * 2)

    def _free_bindings(self) -> int:
        return MOST_IN_FLIGHT - self._engine.view.bindings().busy

    def _patience_s(self) -> float | None:
        """Return how long the loop may sleep in seconds; None until an event arrives."""
        if self._engine.has_work() and self._free_bindings() > 0:
            return 0.0
        deadline = self._engine.next_wakeup()
        return None if deadline is None else max(0.0, deadline - self._clock.now())
