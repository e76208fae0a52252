"""What becomes of an attempt: a pod on its way to a node, bound, or back in the queue with a reason.

The engine, its groups and its cycles with extenders all end here. Every way out tells the same people the same
things: the pod (condition, event), the queues, whoever waits for room, and the metrics.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from scheduler.base import reasons
from scheduler.base.errors import PluginError
from scheduler.engine.attempt import failure
from scheduler.engine.attempt.cycle import Attempt
from scheduler.engine.binding.bindings import Bindings
from scheduler.engine.binding.inflight import InFlight
from scheduler.engine.binding.nominations import Nominations
from scheduler.engine.decision import Decision
from scheduler.engine.effects import Call
from scheduler.engine.intake import Intake, room_freed
from scheduler.engine.observation import Observation
from scheduler.engine.outbox import Outbox
from scheduler.engine.queue.queues import QueuedPod, Queues
from scheduler.framework.calls import ApiCall
from scheduler.framework.status import Code, Status
from scheduler.state.cluster import Cluster

if TYPE_CHECKING:
    from scheduler.engine.binding.preemption import Preemptions


class Conclusions:
    """Carries out how attempts end; `first_rows` is where sampling goes on, by profile.

    `intake`, `bindings` and `preemptions` are set by the engine: they are made after this one.
    """

    intake: Intake
    bindings: Bindings
    preemptions: Preemptions

    def __init__(
        self,
        outbox: Outbox,
        cluster: Cluster,
        queues: Queues,
        nominations: Nominations,
        observation: Observation,
        first_rows: dict[str, int],
    ) -> None:
        self._outbox = outbox
        self._cluster = cluster
        self._queues = queues
        self._nominations = nominations
        self._observation = observation
        self._first_rows = first_rows

    def skipped(self, queued: QueuedPod, now: float) -> None:
        """Let a pod go that is being deleted."""
        pod = queued.pod
        self._outbox.put(failure.failed_event(pod, f"skip schedule deleting pod: {pod.key}", now))
        self._queues.remove(queued.uid)
        if self._nominations.drop(queued.uid):
            self.intake.announce(room_freed(pod), now)

    def failed(self, queued: QueuedPod, error: Exception, started_s: float, now: float) -> None:
        """End an attempt that a plugin's fault, or a bad object, broke off."""
        if isinstance(error, PluginError):
            self._observation.fault(error.plugin, error.point, error)
        text = str(error)
        decision = Decision(status=Status(Code.ERROR, (text,)), message=text, nominated_node="")
        self.give_up(queued, decision, started_s, now)

    def decided(
        self, queued: QueuedPod, attempt: Attempt, decision: Decision, started_s: float, now: float
    ) -> None:
        """Carry a decision out: assume the pod and begin to bind it, or tell why not."""
        pod = queued.pod
        if pod.is_terminating:
            # It was asked to go while extenders were asked about it.
            self.skipped(queued, now)
            return
        self._first_rows[queued.profile] = attempt.first_row
        self._observation.decided(queued, decision, started_s)
        if not decision.fits:
            self.give_up(queued, decision, started_s, now)
            return
        self._queues.track(queued)
        # From here on the pod counts where it goes, no longer where it was promised room.
        promised = self._nominations.drop(queued.uid)
        self.intake.announce(self._cluster.assume(pod, decision.node), now)
        if promised not in ("", decision.node):
            self.intake.announce(room_freed(pod), now)
        in_flight = InFlight(queued, attempt.cycle, attempt.runner, attempt.states, decision.node)
        in_flight.started_s = started_s
        self.bindings.begin(in_flight, now)

    def finished(self, pod: InFlight, status: Status, now: float) -> None:
        """Put a pod where it belongs after binding went well, or failed."""
        queued = pod.queued
        if status.is_success:
            self._queues.remove(queued.uid)
            self._outbox.put(failure.scheduled_event(queued.pod, pod.node, now))
            self._observation.scheduled(pod, now)
            self._contained(pod, "post_bind")
            return
        self._contained(pod, "unreserve")
        freed = self._cluster.forget(queued.uid)
        self.intake.follow(freed)
        if pod.is_lost:
            # Deleted, or bound by somebody else: the watch tells what becomes of it.
            self._queues.remove(queued.uid)
            self._observation.not_scheduled(
                queued, rejected=False, message=status.message, started_s=pod.started_s
            )
            self.intake.wake(freed, now)
            if pod.seen_on and freed.kind:
                # The watch is behind: until it has caught up, the pod counts where it was found.
                self.intake.announce(self._cluster.assume(queued.pod, pod.seen_on), now)
            return
        text = failure.rejected_after_choice(status) if status.is_rejected else status.message
        # A member whose bind failed keeps its room: others of its group are bound by now, or are about
        # to be, and if anybody else took the room the group would stay in part.
        kept = pod.node if pod.is_member and pod.binds and not status.is_rejected else ""
        decision = Decision(status=status, message=text, nominated_node=kept)
        self.give_up(queued, decision, pod.started_s, now)
        # kube-scheduler: the pod's own failure frees room for others, and is no reason to retry it.
        self.intake.wake(freed, now, but=queued.uid)

    def give_up(self, queued: QueuedPod, decision: Decision, started_s: float, now: float) -> None:
        """Tell the world why a pod is not scheduled, and let it wait for better times."""
        rejected, message = decision.status.is_rejected, decision.message
        reason = reasons.UNSCHEDULABLE if rejected else reasons.SCHEDULER_ERROR
        if decision.nominated_node is not None:
            self._nominations.put(queued.pod, decision.nominated_node)
        if decision.victims and decision.nominated_node:
            self._queues.track(queued)  # what goes at once must not go unnoticed
            by = failure.Preemption(
                queued.pod, decision.nominated_node, decision.preempted_by, decision.group
            )
            self.preemptions.begin(by, decision.victims, now)
        if decision.calls:
            self._queues.track(queued)  # what they change at once must not go unnoticed
            self._send(decision.calls)
        self._outbox.put(
            failure.status_patch(queued, reason, message, decision.nominated_node, now)
        )
        self._outbox.put(failure.failed_event(queued.pod, message, now))
        self._observation.not_scheduled(
            queued, rejected=rejected, message=message, started_s=started_s
        )
        if rejected:
            is_pending = decision.status.code is Code.PENDING
            self._queues.rejected(queued, decision.rejected_by, now, is_pending=is_pending)
        else:
            self._queues.failed(queued)

    def _send(self, calls: Iterable[ApiCall]) -> None:
        """Send calls to the API server whose answers nobody waits for."""
        for one in calls:
            self._outbox.put(
                Call(self._outbox.new_id(), one.method, one.path, one.content_type, one.body)
            )

    def _contained(self, pod: InFlight, point: str) -> None:
        """Run unreserve or post-bind; a plugin's fault there is told and changes nothing."""
        try:
            if point == "unreserve":
                self._send(pod.runner.unreserve(pod.cycle, pod.node, pod.states))
            else:
                pod.runner.post_bind(pod.cycle, pod.node)
        except PluginError as error:
            self._observation.fault(error.plugin, error.point, error)
