"""An engine, the model API server, and the faults between them.

`Rig` is executor and watch in one: effects are in flight until they are performed, answers and
watch events until they are delivered. Each move is deterministic; the chooser of the moves (a
hypothesis machine, a seeded run, a named scenario) determines the faults.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from scheduler.base.errors import PluginError
from scheduler.engine.decisionlog import Header, encode_header, encode_step
from scheduler.engine.effects import (
    OUTDATED,
    Answer,
    AskExtender,
    Bind,
    Call,
    Complete,
    Effects,
    Event,
    Evict,
    Leading,
    Look,
    SetStatus,
    Solve,
    Watched,
)
from scheduler.engine.engine import Engine
from scheduler.engine.intake import identity
from scheduler.engine.queue.pod import QueuedPod, Where
from scheduler.objects.pod import Pod
from scheduler.state.cluster import Cluster
from tests.property.evictionevents import check_eviction_events
from tests.property.making import SCHEDULER
from tests.property.model_api import KINDS, ModelApi
from tests.property.model_claims import CLAIM, control
from tests.property.tinyplugins import plugin_of, tiny_engine
from tests.property.watchdog import DONE, Watchdog, check_inside

START = 1_767_225_600.0
# kube-apiserver's --request-timeout: after it a request can no longer take effect.
REQUEST_LIMIT_S = 60.0


class Stray(NamedTuple):
    """A request in flight whose sender has abandoned it; an orphan's sender is dead."""

    effect: Effects
    since: float
    is_orphan: bool = False


