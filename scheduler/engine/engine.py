"""`Engine`: events in, effects out.

It owns the cluster's memory, the queues and the pods in flight, and does no I/O: no sockets, no
clock, no global random. `run`, `simulate`, `explain`, `demo` and the tests use this class:

    engine.handle(event, now)          any number of times
    effects = engine.run(now, cycles)  tries up to that many pods, returns what is to be done
    engine.next_wakeup()               when to call `run` again though nothing happens

The steps of a pod: `intake` → `queue` → `attempt` → `binding`. Each of these packages may call
those before it and none after it. A change that concerns a later one (a binding or a suspended
cycle ended, a plugin's verdict at permit) is put into one queue, and `_settle` alone dispatches it.
"""

from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import TypeAlias

from scheduler.base.errors import ObjectError
from scheduler.base.meters import Meters
from scheduler.base.release import DEFAULT
from scheduler.engine import gauges
from scheduler.engine.attempt.attempt import Attempts
from scheduler.engine.attempt.cycle import Attempt
from scheduler.engine.attempt.suspended import CycleEnded, SuspendedCycles
from scheduler.engine.binding.bindings import Bindings
from scheduler.engine.binding.inflight import Ended
from scheduler.engine.binding.nominations import Nominations
from scheduler.engine.binding.permit import PermitDecision, WaitingPods
from scheduler.engine.binding.preemption import PendingEvictions, Preemptions
from scheduler.engine.derivation import NAMESPACE, Derivation
from scheduler.engine.effects import (
    Answer,
    Behind,
    Bind,
    CaughtUp,
    Complete,
    Effects,
    Event,
    Leading,
    Listed,
    Watched,
)
from scheduler.engine.extender.attempts import ExtenderAttempts, ExtenderRun
from scheduler.engine.groups import EngineParts, MemberEnded, PlanAborted, group_scheduler
from scheduler.engine.handle import EngineHandle, Shared
from scheduler.engine.intake import Intake, identity
from scheduler.engine.observation import Observation, OnDecision, OnEnd, OnFault, OnLeading
from scheduler.engine.outbox import Outbox
from scheduler.engine.queue.gates import Gates
from scheduler.engine.queue.hints import UnschedulablePods
from scheduler.engine.queue.membership import GroupMembership
from scheduler.engine.queue.order import active_queue, sort_key
from scheduler.engine.queue.pod import QueuedPod, QueuedPods, Where
from scheduler.engine.queue.queues import Queues
from scheduler.engine.settings import EngineSettings
from scheduler.engine.view import EngineView
from scheduler.framework.groups import GroupPlanner
from scheduler.framework.profile import ProfileSpec
from scheduler.framework.registry import Registry
from scheduler.framework.running.measure import Stopwatch
from scheduler.framework.running.runner import Runner
from scheduler.framework.status import Code
from scheduler.objects.pod import Pod
from scheduler.state.change import Change
from scheduler.state.cluster import Cluster
from scheduler.state.store import object_key
from scheduler.state.view import LiveView

# What the parts of the engine report to one another; `_settle` dispatches it.
EngineChange: TypeAlias = Ended | CycleEnded | PermitDecision | Change
# This many rejections from the cache cost about as much as one attempt.
IN_PASSING = 8


