"""`Engine`: events in, effects out.

It owns the cluster's memory, the queues and the pods in flight, and does no I/O: no sockets, no
clock, no global random. `run`, `simulate`, `explain`, `demo` and the tests drive this very object:

    engine.handle(event, now)          any number of times
    effects = engine.run(now, cycles)  tries that many pods, returns what is to be done
    engine.next_wakeup()               when to call `run` again though nothing happens

The way of a pod: `intake` → `queues` → `cycle` → `binding`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

import msgspec

from scheduler.base.errors import ObjectError, PluginError
from scheduler.base.meters import Meters
from scheduler.engine.attempt import failure
from scheduler.engine.attempt.choose import Ties
from scheduler.engine.attempt.conclude import Conclusions
from scheduler.engine.attempt.cycle import Attempt, decide_at_once
from scheduler.engine.attempt.suspended import SuspendedCycles
from scheduler.engine.binding.bindings import Bindings
from scheduler.engine.binding.inflight import InFlight
from scheduler.engine.binding.nominated import NominatedPods
from scheduler.engine.binding.nominations import Nominations
from scheduler.engine.binding.preemption import Preemptions
from scheduler.engine.effects import (
    Answer,
    Behind,
    CaughtUp,
    Complete,
    Effects,
    Event,
    Leading,
    Listed,
    Watched,
)
from scheduler.engine.extender.attempts import ExtenderAttempts
from scheduler.engine.extender.extenders import Extender
from scheduler.engine.group.context import ContextTools
from scheduler.engine.group.groups import Groups, planners
from scheduler.engine.group.steps import GroupSteps
from scheduler.engine.handle import EngineHandle
from scheduler.engine.intake import Intake, room_freed
from scheduler.engine.observation import Observation
from scheduler.engine.outbox import Outbox
from scheduler.engine.queue.backoff import Backoff
from scheduler.engine.queue.gates import Gates
from scheduler.engine.queue.hints import UnschedulablePods
from scheduler.engine.queue.order import grouping, sort_key
from scheduler.engine.queue.queues import QueuedPod, Queues
from scheduler.framework.answers import States
from scheduler.framework.cycle import Cycle
from scheduler.framework.measure import Stopwatch
from scheduler.framework.nodes import Nodes
from scheduler.framework.profile import ProfileSpec, build_profile
from scheduler.framework.registry import Registry
from scheduler.framework.runner import Runner
from scheduler.framework.status import Status
from scheduler.objects.pod import Pod
from scheduler.state.cluster import Cluster


class EngineSettings(msgspec.Struct, frozen=True):
    """What the configuration says of the engine itself; `seed` makes random choices repeatable."""

    backoff: Backoff = Backoff()
    ties: Ties = Ties.UID
    percentage_of_nodes_to_score: int = 0
    seed: int = 0
    feature_gates: Mapping[str, bool] = {}
    extenders: tuple[Extender, ...] = ()


class Engine:
    """The scheduler without its surroundings."""

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
        self.cluster = Cluster()
        self.nominations = Nominations()
        self._nominated = NominatedPods(self.cluster, self.nominations)
        self.observation = Observation(meters or Meters(), stopwatch)
        self.is_leading = True
        self._random = Random(self.settings.seed)  # noqa: S311 - repeatable, not secret
        names = frozenset(spec.scheduler_name for spec in specs)
        self._handle = EngineHandle(self.cluster, self.settings.feature_gates, names)
        self.profiles = {
            spec.scheduler_name: build_profile(spec, registry, self._handle) for spec in specs
        }
        self._runners = {
            name: Runner(profile, self.observation.for_profile(name))
            for name, profile in self.profiles.items()
        }
        self._first_rows = dict.fromkeys(self.profiles, 0)
        self._outbox = Outbox()
        unschedulable_pods = UnschedulablePods(
            self.profiles,
            self.observation.fault,
            hinted=self.observation.hinted if self.observation.stopwatch is not None else None,
            now_s=self.observation.now_s,
        )
        gates = Gates(self.profiles, self.observation)
        self.queues = self._queues(gates, unschedulable_pods)
        self._conclusions = Conclusions(
            self._outbox,
            self.cluster,
            self.queues,
            self.nominations,
            self.observation,
            self._first_rows,
        )
        self.bindings = Bindings(
            self._outbox,
            self._ended,
            self.observation.fault,
            self.observation.waited,
            self._revive,
        )
        self.suspended = SuspendedCycles(self._outbox, self.observation.fault, self.profiles)
        self.intake = self._intake()
        self.preemptions = Preemptions(
            self._outbox,
            self.queues,
            self.nominations,
            self.bindings,
            self.observation,
            lambda pod, now: self.intake.announce(room_freed(pod), now),
        )
        self._conclusions.intake, self._conclusions.bindings = self.intake, self.bindings
        self._conclusions.preemptions = self.preemptions
        self._now = 0.0
        self.groups = self._groups(gates)
        self.extender_attempts = ExtenderAttempts(
            self.settings.extenders,
            self.suspended,
            self.queues,
            lambda queued: self.attempt(_as_we_know_it(queued), self._now),
            self.observation.fault,
        )
        if self.extender_attempts.is_needed:
            self.bindings.binder_of = self.extender_attempts.binder
        self._connect_handle()
        self.observation.watch(
            self.queues, unschedulable_pods, self.profiles, self.bindings, self.cluster
        )

    def handle(self, event: Event, now: float) -> None:
        """Take in one event."""
        self._now = now
        if isinstance(event, Watched):
            self.intake.watched(event, now)
        elif isinstance(event, Answer):
            for owner in (self.bindings, self.preemptions, self.suspended, self.groups):
                if owner.answer(event, now):
                    break
        elif isinstance(event, Listed):
            self.intake.listed(event, now)
        elif isinstance(event, Complete):
            self.intake.complete(event, now)
        elif isinstance(event, Behind):
            self.intake.behind.add(event.kind)
            self._break_off(now)
        elif isinstance(event, CaughtUp):
            self.intake.behind.discard(event.kind)
        elif isinstance(event, Leading):
            self.is_leading = event.active
            # What was decided in the last moments of a lease may never have been sent.
            self.queues.forget_told()
            if not event.active:
                self._break_off(now)
            self.groups.leads(now)
        self.groups.settle(now)

    def run(self, now: float, cycles: int) -> tuple[Effects, ...]:
        """Try up to `cycles` pods; return everything that is to be done outside."""
        self._now = now
        self.bindings.expire(now)
        self.preemptions.expire(now)
        self.suspended.expire(now)
        self.queues.flush(now)
        self.groups.settle(now)
        self.groups.go_on(now)
        if self._may_decide:
            for _ in range(cycles):
                queued = self.queues.pop(now, self.suspended.blocked)
                if queued is None:
                    break
                self._schedule(queued, now)
        self.intake.view.flush()
        return self._outbox.drain()

    def next_wakeup(self) -> float | None:
        """Return when `run` has something to do though no event comes; None if never."""
        owners = (
            self.queues,
            self.bindings,
            self.preemptions,
            self.suspended,
            self.groups,
        )
        times = [time for owner in owners if (time := owner.next_deadline()) is not None]
        return min(times, default=None)

    def has_work(self) -> bool:
        """Whether `run` would try a pod now, or take one of a group further."""
        if self.groups.has_work():
            return True
        return self._may_decide and self.queues.has_next(self.suspended.blocked)

    @property
    def _may_decide(self) -> bool:
        """Whether this process leads and knows all that the API server has said."""
        return self.is_leading and not self.intake.behind

    def attempt(self, pod: Pod, now: float) -> Attempt:
        """Prepare an attempt on the live view; `explain` uses it as well."""
        name = pod.spec.scheduler_name
        profile = self.profiles[name]
        percentage = (
            profile.percentage_of_nodes_to_score or self.settings.percentage_of_nodes_to_score
        )
        cycle = Cycle(pod, self.cluster.shapes.of(pod), now, self._random, name)
        return Attempt(
            cycle,
            Nodes(self.cluster.table, self.cluster.pods),
            self._runners[name],
            States(),
            nominated=self._nominated.for_pod(pod),
            ties=self.settings.ties,
            percentage=percentage or 100,
            first_row=self._first_rows[name],
        )

    def _schedule(self, queued: QueuedPod, now: float) -> None:
        """Try one pod: decide, then assume and begin to bind, or tell why not."""
        started_s = self.observation.now_s()
        if queued.pod.is_terminating:
            self._conclusions.skipped(queued, now)
            return
        if self.groups.is_needed and self.groups.begin(queued, now):
            return
        if self.extender_attempts.is_needed and self.extender_attempts.begin(
            queued, started_s, now, self._conclusions.decided, self._conclusions.failed
        ):
            return
        try:
            attempt = self.attempt(_as_we_know_it(queued), now)
            decision = decide_at_once(attempt)
        except (PluginError, ObjectError) as error:
            self._conclusions.failed(queued, error, started_s, now)
        else:
            self._conclusions.decided(queued, attempt, decision, started_s, now)

    def _break_off(self, now: float) -> None:
        """Begin the cycles that wait for an answer anew, later: nobody may be asked any more."""
        for key in self.suspended.drop_all():
            queued = self.queues.get(key)
            if queued is not None:
                self.queues.put_back(queued, now)
            else:
                self.groups.broken_off(key, now)

    def _ended(self, pod: InFlight, status: Status, now: float) -> None:
        """Put a pod where it belongs, and tell its group."""
        self._conclusions.finished(pod, status, now)
        self.groups.landed(pod.uid, now, is_bound=status.is_success and not pod.is_lost)

    def _revive(self, uid: str, now: float) -> bool:
        """Try a waiting pod again at once; False when it is gone."""
        if self.queues.get(uid) is None:
            return False
        self.queues.activate((uid,), now)
        return True

    def _queues(self, gates: Gates, unschedulable_pods: UnschedulablePods) -> Queues:
        return Queues(
            sort_key=sort_key(self.profiles, self.observation.fault),
            gate=gates.closed,
            unschedulable_pods=unschedulable_pods,
            backoff=self.settings.backoff,
            incoming=self.observation.incoming,
            grouping=grouping(self.profiles),
        )

    def _intake(self) -> Intake:
        """Return what takes events in, with the trackers that plugins asked for."""
        intake = Intake(
            self.cluster,
            self.queues,
            self.bindings,
            self.suspended,
            self.nominations,
            self.profiles,
            self.observation.fault,
            handled=self.observation.handled if self.observation.stopwatch is not None else None,
            now_s=self.observation.now_s,
        )
        intake.trackers = self._handle.trackers
        for tracker in intake.trackers.values():
            # Asked by name: a protocol's isinstance costs a twentieth of a small simulation.
            measure = getattr(tracker, "measure", None)
            if measure is not None:
                measure(self.observation.meters)
        return intake

    def _groups(self, gates: Gates) -> Groups:
        steps = GroupSteps(
            self.bindings,
            self.nominations,
            self.preemptions,
            self._outbox,
            self.observation,
            self.intake,
            self._conclusions.give_up,
        )
        tools = ContextTools(
            self.cluster,
            lambda: self._now,
            self.attempt,
            self.intake.follow,
            steps.set_aside,
        )
        groups = Groups(planners(self.profiles), tools, self.queues, self.suspended, steps)
        if groups.is_needed:
            gates.on_answer = groups.entered
        return groups

    def _connect_handle(self) -> None:
        bindings = self.bindings

        def waiting() -> list[Pod]:
            found = (bindings.get(one.uid) for one in bindings.waiting)
            return [pod.queued.pod for pod in found if pod is not None]

        def missing(pod: Pod, plugin: str, kind: str, text: str) -> None:
            self.observation.missing(plugin, kind)
            self._outbox.put(failure.missing_event(pod, text, self._now))

        def node_warning(name: str, profile: str, reason: str, text: str) -> None:
            row = self.cluster.table.rows.get(name)
            node = None if row is None else self.cluster.table.nodes[row]
            if node is not None:
                event = failure.node_event(node, profile, reason, text, self._now)
                self._outbox.put(event)

        self._handle.waiting = waiting
        self._handle.on_node_warning = node_warning
        self._handle.on_missing = missing
        self._handle.on_now = lambda: self._now
        self._handle.on_is_preempting = self.preemptions.is_running
        self._handle.on_group_members = self.groups.present
        for planner in self.groups.planners[:1]:  # any profile's plugin speaks for all pods
            self._handle.on_disruption_units = planner.disruption_units
        self._handle.on_allow = lambda uid, plugin: bindings.allow(uid, plugin, self._now)
        self._handle.on_reject = lambda uid, plugin, reason: bindings.reject(
            uid, plugin, reason, self._now
        )


def _as_we_know_it(queued: QueuedPod) -> Pod:
    """Return the pod with the nomination that we wrote and the watch does not show yet.

    Without it a preemptor that is tried again too early would not know of its own preemption.
    """
    pod = queued.pod
    if queued.nominated is None or queued.nominated == pod.status.nominated_node_name:
        return pod
    status = msgspec.structs.replace(pod.status, nominated_node_name=queued.nominated)
    return msgspec.structs.replace(pod, status=status)
