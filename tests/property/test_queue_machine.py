"""The queues compared with a model of kube-scheduler's rules, written a second time in a simple
form.

The model keeps every pod in one dictionary and sorts on request; it has no heaps, no tickets and no
indexes. After every step each pod must be in the model's queue, and pop must return the model's
pod.
"""

import math
from typing import Any

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from scheduler.engine.handle import EngineHandle
from scheduler.engine.queue.backoff import PodBackoff
from scheduler.engine.queue.hints import EXTENDER, NO_NODES, PREEMPTED, UnschedulablePods
from scheduler.engine.queue.pod import QueuedPod, Where
from scheduler.engine.queue.queues import Queues
from scheduler.framework.args import NoArgs
from scheduler.framework.plugin import Plugin
from scheduler.framework.profile import build_profile
from scheduler.framework.registry import Registry
from scheduler.framework.status import Status, unresolvable
from scheduler.objects.pod import Pod
from scheduler.state.change import Change
from scheduler.state.cluster import Cluster
from tests.property.making import SCHEDULER, make_pod, with_meta, with_spec
from tests.property.tinyplugins import spec_of

INITIAL_S, MAX_S = 1.0, 10.0


class Alpha(Plugin[NoArgs]):
    """Reads node labels, no hint."""

    reads = ("node.labels", "self.labels")

    def filter(self, *_: Any) -> None:
        """Reject nothing."""


class Beta(Plugin[NoArgs]):
    """Reads deleted pods; only those named `yes` help, and a hint about `broken` raises."""

    reads = ("pod.deleted",)

    def filter(self, *_: Any) -> None:
        """Reject nothing."""

    def hint(self, change: Change, pod: Pod) -> bool:
        """Return whether the deleted pod was the right one."""
        if change.pod.metadata.name == "broken":
            raise ValueError("no hint")
        return bool(change.pod.metadata.name == "yes")


