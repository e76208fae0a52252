"""Pods and groups are bound in queue order: no later one takes capacity that an earlier one is
ready to use.

A seeded simulation of pods, groups, nodes and completions, with a solver that answers within the
turn or turns later. Invariant, whenever a pod gets a node: no group or pod is left waiting that
precedes it, is ready (complete, and not in back-off) and would fit the capacity that was free
before. A group that is being planned may be left waiting if it still fits afterwards; a pod that is
put off for such a group waits for it by rule. And a plan that was started before a pod arrived is
carried out before the pod is tried.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from random import Random
from typing import TypeVar

import msgspec
import pytest
from msgspec.structs import replace

from scheduler.base.arrays import BoolColumn
from scheduler.engine.attempt.attempt import decide
from scheduler.engine.attempt.cycle import Attempt, PutOffError
from scheduler.engine.effects import Answer, Bind, Effects, Evict, Leading, Listed, Solve, Watched
from scheduler.engine.engine import Engine
from scheduler.engine.queue.pod import QueuedPod, Where
from scheduler.engine.settings import EngineSettings
from scheduler.groups.solver.questions import EvictQuestion, EvictRoles, answer
from scheduler.objects.groups.podgroup import PodGroup, PodGroupSpec
from scheduler.objects.meta import AnnotatedMeta, LabelSelector
from scheduler.objects.pod import Affinity, Pod, PodAffinity, PodAffinityTerm
from tests.property.engines import PROFILES, REGISTRY
from tests.property.making import make_node, make_pod, with_spec

T = TypeVar("T")
START = 1_767_225_600.0
LABEL = "scheduling.x-k8s.io/pod-group"
NODE_CPUS, TURNS = 8, 90
LATER = "2025-12-31T23:59:55Z"


class Waiting(msgspec.Struct, frozen=True):
    """A pod or a group that is ready: its place in the queue, and the CPUs of each of its
    members.
    """

    name: str
    place: tuple[object, ...]
    cpus: tuple[int, ...]
    is_planned: bool


class Stream:
    """An engine with full nodes, pods that end, and groups that wait among other pods."""

    def __init__(self, seed: int, *, inline: bool) -> None:
        self.random = Random(seed)
        self.engine = Engine(PROFILES, REGISTRY, settings=EngineSettings(solves_inline=inline))
        self.now = START
        self.nodes = 0
        self.bound: dict[str, Pod] = {}
        self.pods: dict[str, Pod] = {}
        self.sizes: dict[str, int] = {}
        self.asked: list[tuple[int, Solve]] = []
        self.evicted: list[Evict] = []
        self.turn = 0
        self.passed: list[str] = []
        self.handle(Leading(active=True))
        for _ in range(3):
            self.node()

    def handle(self, event: object) -> None:
        self.engine.handle(event, self.now)  # type: ignore[arg-type]

    def node(self, cpu: int = NODE_CPUS) -> None:
        self.handle(Watched("Node", "ADDED", make_node(f"n{self.nodes}", cpu=cpu)))
        self.nodes += 1

    def pod(
        self, name: str, cpu: int, priority: int, group: str = "", policy: str = "Never"
    ) -> None:
        labels = {LABEL: group} if group else {}
        made = make_pod(name, cpu=cpu, priority=priority, labels=labels, preemption_policy=policy)
        self.pods[made.metadata.uid] = made
        self.handle(Watched("Pod", "ADDED", made))

    def group(self, name: str, size: int, cpu: int, priority: int) -> None:
        self.sizes[name] = size
        meta = AnnotatedMeta(name=name, namespace="default", uid=name)
        self.handle(Watched("PodGroup", "ADDED", PodGroup(meta, PodGroupSpec(size))))
        for number in range(size):
            self.pod(f"{name}-{number}", cpu, priority, name)

    def something(self) -> None:
        """Make a random event: pods or a group arrive, pods end, a node joins."""
        kind = self.random.randrange(10)
        if kind < 4:
            name = f"s{self.turn:03}-{len(self.pods)}"
            self.pod(name, self.random.choice((1, 2, 4, 8)), self.random.choice((0, 0, 0, 100)))
        elif kind == 4 and len(self.sizes) < 12:
            size = self.random.choice((1, 2, 3, 6))
            priority = self.random.choice((0, 100))
            self.group(f"g{len(self.sizes):02}", size, self.random.choice((1, 2, 4)), priority)
        elif kind < 9 and self.bound:
            self.end(self.random.choice(sorted(self.bound)))
        elif kind == 9 and self.nodes < 6:
            self.node()

    def end(self, uid: str) -> None:
        self.handle(Watched("Pod", "DELETED", self.bound.pop(uid)))

    def step(self) -> None:
        """Run a turn: events, due answers, and the engine's effects."""
        self.turn += 1
        self.now += self.random.choice((0.01, 0.1, 0.5))
        for _ in range(self.random.randrange(4)):
            self.something()
        due = [one for at, one in self.asked if at <= self.turn]
        self.asked = [one for one in self.asked if one[0] > self.turn]
        self.answered(due)
        self.run()

    def answered(self, questions: Iterable[Solve]) -> None:
        for question in questions:
            reply = Answer(question.id, 200, body=answer(question.instance))
            self.watched(lambda reply=reply: self.handle(reply))  # type: ignore[misc]

    def run(self) -> None:
        """Try one pod at a time until no work is left in this turn."""
        for _ in range(60):
            effects = self.watched(lambda: self.engine.run(self.now, 1))
            for effect in effects:
                self.take(effect)
            if not effects and not self.engine.has_work():
                return

    def take(self, effect: Effects) -> None:
        if isinstance(effect, Solve):
            self.asked.append((self.turn + self.random.randrange(1, 6), effect))
        elif isinstance(effect, Evict):
            self.evicted.append(effect)
        elif isinstance(effect, Bind):
            bound = with_spec(self.pods.pop(effect.uid), node_name=effect.node)
            self.bound[effect.uid] = bound
            self.handle(Answer(effect.id, 200))
            self.handle(Watched("Pod", "MODIFIED", bound))

    def watched(self, act: Callable[[], T]) -> T:
        """Run the engine once; record which pods were overtaken by the placed ones."""
        ready, free = list(self.ready()), self.free()
        placed = {one.pod.metadata.uid for one in self.engine.cluster.pods}
        found = act()
        decided = [one for one in self.engine.cluster.pods if one.pod.metadata.uid not in placed]
        names = {name_of(one.pod) for one in decided}
        for one in ready:
            later = [
                other.name
                for other in ready
                if other.name in names
                and one.place < other.place
                and (one.is_planned or not other.is_planned)
            ]
            left = self.free() if one.is_planned else []
            is_passed = fits(free, one.cpus) and not fits(left, one.cpus)
            if later and one.name not in names and is_passed:
                self.passed.append(f"turn {self.turn}: {one.name} was passed by {later}")
        return found

    def free(self) -> list[int]:
        """Return the free CPUs of each node as the engine counts them."""
        table = self.engine.cluster.table
        free: list[int] = ((table.allocatable("cpu") - table.requested("cpu")) // 1000).tolist()
        return free

    def ready(self) -> Iterator[Waiting]:
        """Yield the pods and whole groups that are not in back-off, as the turn finds them."""
        queued: dict[str, list[QueuedPod]] = {}
        placed = self.engine.cluster.pods
        for uid, pod in self.pods.items():
            one = self.engine.queues.get(uid)
            if one is None or placed.get(uid) is not None:
                continue
            queued.setdefault(name_of(pod), []).append(one)
        for name, members in queued.items():
            is_whole = len(members) == self.sizes.get(name, 1)
            if is_whole and all(self.is_ready(one) for one in members):
                place = min(self.engine.queues.place(one) for one in members)
                is_planned = members[0].where is Where.IN_FLIGHT
                cpu = tuple(cpus(one.pod) for one in members)
                yield Waiting(name, place, cpu, is_planned)

    def is_ready(self, one: QueuedPod) -> bool:
        if one.where in (Where.BACKOFF, Where.ERROR_BACKOFF, Where.GATED):
            return False
        # A rejected pod waits for an event; if an event had helped in vain, its back-off would not
        # be over.
        return (
            one.where is not Where.UNSCHEDULABLE or self.engine.queues.backoff_ends(one) <= self.now
        )


def fits(free: list[int], wanted: tuple[int, ...]) -> bool:
    """Return whether equal members would all find a place."""
    return sum(cpu // wanted[0] for cpu in free) >= len(wanted)


def cpus(pod: Pod) -> int:
    """Return a pod's request."""
    return int(pod.spec.containers[0].resources.requests["cpu"])


def name_of(pod: Pod) -> str:
    """Return the name of a pod's group, or its own."""
    return pod.metadata.labels.get(LABEL, pod.metadata.name)


@pytest.mark.parametrize("inline", [True, False])
@pytest.mark.parametrize("seed", range(6))
def test_nothing_later_takes_what_an_earlier_one_is_ready_for(seed: int, *, inline: bool):
    """Over a run of pods and groups of two priorities, whenever the solver answers."""
    stream = Stream(seed, inline=inline)
    for _ in range(TURNS):
        stream.step()

    assert [] == stream.passed
    assert stream.bound


@pytest.mark.parametrize(("size", "inline"), [(1, True), (3, False), (64, False)])
def test_a_gang_of_higher_priority_starts_in_a_stream_of_pods(size: int, *, inline: bool):
    """All nodes are full and pods wait for each CPU that becomes free. The gang gets the first
    capacity that it fits.
    """
    stream = Stream(1, inline=inline)
    for number in range(200):
        stream.pod(f"low-{number:03}", 1, 0)
    stream.run()
    stream.group("gang", size, 1, 100)
    since = 0
    while not any(name_of(pod) == "gang" for pod in stream.bound.values()) and stream.turn < 60:
        stream.turn += 1
        stream.now += 0.25
        stream.end(min(stream.bound))
        if stream.turn == 30 and not since:
            stream.node(cpu=size)
            since = stream.turn
        stream.answered([one for at, one in stream.asked if at <= stream.turn])
        stream.asked = [one for one in stream.asked if one[0] > stream.turn]
        stream.run()

    started = [pod for pod in stream.bound.values() if name_of(pod) == "gang"]
    assert (size, []) == (len(started), stream.passed)
    # A gang of one gets a CPU that a pod leaves, once its first back-off is over; larger ones need
    # a node at once.
    assert stream.turn <= (8 if size == 1 else (since or 30) + 6)


@pytest.mark.parametrize("policy", ["Never", None])
@pytest.mark.parametrize("size", [1, 3, 16])
def test_a_gang_is_tried_when_its_lack_of_capacity_ends(size: int, policy: str | None):
    """The gang does not wait for its back-off, during which the stream of pods would use each CPU
    of the new node. Events in another pool, whose nodes have capacity, do not help the gang.
    """
    engine = Engine(PROFILES, REGISTRY, settings=EngineSettings(solves_inline=True))
    pods: dict[str, Pod] = {}
    placed: list[str] = []
    now = START

    def turn(event: object) -> None:
        engine.handle(event, now)  # type: ignore[arg-type]
        for _ in range(60):
            effects = engine.run(now, 1)
            for effect in effects:
                if isinstance(effect, Bind):
                    bound = with_spec(pods[effect.uid], node_name=effect.node)
                    placed.append(bound.metadata.name)
                    engine.handle(Answer(effect.id, 200), now)
                    engine.handle(Watched("Pod", "MODIFIED", bound), now)
            if not effects and not engine.has_work():
                return

    def node(name: str, pool: str, cpu: int) -> None:
        turn(Watched("Node", "ADDED", make_node(name, cpu=cpu, labels={"pool": pool})))

    def pod(name: str, group: str = "", *, pool: str = "a") -> None:
        labels = {LABEL: group} if group else {}
        made = make_pod(name, cpu=1, labels=labels, preemption_policy=policy)
        made = pods[made.metadata.uid] = with_spec(made, node_selector={"pool": pool})
        turn(Watched("Pod", "ADDED", made))

    turn(Leading(active=True))
    node("full", "a", 1)
    node("other", "b", 32)
    pod("filler")
    meta = AnnotatedMeta(name="gang", namespace="default", uid="gang")
    turn(Watched("PodGroup", "ADDED", PodGroup(meta, PodGroupSpec(size))))
    for number in range(size):
        pod(f"gang-{number}", "gang")
    for number in range(30):
        now += 0.3
        pod(f"stream-{number}")
        pod(f"other-{number}", pool="b")
        turn(Watched("Pod", "DELETED", pods[f"uid-other-{number}"]))
    placed.clear()
    node("more", "a", size)

    assert {f"gang-{number}" for number in range(size)} == set(placed)


def test_a_gang_is_tried_again_for_a_node_that_joined_during_its_attempt():
    """The solver's answer does not count the new node. The gang is tried again before pods that are
    ready.
    """
    stream = Stream(1, inline=False)
    for number in range(3 * NODE_CPUS):
        stream.pod(f"filler-{number:02}", 1, 0)
    stream.run()
    stream.end(min(stream.bound))
    stream.group("gang", 3, 1, 100)
    stream.run()
    assert stream.asked  # one CPU is free: the solver reports that more are needed
    for number in range(3):
        stream.pod(f"low-{number}", 1, 0)
    stream.run()
    stream.node(cpu=3)
    while stream.asked:
        stream.now += 0.01
        asked, stream.asked = stream.asked, []
        stream.answered(question for _, question in asked)
        stream.run()

    assert 3 == sum(name_of(pod) == "gang" for pod in stream.bound.values())


@pytest.mark.parametrize("first", ["gang", "plain"])
def test_a_restart_keeps_the_order_of_creation(first: str):
    """After a restart, pods are tried by creation time, whatever is listed first, even if the
    group's object is listed last.
    """
    engine = Engine(PROFILES, REGISTRY, settings=EngineSettings(solves_inline=True))
    times = {first: "2025-12-31T23:59:50Z"}
    member = make_pod("gang-0", labels={LABEL: "gang"}, preemption_policy="Never")
    plain = make_pod("a-plain", preemption_policy="Never")
    pods = [
        replace(pod, metadata=replace(pod.metadata, creation_timestamp=times.get(name, LATER)))
        for name, pod in (("plain", plain), ("gang", member))
    ]
    group = PodGroup(AnnotatedMeta(name="gang", namespace="default", uid="gang"), PodGroupSpec(1))
    events = (
        Listed("Node", (make_node("n0", cpu=1),)),
        Listed("Pod", tuple(pods)),
        Listed("PodGroup", (group,)),
        Leading(active=True),
    )
    for number, event in enumerate(events):
        engine.handle(event, START + number)
    effects = [effect for _ in range(4) for effect in engine.run(START + 9, 8)]
    binds = [effect for effect in effects if isinstance(effect, Bind)]

    assert [pods[first == "gang"].metadata.uid] == [bind.uid for bind in binds]


def evicting_gang(free: int) -> Stream:
    """Return a stream whose solver works on the victims of a gang of three at priority 100.

    Each of the three nodes has a pod of priority 0, and `free` free CPUs.
    """
    stream = Stream(1, inline=False)
    for number in range(3):
        low = make_pod(f"old-{number}", cpu=NODE_CPUS - free, node=f"n{number}")
        stream.handle(Watched("Pod", "ADDED", low))
    group = AnnotatedMeta(name="gang", namespace="default", uid="gang")
    stream.handle(Watched("PodGroup", "ADDED", PodGroup(group, PodGroupSpec(3))))
    stream.sizes["gang"] = 3
    for number in range(3):
        member = make_pod(f"gang-{number}", cpu=NODE_CPUS, priority=100, labels={LABEL: "gang"})
        stream.pods[member.metadata.uid] = member
        stream.handle(Watched("Pod", "ADDED", member))
    stream.run()
    assert stream.asked  # which pods to evict
    return stream


@pytest.mark.parametrize("free", [0, 1])
def test_a_later_pod_evicts_none_where_a_gang_is_planned(free: int):
    """The pod is deferred, and evicts on other nodes if it can. A pod that cannot evict is
    rejected.
    """
    stream = evicting_gang(free)
    evicts = "PreemptLowerPriority"
    stream.pod("later-middle", NODE_CPUS, 50, policy=evicts)
    stream.pod("later-low", NODE_CPUS, 0, policy=evicts)
    stream.run()
    assert [] == stream.evicted
    low = stream.engine.queues.get("uid-later-low")
    assert low is not None
    assert Where.UNSCHEDULABLE is low.where

    stream.node(cpu=NODE_CPUS // 2)  # too small for members of the gang
    other = make_pod("other", cpu=NODE_CPUS // 2, node="n3")
    stream.handle(Watched("Pod", "ADDED", other))
    stream.pod("later-other", NODE_CPUS // 2, 60, policy=evicts)
    stream.run()
    assert ["other"] == [effect.name for effect in stream.evicted]


class Usable:
    """Capacity that groups could use on every node, without a reservation of free amounts."""

    def left(self, _attempt: Attempt, feasible: BoolColumn) -> BoolColumn:
        """Return all rows."""
        return feasible

    def usable(self, attempt: Attempt) -> BoolColumn:
        """Return all rows."""
        return attempt.nodes.exists


@pytest.mark.parametrize("wants_offers", [False, True])
def test_offers_to_extenders_leave_out_nodes_of_planned_groups(*, wants_offers: bool):
    """The pod is deferred as well if an extender takes part in preemption."""
    stream = Stream(1, inline=True)
    for number in range(3):
        low = make_pod(f"old-{number}", cpu=NODE_CPUS, node=f"n{number}")
        stream.handle(Watched("Pod", "ADDED", low))
    for priority, error in ((50, PutOffError), (0, None)):
        attempt = stream.engine.attempt(make_pod("later", priority=priority), stream.now)
        attempt.reserved, attempt.wants_offers = Usable(), wants_offers
        with pytest.raises(error) if error else nullcontext():
            assert not decide(attempt).fits


def evict_and_bind(stream: Stream, low: Iterable[Pod]) -> None:
    """Answer the solver's requests, and delete pods of `low` as soon as they are evicted."""
    for _ in range(6):
        stream.run()
        asked, stream.asked = stream.asked, []
        stream.answered(question for _, question in asked)
        for effect in stream.evicted:
            stream.handle(Answer(effect.id, 200))
            (gone,) = [pod for pod in low if pod.metadata.uid == effect.uid]
            stream.handle(Watched("Pod", "DELETED", gone))
        stream.evicted.clear()
        stream.now += 0.01


def test_a_gang_that_evicts_keeps_what_is_free_beside_its_victims():
    """Later pods do not use the free capacity on the gang's nodes while the solver runs and until
    the victims have terminated.
    """
    stream = evicting_gang(free=1)
    low = [placed.pod for placed in stream.engine.cluster.pods]
    for number, priority in enumerate((100, 100, 10, 0)):
        stream.pod(f"later-{number}", 1, priority)
    evict_and_bind(stream, low)

    assert {"gang"} == {name_of(pod) for pod in stream.bound.values()}


def test_a_gang_keeps_what_it_could_evict_before_it_looks_for_victims():
    """A later pod of the gang's priority could not be evicted, so it waits until the gang is
    decided.
    """
    stream = Stream(1, inline=False)
    low = [make_pod(f"old-{number}", cpu=3, node=f"n{number}") for number in range(3)]
    for pod in low:
        stream.handle(Watched("Pod", "ADDED", pod))
    group = AnnotatedMeta(name="gang", namespace="default", uid="gang")
    stream.handle(Watched("PodGroup", "ADDED", PodGroup(group, PodGroupSpec(6))))
    stream.sizes["gang"] = 6
    for number in range(6):
        stream.pod(f"gang-{number}", 4, 100, "gang", "PreemptLowerPriority")
    stream.run()
    ((_, question),) = stream.asked
    assert not isinstance(question.instance, EvictQuestion | EvictRoles)

    stream.pod("later", 1, 100)  # without victims, one CPU of each node is of no use to the gang
    evict_and_bind(stream, low)

    assert ["gang"] * 6 == [name_of(pod) for pod in stream.bound.values()]


@pytest.mark.parametrize("inline", [False, True])
@pytest.mark.parametrize("matching", ["db", "web"])
def test_a_gang_is_tried_when_a_pod_comes_that_it_has_affinity_to(matching: str, *, inline: bool):
    """A pod that the gang's affinity selects wakes the gang; other pods do not."""
    stream = Stream(1, inline=inline)
    for name in ("n0", "n1", "n2"):
        node = make_node(name, cpu=NODE_CPUS, labels={"host": name})
        stream.handle(Watched("Node", "MODIFIED", node))
    term = PodAffinityTerm("host", LabelSelector({"app": "db"}))
    near = Affinity(pod_affinity=PodAffinity(required=(term,)))
    group = AnnotatedMeta(name="gang", namespace="default", uid="gang")
    stream.handle(Watched("PodGroup", "ADDED", PodGroup(group, PodGroupSpec(2))))
    for number in range(2):
        member = make_pod(f"gang-{number}", labels={LABEL: "gang"}, affinity=near)
        stream.pods[member.metadata.uid] = member
        stream.handle(Watched("Pod", "ADDED", member))

    def settle() -> list[str]:
        for _ in range(4):
            stream.run()
            asked, stream.asked = stream.asked, []
            stream.answered(question for _, question in asked)
        return [
            queued.where.name for queued in map(stream.engine.queues.get, stream.pods) if queued
        ]

    assert ["UNSCHEDULABLE"] * 2 == settle()
    other = make_pod("other", node="n1", labels={"app": matching})
    stream.handle(Watched("Pod", "ADDED", other))
    stream.now += 20  # back-off is over, and the flush of pods that wait long is not due

    assert (["UNSCHEDULABLE"] * 2 if matching == "web" else []) == settle()
    assert (["n1"] * 2 if matching == "db" else []) == [
        pod.spec.node_name for pod in stream.bound.values()
    ]


def gang_apart(
    stream: Stream, size: int, cpu: int = NODE_CPUS, policy: str = "PreemptLowerPriority"
) -> None:
    """Add a gang whose members have anti-affinity to pods of app web per host. Nodes of this size
    are the hosts.
    """
    for name in ("n0", "n1", "n2"):
        node = make_node(name, cpu=cpu, labels={"host": name})
        stream.handle(Watched("Node", "MODIFIED", node))
    term = PodAffinityTerm("host", LabelSelector({"app": "web"}))
    apart = Affinity(pod_anti_affinity=PodAffinity(required=(term,)))
    stream.sizes["gang"] = size
    group = AnnotatedMeta(name="gang", namespace="default", uid="gang")
    stream.handle(Watched("PodGroup", "ADDED", PodGroup(group, PodGroupSpec(size))))
    for number in range(size):
        name, labels = f"gang-{number}", {LABEL: "gang"}
        member = make_pod(name, cpu=4, priority=100, labels=labels, affinity=apart)
        member = with_spec(member, preemption_policy=policy)
        stream.pods[member.metadata.uid] = member
        stream.handle(Watched("Pod", "ADDED", member))


@pytest.mark.parametrize("app", ["web", "db"])
def test_a_pod_that_a_gangs_rules_name_waits_for_its_plan(app: str):
    """A pod that the gang's rules select is deferred although both fit by amounts; a pod without
    such a rule is not.
    """
    stream = Stream(1, inline=False)
    gang_apart(stream, 3, cpu=16, policy="Never")
    stream.run()
    assert stream.asked

    later = make_pod("later", priority=0, labels={"app": app})
    stream.pods[later.metadata.uid] = later
    stream.handle(Watched("Pod", "ADDED", later))
    stream.run()

    assert (["later"] if app == "db" else []) == [name_of(pod) for pod in stream.bound.values()]
    for _ in range(4):
        asked, stream.asked = stream.asked, []
        stream.answered(question for _, question in asked)
        stream.run()
    assert 3 == [name_of(pod) for pod in stream.bound.values()].count("gang")


@pytest.mark.parametrize("size", [1, 3])
def test_what_comes_later_keeps_off_hosts_that_a_gang_waits_for(size: int):
    """A later pod, or a gang of the same priority, does not use hosts that a gang waits for,
    although both fit by amounts.
    """
    stream = Stream(1, inline=True)
    old = [make_pod(f"old-{number}", cpu=12, node=f"n{number}") for number in range(3)]
    for pod in old:
        stream.handle(Watched("Pod", "ADDED", pod))
    gang_apart(stream, 2, cpu=12)
    stream.run()
    asked, stream.asked = stream.asked, []
    stream.answered(question for _, question in asked)
    stream.run()
    (eviction,) = stream.evicted  # both members fit one node

    if size > 1:
        group = AnnotatedMeta(name="later", namespace="default", uid="later")
        stream.handle(Watched("PodGroup", "ADDED", PodGroup(group, PodGroupSpec(size))))
    names = [f"later-{number}" if size > 1 else "later" for number in range(size)]
    for name in names:
        labels = {"app": "web"} | ({LABEL: "later"} if size > 1 else {})
        made = make_pod(name, priority=100, labels=labels, preemption_policy="Never")
        stream.pods[made.metadata.uid] = made
        stream.handle(Watched("Pod", "ADDED", made))
    stream.handle(Answer(eviction.id, 200))
    (gone,) = [pod for pod in old if pod.metadata.uid == eviction.uid]
    stream.handle(Watched("Pod", "DELETED", gone))
    stream.now += 0.01
    for _ in range(6):
        stream.run()
        asked, stream.asked = stream.asked, []
        stream.answered(question for _, question in asked)
        stream.now += 1

    assert {"gang"} == {name_of(pod) for pod in stream.bound.values()}


@pytest.mark.parametrize("is_gang", [False, True])
@pytest.mark.parametrize("app", ["db", "web"])
def test_a_host_that_a_deferred_pod_needs_is_left_to_it(app: str, *, is_gang: bool):
    """A pod with anti-affinity to app web on its host waits for the plan of a gang of that app.

    On a host that the gang cannot use, a later pod of that app would fit beside it by amounts, and
    waits as well, as does any later gang; a pod of another app does not.
    """
    stream = Stream(1, inline=False)
    for number in range(3):
        host = f"n{number}"
        stream.handle(Watched("Node", "MODIFIED", make_node(host, cpu=8, labels={"host": host})))
    stream.handle(Watched("Node", "ADDED", make_node("small", cpu=3, labels={"host": "small"})))
    added(stream, "gang", 3, cpu=4, priority=100, app="web")
    stream.run()
    assert stream.asked

    term = PodAffinityTerm("host", LabelSelector({"app": "web"}))
    apart = Affinity(pod_anti_affinity=PodAffinity(required=(term,)))
    deferred = make_pod("deferred", cpu=2, priority=50, affinity=apart)
    stream.pods[deferred.metadata.uid] = deferred
    stream.handle(Watched("Pod", "ADDED", deferred))
    added(stream, "later", 1, cpu=1, priority=0, app=app, host="small", is_gang=is_gang)
    stream.run()

    assert 1 == len(stream.asked)
    assert (app == "db" and not is_gang) == bool(stream.bound)
    settle(stream)
    assert {"gang", "deferred", "later"} == set(map(name_of, stream.bound.values()))


@pytest.mark.parametrize("host", ["n0", "small"])
def test_a_later_gang_waits_only_for_hosts_that_a_deferred_pod_could_use(host: str):
    """The deferred pod waits for the plan of a gang that it may not be beside. Only a later gang on
    a host that the pod could use waits as well.
    """
    stream = Stream(1, inline=False)
    for name in ("n0", "n1", "n2"):
        stream.handle(Watched("Node", "MODIFIED", make_node(name, cpu=8, labels={"host": name})))
    stream.handle(Watched("Node", "ADDED", make_node("small", cpu=3, labels={"host": "small"})))
    added(stream, "gang", 3, cpu=4, priority=100, app="web")
    stream.run()
    term = PodAffinityTerm("host", LabelSelector({"app": "web"}))
    apart = Affinity(pod_anti_affinity=PodAffinity(required=(term,)))
    deferred = make_pod("deferred", cpu=2, priority=50, affinity=apart)
    deferred = with_spec(deferred, node_selector={"host": host})
    stream.pods[deferred.metadata.uid] = deferred
    stream.handle(Watched("Pod", "ADDED", deferred))
    added(stream, "later", 1, cpu=1, priority=0, app="db", host="small")
    stream.run()

    assert not stream.bound
    assert len(stream.asked) == (1 if host == "small" else 2)


def added(
    stream: Stream,
    name: str,
    size: int,
    cpu: int,
    priority: int,
    app: str,
    host: str = "",
    *,
    is_gang: bool = True,
) -> None:
    """Add pods of an app, as a gang or each by itself; with `host` for that host alone."""
    if is_gang:
        stream.sizes[name] = size
        meta = AnnotatedMeta(name=name, namespace="default", uid=name)
        stream.handle(Watched("PodGroup", "ADDED", PodGroup(meta, PodGroupSpec(size))))
    for number in range(size):
        own = f"{name}-{number}" if is_gang else name
        labels = {"app": app} | ({LABEL: name} if is_gang else {})
        made = make_pod(own, cpu=cpu, priority=priority, labels=labels, preemption_policy="Never")
        made = with_spec(made, node_selector={"host": host}) if host else made
        stream.pods[made.metadata.uid] = made
        stream.handle(Watched("Pod", "ADDED", made))


def settle(stream: Stream) -> None:
    """Answer the solver's questions until none is left."""
    for _ in range(6):
        asked, stream.asked = stream.asked, []
        stream.answered(question for _, question in asked)
        stream.now += 1
        stream.run()


def test_a_deferred_pod_is_tried_before_a_group_of_the_line_that_comes_later():
    """A pod and a later group wait for a gang, which is rejected. Only one of them fits: the pod,
    which is earlier.
    """
    stream = Stream(1, inline=True)
    for number in (1, 2):
        old = make_pod(f"old-{number}", cpu=NODE_CPUS, node=f"n{number}")
        stream.handle(Watched("Pod", "ADDED", old))
    stream.sizes["gang"] = 4
    group = AnnotatedMeta(name="gang", namespace="default", uid="gang")
    stream.handle(Watched("PodGroup", "ADDED", PodGroup(group, PodGroupSpec(4))))
    for number in range(4):
        stream.pod(f"gang-{number}", NODE_CPUS, 100, "gang", policy="PreemptLowerPriority")
    stream.run()
    assert stream.asked  # whether evictions help: they do not
    added(stream, "line", 2, cpu=NODE_CPUS // 2, priority=0, app="web")
    stream.pod("deferred", NODE_CPUS, 50)
    stream.run()
    assert not stream.bound

    settle(stream)
    assert ["deferred"] == [name_of(pod) for pod in stream.bound.values()]
