"""What the engine reports to observers: metrics, decisions for the log, plugin faults.

Nothing here decides anything. Durations come from an injected stopwatch and never influence a
decision.
"""

from collections.abc import Callable

from scheduler.base.meters import Meters, Trace
from scheduler.base.release import DEFAULT, Release
from scheduler.engine.binding.inflight import InFlight
from scheduler.engine.decision import Decision
from scheduler.engine.queue.pod import QueuedPod
from scheduler.framework.hypothetical.disruption import Disruption
from scheduler.framework.plugin import POINT_NAMES
from scheduler.framework.running.measure import Instruments, Stopwatch
from scheduler.framework.status import Code
from scheduler.state.facts import event_name

Observe = Callable[[float], None]
OnDecision = Callable[[QueuedPod, Decision], None]
# Called at the end of an attempt with its result and the node or the reason; a tracer returns the
# trace.
OnEnd = Callable[[QueuedPod, str, str], Trace | None]
OnFault = Callable[[str, str, Exception], None]
# Called when this process begins or ceases to lead, with the time.
OnLeading = Callable[[bool, float], None]


def _zero() -> float:
    return 0.0


class ProfileInstruments:
    """Measures the plugins of one profile (`framework.running.runner.Instruments`)."""

    def __init__(self, observation: "Observation", stopwatch: Stopwatch, profile: str) -> None:
        self.stopwatch = stopwatch
        self._observation = observation
        self._meters = observation.meters
        self._profile = profile
        # The look-ups of duration metrics, cached: a pod passes half a dozen points.
        self._points: dict[tuple[str, str], Observe] = {}
        self._plugins: dict[tuple[str, str, str], Observe] = {}

    def point(self, point: str, seconds: float, status: str) -> None:
        """Note how long all plugins of an extension point took."""
        observe = self._points.get((point, status))
        if observe is None:
            family = self._meters.framework_extension_point_duration
            observe = family.labels(POINT_NAMES[point], status, self._profile).observe
            self._points[point, status] = observe
        observe(seconds)

    def plugin(self, point: str, plugin: str, seconds: float, status: str) -> None:
        """Record the duration of one plugin."""
        observe = self._plugins.get((point, plugin, status))
        if observe is None:
            family = self._meters.plugin_execution_duration
            observe = family.labels(plugin, POINT_NAMES[point], status).observe
            self._plugins[point, plugin, status] = observe
        observe(seconds)

    def preemption(self, seconds: float, status: str) -> None:
        """Note how long a search for victims took."""
        self._observation.victims_sought("pod", status, seconds)

    def evaluations(self, point: str, plugin: str) -> Callable[[], None]:
        """Return the counter of a plugin's calls at an extension point."""
        family = self._meters.plugin_evaluation
        return family.labels(plugin, POINT_NAMES[point], self._profile).inc


