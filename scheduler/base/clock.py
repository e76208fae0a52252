"""Time as an argument: the one place that reads the machine's clocks.

`Clock.now()` is seconds since the epoch. The real clock never jumps: it reads the wall clock once
and then follows the monotonic one, so that back-off and deadlines survive an adjusted wall clock.
The engine never holds a clock; its caller passes `now`.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """A source of time."""

    def now(self) -> float:
        """Return seconds since the epoch."""


class RealClock:
    """The machine's time, steady: wall clock at creation plus monotonic progress."""

    def __init__(self) -> None:
        self._offset_s = time.time() - time.monotonic()

    def now(self) -> float:
        """Return seconds since the epoch."""
        return self._offset_s + time.monotonic()


class ManualClock:
    """A clock that moves only when set: for tests, `simulate` and replays."""

    def __init__(self, now: float = 0.0) -> None:
        self._now = now

    def now(self) -> float:
        """Return seconds since the epoch."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Move forward by `seconds` (>= 0)."""
        self.set(self._now + seconds)

    def set(self, now: float) -> None:
        """Move forward to `now`; going back is an error of the caller."""
        if now < self._now:
            raise ValueError(f"the clock cannot go back from {self._now} to {now}")
        self._now = now


# A high-resolution reading for measuring how long something took, in seconds; taken some thirty
# times per pod, so it is called directly.
perf_s: Callable[[], float] = time.perf_counter
# CPU time of the calling thread, in seconds.
thread_s: Callable[[], float] = time.thread_time
# CPU time of the whole process, in seconds.
process_s: Callable[[], float] = time.process_time


def rfc3339(now: float) -> str:
    """Write seconds since the epoch as Kubernetes' `Time`: whole seconds, UTC, `Z`."""
    return f"{datetime.fromtimestamp(int(now), UTC).isoformat()[:19]}Z"


def rfc3339_micro(now: float) -> str:
    """Write seconds since the epoch as Kubernetes' `MicroTime`: six decimals, UTC, `Z`."""
    return f"{datetime.fromtimestamp(now, UTC).isoformat(timespec='microseconds')[:26]}Z"


def parse_rfc3339(text: str | None) -> float | None:
    """Read a Kubernetes time; None for an absent or unreadable one."""
    if not text:
        return None
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None
