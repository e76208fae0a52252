"""`simulate`: the pending pods of a snapshot, placed by the daemon's own engine without a cluster.

The engine runs pod by pod, its effects are carried out in memory at once, and if only time can help
the clock moves to the engine's next deadline. It ends when no further change is possible; a pod
that is requeued repeatedly without any change is dropped after a bounded number of attempts.
"""

from collections.abc import Collection, Mapping

import msgspec

from scheduler.base import reasons
from scheduler.base.clock import ManualClock
from scheduler.engine.attempt.failure import POD_SCHEDULED
from scheduler.engine.decision import Decision
from scheduler.engine.queue.pod import QueuedPod, Where
from scheduler.framework.groups import GroupReport, title
from scheduler.groups.cycle.states import WAITING
from scheduler.objects.pod import Pod
from scheduler.plugins.dynamicresources.extended import IN_MEMORY_NAME
from scheduler.plugins.dynamicresources.podclaims import CLAIM, ClaimLookup
from scheduler.simulate.cluster.cluster import SimulatedCluster
from scheduler.simulate.costs import network_bill
from scheduler.simulate.gates import gate_text, there_text
from scheduler.simulate.hints import woken_by
from scheduler.simulate.records import ClaimResult, PodName, PodResult, Result, Simulation, Summary
from scheduler.simulate.stage import AnswerOptions, Setup, StagedEngine, staged, take_apart
from scheduler.simulate.verdicts import NodeVerdict, verdicts
from scheduler.snapshot.snapshot import Snapshot

GATED_REASON = "SchedulingGated"
GATED_MESSAGE = "Scheduling is blocked due to non-empty scheduling gates"


def simulate(
    snapshot: Snapshot,
    setup: Setup,
    options: AnswerOptions | None = None,
    *,
    stops_at_refusal: bool = False,
) -> Simulation:
    """Place the pending pods of `snapshot`; InputError when it cannot be used.

    With `stops_at_refusal` the simulation ends at the first pod that does not fit.
    """
    wanted = options or AnswerOptions()
    stage = staged(snapshot, setup, wanted)
    return simulate_stage(stage, wanted, stops_at_refusal=stops_at_refusal)


def simulate_stage(
    stage: StagedEngine, options: AnswerOptions | None = None, *, stops_at_refusal: bool = False
) -> Simulation:
    """Place the pending pods of a stage and consume it; `options` select the result's details."""
    run = SimulationRun(stage, options, stops_at_refusal=stops_at_refusal)
    run.to_the_end()
    simulation = run.simulation()
    take_apart(stage)
    return simulation


class _PodHistory(msgspec.Struct):
    """The history of a pod; `seen` is the number of changes of the cluster at its last attempt."""

    result: str = ""
    seen: int = 0
    victims: dict[str, PodName] = {}
    nodes: tuple[NodeVerdict, ...] = ()
    scores: dict[str, int] = {}


