"""Pods about which extenders are asked: begun here, and handed back to the engine when decided.

The engine asks for each popped pod whether any extender wants to see it; for all others nothing
changes. What happens in between is `engine.extender.cycle`; waiting is `engine.attempt.suspended`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from scheduler.engine.attempt.cycle import Attempt
from scheduler.engine.attempt.suspended import SuspendedCycles
from scheduler.engine.decision import Decision
from scheduler.engine.extender.cycle import ExtenderCycle
from scheduler.engine.extender.extenders import Extender, interested
from scheduler.engine.queue.queues import QueuedPod, Queues
from scheduler.objects.pod import Pod

Complain = Callable[[str, str, Exception], None]
# The pod, the attempt and what came of it, when the attempt began (by the stopwatch), and the time.
Decided = Callable[[QueuedPod, Attempt, Decision, float, float], None]
Failed = Callable[[QueuedPod, Exception, float, float], None]


class ExtenderAttempts:
    """The extenders of an engine; `is_needed` is False without any."""

    def __init__(
        self,
        extenders: Sequence[Extender],
        suspended: SuspendedCycles,
        queues: Queues,
        attempt: Callable[[QueuedPod], Attempt],
        complain: Complain,
    ) -> None:
        self._extenders = tuple(extenders)
        self._suspended = suspended
        self._queues = queues
        self._attempt = attempt
        self._complain = complain
        self.is_needed = bool(extenders)

    def begin(
        self, queued: QueuedPod, started_s: float, now: float, decided: Decided, failed: Failed
    ) -> bool:
        """Ask the extenders about a pod; return False, and do nothing, when none wants to decide."""
        asked = interested(self._extenders, queued.pod)
        if not any(one.filters or one.prioritizes or one.preempts for one in asked):
            return False
        cycle = ExtenderCycle(lambda: self._attempt(queued), asked, self._complain)

        def end(outcome: Any, at: float) -> None:
            if isinstance(outcome, Decision):
                decided(queued, cycle.attempt, outcome, started_s, at)
            else:
                failed(queued, outcome, started_s, at)

        # What changes while an answer is awaited must not go unnoticed.
        self._queues.track(queued)
        self._suspended.begin(queued.uid, queued.profile, cycle.steps(), end, now)
        return True

    def binder(self, pod: Pod) -> Extender | None:
        """Return the extender that binds a pod instead of the plugins, or None."""
        asked = interested(self._extenders, pod)
        return next((extender for extender in asked if extender.binds), None)
