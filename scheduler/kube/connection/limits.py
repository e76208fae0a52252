"""A limit on requests per second, if configured (`clientConnection.qps`, `burst`)."""

import asyncio

from scheduler.base.clock import Clock


class RateLimit:
    """Lets `qps` requests per second pass, and up to `burst` at once after a quiet time."""

    def __init__(self, clock: Clock, qps: float, burst: int) -> None:
        if qps <= 0 or burst < 1:
            raise ValueError("a rate limit needs qps > 0 and burst >= 1")
        self._clock = clock
        self._interval_s = 1.0 / qps
        self._headroom_s = (burst - 1) * self._interval_s
        self._next = clock.now() - self._headroom_s

    async def wait(self) -> None:
        """Return when this request may be sent; the order of calls is kept."""
        now = self._clock.now()
        self._next = max(self._next, now - self._headroom_s) + self._interval_s
        delay = self._next - self._interval_s - now
        if delay > 0:
            await asyncio.sleep(delay)
