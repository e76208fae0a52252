"""The state of the operators: one record each, written by the runner, read by endpoints and
metrics.

The daemon creates it before the operators start and registers `check` as a health check. An
operator that waits for its CRD is healthy, and so is a stopped one.
"""

from typing import Literal

import msgspec

from scheduler.base.clock import Clock
from scheduler.base.meters import Meters


class MetricSources:
    """The newest response of every source, by its name."""

    def __init__(self, meters: Meters, clock: Clock) -> None:
        self._clock = clock
        self._answered: dict[str, float] = {}
        self._failures = meters.metric_source_failures
        meters.metric_source_age.read_from(self._ages)

    def reported(self, name: str, answered_at: float | None, error: str) -> None:
        """Record the time of the newest response and the present error.

        A time of None: never measured, expired, or the source is no longer queried.
        """
        self._failures.labels(name).inc(1 if error else 0)
        if answered_at is None:
            self._answered.pop(name, None)
        else:
            self._answered[name] = answered_at

    def _ages(self) -> dict[str, float]:
        now = self._clock.now()
        return {name: now - answered for name, answered in self._answered.items()}


State = Literal["stopped", "starting", "waiting", "running", "down"]


class OperatorRecord(msgspec.Struct, frozen=True):
    """One operator now; `since` is when it came into its state, in seconds since the epoch."""

    name: str
    state: State
    since: float
    restarts: int = 0
    last_error: str = ""


class OperatorsHealth:
    """The health of all operators of this process; `sources` has that of their data sources."""

    def __init__(self, meters: Meters, clock: Clock) -> None:
        self._clock = clock
        self.meters = meters
        self.records: dict[str, OperatorRecord] = {}
        self._restarts = meters.operator_restarts
        self.sources = MetricSources(meters, clock)
        meters.operator_healthy.read_from(self._gauge)

    def check(self) -> str | None:
        """Return None if all are healthy, else which ones are down and why."""
        down = [one for one in self.records.values() if not _is_well(one)]
        if not down:
            return None
        return "; ".join(f"operator {one.name} is down: {one.last_error}" for one in down)

    def enter(self, name: str, state: State) -> None:
        """Record the current state of an operator."""
        before = self.records.get(name)
        if before is None:
            self._restarts.labels(name)  # shown as 0 from the start
            self.records[name] = OperatorRecord(name, state, self._clock.now())
        elif before.state != state:
            self._put(before, state=state, since=self._clock.now())

    def note_error(self, name: str, error: str) -> None:
        """Record an error that the operator survived."""
        self._put(self.records[name], last_error=error)

    def crashed(self, name: str, error: str) -> None:
        """Take note that an operator has ended and will be started again."""
        before = self.records[name]
        self._restarts.labels(name).inc()
        self._put(
            before,
            state="down",
            since=self._clock.now(),
            restarts=before.restarts + 1,
            last_error=error,
        )

    def _gauge(self) -> dict[str, float]:
        """Return the gauge's values, without stopped operators: a standby runs none."""
        return {
            name: float(_is_well(one))
            for name, one in self.records.items()
            if one.state != "stopped"
        }

    def _put(self, before: OperatorRecord, **changes: object) -> None:
        self.records[before.name] = msgspec.structs.replace(before, **changes)


def _is_well(record: OperatorRecord) -> bool:
    return record.state != "down"
