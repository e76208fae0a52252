"""Carries a preemption out: evicts victims, clears lower nominations, keeps the preemptor waiting.

A post-filter plugin has chosen the victims; here the decision becomes effects. The preemptor stays
out of the queue while evictions are in progress (`running`, which the plugin's pre-enqueue reads
through its handle). An eviction that fails ends the preemption; the pod is retried after its
back-off.
"""

from collections.abc import Mapping, Sequence

import msgspec

from scheduler.engine.attempt.failure import (
    PreemptionRecord,
    group_event,
    nomination_patch,
    preempted_event,
    preempting_event,
)
from scheduler.engine.binding.bindings import Bindings
from scheduler.engine.binding.nominations import Nominations
from scheduler.engine.effects import Answer, Evict, longest_eviction_s
from scheduler.engine.intake import Intake, capacity_freed
from scheduler.engine.observation import Observation
from scheduler.engine.outbox import Outbox
from scheduler.engine.queue.pod import Where
from scheduler.engine.queue.queues import Queues
from scheduler.framework.groups import GroupPlanner
from scheduler.objects.pod import Pod
from scheduler.state.podindex import Placed


class PendingEvictions(msgspec.Struct):
    """A preemption with unanswered evictions: the victims' uids by effect."""

    effects: dict[int, str]
    since: float
    by: PreemptionRecord
    victims: list[Placed]

    @property
    def deadline(self) -> float:
        """Return when the preemption counts as failed."""
        return self.since + longest_eviction_s(len(self.victims))