class SimulationRun:
    """One simulation; `engine`, `cluster` and `pending` (by uid) may change between two runs."""

    def __init__(
        self,
        stage: StagedEngine,
        options: AnswerOptions | None = None,
        *,
        stops_at_refusal: bool = False,
    ) -> None:
        self.engine = stage.engine
        self.stops_at_refusal, self.is_over = stops_at_refusal, False
        self.pending = {pod.metadata.uid: pod for pod in stage.pending}
        self.others = (*stage.others, *stage.pending)
        self.options = options or AnswerOptions()
        self.clock = ManualClock(stage.now)
        self.cluster = SimulatedCluster(self.engine, (*stage.bound, *stage.pending))
        # In the order of first attempts.
        self.histories: dict[str, _PodHistory] = {}
        self.leaving: list[str] = []
        self.fruitless = 0
        # Pods may wake each other a few times over without any effect.
        self.patience = 4 * len(stage.pending) + 100
        self.engine.report_to(
            on_decision=self._decided,
            on_end=self._ended,
            on_fault=lambda _plugin, _point, _error: None,
        )

    def to_the_end(self) -> None:
        """Run until no further change is possible."""
        while self.fruitless < self.patience:
            now, changes = self.clock.now(), self.cluster.changes
            # The solver answers at once here: no pod overtakes a group that is being planned. And
            # the members of an infeasible group are reported one by one.
            is_planning = self.engine.view.groups().is_planning
            effects = self.engine.run(now, 0 if is_planning or self.is_over else 1)
            self.cluster.carry_out(effects, now)
            while self.leaving:
                # A terminating victim is not evicted again, yet its capacity is counted.
                self.cluster.drop(self.leaving.pop(), now)
            if self.is_over and not effects and not self.engine.view.groups().has_work:
                return
            if self.cluster.changes != changes:
                self.fruitless = 0
                continue
            if is_planning:
                continue
            self.fruitless += 1
            if not effects and not self.engine.has_work():
                if self.engine.view.bindings().in_flight:
                    self.cluster.catch_up(now)
                    if self.cluster.changes != changes:
                        continue
                wake = self._next_moment()
                if wake is None:
                    return
                self.clock.set(max(now, wake))

    def simulation(self) -> Simulation:
        """Return the current result."""
        order = [uid for uid in self.histories if uid in self.pending]
        never = [uid for uid in self.pending if uid not in self.histories]
        pods = tuple(self._result(self.pending[uid]) for uid in (*order, *never))
        results = [pod.result for pod in pods]
        gated = {
            (pod.namespace, pod.name): pod.message for pod in pods if pod.result is Result.GATED
        }
        return Simulation(
            queue_order=tuple(self.pending[uid].key for uid in order),
            pods=pods,
            summary=Summary(
                scheduled=results.count(Result.SCHEDULED),
                unschedulable=results.count(Result.UNSCHEDULABLE),
                network_cost=network_bill(self.engine).total(),
            ),
            groups=self._groups(gated),
        )

    def _groups(self, gated: Mapping[tuple[str, str], str]) -> tuple[GroupReport, ...]:
        """Return the groups' results, each from the first profile that has it.

        A group without a message has that of its first member in `gated`, by namespace and name; if
        no pod of it waits, it states how many exist.
        """
        found: dict[tuple[str, str, str], GroupReport] = {}
        for planner in self.engine.group_planners():
            messages: dict[str, str] = {}
            for pod in self.pending.values():
                if key := planner.group_of(pod):
                    message = gated.get((pod.metadata.namespace, pod.metadata.name), "")
                    messages[title(key)] = messages.get(title(key)) or message
            for report in planner.group_reports():
                message = report.message or messages.get(
                    f"{report.namespace}/{report.name}", _without_pods(report)
                )
                found.setdefault(
                    (report.namespace, report.name, report.source),
                    msgspec.structs.replace(report, message=message),
                )
        pending = {pod.key for pod in self.pending.values()}
        return tuple(_with_planned(found[key], pending) for key in sorted(found))

    def _next_moment(self) -> float | None:
        """Return the next deadline that may change something, or None.

        Bindings in progress have deadlines of their own, and a pod in back-off was woken for a
        reason. A pod with an error is retried only after a change of the cluster. The flush of
        unschedulable pods is ignored: without a change it helps no pod.
        """
        view = self.engine.view
        is_open = view.bindings().in_flight or view.count(Where.BACKOFF)
        if not is_open and view.count(Where.ERROR_BACKOFF):
            is_open = any(
                self._history_of(queued.pod.metadata.uid).seen < self.cluster.changes
                for queued in view.queue()
                if queued.where is Where.ERROR_BACKOFF
            )
        return self.engine.next_wakeup() if is_open else None

    # Reports of the engine.

    def _decided(self, queued: QueuedPod, decision: Decision) -> None:
        is_first = queued.uid not in self.histories
        history = self._history_of(queued.uid)
        history.seen = self.cluster.changes
        for victim in decision.victims:
            meta = victim.pod.metadata
            history.victims[meta.uid] = PodName(meta.namespace, meta.name)
            if victim.pod.is_terminating:
                self.leaving.append(meta.uid)
        if self.options.scores and decision.node:
            row = self.engine.view.row(decision.node)
            history.scores = {
                one.plugin: int(one.normalized[row]) * one.weight for one in decision.scores
            }
        if self.options.details and is_first:
            history.nodes = verdicts(decision, self.engine.view.columns())

    def _ended(self, queued: QueuedPod, result: str, _text: str) -> None:
        history = self._history_of(queued.uid)
        history.result, history.seen = result, self.cluster.changes
        self.is_over |= self.stops_at_refusal and result == "unschedulable"

    def _history_of(self, uid: str) -> _PodHistory:
        return self.histories.setdefault(uid, _PodHistory())

    # Results.

    def _result(self, pod: Pod) -> PodResult:
        uid, meta = pod.metadata.uid, pod.metadata
        history = self.histories.get(uid, _PodHistory())
        now = self.cluster.pod(uid)
        result, reason, message = self._outcome(uid, now, history)
        is_scheduled = result is Result.SCHEDULED
        nominated = None if now is None or is_scheduled else now.status.nominated_node_name
        return PodResult(
            namespace=meta.namespace,
            name=meta.name,
            profile=pod.spec.scheduler_name,
            result=result,
            node=now.spec.node_name if now is not None and is_scheduled else None,
            reason=reason,
            message=message,
            nominated_node=nominated or None,
            victims=tuple(history.victims.values()),
            nodes=history.nodes if self.options.details else msgspec.UNSET,
            claims=self._claims(now) if now is not None and is_scheduled else msgspec.UNSET,
            extended_resource_claim_status=self.cluster.extended.get(uid, msgspec.UNSET),
            scores=history.scores if self.options.scores else msgspec.UNSET,
            woken_by=self._woken_by(pod) if self.options.waking else msgspec.UNSET,
            group=title(self.engine.group_of(pod)) or msgspec.UNSET,
        )

    def _woken_by(self, pod: Pod) -> tuple[str, ...]:
        queued = self.engine.view.queued(pod.metadata.uid)
        if queued is None or queued.where not in (Where.UNSCHEDULABLE, Where.GATED):
            return ()
        rejected_by = (queued.gated_by,) if queued.where is Where.GATED else queued.rejected_by
        return woken_by(self.engine.profiles[queued.profile], rejected_by)

    def _claims(self, pod: Pod) -> tuple[ClaimResult, ...] | msgspec.UnsetType:
        """Return the allocations of a placed pod's claims, the one for extended resources last."""
        extended = self.cluster.extended.get(pod.metadata.uid, {}).get("resourceClaimName")
        if not pod.spec.resource_claims and extended is None:
            return msgspec.UNSET
        claims = self.engine.view.objects(CLAIM)
        found = [
            ClaimResult(claim.metadata.name, claim.status.allocation)
            for claim in ClaimLookup(self.engine.view.objects).of(pod)
        ]
        if extended is not None:
            made = claims[f"{pod.metadata.namespace}/{extended}"]
            found.append(ClaimResult(IN_MEMORY_NAME, made.status.allocation))
        return tuple(found)

    def _outcome(self, uid: str, now: Pod | None, history: _PodHistory) -> tuple[Result, str, str]:
        """Return a pod's result, and the reason and message of its condition."""
        if now is None:
            return Result.UNSCHEDULABLE, reasons.PREEMPTED, self._preempted_text(uid)
        if now.spec.node_name:
            return Result.SCHEDULED, "", ""
        queued = self.engine.view.queued(uid)
        condition = now.condition(POD_SCHEDULED)
        if queued is not None and queued.where is Where.GATED:
            if now.spec.scheduling_gates:
                return Result.GATED, GATED_REASON, GATED_MESSAGE
            return Result.GATED, queued.gated_by, gate_text(self.engine, queued, self.others)
        if queued is not None and (queued.where is Where.IN_FLIGHT or not history.result):
            return Result.WAITING, "", self._waiting_text(uid)
        result = Result.ERROR if history.result == "error" else Result.UNSCHEDULABLE
        if condition is None:
            return result, "", ""
        return result, condition.reason, condition.message

    def _preempted_text(self, uid: str) -> str:
        for preemptor, history in self.histories.items():
            if uid in history.victims and preemptor in self.pending:
                return f"preempted by pod {self.pending[preemptor].key}"
        return "preempted"

    def _waiting_text(self, uid: str) -> str:
        plugins = self.engine.view.permit(uid)
        return f"waiting at permit for {', '.join(plugins)}" if plugins else "waiting"


def _without_pods(report: GroupReport) -> str:
    """Return how many members a group lacks of which no pod waits, '' if it lacks none."""
    placed = sum(1 for _ in report.leaves()) + report.finished
    if report.status != WAITING or placed >= report.minimum:
        return ""
    text = f"it needs {report.minimum} members: {there_text(placed)}"
    return f"the group {report.namespace}/{report.name} is not complete: {text}"


def _with_planned(report: GroupReport, pending: Collection[str]) -> GroupReport:
    """Return the report with the number of placed members that were `pending` (by key)."""
    keys = (f"{report.namespace}/{pod}" for _, pod in report.leaves())
    planned = sum(1 for key in keys if key in pending)
    return msgspec.structs.replace(report, planned=planned) if planned else report
