"""`Deadline`: the time budget of one answer; loading a module does not consume it."""

from collections.abc import Iterator
from contextlib import contextmanager

from scheduler.base.clock import perf_s


class Deadline:
    """A time limit: calling it returns the seconds left, negative after the deadline.

    Loading OR-Tools takes one to three seconds, longer than most searches; `loading` extends the
    limit by the duration of its block.
    """

    def __init__(self, seconds: float) -> None:
        self.total = seconds
        self._started = perf_s()

    def __call__(self) -> float:
        return self.total - self.spent

    @property
    def spent(self) -> float:
        """Return the seconds since the start, without those spent in `loading`."""
        return perf_s() - self._started

    @property
    def is_over(self) -> bool:
        """Return whether no time is left."""
        return self() <= 0

    @contextmanager
    def loading(self) -> Iterator[None]:
        """Extend the limit by the duration of the block."""
        started = perf_s()
        try:
            yield
        finally:
            self._started += perf_s() - started
