"""The loop in which simulated kubelets and controllers act.

A controller observes every change of the kinds in its interests, adds keys to its `WorkQueue`, and
acts on one key at a time with the store's current state: changes in between do not matter.
Observers run inside the write that made the change, so no history can be lost, and may only change
queues; acting writes. `ControllerLoop.tick` runs everything that is due (tests, with a manual
clock); `ControllerLoop.run` does the same forever in short slices, so that it never blocks the HTTP
server in the same event loop for long.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush
from typing import Any, Final, Protocol, TypeAlias

from scheduler.base.clock import perf_s
from scheduler.sandbox.api.status import StatusError
from scheduler.sandbox.kinds.kinds import Resource
from scheduler.sandbox.store.collection import ADDED, StoreChange
from scheduler.sandbox.store.store import ObjectStore

ChangeHandler: TypeAlias = Callable[[StoreChange], None]
Interest: TypeAlias = tuple[Resource, ChangeHandler]

_SLICE_S: Final = 0.005
_ROUND: Final = 500
_EXPENSIVE_S: Final = 0.002
_REST: Final = 10.0
_LONGEST_REST_S: Final = 1.0
_FIRST_RETRY_S: Final = 0.5
_LAST_RETRY_S: Final = 60.0


class WorkQueue:
    """Keys to act on, each once: ready ones in order of arrival, and those with a time."""

    def __init__(self) -> None:
        self._ready: dict[str, None] = {}
        self._timers: list[tuple[float, str]] = []
        self._due: dict[str, float] = {}
        self._tries: dict[str, int] = {}
        self._resting: dict[str, float] = {}
        self._unfinished: set[str] = set()

    def add(self, key: str) -> None:
        """Act on `key` soon, or after its pause."""
        until = self._resting.get(key) if self._resting else None
        if until is None:
            self._ready[key] = None
        else:
            self.add_at(key, until)

    def again(self, key: str) -> None:
        """Act on `key` at once: its work is incomplete, so it may not pause."""
        self._unfinished.add(key)
        self._ready[key] = None

    def rest(self, key: str, until: float) -> None:
        """Do not act on `key` before `until`, so that expensive work happens less often."""
        if key in self._unfinished:
            self._unfinished.discard(key)
            return
        self._resting[key] = until
        if key in self._ready:
            del self._ready[key]
            self.add_at(key, until)

    def add_at(self, key: str, when: float) -> None:
        """Act on `key` at `when` (seconds since the epoch); the earliest requested time is used."""
        current = self._due.get(key)
        if current is None or when < current:
            self._due[key] = when
            heappush(self._timers, (when, key))

    def retry(self, key: str, now: float) -> None:
        """Act on `key` again after a pause that doubles with every failure in a row."""
        tries = self._tries.get(key, 0)
        self._tries[key] = tries + 1
        self.add_at(key, now + min(_FIRST_RETRY_S * 2 ** min(tries, 10), _LAST_RETRY_S))

    def succeeded(self, key: str) -> None:
        """Reset the failures of `key`."""
        if self._tries:
            self._tries.pop(key, None)

    def pop(self, now: float) -> str | None:
        """Return the next key to act on, or None when nothing is due."""
        timers = self._timers
        while timers and timers[0][0] <= now:
            when, key = heappop(timers)
            if self._due.get(key) == when:
                del self._due[key]
                self._resting.pop(key, None)
                self._ready[key] = None
        if not self._ready:
            return None
        key = next(iter(self._ready))
        del self._ready[key]
        return key

    def next_due(self) -> float | None:
        """Return the next due time; 0.0 for at once, None for never."""
        if self._ready:
            return 0.0
        timers = self._timers
        while timers and self._due.get(timers[0][1]) != timers[0][0]:
            heappop(timers)
        return timers[0][0] if timers else None


class Controller(Protocol):
    """A component that acts by itself in the sandbox."""

    work_queue: WorkQueue

    def interests(self) -> Iterable[Interest]:
        """Return the kinds that it observes, with the functions to call."""

    def act(self, key: str, now: float) -> None:
        """Reconcile the object of `key`."""


class ControllerLoop:
    """Runs every controller; `strict` raises unexpected exceptions (tests)."""

    def __init__(
        self, store: ObjectStore, controllers: Sequence[Controller], *, strict: bool = False
    ) -> None:
        self._store = store
        self._controllers = tuple(controllers)
        self._strict = strict
        self._woken = asyncio.Event()
        self._handlers: dict[str, list[ChangeHandler]] = {}
        self._paced = False
        self._at = 0
        self._left = _ROUND
        self.faults = 0
        resources: dict[str, Resource] = {}
        for controller in self._controllers:
            for resource, observe in controller.interests():
                resources[resource.storage] = resource
                self._handlers.setdefault(resource.storage, []).append(observe)
        store.listen(self._observe)
        for resource in resources.values():
            for stored in store.list(resource):
                self._observe(resource, StoreChange(ADDED, stored, None))

    def turn(self, now: float, is_over: Callable[[], bool]) -> bool:
        """Act until nothing is due or the slice is over; return True if work is left.

        Controllers take turns of up to `_ROUND` keys. With one key each, a controller would
        evaluate all its pods again after every single pod that a kubelet starts.
        """
        idle = 0
        while idle < len(self._controllers):
            controller = self._controllers[self._at]
            key = controller.work_queue.pop(now) if self._left else None
            if key is None:
                idle = idle + 1 if self._left == _ROUND else 0
                self._at = (self._at + 1) % len(self._controllers)
                self._left = _ROUND
                continue
            idle = 0
            self._left -= 1
            if self._paced:
                started = perf_s()
                self._act(controller, key, now)
                self._pace(controller, key, now, perf_s() - started)
            else:
                self._act(controller, key, now)
            if is_over():
                return True
        return False

    def tick(self, now: float | None = None) -> None:
        """Do all work that is due at `now`, including its consequences."""
        moment = self._store.clock.now() if now is None else now
        while self.turn(moment, _never):
            pass

    def next_due(self) -> float | None:
        """Return when the earliest controller is due; 0.0 for at once, None for never."""
        found = [
            due
            for controller in self._controllers
            if (due := controller.work_queue.next_due()) is not None
        ]
        return min(found) if found else None

    async def run(self) -> None:
        """Act for ever; ends by cancellation."""
        loop = asyncio.get_running_loop()
        self._paced = True
        while True:
            self._woken.clear()
            if self.turn(self._store.clock.now(), _over_after(_SLICE_S)):
                await asyncio.sleep(0)
                continue
            due = self.next_due()
            if due is None:
                await self._woken.wait()
                continue
            pause_s = max(0.0, due - self._store.clock.now())
            timer = loop.call_later(pause_s, self._woken.set)
            try:
                await self._woken.wait()
            finally:
                timer.cancel()

    def close(self) -> None:
        """Stop observing."""
        self._handlers = {}

    def _observe(self, resource: Resource, change: StoreChange) -> None:
        hears = self._handlers.get(resource.storage)
        if hears is None:
            return
        for observe in hears:
            try:
                observe(change)
            except Exception:
                # The write belongs to another component: it must not fail because of a listener.
                if self._strict:
                    raise
                self.faults += 1
                _log().exception("sandbox listener failed", object=change.stored.key)
        self._woken.set()

    def _act(self, controller: Controller, key: str, now: float) -> None:
        try:
            controller.act(key, now)
        except StatusError as refusal:
            name = type(controller).__name__
            _log().info(
                "sandbox controller was refused", controller=name, key=key, error=refusal.message
            )
            controller.work_queue.retry(key, now)
        except Exception:  # one faulty object must not end the loop of all controllers
            if self._strict:
                raise
            self.faults += 1
            _log().exception(
                "sandbox controller failed", controller=type(controller).__name__, key=key
            )
            controller.work_queue.retry(key, now)
        else:
            controller.work_queue.succeeded(key)

    def _pace(self, controller: Controller, key: str, now: float, spent_s: float) -> None:
        """Pause a key whose work is expensive, so that it takes a tenth of the time at most."""
        if spent_s > _EXPENSIVE_S:
            controller.work_queue.rest(key, now + min(_REST * spent_s, _LONGEST_REST_S))


def _log() -> Any:
    # Slow to load, and rarely needed: the sandbox must start quickly.
    import structlog

    return structlog.get_logger(__name__)


def _over_after(seconds: float) -> Callable[[], bool]:
    end = perf_s() + seconds
    return lambda: perf_s() > end


def _never() -> bool:
    return False
