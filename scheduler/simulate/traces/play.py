"""Play a trace on the engine's virtual clock: pods arrive, run for their time, and end.

The engine is the daemon's own. Between two events the clock does not move until the engine has no
more work; then it moves to the next arrival, end, or back-off. Pods that ended are dropped, so
memory follows the pending and running pods.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from heapq import heappop, heappush
from itertools import count

import msgspec
from msgspec.structs import replace

from scheduler.base.clock import rfc3339
from scheduler.base.errors import InputError
from scheduler.engine.effects import Bind, Effects, Leading, Watched
from scheduler.engine.queue.pod import Where
from scheduler.objects.plain import read_object, read_pod
from scheduler.objects.pod import Pod
from scheduler.simulate.cluster.cluster import SimulatedCluster
from scheduler.simulate.cluster.deviceclaims import CLAIM, TEMPLATE, claims_made
from scheduler.simulate.stage import StagedEngine
from scheduler.simulate.traces.arrival import ANSWER, LATENCY_S, Arrival, RecordedAnswers
from scheduler.simulate.traces.jobs import GROUP_KIND, Job, Jobs, gang_labels, gang_object, job_key
from scheduler.simulate.traces.samples import Samples
from scheduler.simulate.traces.summary import (
    Tally,
    TraceSummary,
    TraceUse,
    jobs_of,
    waiting_of,
)
from scheduler.state.resources import counted, pod_requests

_CYCLES = 16
_FRUITLESS = 10_000
# Times of a trace are in microseconds; ends at one time come before arrivals.
_RESOLUTION_S = 1e-6
# Kubernetes' default of `terminationGracePeriodSeconds`.
_GRACE_S = 30.0


class _Pod(msgspec.Struct):
    tally: Tally
    job: str
    amounts: Mapping[str, int]
    arrived_at: float
    arrival: Arrival
    bound_at: float | None = None
    ends_at: float | None = None

    def begins_at(self, now: float) -> float:
        """Return when the pod starts if it is bound now: then, or at its recorded binding."""
        was_bound_at = self.arrived_at + (self.arrival.waited_s or 0.0)
        return was_bound_at if 0 <= was_bound_at - now <= LATENCY_S else now

    def bind(self, now: float) -> None:
        """Note the binding, and when the pod ends."""
        self.bound_at = now
        if self.arrival.duration_s is not None:
            self.ends_at = self.begins_at(now) + self.arrival.duration_s


class TracePlayer:
    """One trace on one engine; `summary` may be called at any time.

    `on_bound` receives the key of each bound pod, its node and the seconds since the start.
    """

    def __init__(self, stage: StagedEngine, scheduler: str) -> None:
        self._engine = stage.engine
        self._start = self._now = stage.now
        self._scheduler = scheduler
        self._cluster = SimulatedCluster(self._engine, (*stage.bound, *stage.pending))
        self._pods: dict[str, _Pod] = {}
        # What is reported to the engine at a time, in the recorded order, else as it was scheduled.
        self._due: list[tuple[float, int, int, Callable[[], None]]] = []
        self._numbers = count()
        self._answers = RecordedAnswers()
        self._tallies: dict[tuple[str, str], Tally] = {}
        self._jobs = Jobs()
        self._samples = Samples(self._engine)
        self._number = self._rows = self._waiting = 0
        self._used: Counter[str] = Counter()
        self._peak: Counter[str] = Counter()
        self._used_seconds: dict[str, float] = {}
        self._is_complete = False
        self._cluster.stops_later = self._stops_later
        self._cluster.starts_at = self._starts_at
        self._cluster.defers = self._defers
        # A leader's queue has new pods in the order of their arrival, a list those of creation.
        self._engine.handle(Leading(active=True), self._now)
        self.on_bound: Callable[[str, str, float], None] = lambda _pod, _node, _seconds: None

    def play(self, arrivals: Iterable[Arrival], progress: Callable[[int, float], None]) -> None:
        """Play all arrivals and what runs after them; call `progress` with pods and seconds."""
        moment = 0.0
        for arrival in arrivals:
            if arrival.at_s > moment:
                # Objects that arrive at one time are decided together: the daemon reads them in one
                # turn.
                self._work()
                moment = arrival.at_s
                self._until(self._start + moment)
            self._arrive(arrival)
            if arrival.count > 1 or arrival.gang:
                self._work()
            progress(self._number, self._now - self._start)
        self._work()
        while self._due:
            self._until(self._due[0][0])
            self._work()
        self._samples.until(self._now - self._start + 1, self._waiting)
        self._is_complete = True

    def summary(self) -> TraceSummary:
        """Return the figures up to now."""
        seconds = self._now - self._start
        columns = self._engine.view.columns()
        uses = []
        for name in sorted(self._peak):
            offered = int(columns.allocatable(name).sum()) or 1
            mean = self._used_seconds.get(name, 0.0) / seconds if seconds > 0 else self._used[name]
            uses.append(
                TraceUse(name, _percent(mean, offered), _percent(self._peak[name], offered))
            )
        bound = sum(len(tally.waits) for tally in self._tallies.values())
        return TraceSummary(
            seconds=round(seconds, 3),
            pods=self._number,
            bound=bound,
            never_bound=self._number - bound,
            evicted=sum(tally.evicted for tally in self._tallies.values()),
            complete=self._is_complete,
            allocation=tuple(uses),
            waiting=waiting_of(self._tallies),
            jobs=jobs_of(self._tallies),
            points=tuple(self._samples.points),
        )

    def _until(self, moment: float) -> None:
        """Move the clock to a time, processing what is due and back-offs before it.

        What is due at that time is reported to the engine; it decides on it together with what
        arrives then, as the daemon does in one turn.
        """
        while True:
            wake = self._next_wake()
            due = self._due[0][0] if self._due else None
            following = min((at for at in (wake, due) if at is not None), default=moment)
            if following >= moment - _RESOLUTION_S:
                break
            self._pass(max(following, self._now))
            self._report_due()
            self._work()
        self._pass(max(moment, self._now))
        self._report_due()

    def _report_due(self) -> None:
        while self._due and self._due[0][0] <= self._now + _RESOLUTION_S:
            *_, report = heappop(self._due)
            report()

    def _next_wake(self) -> float | None:
        """Return the time of the engine's next deadline, None if only an event triggers work."""
        view = self._engine.view
        if view.bindings().in_flight or view.count(Where.BACKOFF):
            return self._engine.next_wakeup()
        return None

    def _pass(self, moment: float) -> None:
        self._samples.until(moment - self._start, self._waiting)
        for name, amount in self._used.items():
            before = self._used_seconds.get(name, 0.0)
            self._used_seconds[name] = before + amount * (moment - self._now)
        self._now = moment

    def _arrive(self, arrival: Arrival) -> None:
        if arrival.kind == ANSWER:
            sent_at = self._now + (arrival.waited_s or 0.0)
            took_s = arrival.duration_s or 0.0
            self._answers.add(arrival.obj, sent_at, took_s, arrival.end_order)
        elif arrival.kind:
            self._jobs.describe(arrival.kind, arrival.obj)
            self._engine.handle(Watched(arrival.kind, "ADDED", arrival.obj), self._now)
        elif arrival.pod is not None:
            self._put(arrival, self._of_manifest(arrival, arrival.pod), job_key(arrival.pod))
        else:
            self._rows += 1
            name = f"job-{self._rows:08d}"
            group = None
            if arrival.gang:
                _, group = read_object(gang_object(arrival, name))
                self._engine.handle(Watched(GROUP_KIND, "ADDED", group), self._now)
            for _ in range(arrival.count):
                self._put(arrival, self._of_row(arrival, name), name).group = group

    def _of_row(self, arrival: Arrival, job: str) -> Pod:
        name = f"trace-{self._number + 1:08d}"
        meta = {
            "name": name,
            "namespace": arrival.namespace,
            "uid": name,
            "creationTimestamp": rfc3339(self._now),
            "labels": gang_labels(arrival, job),
        }
        resources = {"requests": dict(arrival.requests)}
        container = {"name": "main", "image": "trace", "resources": resources}
        spec = {"schedulerName": self._scheduler, "containers": [container]}
        return read_pod({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})

    def _of_manifest(self, arrival: Arrival, pod: Pod) -> Pod:
        """Return the pod as created now; a pod without a matching profile gets the first
        profile.
        """
        meta, spec = pod.metadata, pod.spec
        if self._cluster.find(pod.key) is not None:
            text = f"pod {pod.key} has not ended: give pods that run together different names"
            raise InputError(text, where=arrival.where)
        uid = meta.uid or f"trace-{self._number + 1:08d}"
        if not spec.node_name and spec.scheduler_name not in self._engine.profiles:
            spec = replace(spec, scheduler_name=self._scheduler)
        meta = replace(meta, uid=uid, creation_timestamp=rfc3339(self._now))
        made = replace(pod, metadata=meta, spec=spec)
        templates = self._engine.view.objects(TEMPLATE)
        for with_claims, claims in claims_made((made,), templates, {}) if templates else ():
            for claim in claims:
                self._engine.handle(Watched(CLAIM, "ADDED", claim), self._now)
            made = with_claims
        return made

    def _put(self, arrival: Arrival, pod: Pod, job: str) -> Job:
        self._number += 1
        tally = self._tallies.setdefault((arrival.namespace, arrival.shape), Tally())
        tally.pods += 1
        amounts = counted(pod_requests(pod))
        self._samples.count(amounts)
        seconds = self._now - self._start
        joined = self._jobs.join(job, tally, seconds, arrival.gang)
        entry = _Pod(tally, job, amounts, self._now, arrival)
        self._pods[pod.metadata.uid] = entry
        self._waiting += 1
        if arrival.deleted_after_s is not None:
            end = partial(self._end, pod.metadata.uid)
            self._schedule(self._now + arrival.deleted_after_s, arrival.end_order, end)
        self._cluster.put(pod, self._now)
        if pod.spec.node_name:
            self._begin(pod.metadata.uid, pod.spec.node_name)
        return joined

    def _schedule(self, at: float, order: int, report: Callable[[], None]) -> None:
        # Sums of the same recorded times differ in their last bits.
        heappush(self._due, (round(at, 6), order, next(self._numbers), report))

    def _terminate(self, uid: str) -> None:
        if uid in self._pods:
            self._cluster.terminate(uid, self._now)

    def _carry_out(self, effect: Effects) -> None:
        self._cluster.carry_out_one(effect, self._now)
        self._lose()

    def _end(self, uid: str) -> None:
        pod = self._pods.pop(uid, None)
        if pod is not None:
            self._free(pod)
        self._cluster.drop(uid, self._now)
        if pod is not None:
            self._leave(pod, is_done=pod.bound_at is not None)

    def _free(self, pod: _Pod) -> None:
        """Count a pod that goes, which used its amounts if it was bound and else waited."""
        if pod.bound_at is not None:
            self._used.subtract(pod.amounts)
        else:
            self._waiting -= 1

    def _stops_later(self, victim: Pod, now: float) -> bool:
        """Return whether an evicted pod ends by itself within the grace period.

        In a trace, the recorded end of a victim is the time at which it had stopped.
        """
        pod = self._pods.get(victim.metadata.uid)
        return pod is not None and pod.ends_at is not None and 0 < pod.ends_at - now <= _GRACE_S

    def _starts_at(self, uid: str, now: float) -> float:
        """Return a pod's start time, by which victims are chosen."""
        pod = self._pods.get(uid)
        return now if pod is None else pod.begins_at(now)

    def _defers(self, effect: Effects, now: float) -> bool:
        """Return whether an effect is carried out later, at the recorded time of its answer."""
        answer = self._answers.take(type(effect).__name__, now - _RESOLUTION_S)
        if answer is not None:
            self._schedule(*answer, partial(self._carry_out, effect))
        return answer is not None

    def _leave(self, pod: _Pod, *, is_done: bool) -> None:
        job = self._jobs.leave(pod.job, self._now - self._start, is_done=is_done)
        if job is not None and job.group is not None:
            self._engine.handle(Watched(GROUP_KIND, "DELETED", job.group), self._now)

    def _work(self) -> None:
        """Run the engine until only time or another event can help."""
        fruitless = 0
        while fruitless < _FRUITLESS:
            before = self._cluster.changes
            effects = self._engine.run(self._now, _CYCLES)
            evicted = len(self._cluster.evicted)
            self._cluster.carry_out(effects, self._now)
            for effect in effects:
                if isinstance(effect, Bind):
                    self._begin(effect.uid, effect.node)
            if len(self._cluster.evicted) != evicted:
                self._lose()
            if not effects and not self._engine.has_work():
                if self._engine.view.bindings().in_flight:
                    self._cluster.catch_up(self._now)
                if self._cluster.changes == before:
                    return
            fruitless = 0 if self._cluster.changes != before else fruitless + 1

    def _begin(self, uid: str, node: str) -> None:
        pod, known = self._pods.get(uid), self._cluster.pod(uid)
        if pod is None or known is None or pod.bound_at is not None:
            return
        pod.bind(self._now)
        self._waiting -= 1
        waited = max(self._now - pod.arrived_at, 0.0)
        pod.tally.waits.append(waited)
        pod.tally.at_once += waited == 0
        if (job := self._jobs.of(pod.job)) is not None:
            job.count_bound(self._now - self._start)
        self._used.update(pod.amounts)
        for name in pod.amounts:
            self._peak[name] = max(self._peak[name], self._used[name])
        if pod.ends_at is not None:
            if pod.arrival.termination_s is not None:
                begins_at = pod.ends_at - pod.arrival.termination_s
                self._schedule(begins_at, 0, partial(self._terminate, uid))
            self._schedule(pod.ends_at, pod.arrival.end_order, partial(self._end, uid))
        self.on_bound(known.key, node, self._now - self._start)

    def _lose(self) -> None:
        """Count the pods of the trace that were evicted; an evicted pod is not recreated."""
        for uid in self._cluster.evicted & self._pods.keys():
            pod = self._pods.pop(uid)
            pod.tally.evicted += 1
            self._free(pod)
            self._leave(pod, is_done=False)


def _percent(amount: float, offered: int) -> float:
    return round(100 * amount / offered, 2)
