"""The daemon: builds everything once, then runs the loop.

    watches ──events──▶ inbox ──▶ engine ──effects──▶ executor ──answers──▶ inbox

One task owns the engine: it takes a batch of events, applies each, lets the engine try a number of
pods, hands the effects out and sleeps until the next event or the engine's next deadline. Everybody
else (watches, answers, the lease) only puts events into the inbox, so nothing here needs a lock. No
turn of the loop holds it for longer than about `TURN_S`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

import msgspec

from scheduler.base.clock import Clock, perf_s
from scheduler.base.meters import Meters
from scheduler.engine.effects import Effects, Event, Leading
from scheduler.engine.engine import Engine

TURN_S = 0.010
MOST_EVENTS = 400
MOST_CYCLES = 256


class Inbox:
    """Events on their way to the engine, in order of arrival."""

    def __init__(self) -> None:
        self._events: deque[Event] = deque()
        self._arrived = asyncio.Event()

    def __len__(self) -> int:
        return len(self._events)

    def put(self, event: Event) -> None:
        """Add an event and wake the loop."""
        self._events.append(event)
        self._arrived.set()

    def wake(self) -> None:
        """Wake the loop without an event."""
        self._arrived.set()

    def take(self, most: int) -> list[Event]:
        """Return up to `most` events."""
        return [self._events.popleft() for _ in range(min(most, len(self._events)))]

    async def wait(self, timeout_s: float | None) -> None:
        """Wait until an event is there or the time is up."""
        if self._events:
            return
        self._arrived.clear()
        if timeout_s is None:
            await self._arrived.wait()
        else:
            try:
                await asyncio.wait_for(self._arrived.wait(), timeout_s)
            except TimeoutError:
                return


class Step(msgspec.Struct, frozen=True):
    """One turn of the loop, for the decision log: a replay makes the same turns."""

    now: float
    events: list[Event]
    cycles: int
    effects: tuple[Effects, ...]


class Loop:
    """Drives the engine; `submit` hands effects out, `room` says how many more may be under way."""

    def __init__(
        self,
        engine: Engine,
        inbox: Inbox,
        clock: Clock,
        *,
        submit: Callable[[tuple[Effects, ...]], None],
        room: Callable[[], int],
        meters: Meters,
        record: Callable[[Step], None] | None = None,
    ) -> None:
        self._engine = engine
        self._inbox = inbox
        self._clock = clock
        self._submit = submit
        self._room = room
        self._meters = meters
        self._record = record
        self._cycles = 16

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            await self._inbox.wait(self._patience_s())
            self.turn()
            # Let watches and answers in: they are other tasks of this loop.
            await asyncio.sleep(0)

    def turn(self) -> None:
        """Take a batch of events in, try some pods, hand the effects out."""
        started_s = perf_s()
        now = self._clock.now()
        events = self._inbox.take(MOST_EVENTS)
        for event in events:
            self._engine.handle(event, now)
        cycles = max(0, min(self._cycles, self._room()))
        effects = self._engine.run(now, cycles)
        if self._record is not None:
            self._record(Step(now, events, cycles, effects))
        if effects:
            self._submit(effects)
        self._pace(perf_s() - started_s)

    def _pace(self, took_s: float) -> None:
        """Try more pods per turn while turns are short, fewer when they get long."""
        self._meters.engine_run_duration.observe(took_s)
        if took_s > TURN_S:
            self._cycles = max(1, self._cycles // 2)
        elif took_s < TURN_S / 2:
            self._cycles = min(MOST_CYCLES, self._cycles * 2)

    def _patience_s(self) -> float | None:
        """Return how long nothing needs to be done, in seconds; None for "until an event"."""
        if self._engine.has_work() and self._room() > 0:
            return 0.0
        deadline = self._engine.next_wakeup()
        return None if deadline is None else max(0.0, deadline - self._clock.now())
