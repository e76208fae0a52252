"""Attempts of pods that extenders are interested in; `engine.attempt.attempt` concludes them.

For each popped pod the engine checks whether an extender is interested; other pods are scheduled
without this module. `engine.extender.cycle` has the steps between begin and conclusion,
`engine.attempt.suspended` the waiting.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from scheduler.engine.attempt.attempt import Attempts
from scheduler.engine.attempt.suspended import SuspendedCycles
from scheduler.engine.decision import Decision
from scheduler.engine.extender.cycle import ExtenderCycle
from scheduler.engine.extender.extenders import ConfiguredExtender, interested
from scheduler.engine.observation import Observation
from scheduler.engine.outbox import Outbox
from scheduler.engine.queue.pod import QueuedPod
from scheduler.engine.queue.queues import Queues


class ExtenderRun(msgspec.Struct, frozen=True):
    """A pod in a cycle with extenders since `started_s` of the stopwatch."""

    queued: QueuedPod
    cycle: ExtenderCycle
    started_s: float


class ExtenderAttempts:
    """The extenders of an engine; `is_needed` is False without any."""

    def __init__(
        self,
        extenders: Sequence[ConfiguredExtender],
        suspended: SuspendedCycles,
        queues: Queues,
        attempts: Attempts,
        observation: Observation,
        outbox: Outbox,
    ) -> None:
        self._extenders = tuple(extenders)
        self._suspended = suspended
        self._queues = queues
        self._attempts = attempts
        self._observation = observation
        self._outbox = outbox
        self.is_needed = bool(extenders)

    def begin(self, queued: QueuedPod, started_s: float, now: float) -> bool:
        """Start a cycle with extenders; return False, and do nothing, if none applies
        to the pod.
        """
        involved = interested(self._extenders, queued.pod)
        if not any(one.filters or one.prioritizes or one.preempts for one in involved):
            return False
        cycle = ExtenderCycle(
            lambda: self._attempts.start_attempt(queued, self._outbox.now),
            involved,
            self._observation.fault,
        )
        # Changes while an answer is awaited must be recorded.
        self._queues.track(queued)
        run = ExtenderRun(queued, cycle, started_s)
        self._suspended.begin(queued.uid, queued.profile, cycle.steps(), run, now)
        return True

    def concluded(self, run: ExtenderRun, outcome: Any, now: float) -> None:
        """Carry out the outcome of a pod's cycle."""
        if isinstance(outcome, Decision):
            self._attempts.decided(run.queued, run.cycle.attempt, outcome, run.started_s, now)
        else:
            self._attempts.failed(run.queued, outcome, run.started_s, now)