class Observation:
    """Metrics of the engine, and the hooks of its owner."""

    def __init__(
        self, meters: Meters, stopwatch: Stopwatch | None, release: Release = DEFAULT
    ) -> None:
        self.meters = meters
        self.stopwatch = stopwatch
        self._release = release
        self.now_s = stopwatch or _zero
        self.on_decision: OnDecision = lambda _queued, _decision: None
        self.on_end: OnEnd = lambda _queued, _result, _text: None
        self.on_fault: OnFault = lambda _plugin, _point, _error: None
        self.on_leading: OnLeading = lambda _active, _now: None

    def for_profile(self, profile: str) -> Instruments | None:
        """Return the instruments for the plugins of a profile; None without a stopwatch."""
        if self.stopwatch is None:
            return None
        return ProfileInstruments(self, self.stopwatch, profile)

    def incoming(
        self,
        brings_group: Callable[[QueuedPod, str], bool],
        queued: QueuedPod,
        queue: str,
        event: str,
    ) -> None:
        """Count a pod that enters a queue, and the entity that enters with it.

        `brings_group` returns whether a member's group enters the queue with it.
        """
        name = event_name(event, self._release)
        self.meters.queue_incoming_pods.labels(queue, name).inc()
        if not queued.is_member:
            self.meters.queue_incoming_entities.labels(queue, name, "pod").inc()
        elif brings_group(queued, queue):
            self.meters.queue_incoming_entities.labels(queue, name, "podgroup").inc()

    def let_in(self, profile: str, started_s: float) -> None:
        """Measure the pre-enqueue plugins."""
        family = self.meters.framework_extension_point_duration
        # kube-scheduler: also a gate that stays shut is a success here.
        family.labels("PreEnqueue", "Success", profile).observe(self.now_s() - started_s)

    def fault(self, plugin: str, point: str, error: Exception) -> None:
        """Count and pass on a plugin's exception."""
        self.meters.plugin_errors.labels(plugin, point).inc()
        self.on_fault(plugin, point, error)

    def missing(self, plugin: str, kind: str) -> None:
        """Count an object that a pod refers to and that does not exist."""
        self.meters.missing_objects.labels(plugin, kind).inc()

    def decided(self, queued: QueuedPod, decision: Decision, started_s: float) -> None:
        """Measure the algorithm's part of an attempt."""
        self.meters.scheduling_algorithm_duration.observe(self.now_s() - started_s)
        self.on_decision(queued, decision)

    def waited(self, code: Code, seconds: float) -> None:
        """Measure a wait at permit."""
        self.meters.permit_wait_duration.labels(code).observe(seconds)

    def hinted(self, plugin: str, event: str, seconds: float, outcome: str) -> None:
        """Measure a plugin's queueing hint."""
        family = self.meters.queueing_hint_execution_duration
        family.labels(plugin, event_name(event, self._release), outcome).observe(seconds)

    def handled(self, event: str, seconds: float) -> None:
        """Measure how long taking in a change took."""
        name = event_name(event, self._release)
        self.meters.event_handling_duration.labels(name).observe(seconds)

    def victims_sought(self, preemptor: str, result: str, seconds: float) -> None:
        """Measure a search for victims by a pod or a podgroup."""
        self.meters.preemption_evaluation_duration.labels(preemptor, result).observe(seconds)

    def preempted(self, preemptor: str, victims: int, disruption: Disruption) -> None:
        """Count the victims of a preemption by a pod, podgroup or compositepodgroup."""
        meters = self.meters
        if disruption.groups:
            meters.preemption_workload_disruptions.labels(preemptor).observe(disruption.groups)
        if disruption.violations:
            meters.preemption_pdb_violations.labels(preemptor).inc(disruption.violations)
        if preemptor == "pod":
            self.meters.preemption_attempts.inc()
            self.meters.preemption_victims.observe(victims)
        else:
            self.meters.workload_preemption_victims.observe(victims)

    def evicted(self, preemptor: str, seconds: float, *, is_done: bool) -> None:
        """Measure how long carrying out the evictions of a preemption took."""
        result = "success" if is_done else "error"
        self.meters.preemption_execution_duration.labels(preemptor, result).observe(seconds)
        self.meters.preemption_goroutines_execution.labels(result).inc()
        self.meters.preemption_goroutines_duration.labels(result).observe(seconds)

    def scheduled(self, pod: InFlight, now: float) -> None:
        """Count a bound pod."""
        queued, meters = pod.queued, self.meters
        trace = self.on_end(queued, "scheduled", pod.node)
        self._attempted(queued, "scheduled", pod.started_s, trace)
        meters.pod_scheduling_attempts.observe(queued.attempts)
        attempts = str(queued.attempts) if queued.attempts < 15 else "15+"
        since = queued.first_active_at if queued.first_active_at is not None else now
        meters.pod_scheduling_sli_duration.labels(attempts).observe(now - since, trace)
        if queued.was_flushed:
            meters.pod_scheduled_after_flush.inc()

    def not_scheduled(
        self, queued: QueuedPod, *, rejected: bool, message: str, started_s: float
    ) -> None:
        """Count an attempt that ended without a node."""
        result = "unschedulable" if rejected else "error"
        self._attempted(queued, result, started_s, self.on_end(queued, result, message))

    def _attempted(
        self, queued: QueuedPod, result: str, started_s: float, trace: Trace | None
    ) -> None:
        self.meters.schedule_attempts.labels(result, queued.profile).inc()
        duration = self.meters.scheduling_attempt_duration.labels(result, queued.profile)
        duration.observe(self.now_s() - started_s, trace)
        if queued.woken_by:
            outcome = "useful" if result == "scheduled" else "useless"
            self.meters.queue_wakeups.labels(queued.woken_by, outcome).inc()
            queued.woken_by = ""
