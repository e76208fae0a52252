"""An attempt, from a popped pod to its result: read this file to know how a pod is scheduled.

`Attempts.schedule` tries one pod in seven steps: 1 pre-filter, 2 filter, 3 post-filter, 4 score, 5
choose (together `decide`), 6 assume and reserve, 7 permit. Asynchronous steps return here with
their answer: a cycle with extenders and the members of a group enter at `decided` and `give_up`,
and a binding ends in `finished`. Every exit reports to the same parts: the pod (condition, event),
the queues, pods that wait for capacity, and the metrics.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from random import Random
from typing import Protocol

import numpy as np

from scheduler.base import reasons
from scheduler.base.arrays import BoolColumn
from scheduler.base.errors import ObjectError, PluginError
from scheduler.engine.attempt import failure
from scheduler.engine.attempt.cycle import (
    NO_NODES,
    Attempt,
    PutOffError,
    ReservedCapacity,
    best,
    concluded,
    filter_all,
    infeasible,
    nominated_alone,
    post_filter,
)
from scheduler.engine.binding.bindings import Bindings
from scheduler.engine.binding.inflight import InFlight
from scheduler.engine.binding.nominated import NominatedPods
from scheduler.engine.binding.nominations import Nominations
from scheduler.engine.binding.preemption import Preemptions
from scheduler.engine.binding.reservations import offered
from scheduler.engine.decision import Decision
from scheduler.engine.intake import Intake, capacity_freed
from scheduler.engine.observation import Observation
from scheduler.engine.outbox import Outbox
from scheduler.engine.queue.pod import QueuedPod
from scheduler.engine.queue.queues import Queues
from scheduler.engine.settings import EngineSettings
from scheduler.framework.calls import ApiCall
from scheduler.framework.cycle import Cycle
from scheduler.framework.groups import OnHoldStatus
from scheduler.framework.nodes import Nodes
from scheduler.framework.profile import Profile
from scheduler.framework.running.answers import PreFiltered, States
from scheduler.framework.running.runner import Runner
from scheduler.framework.status import SUCCESS, Code, Rejection, Status
from scheduler.objects.pod import Pod
from scheduler.state.cluster import Cluster
from scheduler.state.shapes import Shape


def decide(attempt: Attempt) -> Decision:
    """Decide where the pod of `attempt` goes; PluginError when a plugin fails. Writes nothing.

    PutOffError if the only free capacity is reserved for groups that precede the pod.
    """
    cycle, nodes, runner = attempt.cycle, attempt.nodes, attempt.runner
    if nodes.count == 0:
        return NO_NODES

    # 1 pre-filter: the state that each plugin computes once, and the rows to evaluate
    pre = runner.pre_filter(cycle, nodes, attempt.states)
    if not pre.status.is_success:
        return _nothing_fits(attempt, pre, pre.status, ())

    # 2 filter: the node that the pod is nominated to alone if it fits, else all
    rejections: tuple[Rejection, ...] = ()
    feasible = nominated_alone(attempt, pre) if cycle.pod.status.nominated_node_name else None
    if feasible is None:
        feasible, rejections = filter_all(attempt, pre)

    # 3 post-filter: if no node fits, plugins may free capacity
    if not np.count_nonzero(feasible):
        return _nothing_fits(attempt, pre, SUCCESS, rejections)

    # 4 score, 5 choose
    return best(attempt, pre, feasible, rejections)


def _nothing_fits(
    attempt: Attempt, pre: PreFiltered, failed: Status, rejections: tuple[Rejection, ...]
) -> Decision:
    why = infeasible(attempt, pre, failed, rejections)
    return concluded(why, post_filter(attempt, pre, failed, rejections))


class PlannedGroups(Protocol):
    """The groups that are not decided yet (`engine.group.planned`)."""

    def before(self, queued: QueuedPod) -> ReservedCapacity | None:
        """Return the capacity that groups before this pod in the queue need; None without such
        groups.
        """

    def put_off(self, queued: QueuedPod, rows: BoolColumn, shape: Shape, profile: Profile) -> None:
        """Defer a popped pod, which fits on these rows, until a group has been decided."""


class Attempts:
    """Tries pods, and carries out how attempts end."""

    def __init__(
        self,
        settings: EngineSettings,
        runners: Mapping[str, Runner],
        outbox: Outbox,
        cluster: Cluster,
        queues: Queues,
        nominations: Nominations,
        observation: Observation,
        intake: Intake,
        bindings: Bindings,
        preemptions: Preemptions,
    ) -> None:
        # Set by the group scheduler: the groups that are not decided yet.
        self.planned: PlannedGroups | None = None
        self._settings = settings
        self._runners = runners
        self._outbox = outbox
        self.cluster = cluster
        self._queues = queues
        self._nominations = nominations
        self._nominated = NominatedPods(cluster, nominations)
        self._observation = observation
        self._intake = intake
        self._bindings = bindings
        self._preemptions = preemptions
        self._random = Random(settings.seed)  # noqa: S311 - repeatable, not secret
        # By profile, the row where node sampling continues.
        self._first_rows = dict.fromkeys(runners, 0)
        self.refusals = TurnRefusals()

    def schedule(self, queued: QueuedPod, started_s: float, now: float) -> bool:
        """Try one popped pod whose attempt began at `started_s` of the stopwatch.

        Return whether the cached rejection of an equivalent pod answered it.
        """
        if queued.pod.is_terminating:
            self._skipped(queued, now)
            return False
        try:
            attempt = self.start_attempt(queued, now)
            known = self.refusals.of(attempt)
            decision = decide(attempt) if known is None else known  # 1 to 5
        except (PluginError, ObjectError, PutOffError) as error:
            self.failed(queued, error, started_s, now)
            return False
        self.decided(queued, attempt, decision, started_s, now)
        return known is not None

    def start_attempt(self, queued: QueuedPod, now: float) -> Attempt:
        """Return an attempt for a popped pod, limited by the capacity that groups before it
        need.
        """
        pod = queued.as_we_know_it()
        if self._nominations.has_reserved:
            pod = offered(pod, self._nominations)
        attempt = self.prepare(pod, now)
        if self.planned is not None:
            attempt.reserved = self.planned.before(queued)
        return attempt

    def profile(self, name: str) -> Profile:
        """Return the profile of a schedulerName."""
        return self._runners[name].profile

    def prepare(
        self, pod: Pod, now: float, members: Sequence[Pod] = (), *, keeps_nominations: bool = False
    ) -> Attempt:
        """Return an attempt on the live view; `explain` and groups use it as well.

        `members` are those placed together with a pod of a group, itself included. With
        `keeps_nominations` they respect every nomination, whatever its priority.
        """
        name = pod.spec.scheduler_name
        runner, settings = self._runners[name], self._settings
        percentage = (
            runner.profile.percentage_of_nodes_to_score or settings.percentage_of_nodes_to_score
        )
        cluster, nominated = self.cluster, self._nominated.none
        if self._nominations or self._nominations.changed:
            nominated = self._nominated.for_pod(
                pod, runner.profile, members, keeps_nominations=keeps_nominations
            )
        return Attempt(
            Cycle(pod, cluster.shapes.of(pod), now, self._random, name),
            Nodes(cluster.table, cluster.pods),
            runner,
            States(),
            nominated=nominated,
            ties=settings.ties,
            percentage=percentage or 100,
            first_row=self._first_rows[name],
        )

    def decided(
        self, queued: QueuedPod, attempt: Attempt, decision: Decision, started_s: float, now: float
    ) -> None:
        """Carry a decision out: assume the pod and begin to bind it, or report why not."""
        pod = queued.pod
        if pod.is_terminating:
            # The pod was deleted while extenders were called.
            self._skipped(queued, now)
            return
        self.refusals.note(attempt, decision)
        self._first_rows[queued.profile] = attempt.first_row
        self._observation.decided(queued, decision, started_s)
        if not decision.node:
            self.give_up(queued, decision, started_s, now)
            return

        # 6 assume: from here on the pod counts on its chosen node, no longer on its nominated node
        self._queues.track(queued)
        nominated = self._nominations.drop(queued.uid) if self._nominations else ""
        self._intake.announce(self.cluster.assume(pod, decision.node), now)
        if nominated not in ("", decision.node):
            self._intake.announce(capacity_freed(pod), now)
        if self._nominations:
            self.requeue_overtaken(pod, decision.node, now)

        # and reserve, 7 permit; the binding follows as soon as no plugin delays the pod
        in_flight = InFlight(queued, attempt.cycle, attempt.runner, attempt.states, decision.node)
        in_flight.started_s = started_s
        self._bindings.begin(in_flight, now)

    def requeue_overtaken(self, pod: Pod, node: str, now: float) -> None:
        """Retry pods of lower priority that are nominated to a node which this pod takes.

        Their nominations may be stale; until they are cleared they block every pod that cannot
        preempt.
        """
        nominated = self._nominations.on(node)
        if nominated:
            rank = self._nominations.priority_among((pod,))
            lower = [u for u, one in nominated.items() if self._nominations.priority_of(one) < rank]
            self._queues.activate(lower, now)

    def _skipped(self, queued: QueuedPod, now: float) -> None:
        """Drop a popped pod that is being deleted."""
        pod = queued.pod
        self.refusals.forget()  # its reserved capacity may be free now
        self._outbox.put(failure.failed_event(pod, f"skip schedule deleting pod: {pod.key}", now))
        self._queues.remove(queued.uid)
        if self._nominations.drop(queued.uid):
            self._intake.announce(capacity_freed(pod), now)

    def failed(self, queued: QueuedPod, error: Exception, started_s: float, now: float) -> None:
        """End an attempt that a plugin's fault, a bad object or an undecided group broke off."""
        if isinstance(error, PutOffError):
            if self.planned is not None:
                profile = self.profile(queued.profile)
                self.planned.put_off(queued, error.rows, error.shape, profile)
            return
        if isinstance(error, PluginError):
            self._observation.fault(error.plugin, error.point, error)
        text = str(error)
        decision = Decision(status=Status(Code.ERROR, (text,)), message=text)
        self.give_up(queued, decision, started_s, now)

    def finished(self, pod: InFlight, status: Status, now: float) -> None:
        """Report the end of a pod's binding and requeue the pod if the binding failed."""
        queued = pod.queued
        if status.is_success:
            self._queues.remove(queued.uid)
            self._outbox.put(failure.scheduled_event(queued.pod, pod.node, now))
            self._observation.scheduled(pod, now)
            self._contained(pod, "post_bind")
            return
        self._contained(pod, "unreserve")
        freed = self.cluster.forget(queued.uid)
        self._intake.follow(freed)
        if pod.is_lost:
            # Deleted, or bound by another client: the watch reports which.
            self._queues.remove(queued.uid)
            self._observation.not_scheduled(
                queued, rejected=False, message=status.message, started_s=pod.started_s
            )
            self._intake.wake(freed, now)
            if pod.seen_on and freed.kind:
                # The watch is behind: until it has caught up, the pod counts where it was found.
                self._intake.announce(self.cluster.assume(queued.pod, pod.seen_on), now)
            return
        is_own = status.is_rejected and not pod.is_recalled
        text = failure.rejected_after_choice(status) if is_own else status.message
        # A member whose bind failed, or was not sent, keeps its reservation: others of its group
        # are bound by now, or are about to be. If another pod took the capacity, the group would
        # stay partially bound.
        is_kept = pod.is_member and pod.binds and not pod.is_outdated and not status.is_rejected
        kept = pod.node if is_kept else ""
        decision = Decision(status=status, message=text, nominated_node=kept)
        self.give_up(queued, decision, pod.started_s, now)
        # kube-scheduler: the pod's own failure frees capacity for others, and is no reason to retry
        # it.
        self._intake.wake(freed, now, but=queued.uid)

    def give_up(self, queued: QueuedPod, decision: Decision, started_s: float, now: float) -> None:
        """Report the failure (condition, event, metrics) and requeue the pod."""
        rejected, message = decision.status.is_rejected, decision.message
        reason = reasons.UNSCHEDULABLE if rejected else reasons.SCHEDULER_ERROR
        if decision.nominated_node is not None:
            if self._nominations.node_of(queued.uid):
                self.refusals.forget()
            self._nominations.put(queued.pod, decision.nominated_node)
        if decision.victims and decision.nominated_node:
            self._queues.track(queued)  # changes that take effect at once must be recorded
            by = failure.PreemptionRecord(
                queued.pod,
                decision.nominated_node,
                decision.preempted_by,
                decision.group,
                decision.expected,
                decision.disruption,
            )
            self._preemptions.begin(by, decision.victims, now)
        if decision.calls:
            self._queues.track(queued)  # changes that take effect at once must be recorded
            self._send(decision.calls)
        self._outbox.put(
            failure.status_patch(queued, reason, message, decision.nominated_node, now)
        )
        self._outbox.put(failure.failed_event(queued.pod, message, now))
        self._observation.not_scheduled(
            queued, rejected=rejected, message=message, started_s=started_s
        )
        if rejected or isinstance(decision.status, OnHoldStatus):
            is_pending = decision.status.code is Code.PENDING
            self._queues.rejected(queued, decision.waits_for, now, is_pending=is_pending)
        else:
            self._queues.failed(queued, now)

    def _send(self, calls: Iterable[ApiCall]) -> None:
        """Send calls to the API server whose answers are ignored."""
        for one in calls:
            self._outbox.request(one)

    def _contained(self, pod: InFlight, point: str) -> None:
        """Run unreserve or post-bind; a plugin's fault there is reported and changes nothing."""
        try:
            if point == "unreserve":
                self._send(pod.runner.unreserve(pod.cycle, pod.node, pod.states))
            else:
                pod.runner.post_bind(pod.cycle, pod.node)
        except PluginError as error:
            self._observation.fault(error.plugin, error.point, error)


