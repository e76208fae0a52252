"""The API server and the controllers of a simulation: effects are carried out at once, in memory.

`SimulatedCluster` answers every effect of an engine and reports the change as a watch would. A bind
always succeeds, an evicted pod is deleted at once, and its disruption budgets allow one disruption
less. Contains no scheduling rules.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from scheduler.base.clock import rfc3339
from scheduler.base.errors import TrellisError
from scheduler.base.reasons import PREEMPTION_BY_SCHEDULER
from scheduler.engine.effects import (
    Answer,
    Bind,
    Call,
    Effects,
    Evict,
    Look,
    Seen,
    SetStatus,
    Solve,
    Watched,
)
from scheduler.engine.engine import Engine
from scheduler.objects.pod import Pod, PodCondition
from scheduler.objects.policy import PodDisruptionBudget
from scheduler.objects.selectors import selector_matches
from scheduler.simulate.cluster.rest import Rest

if TYPE_CHECKING:
    from scheduler.groups.problem.instance import SolveLimits

BUDGET = "PodDisruptionBudget"
SCHEDULED = "PodScheduled"
DISRUPTED = "DisruptionTarget"
EXTENDED = "extendedResourceClaimStatus"


class SimulatedCluster:
    """The simulated cluster around an engine.

    `changes` counts changes that may let another pod fit; `evicted` are the uids of evicted pods.
    """

    def __init__(self, engine: Engine, pods: Iterable[Pod]) -> None:
        self._engine = engine
        self._pods = {pod.metadata.uid: pod for pod in pods}
        self._uids = {pod.key: pod.metadata.uid for pod in self._pods.values()}
        self._rest = Rest(engine.cluster)
        # By pod uid: the claim for a pod's extended resources, as written to its status.
        self.extended: dict[str, dict[str, Any]] = {}
        self.changes = 0
        self.evicted: set[str] = set()
        # Whether an evicted pod terminates for a time, until `drop`; others are gone at once.
        self.stops_later: Callable[[Pod, float], bool] = lambda _pod, _now: False
        # The time at which a pod starts that is bound now.
        self.starts_at: Callable[[str, float], float] = lambda _uid, now: now
        # Whether the owner passes an effect to `carry_out_one` later; others take no time.
        self.defers: Callable[[Effects, float], bool] = lambda _effect, _now: False
        # The solver's limit that replaces the questions' own, without remedies; and whether it has
        # left a question open.
        self.solver_limits: SolveLimits | None = None
        self.is_open = False

    def pod(self, uid: str) -> Pod | None:
        """Return a pod's current version; None after its deletion."""
        return self._pods.get(uid)

    def put(self, pod: Pod, now: float) -> None:
        """Create a pod, or replace it by a newer version, as an external client would."""
        self._uids[pod.key] = pod.metadata.uid
        self._put(pod, now)

    def drop(self, uid: str, now: float) -> None:
        """Delete a pod as an external client would; do nothing if it does not exist."""
        pod = self._pods.pop(uid, None)
        if pod is not None:
            self.changes += 1
            del self._uids[pod.key]
            self._engine.handle(Watched("Pod", "DELETED", pod), now)

    def terminate(self, uid: str, now: float) -> None:
        """Begin to delete a pod gracefully as an external client would; `drop` ends it."""
        pod = self._pods.get(uid)
        if pod is not None and not pod.is_terminating:
            self._put(_terminating(pod, now), now)

    def find(self, key: str) -> Pod | None:
        """Return the pod of that `namespace/name`; None if there is none."""
        return self._pods.get(self._uids.get(key, ""))

    def carry_out(self, effects: Iterable[Effects], now: float) -> None:
        """Carry out the engine's effects in order; report all changes before this returns."""
        for effect in effects:
            if not self.defers(effect, now):
                self.carry_out_one(effect, now)

    def carry_out_one(self, effect: Effects, now: float) -> None:
        """Carry out one effect now."""
        if isinstance(effect, Bind):
            self._bind(effect, now)
        elif isinstance(effect, SetStatus):
            self._set_status(effect, now)
        elif isinstance(effect, Evict):
            self._evict(effect, now)
        elif isinstance(effect, Call):
            self._call(effect, now)
        elif isinstance(effect, Look):
            self._look(effect, now)
        elif isinstance(effect, Solve):
            self._solve(effect, now)

    def catch_up(self, now: float) -> None:
        """Complete the controllers' work that was pending when the snapshot was taken."""
        events = self._rest.overdue()
        self.changes += len(events)
        for event in events:
            self._engine.handle(event, now)

    def _bind(self, effect: Bind, now: float) -> None:
        pod = self._pods.get(effect.uid)
        if pod is None:
            self._engine.handle(Answer(effect.id, 404, "NotFound", "the pod is gone"), now)
            return
        # The API server sets it with a binding, and some components count a pod by its time.
        others = tuple(one for one in pod.status.conditions if one.type != SCHEDULED)
        conditions = (*others, _scheduled(now))
        # The kubelet's: victims of preemption are chosen by it.
        started = pod.status.start_time or rfc3339(self.starts_at(effect.uid, now))
        status = replace(
            pod.status, nominated_node_name="", conditions=conditions, start_time=started
        )
        bound = replace(pod, spec=replace(pod.spec, node_name=effect.node), status=status)
        self._engine.handle(Answer(effect.id, 200), now)
        self._put(bound, now)

    def _set_status(self, effect: SetStatus, now: float) -> None:
        pod = self._pods.get(effect.uid)
        if pod is None:
            return
        status = pod.status
        new = effect.condition
        if new is not None:
            others = tuple(one for one in status.conditions if one.type != new.type)
            status = replace(status, conditions=(*others, new))
        if effect.nominated_node is not None:
            status = replace(status, nominated_node_name=effect.nominated_node)
        self._put(replace(pod, status=status), now, is_progress=False)

    def _evict(self, effect: Evict, now: float) -> None:
        victim = self._pods.get(effect.uid)
        if victim is None:
            self._engine.handle(Answer(effect.id, 404, "NotFound", "the pod is gone"), now)
            return
        self.evicted.add(effect.uid)
        self._engine.handle(Answer(effect.id, 200), now)
        if self.stops_later(victim, now):
            self._put(_terminating(_marked(victim, effect.message, now), now), now)
        else:
            self.drop(effect.uid, now)
        for budget in list(self._engine.view.objects(BUDGET).values()):
            self._charge(budget, victim, now)

    def _charge(self, budget: PodDisruptionBudget, victim: Pod, now: float) -> None:
        """Charge a budget for a deleted pod, as the disruption controller does."""
        meta, allowed = victim.metadata, budget.status.disruptions_allowed
        if (
            allowed > 0
            and budget.metadata.namespace == meta.namespace
            and selector_matches(budget.spec.selector, meta.labels)
        ):
            less = replace(budget.status, disruptions_allowed=allowed - 1)
            self._engine.handle(Watched(BUDGET, "MODIFIED", replace(budget, status=less)), now)

    def _call(self, effect: Call, now: float) -> None:
        path = effect.path.strip("/").split("/")
        if path[:2] == ["api", "v1"] and path[4:5] == ["pods"] and path[6:] == ["status"]:
            pod = self.find(f"{path[3]}/{path[5]}")
            if pod is not None:
                self.extended[pod.metadata.uid] = effect.body["status"][EXTENDED]
                self._engine.handle(Answer(effect.id, 200), now)
                return
        answer, events = self._rest.call(effect)
        self.changes += len(events)
        for event in events:
            self._engine.handle(event, now)
        self._engine.handle(answer, now)

    def _solve(self, effect: Solve, now: float) -> None:
        """Run the solver in this process, synchronously."""
        from scheduler.groups.solver import questions

        question = effect.instance
        if self.solver_limits is not None:
            question = replace(question, limits=self.solver_limits)
            if isinstance(question, questions.Place):
                # Setting CP-SAT up takes time, whatever the limits.
                question = replace(question, advise=False, solver="Exact")
        try:
            solution = questions.answer(question)
            outcomes = (
                [solution.placed.outcome] if solution.roles is None else [solution.roles.outcome]
            )
            self.is_open |= "unknown" in outcomes
            answer = Answer(effect.id, 200, body=solution)
        except TrellisError as error:
            answer = Answer(effect.id, 500, "SolverError", str(error))
        self._engine.handle(answer, now)

    def _look(self, effect: Look, now: float) -> None:
        pod = self.find(f"{effect.namespace}/{effect.name}")
        if pod is None:
            answer = Answer(effect.id, 404, "NotFound", "the pod is gone")
        else:
            answer = Answer(effect.id, 200, body=Seen(pod.metadata.uid, pod.spec.node_name))
        self._engine.handle(answer, now)

    def _put(self, pod: Pod, now: float, *, is_progress: bool = True) -> None:
        self.changes += is_progress
        self._pods[pod.metadata.uid] = pod
        self._engine.handle(Watched("Pod", "MODIFIED", pod), now)


@lru_cache(maxsize=1)  # the clock does not move while pods are placed
def _scheduled(now: float) -> PodCondition:
    return PodCondition(SCHEDULED, "True", last_transition_time=rfc3339(now))


def _terminating(pod: Pod, now: float) -> Pod:
    return replace(pod, metadata=replace(pod.metadata, deletion_timestamp=rfc3339(now)))


def _marked(victim: Pod, message: str, now: float) -> Pod:
    """Return a victim with its DisruptionTarget condition.

    The preemptor evicts no further pods while a marked pod terminates on its nominated node.
    """
    mark = PodCondition(
        DISRUPTED, "True", PREEMPTION_BY_SCHEDULER, message, last_transition_time=rfc3339(now)
    )
    others = tuple(one for one in victim.status.conditions if one.type != DISRUPTED)
    return replace(victim, status=replace(victim.status, conditions=(*others, mark)))
