"""An event loop without sockets with virtual time, which jumps to the next timer.

There is no external input, so each turn is the same in every run. A simulation with endless turns
at one time, or without any timer, is reported at once, by number of turns and not by the machine's
clock.
"""

import asyncio
import heapq
from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from typing import Any, TypeVar

T = TypeVar("T")
# The owner of callbacks; 0 is the cluster itself, its network and its users.
PROCESS: ContextVar[int] = ContextVar("PROCESS", default=0)
# The number of turns at one time that means an endless loop. The busiest valid time takes some
# hundreds.
MOST_TURNS = 20_000
# Timers this close are due together.
RESOLUTION_S = 1e-6
# The number of cancelled timers before they are removed.
FEW = 200


class SpinningError(AssertionError):
    """A simulation takes endless turns at one time, or has no timer left."""


class Timer(asyncio.TimerHandle):
    """A timer without debug data: most of a quiet simulation is timers."""

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: asyncio.AbstractEventLoop,
        context: Context | None,
    ) -> None:
        self._context = copy_context() if context is None else context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._repr = self._source_traceback = None
        self._when = when
        self._scheduled = True


class Turns(asyncio.BaseEventLoop):
    """The loop; `turns` is the number of turns so far."""

    def __init__(self) -> None:
        super().__init__()
        self._now_s = 0.0
        self._moved_at = 0
        self._frozen: dict[int, list[Any]] = {}
        # By time, and for equal times in the order of creation.
        self._timers: list[tuple[float, int, Timer]] = []
        self._set = 0
        self.turns = 0

    def freeze(self, process: int) -> None:
        """Stop all callbacks of a process, as SIGSTOP does: due ones are kept."""
        self._frozen.setdefault(process, [])

    def thaw(self, process: int) -> None:
        """Continue a process: callbacks due meanwhile run now, in their order."""
        self._ready.extend(self._frozen.pop(process, ()))  # type: ignore[attr-defined]

    def time(self) -> float:
        """Return virtual seconds since the beginning."""
        return self._now_s

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """Run a callback in the next turn."""
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)  # type: ignore[attr-defined]
        return handle

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Set a timer."""
        timer = Timer(when, callback, args, self, context)
        self._set += 1
        heapq.heappush(self._timers, (when, self._set, timer))
        return timer

    def call_later(  # type: ignore[override]
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Set a timer so many seconds from now."""
        return self.call_at(self._now_s + delay, callback, *args, context=context)

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Run a thread's work at once, so that it always runs at the same time."""
        del executor
        done: asyncio.Future[T] = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - the waiting caller gets it
            done.set_exception(error)
        return done

    def _run_once(self) -> None:
        ready, timers = self._ready, self._timers  # type: ignore[attr-defined]
        if self._timer_cancelled_count > max(FEW, len(timers) // 2):
            self._sweep()
            timers = self._timers
        if not ready and not self._stopping:  # type: ignore[attr-defined]
            while timers and timers[0][2]._cancelled:
                self._pop()
            if not timers:
                raise SpinningError("no task waits for anything any more")
            if timers[0][0] > self._now_s:
                self._now_s = timers[0][0]
                self._moved_at = self.turns
        end = self._now_s + RESOLUTION_S
        while timers and timers[0][0] < end:
            timer = self._pop()
            if not timer._cancelled:
                ready.append(timer)
        self.turns += 1
        if self.turns - self._moved_at > MOST_TURNS:
            raise SpinningError(f"{MOST_TURNS} turns of the loop and no time passes")
        for _ in range(len(ready)):
            handle = ready.popleft()
            if handle._cancelled:
                continue
            if self._frozen and (process := handle._context.get(PROCESS, 0)) in self._frozen:
                self._frozen[process].append(handle)
            else:
                handle._run()

    def _pop(self) -> Any:
        timer = heapq.heappop(self._timers)[2]
        timer._scheduled = False
        if timer._cancelled:
            self._timer_cancelled_count -= 1
        return timer

    def _sweep(self) -> None:
        kept = []
        for entry in self._timers:
            if entry[2]._cancelled:
                entry[2]._scheduled = False
            else:
                kept.append(entry)
        heapq.heapify(kept)
        self._timers = kept
        self._timer_cancelled_count = 0

    def _write_to_self(self) -> None:
        """Do nothing: no other thread uses this loop."""