class Engine:
    """The scheduler without I/O: events in, effects out."""

    def __init__(
        self,
        specs: Sequence[ProfileSpec],
        registry: Registry,
        *,
        settings: EngineSettings | None = None,
        meters: Meters | None = None,
        stopwatch: Stopwatch | None = None,
    ) -> None:
        self.settings = settings or EngineSettings()
        release = self.settings.release or DEFAULT
        self.cluster = Cluster(release)
        self.observation = observation = Observation(meters or Meters(), stopwatch, release)
        self.is_leading = True
        self._outbox = Outbox()
        self._changes: deque[EngineChange] = deque()

        # Tables that plugins read, and the plugins.
        queued, waiting = QueuedPods(), WaitingPods()
        evictions: dict[str, PendingEvictions] = {}
        leaving: set[str] = set()
        self._members = GroupMembership(queued)
        self._handle = EngineHandle(
            self.cluster,
            self.settings.feature_gates,
            frozenset(spec.scheduler_name for spec in specs),
            Shared(
                self._outbox,
                self._changes,
                waiting,
                evictions,
                leaving,
                self._members,
                observation,
                lambda: self.is_leading,
            ),
            release,
        )
        self.profiles = profiles = self._handle.build(specs, registry)
        self.nominations = Nominations(self._handle)
        self._runners = {
            name: Runner(profile, observation.for_profile(name))
            for name, profile in profiles.items()
        }

        # A pod passes these in this order; each receives those before it.
        hinted = observation.hinted if observation.stopwatch is not None else None
        unschedulable_pods = UnschedulablePods(
            profiles, observation.fault, hinted=hinted, now_s=observation.now_s
        )
        self.queues = self._make_queues(queued, unschedulable_pods)
        self.bindings = self._make_bindings(waiting)
        self.suspended = SuspendedCycles(self._outbox, observation.fault, self._changes, profiles)
        self.intake = self._make_intake()
        self.preemptions = self._make_preemptions(evictions, leaving)
        self._attempts = self._make_attempts()
        self.groups = group_scheduler(self._parts())
        self.view = self._make_view()
        self.extender_attempts = ExtenderAttempts(
            self.settings.extenders,
            self.suspended,
            self.queues,
            self._attempts,
            observation,
            self._outbox,
        )
        gauges.watch(
            observation.meters,
            self.queues,
            self._handle.group_of,
            self._handle.planners,
            unschedulable_pods,
            profiles,
            self.bindings,
            self.cluster,
            release,
        )

    def _make_queues(self, queued: QueuedPods, unschedulable_pods: UnschedulablePods) -> Queues:
        profiles, observation, handle = self.profiles, self.observation, self._handle
        return Queues(
            sort_key=sort_key(profiles, observation.fault),
            gate=Gates(profiles, observation, self._members.answers).closed,
            unschedulable_pods=unschedulable_pods,
            backoff=self.settings.backoff,
            incoming=partial(
                observation.incoming,
                partial(gauges.brings_group, self._members, handle.group_of, handle.planners),
            ),
            active=active_queue(profiles),
            pods=queued,
            is_member=handle.is_member,
            lacks_capacity=handle.lacks_capacity,
            regrouped_by=handle.regrouped_by,
        )

    def _make_bindings(self, waiting: WaitingPods) -> Bindings:
        return Bindings(
            self._outbox,
            self.observation,
            self.queues,
            waiting,
            self.cluster,
            self.settings.extenders,
            self._changes,
        )

    def _make_intake(self) -> Intake:
        return Intake(
            self.cluster,
            self.queues,
            self.bindings,
            self.suspended,
            self.nominations,
            self.profiles,
            self._handle.trackers,
            self._changes,
            Derivation(
                self.settings.derive or {},
                self.cluster.store.of(NAMESPACE).get,
                self.observation.fault,
            ),
            self._handle.names_group,
        )

    def _make_preemptions(
        self, evictions: dict[str, PendingEvictions], leaving: set[str]
    ) -> Preemptions:
        return Preemptions(
            self._outbox,
            self.queues,
            self.nominations,
            self.bindings,
            self.observation,
            self.intake,
            evictions,
            leaving,
            self._handle.planners,
        )

    def _make_attempts(self) -> Attempts:
        return Attempts(
            self.settings,
            self._runners,
            self._outbox,
            self.cluster,
            self.queues,
            self.nominations,
            self.observation,
            self.intake,
            self.bindings,
            self.preemptions,
        )

    def _parts(self) -> EngineParts:
        """Return the parts that the group scheduler works with."""
        return EngineParts(
            attempts=self._attempts,
            bindings=self.bindings,
            intake=self.intake,
            members=self._members,
            nominations=self.nominations,
            observation=self.observation,
            outbox=self._outbox,
            planners=self._handle.planners,
            preemptions=self.preemptions,
            queues=self.queues,
            suspended=self.suspended,
            drain=self._settle,
            group_of=self._handle.group_of,
            solves_inline=self.settings.solves_inline,
        )

    def _make_view(self) -> EngineView:
        return EngineView(
            self.settings,
            self.cluster,
            self.queues,
            self.bindings,
            self.nominations,
            self.profiles,
            self.groups.describe,
        )

    @property
    def now(self) -> float:
        """The time of this turn in seconds since the epoch; all decisions of the turn use it."""
        return self._outbox.now

    def handle(self, event: Event, now: float) -> None:
        """Process one event."""
        self._outbox.begin_turn(now)
        if isinstance(event, Watched):
            self._take_in(event, now)
        elif isinstance(event, Answer):
            for owner in (self.bindings, self.preemptions, self.suspended, self.groups):
                if owner.answer(event, now):
                    break
        elif isinstance(event, Listed):
            keys = tuple(map(identity, event.objects))
            self._complete(Complete(event.kind, keys, event.is_denied), now)
            for obj in event.objects:
                self._take_in(Watched(event.kind, "MODIFIED", obj), now)
        elif isinstance(event, Complete):
            self._complete(event, now)
        elif isinstance(event, Behind):
            self.intake.behind.add(event.kind)
            self._break_off(now)
        elif isinstance(event, CaughtUp):
            self.intake.behind.discard(event.kind)
        elif isinstance(event, Leading):
            self.is_leading = event.active
            self.observation.on_leading(event.active, now)
            self.intake.has_led |= event.active
            # Effects from the last moments of a lease may never have been sent.
            self.queues.forget_reported()
            if not event.active:
                self._break_off(now)
                self.preemptions.break_off(now)
            self.groups.observe(event, now)
        self._settle(now)
        self.groups.settle(now)

    def run(self, now: float, cycles: int) -> tuple[Effects, ...]:
        """Try up to `cycles` pods; return all effects.

        A pod whose rejection is in the turn's cache counts for a fraction of a cycle.
        """
        self._outbox.begin_turn(now)
        self._settle(now)
        for _ in self.bindings.expire(now):
            self._settle(now)
        if self.preemptions.running:
            self.preemptions.expire(now)
        if self.intake.reservations.by_node:
            self.intake.reservations.expire(now)
            self._settle(now)
        while self.suspended.waiting and self.suspended.expire(now):
            self._settle(now)
        self.queues.flush(now)
        self.groups.advance(now, may_decide=self._may_decide)
        if self._may_decide:
            self._attempts.refusals.forget()
            left = cycles * IN_PASSING
            while left > 0:
                queued = self.queues.pop(now, self.suspended.blocked)
                if queued is None:
                    break
                left -= 1 if self._schedule(queued, now) else IN_PASSING
                self._settle(now)
        self.intake.view.flush()
        return self._outbox.drain()

    def next_wakeup(self) -> float | None:
        """Return the next time at which `run` has work without an event; None for never."""
        owners = (self.queues, self.bindings, self.preemptions, self.suspended)
        times = [owner.next_deadline() for owner in owners]
        times.append(self.groups.describe().deadline)
        if self.intake.reservations.by_node:
            times.append(self.intake.reservations.next_deadline())
        return min((time for time in times if time is not None), default=None)

    def has_work(self) -> bool:
        """Return whether `run` would try a pod or advance one of a group now."""
        if self._changes or self.groups.describe().has_work:
            return True
        return self._may_decide and self.queues.has_next(self.suspended.blocked)

    @property
    def _may_decide(self) -> bool:
        """Return whether this process leads and has received all objects that the API server has
        sent.
        """
        return self.is_leading and not self.intake.behind

    def objection(self, bind: Bind) -> str:
        """Return why a bind is outdated, or ''; called directly before each sending."""
        return self.bindings.objection(bind)

    def group_of(self, pod: Pod) -> str:
        """Return the key of a pod's group, or an empty text."""
        return self._handle.group_of(pod)

    def group_planners(self) -> Sequence[GroupPlanner]:
        """Return the plugins that plan groups, in the order of their profiles."""
        return tuple(self._handle.planners.values())

    def report_to(
        self,
        *,
        on_fault: OnFault,
        on_decision: OnDecision | None = None,
        on_end: OnEnd | None = None,
        on_leading: OnLeading | None = None,
    ) -> None:
        """Set the observers of faults, decisions and ends of attempts; None keeps the present
        one.
        """
        self.observation.on_fault = on_fault
        self.observation.on_decision = on_decision or self.observation.on_decision
        self.observation.on_end = on_end or self.observation.on_end
        self.observation.on_leading = on_leading or self.observation.on_leading

    @property
    def watched(self) -> LiveView:
        """Return the watched objects, for operators and figures in the same process."""
        return self.intake.view

    def reserve_nodes(self, count: int) -> None:
        """Allocate columns for so many nodes at once."""
        self.cluster.table.reserve(count)

    def new_handle(self) -> EngineHandle:
        """Return a handle on the live cluster with trackers of its own."""
        release = self.settings.release or DEFAULT
        return EngineHandle(self.cluster, self.settings.feature_gates, release=release)

    def position(self, uid: str, now: float) -> tuple[int, int] | None:
        """Return the position of an active pod and the number of active pods; None for any other
        pod.

        Takes the pods before it out of the queue: the engine cannot be run afterwards.
        """
        queued = self.queues.get(uid)
        if queued is None or queued.where is not Where.ACTIVE:
            return None
        waiting, place = self.queues.count(Where.ACTIVE), 1
        while self.queues.pop(now) is not queued:
            place += 1
        return place, waiting

    def take_apart(self) -> None:
        """Break the reference cycles between the engine's parts after its last use, to free
        memory.
        """
        trackers = self.intake.trackers.values()
        for part in (*self.view.plugins(), *trackers, *vars(self).values(), self):
            getattr(part, "__dict__", {}).clear()

    def attempt(self, pod: Pod, now: float) -> Attempt:
        """Prepare an attempt on the live view, for showing its decision."""
        return self._attempts.prepare(pod, now)

    def _schedule(self, queued: QueuedPod, now: float) -> bool:
        """Try one pod, on its own or with its group; return whether a cached rejection answered
        it.
        """
        started_s = self.observation.now_s()
        if not queued.pod.is_terminating:
            if queued.is_member:
                self._attempts.refusals.forget()
                self.groups.plan(queued, now)
                return False
            if self.extender_attempts.is_needed and self.extender_attempts.begin(
                queued, started_s, now
            ):
                return False
        return self._attempts.schedule(queued, started_s, now)

    def _settle(self, now: float) -> None:
        """Dispatch the queued changes, each to the part that acts on it, until there is none."""
        while self._changes:
            change = self._changes.popleft()
            match change:
                case Ended():
                    self._end_binding(change, now)
                case CycleEnded(subject=ExtenderRun()):
                    self.extender_attempts.concluded(change.subject, change.outcome, now)
                case CycleEnded():
                    self.groups.observe(change, now)
                case PermitDecision():
                    self.bindings.apply_permit(change, now)
                case Change():
                    self.intake.announce(change, now)

    def _end_binding(self, ended: Ended, now: float) -> None:
        """Record how a pod left the bindings, with its group if it is a member of one."""
        if ended.pod.is_member:
            self._members.decided(ended.pod.uid)  # before its gate runs again
        self._attempts.finished(ended.pod, ended.status, now)
        if ended.pod.is_member:
            is_bound = ended.status.is_success and not ended.pod.is_lost
            is_error = ended.status.code is Code.ERROR
            self.groups.observe(
                MemberEnded(ended.pod, is_bound, ended.status.message, is_error), now
            )

    def _take_in(self, event: Watched, now: float) -> None:
        """Apply one added, modified or deleted object; an invalid object changes nothing."""
        started_s = self.observation.now_s()
        try:
            self.intake.take(event.kind, event.object, now, is_deleted=event.verb == "DELETED")
            self._settle(now)
        except ObjectError as error:
            self.observation.fault(event.kind, object_key(event.object), error)
        if self.intake.label and self.observation.stopwatch is not None:
            self.observation.handled(self.intake.label, self.observation.now_s() - started_s)

    def _complete(self, event: Complete, now: float) -> None:
        """Remove the objects of a kind that a complete list does not contain."""
        for obj in self.intake.missing_in(event):
            self.intake.take(event.kind, obj, now, is_deleted=True)
            self._settle(now)
        self.intake.listed(event.kind, is_denied=event.is_denied)

    def _break_off(self, now: float) -> None:
        """Restart the suspended cycles later, because this process may not send requests any
        more.
        """
        for key in self.suspended.drop_all():
            queued = self.queues.get(key)
            if queued is not None:
                self.queues.put_back(queued, now)
            else:
                self.groups.observe(PlanAborted(key), now)