class Preemptions:
    """The preemptions in progress.

    `running` has, by preemptor, those with unanswered evictions. `leaving` has the pods whose
    eviction the API server confirmed and whose deletion the watch has not shown yet.
    """

    def __init__(
        self,
        outbox: Outbox,
        queues: Queues,
        nominations: Nominations,
        bindings: Bindings,
        observation: Observation,
        intake: Intake,
        running: dict[str, PendingEvictions],
        leaving: set[str],
        planners: Mapping[str, GroupPlanner],
    ) -> None:
        self._outbox = outbox
        self._queues = queues
        self._nominations = nominations
        self._bindings = bindings
        self._observation = observation
        self._intake = intake
        self.running = running
        self._leaving = leaving
        self._planners = planners

    def __len__(self) -> int:
        return len(self.running)

    def break_off(self, now: float) -> None:
        """End all preemptions: without the right to write it is unknown which evictions
        were sent.
        """
        for uid in list(self.running):
            self._end(uid, now, is_done=False)
            self._queues.activate([uid], now)

    def is_evicting(self, uid: str) -> bool:
        """Return whether the pod's eviction is in progress, or confirmed and not yet shown by the
        watch.
        """
        under_way = (one.effects.values() for one in self.running.values())
        return uid in self._leaving or any(uid in uids for uids in under_way)

    def begin(self, by: PreemptionRecord, victims: tuple[Placed, ...], now: float) -> None:
        """Evict `victims` for a pod that is nominated to its node already.

        Each victim and its group get an event before the eviction; the preemptor gets one that
        lists all of them.
        """
        pod = by.pod
        self._observation.preempted(by.preemptor, len(victims), by.disruption)
        leaving = [victim for victim in victims if not victim.pod.is_terminating]
        if not leaving:
            # kube-scheduler: without victims it returns before it clears nominations.
            return
        self._outbox.put(preempting_event(by, leaving, now))
        self._notify_groups(by, leaving, now)
        for victim in leaving:
            self._outbox.put(preempted_event(victim, by, now))
        bound = [one for one in leaving if not self._bindings.preempt(one.pod.metadata.uid, now)]
        effects = self._evict(bound, pod)
        if effects:
            self.running[pod.metadata.uid] = PendingEvictions(effects, now, by, leaving)
        self._clear_nominations(pod, by.node, now)

    def answer(self, answer: Answer, now: float) -> bool:
        """Process the answer to an eviction; return False for any other answer."""
        for uid, running in self.running.items():
            if answer.effect in running.effects:
                victim = running.effects.pop(answer.effect)
                if answer.ok:
                    self._leaves(victim)
                if not answer.ok and answer.code != 404:
                    self._end(uid, now, is_done=False)
                elif not running.effects:
                    self._end(uid, now, is_done=True)
                return True
        return False

    def _leaves(self, victim: str) -> None:
        """Record an evicted pod until the watch shows its deletion."""
        here = self._intake.is_placed
        self._leaving.intersection_update([uid for uid in self._leaving if here(uid)])
        self._leaving.add(victim)

    def expire(self, now: float) -> None:
        """End preemptions whose evictions stay unanswered."""
        for uid in [uid for uid, one in self.running.items() if one.deadline <= now]:
            self._end(uid, now, is_done=False)

    def next_deadline(self) -> float | None:
        """Return the earliest deadline of a preemption, or None."""
        return min((one.deadline for one in self.running.values()), default=None)

    def _notify_groups(self, by: PreemptionRecord, victims: Sequence[Placed], now: float) -> None:
        """Notify the groups of victims of the preemptor."""
        planner = self._planner(by)
        if planner is None:
            return
        whom = f"group {by.group_name}" if by.group else f"pod {by.pod.key}"
        reporter = by.pod.spec.scheduler_name
        try:
            for event in planner.group_evicted(victims, whom, by.group_name, reporter):
                self._outbox.put(group_event(event, now))
        except Exception as error:  # noqa: BLE001 - a group's event changes no decision
            self._observation.fault(planner.name, "GroupEvicted", error)

    def _planner(self, by: PreemptionRecord) -> GroupPlanner | None:
        """Return the group planner of the preemptor's profile, or any."""
        own = self._planners.get(by.pod.spec.scheduler_name)
        return own or next(iter(self._planners.values()), None)

    def _evict(self, victims: Sequence[Placed], preemptor: Pod) -> dict[int, str]:
        """Put out the evictions of victims that go together; return their uids by effect."""
        message = (
            f"{preemptor.spec.scheduler_name}: preempting to accommodate a higher priority pod"
        )
        effects: dict[int, str] = {}
        unit = 0
        for victim in victims:
            meta, effect = victim.pod.metadata, self._outbox.new_id()
            unit = unit or (effect if len(victims) > 1 else 0)
            self._outbox.put(eviction(effect, victim.pod, message, unit, len(victims)))
            effects[effect] = meta.uid
        return effects

    def _clear_nominations(self, pod: Pod, node: str, now: float) -> None:
        """Clear the nominations of lower-priority pods to the node and requeue these pods at
        once.
        """
        rank = self._nominations.priority_of
        # All at once: the remaining members of a group would count for more than the group.
        lower = [one for one in self._nominations.on(node).values() if rank(one) < rank(pod)]
        for other in lower:
            self._nominations.drop(other.metadata.uid)
            queued = self._queues.get(other.metadata.uid)
            if queued is not None:
                self._outbox.put(nomination_patch(queued, ""))
            self._intake.announce(capacity_freed(other), now)
            self._queues.activate([other.metadata.uid], now)

    def _end(self, uid: str, now: float, *, is_done: bool) -> None:
        running = self.running.pop(uid)
        self._observation.evicted(running.by.preemptor, now - running.since, is_done=is_done)
        planner = None if is_done else self._planner(running.by)
        if planner is not None:
            planner.group_spared(running.victims)
        queued = self._queues.get(uid)
        if queued is None:
            # The preemptor is gone; members of its group may wait for the same evictions.
            self._intake.announce(capacity_freed(running.by.pod), now)
        elif not is_done:
            # kube-scheduler: the pod is tried again at once. A pod whose evictions are refused
            # would be tried hundreds of times a second.
            self._queues.hold_off(uid, "PreemptionFailed")
        elif queued.where is Where.GATED:
            # A gated pod is not woken by the deletion of its victims.
            self._queues.activate([uid], now)


def eviction(effect: int, victim: Pod, message: str, unit: int = 0, size: int = 0) -> Evict:
    """Return the effect that evicts a pod, of `size` pods in a `unit` (0 is none)."""
    meta, mark = victim.metadata, victim.condition("DisruptionTarget")
    return Evict(
        effect,
        meta.namespace,
        meta.name,
        meta.uid,
        message,
        unit,
        size if unit else 0,
        meta.generation,
        is_marked=mark is not None and mark.status == "True",
    )
