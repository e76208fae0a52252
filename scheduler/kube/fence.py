"""Whether this process may still write: open until a moment that only the election moves.

Everything that writes asks before each request. A moment, not a flag: a process that was stopped or
starved past its deadline finds the fence closed before any timer has told it so.
"""

from math import inf

from scheduler.base.clock import Clock


class FencedError(Exception):
    """A request that was not sent, because this process may not write any more."""


class Fence:
    """Open while `clock` has not reached the moment given last; without election for ever."""

    def __init__(self, clock: Clock, until: float = inf) -> None:
        self._clock = clock
        self._until = until

    @property
    def is_open(self) -> bool:
        """Whether a request may be sent now."""
        return self._clock.now() < self._until

    def open_until(self, moment: float) -> None:
        """Allow requests until `moment`, in seconds since the epoch."""
        self._until = moment

    def close(self) -> None:
        """Allow nothing any more."""
        self._until = -inf

    def check(self) -> None:
        """Raise FencedError when nothing may be sent any more."""
        if not self.is_open:
            raise FencedError