class TurnRefusals:
    """The rejections of this turn by the signature that equivalent pods share, until the cluster
    changes.

    Of 100,000 equal pods that fit no node, one is tried and the others get its rejection.
    Invariant: every attempt ends as without this cache.
    """

    def __init__(self) -> None:
        # With a shape, which exists while a table refers to it: no table does for waiting pods.
        self._known: dict[Hashable, tuple[Decision, Shape]] = {}

    def of(self, attempt: Attempt) -> Decision | None:
        """Return how an attempt would end, where that is known without making it."""
        if not self._known:
            return None
        rejection_key = _signature(attempt)
        known = None if rejection_key is None else self._known.get(rejection_key)
        return None if known is None else known[0]

    def note(self, attempt: Attempt, decision: Decision) -> None:
        """Cache a rejection that applies to all pods of its signature; any other decision clears
        the cache.
        """
        if not _is_plain(decision):
            self._known.clear()
            return
        rejection_key = _signature(attempt)
        if rejection_key is not None:
            self._known[rejection_key] = decision, attempt.cycle.shape

    def forget(self) -> None:
        """Clear the cache, because the cluster or the queue changes."""
        self._known.clear()


def _is_plain(decision: Decision) -> bool:
    """Return whether a pod is rejected without victims and without calls."""
    return (
        decision.status.is_rejected
        and not decision.node
        and not decision.nominated_node
        and not decision.victims
        and not decision.calls
    )


def _signature(attempt: Attempt) -> Hashable | None:
    """Return the scheduling signature of a rejected pod; None for a nominated one."""
    pod = attempt.cycle.pod
    if pod.status.nominated_node_name:
        return None
    found = attempt.runner.rejection_key(attempt.cycle, attempt.nodes)
    return None if found is None else (pod.spec.scheduler_name, found)
