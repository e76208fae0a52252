"""The delays between attempts to reach an API server.

Delays double and are drawn at random from their upper half, so that many clients that lost a server
at one moment do not return at one moment. Retry-After is honoured up to half a minute: a wrong
value must not stop the process for hours.
"""

from random import Random

MOST_RETRY_AFTER_S = 30.0


class RetryBackoff:
    """Delays of one operation that keeps failing; `reset` after a success."""

    __slots__ = ("_first_s", "_longest_s", "_random", "failures")

    def __init__(self, random: Random, *, first_s: float, longest_s: float) -> None:
        self._random = random
        self._first_s = first_s
        self._longest_s = longest_s
        self.failures = 0

    def next_s(self, retry_after_s: float | None = None) -> float:
        """Return the next delay in seconds: at least `retry_after_s`, capped, with jitter on
        top.
        """
        # 2 ** 40 is beyond any limit; without a bound the power itself would grow for ever.
        upper: float = min(self._first_s * 2.0 ** min(self.failures, 40), self._longest_s)
        self.failures += 1
        delay = upper * (0.5 + self._random.random() / 2)
        if retry_after_s is None:
            return delay
        return min(retry_after_s, MOST_RETRY_AFTER_S) + min(delay, 1.0)

    def reset(self) -> None:
        """Start again with the shortest delay, after a success."""
        self.failures = 0
