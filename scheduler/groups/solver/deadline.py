"""`Deadline`: the time budget of one answer; loading a module does not consume it."""

from collections.abc import Iterator
from contextlib import contextmanager

from scheduler.base.clock import perf_s


class Deadline:
    """A number of seconds from now; calling it returns the remaining ones, negative after the
    deadline.

    OR-Tools takes one to three seconds to load, more than most searches: `loading` adds the time of
    its block.
    """

    def __init__(self, seconds: float) -> None:
        self.total = seconds
        self._started = perf_s()

    def __call__(self) -> float:
        return self.total - self.spent

    @property
    def spent(self) -> float:
        """Return the seconds that have passed, without those of loading."""
        return perf_s() - self._started

    @property
    def is_over(self) -> bool:
        """Whether no time is left."""
        return self() <= 0

    @contextmanager
    def loading(self) -> Iterator[None]:
        """Exclude the time of the block."""
        begun = perf_s()
        try:
            yield
        finally:
            self._started += perf_s() - begun