class Rig:
    """The engine's surroundings; `log` gets every step, for replays."""

    def __init__(
        self, build: Callable[[], Engine] = tiny_engine, kinds: Sequence[str] = KINDS
    ) -> None:
        self.now = START
        self.kinds = tuple(kinds)
        self.api = ModelApi(lambda: self.now, kinds)
        self.wire: list[Effects] = []
        self.strays: list[Stray] = []
        self.answers: list[Answer] = []
        self.position: dict[str, int] = dict.fromkeys(kinds, 0)
        self.lists: dict[str, list[Event]] = {kind: [] for kind in kinds}
        self.faults: list[tuple[str, str]] = []
        self.steps: list[tuple[float, tuple[Event, ...], int, tuple[Effects, ...]]] = []
        self._pending: list[Event] = []
        # Uids of pods that were evicted when no object described their group, for checks that need
        # them.
        self.undescribed: set[str] = set()
        self._build = build
        self._begin()

    def _begin(self) -> None:
        self.engine = self._build()
        self.dog = Watchdog(self.engine)
        self.engine.observation.on_fault = lambda plugin, point, _error: self.faults.append(
            (plugin, point)
        )
        for kind in self.kinds:
            self.relist(kind)

    # The engine's side.

    def handle(self, event: Event) -> None:
        """Deliver one event."""
        self.dog.record_event(event)
        self.engine.handle(event, self.now)
        self.dog.forget_bound()
        self._pending.append(event)
        check_inside(self.engine)

    def run(self, cycles: int = 4) -> tuple[Effects, ...]:
        """Run the engine; put its effects in flight."""
        effects = self.engine.run(self.now, cycles)
        self.steps.append((self.now, tuple(self._pending), cycles, effects))
        self._pending = []
        self.dog.forget_bound()
        check_inside(self.engine)
        check_eviction_events(effects, self.engine, self.undescribed)
        # The executor sends nothing without the lease.
        self.wire += effects if self.engine.is_leading else ()
        return effects

    def queued(self, name: str) -> QueuedPod:
        """Return the engine's record of the pod `default/name` (uid `uid-name`)."""
        queued = self.engine.queues.get(f"uid-{name}")
        assert queued is not None, f"{name} is not queued"
        return queued

    def where(self, name: str) -> Where:
        """Return the state of the pod `default/name` (uid `uid-name`)."""
        queued = self.engine.queues.get(f"uid-{name}")
        return Where.GONE if queued is None else queued.where

    def pass_time(self, seconds: float) -> None:
        """Advance the time; earlier events are a turn of their own, as in the daemon."""
        if self._pending:
            self.run(0)
        self.now += seconds

    # The wire.

    def ready(self) -> list[int]:
        """Return the places on the wire that may be performed: in order for each pod and each
        object.
        """
        seen: set[str] = set()
        found = []
        for place, effect in enumerate(self.wire):
            whose = effect.path if isinstance(effect, Call) else getattr(effect, "uid", "")
            if not isinstance(effect, SetStatus | Bind | Call) or whose not in seen:
                found.append(place)
            if whose:
                seen.add(whose)
        return found

    def perform(self, place: int, *, times: int = 1, deliver: bool = True) -> None:
        """Carry out an effect, perhaps repeatedly; the last answer is returned or lost."""
        effect = self.wire.pop(place)
        answer = None
        if isinstance(effect, Bind) and (why := self.engine.objection(effect)):
            self.answers.append(Answer(effect.id, 503, OUTDATED, why))
            return
        for _ in range(times):
            answer = self.api.perform(effect)
        if answer is not None:
            lost = Answer(answer.effect, 0, "Timeout", "no answer")
            self.answers.append(answer if deliver else lost)

    def refuse(self, place: int, code: int) -> None:
        """Answer an effect with a failure without carrying it out; status patches are retried."""
        effect = self.wire[place]
        if isinstance(effect, Bind | Look | Call | Evict | AskExtender | Solve):
            del self.wire[place]
            # Calls to extenders answer 0 for every failure.
            code = 0 if isinstance(effect, AskExtender) else code
            # An existing pod is never reported as missing.
            code = 503 if isinstance(effect, Evict) and code == 404 else code
            self.answers.append(Answer(effect.id, code, f"HTTP{code}", f"failed with {code}"))

    def delay(self, place: int) -> None:
        """Abandon an effect with code 0 although it may still arrive."""
        effect = self.wire[place]
        if isinstance(effect, Bind | Call | AskExtender):
            del self.wire[place]
            self.strays.append(Stray(effect, self.now))
            self.answers.append(Answer(effect.id, 0, "Timeout", "no answer"))

    def swallow(self, place: int) -> None:
        """Lose an effect without an answer; the engine must find this by a timeout."""
        if isinstance(self.wire[place], Bind | Look | Call | AskExtender | Solve):
            del self.wire[place]

    def arrive(self, place: int) -> None:
        """Carry out a delayed effect; its answer is ignored.

        After a minute the API server has abandoned it as well.
        """
        stray = self.strays.pop(place)
        if stray.is_orphan and isinstance(stray.effect, Bind):
            # An earlier process sent it: only the lease's time separates the two.
            self.api.disturbed.add(stray.effect.node)
        if stray.is_orphan and isinstance(stray.effect, Call):
            self.api.disturbed.add(stray.effect.path.removesuffix("/status"))
        if self.now - stray.since <= REQUEST_LIMIT_S:
            self.api.perform(stray.effect)

    def deliver(self, place: int, *, times: int = 1) -> None:
        """Bring an answer to the engine, in any order and perhaps repeatedly."""
        answer = self.answers.pop(place)
        for _ in range(times):
            self.handle(answer)

    # The watch.

    def behind(self, kind: str) -> int:
        """Return how many events of a kind are not delivered yet."""
        return len(self.lists[kind]) + len(self.api.log[kind]) - self.position[kind]

    def watch(self, kind: str, most: int = 1_000_000) -> None:
        """Deliver the next events of a kind, in order; list events are first."""
        for _ in range(min(most, self.behind(kind))):
            if self.lists[kind]:
                self.handle(self.lists[kind].pop(0))
                continue
            event: Watched = self.api.log[kind][self.position[kind]]
            self.position[kind] += 1
            self.handle(event)

    def relist(self, kind: str) -> None:
        """Drop the watch's undelivered events and list instead (410)."""
        self.position[kind] = len(self.api.log[kind])
        self.lists[kind] = []
        self.handle(self.api.listed(kind))

    def relist_in_parts(self, kind: str) -> None:
        """List instead of watching, passed on object by object as in the daemon."""
        self.position[kind] = len(self.api.log[kind])
        objects = self.api.listed(kind).objects
        self.lists[kind] = [Watched(kind, "MODIFIED", obj) for obj in objects]
        self.lists[kind].append(Complete(kind, tuple(map(identity, objects))))

    def log(self) -> bytes:
        """Return the decision log of this process so far."""
        lines = [encode_header(Header("test"))]
        lines += [encode_step(now, list(e), cycles, f) for now, e, cycles, f in self.steps]
        return b"".join(lines)

    # The process.

    def lead(self, active: bool) -> None:
        """Lose or regain the lease; unsent effects are dropped."""
        if not active:
            self.wire = []
        self.handle(Leading(active))

    def restart(self) -> None:
        """Die and restart as a new process; sent effects may still arrive."""
        sent = Bind | Call | AskExtender
        self.strays += [Stray(effect, self.now) for effect in self.wire if isinstance(effect, sent)]
        self.strays = [stray._replace(is_orphan=True) for stray in self.strays]
        self.wire, self.answers = [], []
        self._pending, self.steps = [], []
        for pod in self.engine.bindings._pods.values():
            with suppress(
                PluginError
            ):  # a dying process closes nothing; Python would, and report it
                if pod.steps is not None:
                    pod.steps.close()
        self.engine.suspended.drop_all()
        self._begin()

    # The end of the noise.

    def settle(self) -> None:
        """End the faults, proceed until nothing changes, then check the invariants."""
        self.calm()
        self.check_rest()

    def calm(self) -> None:
        """End the faults and proceed until nothing changes."""
        if not self.engine.is_leading:
            self.lead(active=True)
        while self.strays:
            self.arrive(0)
        for turn in range(1000):
            if turn == 100:
                self._give_up_hopeless()
            moved = bool(self.run(50))
            while self.wire:
                self.perform(0)
            while self.answers:
                self.deliver(0)
                moved = True
            self._end_terminating()
            if CLAIM in self.kinds:
                control(self.api)
            for kind in self.kinds:
                moved = moved or self.behind(kind) > 0
                self.watch(kind)
            if moved or self.engine.has_work():
                continue
            under_way = len(self.engine.bindings) + len(self.engine.suspended)
            under_way += len(self.engine.preemptions)
            if under_way == 0 and not self._will_retry():
                break
            ends = self.engine.next_wakeup()
            assert ends is not None, "no deadline wakes the engine although work is left"
            self.now = max(self.now, ends)
        else:
            raise AssertionError("the engine does not come to rest")

    def _end_terminating(self) -> None:
        """End the terminating bound pods, as kubelets do."""
        for key, pod in list(self.api.pods.items()):
            if pod.is_terminating and pod.spec.node_name:
                self.api.remove("Pod", key)

    def _give_up_hopeless(self) -> None:
        """Delete the pods that always fail: their retries wake others endlessly."""
        for key, pod in list(self.api.pods.items()):
            if self._fails_for_ever(pod) and not pod.spec.node_name:
                self.api.remove("Pod", key)

    def _will_retry(self) -> bool:
        """Return whether a pod waits for a back-off that ends (not one that always fails)."""
        queues = self.engine.queues
        return any(
            q.where is Where.BACKOFF
            or (q.where is Where.ERROR_BACKOFF and not self._fails_for_ever(q.pod))
            # A report that a lost lease prevented is made by the next attempt, after five minutes
            # at most.
            or (
                q.where in (Where.UNSCHEDULABLE, Where.ERROR_BACKOFF)
                and q.reported is None
                and not self._is_reported(q.pod)
            )
            for q in queues
        )

    def _is_reported(self, pod: Pod) -> bool:
        condition = self.api.pods[pod.key].condition("PodScheduled")
        return condition is not None and condition.status == "False"

    def _fails_for_ever(self, pod: Pod) -> bool:
        labels = pod.metadata.labels
        return labels.get("times") == "always" or "bind" in labels.get("raise", "").split(".")

    def check_rest(self) -> None:
        """Check after the faults: no pod lost, no entry left over, memory equal to the objects."""
        engine, api = self.engine, self.api
        queues = engine.queues
        by_uid = {pod.metadata.uid: pod for pod in api.pods.values()}
        assert {q.uid for q in queues} <= set(by_uid)
        for pod in api.pods.values():
            uid = pod.metadata.uid
            queued = queues.get(uid)
            if pod.spec.node_name:
                assert queued is None, f"{pod.key} is bound and queued"
            elif queued is None:
                assert pod.is_terminating, f"{pod.key} is lost"
            elif queued.where is Where.GATED:
                is_gated = pod.spec.scheduling_gates or pod.spec.scheduling_group
                in_group = pod.metadata.labels or pod.metadata.annotations.volcano_group
                assert is_gated or in_group, pod.key
            else:
                assert queued.where in (Where.UNSCHEDULABLE, Where.ERROR_BACKOFF)
                self._check_reported(queued, pod)
        assert [] == api.overcommitted
        self._check_truly_unschedulable()
        self._check_ledger(by_uid)
        self._check_memory()

    def _check_reported(self, queued: QueuedPod, pod: Pod) -> None:
        condition = pod.condition("PodScheduled")
        assert condition is not None, f"{pod.key} has no condition"
        assert condition.status == "False"
        assert condition.message
        assert queued.reported in (None, (condition.reason, condition.message))

    def _check_truly_unschedulable(self) -> None:
        """A pod that filters rejected still does not fit: no wake-up was lost."""
        from scheduler.engine.attempt.attempt import decide

        profile = next(iter(self.engine.profiles.values()))
        filters = {bound.name for bound in profile.filter} - {"Raiser"}
        for queued in self.engine.queues:
            labels = queued.pod.metadata.labels
            if "raise" in labels:
                continue
            if queued.where is Where.UNSCHEDULABLE and filters.issuperset(queued.rejected_by):
                decision = decide(self.engine.attempt(queued.pod, self.now))
                assert not decision.fits, f"{queued.pod.key} would fit now and is not tried"

    def _check_ledger(self, by_uid: dict[str, Pod]) -> None:
        if "Ledger" not in self.engine.profiles[SCHEDULER].plugins:
            return
        ledger = plugin_of(self.engine, "Ledger")
        assert [] == ledger.mistakes
        for uid, node in ledger.reserved.items():
            where = self.api.bound_by.get(uid)
            assert where is not None, f"{uid} is reserved and not bound"
            assert node == where[0], uid
        rung = plugin_of(self.engine, "Bell").rung
        assert {} == {uid: times for uid, times in rung.items() if times > 1}
        for uid, state in self.dog.outcome.items():
            if state == DONE and uid in by_uid:
                assert by_uid[uid].spec.node_name, uid

    def _check_memory(self) -> None:
        """Check that the cluster in memory equals a rebuilt one, without assumed pods."""
        fresh = Cluster()
        for node in self.api.nodes.values():
            fresh.put_node(node)
        for pod in self.api.pods.values():
            if pod.spec.node_name:
                fresh.put_pod(pod)
        mine: dict[str, Any] = defaultdict(dict)
        assumed: list[str] = []
        for placed in self.engine.cluster.pods:
            mine[placed.node][placed.pod.metadata.uid] = placed.requests
            assumed += [placed.pod.key] if placed.assumed else []
        true: dict[str, Any] = defaultdict(dict)
        for placed in fresh.pods:
            true[placed.node][placed.pod.metadata.uid] = placed.requests
        assert [] == assumed
        assert true == mine
        for name, row in fresh.table.rows.items():
            own = self.engine.cluster.table.rows[name]
            for resource in ("cpu", "memory", "pods"):
                wanted = fresh.table.requested(resource)[row]
                assert wanted == self.engine.cluster.table.requested(resource)[own], name
        assert set(fresh.table.rows) == set(self.engine.cluster.table.rows)
        assert 0 == len([uid for uid in self.engine.nominations if not self._waits(uid)])

    def _waits(self, uid: str) -> bool:
        return self.engine.queues.get(uid) is not None
