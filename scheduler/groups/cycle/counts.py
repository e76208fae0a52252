"""`GroupCounts`: the metrics of groups: their stages, attempts and waits.

Fed by `groups` and `writing`; decides nothing. Durations come from the injected stopwatch, waits
from the engine's clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from scheduler.base.clock import parse_rfc3339
from scheduler.engine.observation import Observation
from scheduler.framework.groups import GroupPlanner, GroupStage
from scheduler.objects.pod import Pod


class GroupAttempt(msgspec.Struct, frozen=True):
    """An attempt to place a group: when it began on the stopwatch, and since when people wait."""

    profile: str
    started_s: float
    since: float


class GroupCounts:
    """The metrics of groups."""

    def __init__(self, observation: Observation) -> None:
        self._observation = observation
        self._meters = observation.meters
        self._now_s = observation.now_s

    def record_start(self, profile: str, members: Iterable[Pod], now: float) -> GroupAttempt:
        """Record that a group's attempt has begun."""
        created = (parse_rfc3339(pod.metadata.creation_timestamp) for pod in members)
        since = min([now, *(time for time in created if time is not None)])
        return GroupAttempt(profile, self._now_s(), since)

    def decided(self, attempt: GroupAttempt) -> None:
        """Measure how long deciding took."""
        took_s = self._now_s() - attempt.started_s
        self._meters.podgroup_scheduling_algorithm_duration.observe(took_s)

    def ended(self, attempt: GroupAttempt, result: str, now: float) -> None:
        """Count an attempt whose result is scheduled, unschedulable or error."""
        labels = (result, attempt.profile)
        self._meters.podgroup_schedule_attempts.labels(*labels).inc()
        took_s = self._now_s() - attempt.started_s
        self._meters.podgroup_scheduling_attempt_duration.labels(*labels).observe(took_s)
        if result == "scheduled":
            self._meters.group_wait.observe(now - attempt.since)

    def preempted(self, since_s: float, *, is_done: bool) -> None:
        """Count and measure a search for victims of a group that began at `since_s`."""
        result = "Success" if is_done else "Unschedulable"
        self._meters.workload_preemption_attempts.labels(result).inc()
        # kube-scheduler: a group of groups is a podgroup here.
        self._observation.victims_sought("podgroup", result, self._now_s() - since_s)

    def came_to(self, stage: GroupStage) -> None:
        """Count a stage that a group has reached."""
        if stage not in (GroupStage.CHANGED, GroupStage.ON_HOLD):
            self._meters.group_stages.labels(stage.value).inc()

    def watch(self, planners: Sequence[GroupPlanner]) -> None:
        """Make the gauge read the states of the plugins' groups."""

        def statuses() -> dict[str, float]:
            found: Counter[str] = Counter()
            for planner in planners:
                found.update(planner.group_statuses())
            return dict(found)

        self._meters.groups.read_from(statuses)
