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
from scheduler.engine import failure
from scheduler.engine.backoff import Backoff
from scheduler.engine.binding import Bindings, InFlight
from scheduler.engine.choose import Ties
from scheduler.engine.consulting import Consultants
from scheduler.engine.cycle import Attempt, decide
from scheduler.engine.decision import Decision
from scheduler.engine.deliberation import Deliberations
from scheduler.engine.effects import Answer, Complete, Effects, Event, Leading, Listed, Watched
from scheduler.engine.extenders import Extender
from scheduler.engine.gates import Gates
from scheduler.engine.groupdoors import Doors
from scheduler.engine.grouproom import Tools
from scheduler.engine.groups import Groups, planners
from scheduler.engine.handle import EngineHandle
from scheduler.engine.intake import Intake, room_freed
from scheduler.engine.nominations import Nominations
from scheduler.engine.observation import Observation
from scheduler.engine.order import sort_key
from scheduler.engine.outbox import Outbox
from scheduler.engine.preemption import Preemptions
from scheduler.engine.promises import Promises
from scheduler.engine.queues import QueuedPod, Queues
from scheduler.engine.wakeups import Wakeups
from scheduler.framework.cycle import Cycle
from scheduler.framework.measure import Stopwatch
from scheduler.framework.nodes import Nodes
from scheduler.framework.profile import ProfileSpec, build_profile
from scheduler.framework.registry import Registry
from scheduler.framework.runner import Runner, States
from scheduler.framework.status import Code, Status
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
        self._promises = Promises(self.cluster, self.nominations)
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
        wakeups = Wakeups(
            self.profiles,
            self.observation.fault,
            hinted=self.observation.hinted if stopwatch is not None else None,
            now_s=self.observation.now_s,
        )
        gates = Gates(self.profiles, self.observation)
        self.queues = Queues(
            sort_key=sort_key(self.profiles, self.observation.fault),
            gate=gates.closed,
            wakeups=wakeups,
            backoff=self.settings.backoff,
            incoming=self.observation.incoming,
        )
        self.bindings = Bindings(
            self._outbox, self._ended, self.observation.fault, self.observation.waited
        )
        self.deliberations = Deliberations(self._outbox, self.observation.fault)
        self.intake = Intake(
            self.cluster,
            self.queues,
            self.bindings,
            self.deliberations,
            self.nominations,
            self.profiles,
            self.observation.fault,
            handled=self.observation.handled if stopwatch is not None else None,
            now_s=self.observation.now_s,
        )
        self.intake.trackers = self._handle.trackers
        self.preemptions = Preemptions(
            self._outbox,
            self.queues,
            self.nominations,
            self.bindings,
            self.observation,
            lambda pod, now: self.intake.announce(room_freed(pod), now),
        )
        self._now = 0.0
        self.groups = self._groups(gates)
        self.consultants = Consultants(
            self.settings.extenders,
            self.deliberations,
            self.queues,
            lambda queued: self.attempt(_as_we_know_it(queued), self._now),
            self.observation.fault,
        )
        if self.consultants.is_needed:
            self.bindings.binder_of = self.consultants.binder
        self._connect_handle()
        self.observation.watch(self.queues, wakeups, self.profiles, self.bindings, self.cluster)

    def handle(self, event: Event, now: float) -> None:
        """Take in one event."""
        self._now = now
        if isinstance(event, Watched):
            self.intake.watched(event, now)
        elif isinstance(event, Answer):
            for owner in (self.bindings, self.preemptions, self.deliberations):
                if owner.answer(event, now):
                    break
        elif isinstance(event, Listed):
            self.intake.listed(event, now)
        elif isinstance(event, Complete):
            self.intake.complete(event, now)
        elif isinstance(event, Leading):
            self.is_leading = event.active
            # What was decided in the last moments of a lease may never have been sent.
            self.queues.forget_told()
            if not event.active:
                self._break_off(now)
        self.groups.settle(now)

    def run(self, now: float, cycles: int) -> tuple[Effects, ...]:
        """Try up to `cycles` pods; return everything that is to be done outside."""
        self._now = now
        self.bindings.expire(now)
        self.preemptions.expire(now)
        self.deliberations.expire(now)
        self.queues.flush(now)
        self.groups.settle(now)
        if self.is_leading:
            for _ in range(cycles):
                queued = self.queues.pop(now, self.deliberations.blocked)
                if queued is None:
                    break
                self._schedule(queued, now)
        self.intake.view.flush()
        return self._outbox.drain()

    def next_wakeup(self) -> float | None:
        """Return when `run` has something to do though no event comes; None if never."""
        owners = (self.queues, self.bindings, self.preemptions, self.deliberations)
        times = [time for owner in owners if (time := owner.next_deadline()) is not None]
        return min(times, default=None)

    def has_work(self) -> bool:
        """Whether `run` would try a pod now."""
        return self.is_leading and self.queues.has_next(self.deliberations.blocked)

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
            promised=self._promises.for_pod(pod),
            ties=self.settings.ties,
            percentage=percentage or 100,
            first_row=self._first_rows[name],
        )

    def _schedule(self, queued: QueuedPod, now: float) -> None:
        """Try one pod: decide, then assume and begin to bind, or tell why not."""
        pod = queued.pod
        started_s = self.observation.now_s()
        if pod.is_terminating:
            self._outbox.put(
                failure.failed_event(pod, f"skip schedule deleting pod: {pod.key}", now)
            )
            self.queues.remove(queued.uid)
            if self.nominations.drop(queued.uid):
                self.intake.announce(room_freed(pod), now)
            return
        if self.groups.is_needed and self.groups.begin(queued, now):
            return
        if self.consultants.is_needed and self.consultants.begin(
            queued, started_s, now, self._decided, self._failed
        ):
            return
        try:
            attempt = self.attempt(_as_we_know_it(queued), now)
            decision = _outcome(attempt)
        except (PluginError, ObjectError) as error:
            self._failed(queued, error, started_s, now)
        else:
            self._decided(queued, attempt, decision, started_s, now)

    def _failed(self, queued: QueuedPod, error: Exception, started_s: float, now: float) -> None:
        """End an attempt that a plugin's fault, or a bad object, broke off."""
        if isinstance(error, PluginError):
            self.observation.fault(error.plugin, error.point, error)
        self._give_up(queued, _error(str(error)), started_s, now)

    def _decided(
        self, queued: QueuedPod, attempt: Attempt, decision: Decision, started_s: float, now: float
    ) -> None:
        """Carry a decision out: assume the pod and begin to bind it, or tell why not."""
        pod = queued.pod
        self._first_rows[queued.profile] = attempt.first_row
        self.observation.decided(queued, decision, started_s)
        if not decision.fits:
            self._give_up(queued, decision, started_s, now)
            return
        self.queues.track(queued)
        # From here on the pod counts where it goes, no longer where it was promised room.
        promised = self.nominations.drop(queued.uid)
        self.intake.announce(self.cluster.assume(pod, decision.node), now)
        if promised not in ("", decision.node):
            self.intake.announce(room_freed(pod), now)
        in_flight = InFlight(queued, attempt.cycle, attempt.runner, attempt.states, decision.node)
        in_flight.started_s = started_s
        self.bindings.begin(in_flight, now)

    def _break_off(self, now: float) -> None:
        """Begin the cycles that wait for an answer anew, later: nobody may be asked any more."""
        for key in self.deliberations.drop_all():
            queued = self.queues.get(key)
            if queued is not None:
                self.queues.put_back(queued, now)
            else:
                self.groups.broken_off(key, now)

    def _ended(self, pod: InFlight, status: Status, now: float) -> None:
        """Put a pod where it belongs, and tell its group."""
        self._finish(pod, status, now)
        self.groups.landed(pod.uid, now, is_bound=status.is_success and not pod.is_lost)

    def _finish(self, pod: InFlight, status: Status, now: float) -> None:
        """Put a pod where it belongs after binding went well, or failed."""
        queued = pod.queued
        if status.is_success:
            self.queues.remove(queued.uid)
            self._outbox.put(failure.scheduled_event(queued.pod, pod.node, now))
            self.observation.scheduled(pod, now)
            self._contained(pod, "post_bind")
            return
        self._contained(pod, "unreserve")
        freed = self.cluster.forget(queued.uid)
        self.intake.follow(freed)
        if pod.is_lost:
            # Deleted, or bound by somebody else: the watch tells what becomes of it.
            self.queues.remove(queued.uid)
            self.observation.not_scheduled(
                queued, rejected=False, message=status.message, started_s=pod.started_s
            )
            self.intake.wake(freed, now)
            if pod.seen_on and freed.kind:
                # The watch is behind: until it has caught up, the pod counts where it was found.
                self.intake.announce(self.cluster.assume(queued.pod, pod.seen_on), now)
            return
        text = failure.rejected_after_choice(status) if status.is_rejected else status.message
        decision = Decision(status=status, message=text, nominated_node="")
        self._give_up(queued, decision, pod.started_s, now)
        # kube-scheduler: the pod's own failure frees room for others, and is no reason to retry it.
        self.intake.wake(freed, now, but=queued.uid)

    def _give_up(self, queued: QueuedPod, decision: Decision, started_s: float, now: float) -> None:
        """Tell the world why a pod is not scheduled, and let it wait for better times."""
        rejected, message = decision.status.is_rejected, decision.message
        reason = failure.UNSCHEDULABLE if rejected else failure.SCHEDULER_ERROR
        if decision.nominated_node is not None:
            self.nominations.put(queued.pod, decision.nominated_node)
        if decision.victims and decision.nominated_node:
            self.queues.track(queued)  # what goes at once must not go unnoticed
            self.preemptions.begin(queued.pod, decision.nominated_node, decision.victims, now)
        self._outbox.put(
            failure.status_patch(queued, reason, message, decision.nominated_node, now)
        )
        self._outbox.put(failure.failed_event(queued.pod, message, now))
        self.observation.not_scheduled(
            queued, rejected=rejected, message=message, started_s=started_s
        )
        if rejected:
            is_pending = decision.status.code is Code.PENDING
            self.queues.rejected(queued, decision.rejected_by, now, is_pending=is_pending)
        else:
            self.queues.failed(queued)

    def _contained(self, pod: InFlight, point: str) -> None:
        """Run unreserve or post-bind; a plugin's fault there is told and changes nothing."""
        try:
            if point == "unreserve":
                pod.runner.unreserve(pod.cycle, pod.node, pod.states)
            else:
                pod.runner.post_bind(pod.cycle, pod.node)
        except PluginError as error:
            self.observation.fault(error.plugin, error.point, error)

    def _groups(self, gates: Gates) -> Groups:
        doors = Doors(
            self.bindings,
            self.nominations,
            self.preemptions,
            self._outbox,
            self.observation,
            self.intake,
            self._give_up,
        )
        tools = Tools(
            self.cluster,
            lambda: self._now,
            self.attempt,
            self.intake.follow,
            doors.set_aside,
        )
        groups = Groups(
            planners(self.profiles), tools, self.queues, self.bindings, self.deliberations, doors
        )
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

        self._handle.waiting = waiting
        self._handle.on_missing = missing
        self._handle.on_is_preempting = self.preemptions.is_running
        self._handle.on_group_members = self.groups.present
        self._handle.on_allow = lambda uid, plugin: bindings.allow(uid, plugin, self._now)
        self._handle.on_reject = lambda uid, plugin, reason: bindings.reject(
            uid, plugin, reason, self._now
        )


def _outcome(attempt: Attempt) -> Decision:
    """Drive `decide` to its end; an ordinary pod never yields."""
    steps = decide(attempt)
    try:
        next(steps)
    except StopIteration as stop:
        decision: Decision = stop.value
        return decision
    raise PluginError("", "Filter", "the cycle asked for something that nobody here can answer")


def _as_we_know_it(queued: QueuedPod) -> Pod:
    """Return the pod with the nomination that we wrote and the watch does not show yet.

    Without it a preemptor that is tried again too early would not know of its own preemption.
    """
    pod = queued.pod
    if queued.nominated is None or queued.nominated == pod.status.nominated_node_name:
        return pod
    status = msgspec.structs.replace(pod.status, nominated_node_name=queued.nominated)
    return msgspec.structs.replace(pod, status=status)


def _error(message: str) -> Decision:
    return Decision(status=Status(Code.ERROR, (message,)), message=message, nominated_node="")