class Gate(Plugin[NoArgs]):
    """Holds pods with scheduling gates; reads their own gates and services."""

    reads = ("self.gates", "Service")

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Hold the pod while it has gates."""
        return unresolvable("gated") if pod.spec.scheduling_gates else None


CLASSES = (Alpha, Beta, Gate)
READS = {cls.name: frozenset(cls.reads) for cls in CLASSES}
CHANGES = (
    Change("Node", "add", frozenset(("node", "node.labels")), "NodeAdd"),
    Change("Node", "update", frozenset(("node.labels",)), "NodeUpdateNodeLabel"),
    Change("Node", "update", frozenset(("node.taints",)), "NodeUpdateNodeTaint"),
    Change("Pod", "delete", frozenset(("pod.deleted",)), "AssignedPodDelete", make_pod("yes")),
    Change("Pod", "delete", frozenset(("pod.deleted",)), "AssignedPodDelete", make_pod("no")),
    Change("Pod", "delete", frozenset(("pod.deleted",)), "AssignedPodDelete", make_pod("broken")),
    Change("Service", "add", frozenset(("Service",)), "ServiceAdd"),
    Change("Node", "update", frozenset(), "NodeUpdate"),
)
OUTCOMES = st.sampled_from(
    [
        None,
        None,
        None,
        (),
        ((), False),
        (("Alpha",), False),
        (("Alpha",), True),
        (("Beta",), False),
        (("Alpha", "Beta"), False),
        (("Beta", "Beta"), True),
        ((EXTENDER,), False),
        ((PREEMPTED,), False),
    ]
)
ACTIVE, BACKOFF, ERRORS = Where.ACTIVE, Where.BACKOFF, Where.ERROR_BACKOFF
PARKED, GATED, FLYING = Where.UNSCHEDULABLE, Where.GATED, Where.IN_FLIGHT


class Known(msgspec.Struct):
    """A pod in the model; `entered` orders those that arrived at the same time."""

    pod: Pod
    where: Where
    queued_at: float
    failed_at: float
    entered: int = 0
    parked: int = 0
    attempts: int = 0
    rejections: int = 0
    errors: int = 0
    plugins: tuple[str, ...] = ()
    pending: bool = False
    missed: list[Change] = []
    tracked: bool = False

    @property
    def key(self) -> tuple[int, float, int]:
        """Return the order of pods whose back-off ends at the same time."""
        return -self.pod.priority, self.queued_at, self.entered

    @property
    def place(self) -> tuple[int, float, int]:
        """Return the order of the active queue: of pods woken together the older one is first."""
        return -self.pod.priority, self.queued_at, int(self.pod.metadata.name[1:])

    @property
    def backoff_ends(self) -> float:
        """Return when the pod may be tried again: doubling, capped, cut to whole seconds."""
        failures = self.errors or self.rejections
        wait = min(INITIAL_S * 2 ** (failures - 1), MAX_S) if failures else 0.0
        return math.floor(self.failed_at + wait)


class QueueMachine(RuleBasedStateMachine):
    """Pods in and out, attempts and changes, time."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.faults: list[str] = []
        profile = build_profile(spec_of(*CLASSES), Registry(CLASSES), EngineHandle(Cluster(), {}))
        wakeups = UnschedulablePods({SCHEDULER: profile}, lambda *args: self.faults.append(args[0]))
        gate = profile.plugins["Gate"]

        def gated(queued: QueuedPod) -> Status | None:
            status = gate.pre_enqueue(queued.pod)
            return None if status is None else msgspec.structs.replace(status, plugin="Gate")

        self.moves: list[tuple[str, str]] = []
        self.queues = Queues(
            sort_key=lambda queued: (-queued.priority, queued.queued_at),
            gate=gated,
            unschedulable_pods=wakeups,
            backoff=PodBackoff(INITIAL_S, MAX_S),
            incoming=lambda _pod, queue, event: self.moves.append((queue, event)),
        )
        self.model: dict[str, Known] = {}
        self.clock = 0
        self.next_flush: float | None = None

    # The model's moves.

    def tick(self) -> int:
        """Return the next number of an order."""
        self.clock += 1
        return self.clock

    def enter(self, known: Known) -> None:
        """Make active, or gate."""
        known.queued_at = self.now
        if known.pod.spec.scheduling_gates:
            self.park(known, GATED)
            return
        known.where, known.entered = ACTIVE, self.tick()

    def park(self, known: Known, where: Where) -> None:
        """Put aside; the five-minute flush begins to run."""
        known.where, known.parked = where, self.tick()
        if self.next_flush is None:
            self.next_flush = self.now + 30

    def requeue(self, known: Known) -> None:
        """Move a pod to the active queue, or end its back-off first."""
        if known.pending or known.backoff_ends <= self.now:
            self.enter(known)
        else:
            known.queued_at = self.now
            known.where, known.entered = BACKOFF, self.tick()

    def helps(self, known: Known, change: Change) -> bool:
        """Return whether a change helps a waiting pod."""
        for name in ("Gate",) if known.where is GATED else known.plugins or (NO_NODES,):
            if name in (EXTENDER, PREEMPTED) or (name == NO_NODES and "node" in change.facts):
                return True
            if change.facts & READS.get(name, frozenset()) and (
                name != "Beta" or change.pod.metadata.name in ("yes", "broken")
            ):
                return True
        return False

    def queued(self, uid: str) -> QueuedPod:
        """Return the real record of a pod."""
        found = self.queues.get(uid)
        assert found is not None
        return found

    def some(self, data: Any, *places: Where) -> str:
        """Draw a pod in one of these queues (any if none is given)."""
        uids = [u for u, known in self.model.items() if not places or known.where in places]
        return str(data.draw(st.sampled_from(uids)))

    # Events.

    @rule(priority=st.integers(0, 2), gated=st.sampled_from([False, False, False, True]))
    def add(self, priority: int, gated: bool) -> None:
        """Add a pod."""
        name = f"p{self.tick()}"
        pod = make_pod(name, priority=priority, gates=["g"] if gated else [])
        known = self.model[f"uid-{name}"] = Known(pod, GATED, self.now, self.now)
        self.enter(known)
        self.queues.add(pod, self.now)

    @precondition(lambda self: self.model)
    @rule(
        data=st.data(), what=st.sampled_from(["remove", "activate", "labels", "gates", "nothing"])
    )
    def meddle(self, data: Any, what: str) -> None:
        """Change, delete or bind one pod as another client."""
        if what == "remove":
            self.remove(data)
        elif what == "activate":
            self.activate(data)
        else:
            self.update(data, what)

    def remove(self, data: Any) -> None:
        """Delete a pod from any queue."""
        uid = self.some(data)
        del self.model[uid]
        assert self.queues.remove(uid) is not None
        assert self.queues.remove(uid) is None

    @initialize(priorities=st.lists(st.integers(0, 2), min_size=3, max_size=6))
    def begin(self, priorities: list[int]) -> None:
        """Start with some pods."""
        for priority in priorities:
            self.add(priority, gated=False)

    @rule(most=st.integers(1, 3), outcome=OUTCOMES, data=st.data())
    def attempt(self, most: int, outcome: Any, data: Any) -> None:
        """Try the next pods; some attempts end at once, others stay in flight."""
        before = {uid for uid, known in self.model.items() if known.where is FLYING}
        self.pop(most)
        for uid in [u for u, k in self.model.items() if k.where is FLYING and u not in before]:
            self.end(uid, outcome)

    @precondition(lambda self: any(k.where is FLYING for k in self.model.values()))
    @rule(data=st.data(), outcome=OUTCOMES)
    def end_of_attempt(self, data: Any, outcome: Any) -> None:
        """An attempt that took its time ends."""
        self.end(self.some(data, FLYING), outcome)

    def pop(self, most: int) -> None:
        """Pop, and compare with the model's pod."""
        for _ in range(most):
            expected = self.expected()
            popped = self.queues.pop(self.now)
            if expected is None:
                assert popped is None
                return
            assert popped is not None
            assert expected.pod.key == popped.pod.key
            expected.where = FLYING
            expected.attempts += 1
            expected.missed = []
            expected.tracked = True
            self.queues.track(popped)
            assert expected.attempts == popped.attempts

    def expected(self) -> Known | None:
        """Return the pod that pop must return; from the back-off only if no pod is active."""
        active = [known for known in self.model.values() if known.where is ACTIVE]
        if active:
            return min(active, key=lambda known: known.place)
        waiting = [known for known in self.model.values() if known.where is BACKOFF]
        # Its gates run again; pods with gates now are gated.
        for known in sorted(waiting, key=lambda known: (known.backoff_ends, *known.key)):
            self.enter(known)
            if known.where is ACTIVE:
                return known
        return None

    def end(self, uid: str, outcome: Any) -> None:
        """End an attempt: None leaves it in flight, () is an error, else (plugins, pending)."""
        if outcome is None:
            return
        known = self.model[uid]
        if outcome == ():
            known.plugins, known.pending = (), False
            known.errors += 1
            known.failed_at = self.now
            known.where, known.entered = ERRORS, self.tick()
            self.queues.failed(self.queued(uid), self.now)
            return
        known.plugins, known.pending = outcome
        known.rejections += 1
        known.errors = 0
        known.failed_at = self.now
        if any(self.helps(known, change) for change in known.missed):
            self.requeue(known)
        else:
            known.queued_at = self.now
            self.park(known, PARKED)
        self.queues.rejected(self.queued(uid), known.plugins, self.now, is_pending=known.pending)

    @rule(changes=st.lists(st.sampled_from(CHANGES), min_size=1, max_size=3), data=st.data())
    def changes(self, changes: list[Change], data: Any) -> None:
        """Apply random changes."""
        for change in changes:
            self.wake(change, data)

    def wake(self, change: Change, data: Any) -> None:
        """Apply a change, perhaps one caused by a pod itself. A change without facts helps no
        pod.
        """
        but = self.some(data) if self.model and data.draw(st.booleans()) else ""
        for uid, known in sorted(self.model.items(), key=lambda item: int(item[0][5:])):
            if not change.facts:
                break
            if known.where is FLYING:
                known.missed.append(change)
            elif known.where in (PARKED, GATED) and uid != but and self.helps(known, change):
                self.requeue(known)
        self.queues.wake(change, self.now, but=but)

    def update(self, data: Any, what: str) -> None:
        """A pod itself changes: in place where it waits its turn, as an event where it is
        parked.
        """
        uid = self.some(data)
        known = self.model[uid]
        new, facts = known.pod, set[str]()
        if what == "labels":
            new, facts = with_meta(new, labels={"tick": str(self.tick())}), {"self.labels"}
        elif what == "gates":
            new, facts = with_spec(new, scheduling_gates=()), {"self.gates"}
        change = Change("Pod", "update", frozenset(facts), "UnschedulablePodUpdate", known.pod, new)
        known.pod = new
        if known.where is FLYING:
            known.missed.append(change)
        elif known.where is GATED:
            self.enter(known)
        elif known.where is PARKED and self.helps(known, change):
            self.requeue(known)
        self.queues.update(change, self.now)
        assert new is self.queued(uid).pod

    def activate(self, data: Any) -> None:
        """Activate a pod at once."""
        uid = self.some(data)
        known = self.model[uid]
        if known.where in (PARKED, BACKOFF, ERRORS, GATED):
            self.enter(known)
        self.queues.activate([uid, "uid-unknown"], self.now)

    @rule(seconds=st.sampled_from([0, 0.25, 0.9, 1, 2.5, 10, 30, 270]))
    def flush(self, seconds: float) -> None:
        """Advance the clock, and flush the queues."""
        self.now += seconds
        for where in (BACKOFF, ERRORS):
            over = [
                known
                for known in self.model.values()
                if known.where is where and known.backoff_ends <= self.now
            ]
            for known in sorted(over, key=lambda known: (known.backoff_ends, *known.key)):
                self.enter(known)
        if self.next_flush is not None and self.next_flush <= self.now:
            parked = [k for k in self.model.values() if k.where in (PARKED, GATED)]
            for known in sorted(parked, key=lambda known: known.parked):
                if self.now - known.queued_at > 300:
                    self.requeue(known)
            left = [k for k in self.model.values() if k.where in (PARKED, GATED)]
            self.next_flush = self.now + 30 if left else None
        self.queues.flush(self.now)

    @rule()
    def sleep(self) -> None:
        """A pod in back-off is due when the queues state, not later."""
        ends = self.queues.next_deadline()
        waiting = [k.backoff_ends for k in self.model.values() if k.where in (BACKOFF, ERRORS)]
        if waiting:
            assert ends is not None
            assert ends <= min(waiting)
        parked = [k for k in self.model.values() if k.where in (PARKED, GATED)]
        assert (ends is not None) >= bool(parked)

    # Invariants.

    @invariant()
    def every_pod_is_in_the_queue_of_the_model(self) -> None:
        """No pod is lost, none is in two queues, the counts agree."""
        real = {queued.uid: queued for queued in self.queues}
        assert set(self.model) == set(real)
        assert len(self.model) == len(self.queues)
        for uid, known in self.model.items():
            assert known.where is real[uid].where, uid
            assert known.rejections == real[uid].rejections
            assert known.errors == real[uid].errors
            if known.where in (ACTIVE, BACKOFF):
                assert known.queued_at == real[uid].queued_at
        for where in Where:
            if where is not Where.GONE:
                mine = sum(known.where is where for known in self.model.values())
                assert mine == self.queues.count(where), where
        ready = any(known.where in (ACTIVE, BACKOFF) for known in self.model.values())
        assert ready == self.queues.has_next()

    @invariant()
    def nothing_is_kept_without_a_pod(self) -> None:
        """Indexes do not grow with deleted pods."""
        wakeups, flying = self.queues._unschedulable_pods, self.queues._in_flight
        waiting = {u for u, k in self.model.items() if k.where in (PARKED, GATED)}
        assert waiting == {queued.uid for queued in wakeups.parked()}
        assert waiting == {
            uid for kinds in wakeups._parked.values() for pods in kinds.values() for uid in pods
        }
        tracked = {u for u, k in self.model.items() if k.where is FLYING}
        assert tracked == set(flying._since)
        if not tracked:
            assert 0 == len(flying._changes)


TestQueues = QueueMachine.TestCase
TestQueues.settings = settings(max_examples=20, stateful_step_count=80)


@pytest.mark.long
class TestQueuesLong(QueueMachine.TestCase):  # type: ignore[valid-type,misc]
    """The state machine with longer runs and other examples each time."""

    settings = settings(
        max_examples=2000, stateful_step_count=100, derandomize=False, deadline=None
    )
