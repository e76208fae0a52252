"""`Synced`: whether the engine has the API server's state of every kind, and where a gap is
reported.

The daemon checks it before it starts to lead and after every turn. While a kind is not listed yet,
or is being relisted, the engine schedules nothing; readiness, a gauge and the log name the kind. It
reads what the engine has taken in and changes nothing.
"""

from collections.abc import Sequence

import structlog

from scheduler.base.clock import Clock
from scheduler.base.meters import Meters
from scheduler.engine.intake import Intake
from scheduler.objects.kinds import WATCHED, Kind

_log = structlog.get_logger()


class Synced:
    """Reads from `intake` which kinds are known; `note` is called after every turn."""

    def __init__(
        self, intake: Intake, clock: Clock, meters: Meters, kinds: Sequence[Kind] = WATCHED
    ) -> None:
        self._intake = intake
        self._kinds = kinds
        self._clock = clock
        self._paused_at: float | None = None
        meters.decisions_paused.read_from(
            lambda: {
                kind.kind: float(kind.kind in intake.behind) for kind in WATCHED if kind.required
            }
        )

    def missing(self) -> list[str]:
        """Return the kinds that have not been listed yet."""
        return [kind.kind for kind in self._kinds if kind.kind not in self._intake.synced]

    def check(self) -> str | None:
        """Return which kinds are not synced, for the readiness endpoint; None if all are."""
        if missing := self.missing():
            return f"not listed yet: {', '.join(missing)}"
        if behind := sorted(self._intake.behind):
            return f"nothing is decided until these have been listed anew: {', '.join(behind)}"
        return None

    def note(self) -> None:
        """Log when decisions pause and when they resume."""
        behind = self._intake.behind
        if bool(behind) is (self._paused_at is not None):
            return
        now = self._clock.now()
        if self._paused_at is None:
            self._paused_at = now
            _log.warning("decisions pause until these have been listed anew", kinds=sorted(behind))
        else:
            _log.info("decisions go on", paused_s=round(now - self._paused_at, 3))
            self._paused_at = None
