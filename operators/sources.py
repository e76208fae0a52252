"""`Sources`: how each source of measurements does, as metrics; whoever asks one tells here."""

from scheduler.base.clock import Clock
from scheduler.base.meters import Meters


class Sources:
    """The newest answer of every source, by its name."""

    def __init__(self, meters: Meters, clock: Clock) -> None:
        self._clock = clock
        self._answered: dict[str, float] = {}
        self._failures = meters.metric_source_failures
        meters.metric_source_age.read_from(self._ages)

    def told(self, name: str, answered_at: float | None, error: str) -> None:
        """Take note of when the newest answer is from, and what went wrong now.

        None says that there is none: never was, has expired, or nobody asks this source any more.
        """
        self._failures.labels(name).inc(1 if error else 0)
        if answered_at is None:
            self._answered.pop(name, None)
        else:
            self._answered[name] = answered_at

    def _ages(self) -> dict[str, float]:
        now = self._clock.now()
        return {name: now - answered for name, answered in self._answered.items()}
