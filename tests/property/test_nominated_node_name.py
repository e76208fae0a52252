"""`status.nominatedNodeName` is set only while evictions for a pod or its group are in progress:
Cluster Autoscaler and other schedulers count such a pod as placed on that node.
"""

from __future__ import annotations

from random import Random

import msgspec
import pytest

from scheduler.engine.effects import (
    Answer,
    Bind,
    Call,
    Effects,
    Evict,
    Leading,
    SetStatus,
    Solve,
    Watched,
)
from scheduler.engine.engine import Engine
from scheduler.engine.settings import EngineSettings
from scheduler.groups.solver.questions import answer
from scheduler.objects.groups.podgroup import PodGroup, PodGroupSpec
from scheduler.objects.meta import AnnotatedMeta
from scheduler.objects.pod import Pod
from tests.property.batches import batches
from tests.property.engines import PROFILES, REGISTRY
from tests.property.making import make_node, make_pod, with_spec, with_status

START = 1_767_225_600.0
LABEL = "scheduling.x-k8s.io/pod-group"
NODES, NODE_CPUS = 4, 8
BACKOFF_S = 400.0  # longer than every back-off and the flush of unschedulable pods


class Cluster:
    """An engine beside a model of the API server's pods, in which victims leave after a while."""

    def __init__(self, seed: int, *, inline: bool) -> None:
        self.random = Random(seed)
        self.engine = Engine(PROFILES, REGISTRY, settings=EngineSettings(solves_inline=inline))
        self.now = START
        self.turn = 0
        self.pods: dict[str, Pod] = {}
        self.leaving: dict[str, int] = {}  # the turn in which a pod will have left, by uid
        # By the uid of each victim: the nodes of the pods that were nominated at its eviction.
        self.preemptors: dict[str, dict[str, str]] = {}
        self.written: dict[str, str] = {}  # the nominations of this turn, by uid
        self.asked: list[tuple[int, Solve]] = []
        self.groups = self.singles = 0
        self.evictions = 0
        self.handle(Leading(active=True))
        for number in range(NODES):
            self.handle(Watched("Node", "ADDED", make_node(f"n{number}", cpu=NODE_CPUS)))

    def handle(self, event: object) -> None:
        self.engine.handle(event, self.now)  # type: ignore[arg-type]

    def pod(self, name: str, cpu: int, priority: int, group: str = "") -> None:
        labels = {LABEL: group} if group else {}
        pod = make_pod(name, cpu=cpu, priority=priority, labels=labels)
        self.pods[pod.metadata.uid] = pod
        self.handle(Watched("Pod", "ADDED", pod))

    def something(self) -> None:
        """Create a pod or a group, or finish a bound pod."""
        kind, priority = self.random.randrange(8), self.random.choice((0, 0, 10, 100))
        if kind < 5:
            self.singles += 1
            self.pod(f"p{self.singles:03}", self.random.choice((1, 2, 4, 8)), priority)
        elif kind == 5 and self.groups < 6:
            size = self.random.choice((2, 3, 4))
            self.groups += 1
            name = f"g{self.groups}"
            meta = AnnotatedMeta(name=name, namespace="default", uid=name)
            self.handle(Watched("PodGroup", "ADDED", PodGroup(meta, PodGroupSpec(size))))
            cpu = self.random.choice((2, 4, 8))
            for number in range(size):
                self.pod(f"{name}-{number}", cpu, priority, name)
        elif bound := sorted(uid for uid, pod in self.pods.items() if pod.spec.node_name):
            self.leaving.setdefault(self.random.choice(bound), self.turn)

    def step(self, events: int) -> None:
        """Run a turn: events, terminated pods, due answers, and their consequences."""
        self.turn += 1
        self.written.clear()
        for _ in range(events):
            self.something()
        for uid in [uid for uid, turn in self.leaving.items() if turn <= self.turn]:
            del self.leaving[uid]
            self.handle(Watched("Pod", "DELETED", self.pods.pop(uid)))
        due = [one for at, one in self.asked if at <= self.turn]
        self.asked = [one for one in self.asked if one[0] > self.turn]
        for question in due:
            self.handle(Answer(question.id, 200, body=answer(question.instance)))
        while effects := self.engine.run(self.now, 8):
            for effect in effects:
                self.take(effect)
        self.check()

    def settle(self) -> None:
        """Wait until all back-offs end, then delete victims and answer requests."""
        self.now += BACKOFF_S
        for _ in range(100):
            self.step(events=0)
            self.now += 0.001
            if not self.leaving and not self.asked:
                return
        raise AssertionError("the cluster does not come to rest")

    def take(self, effect: Effects) -> None:
        if isinstance(effect, Solve):
            self.asked.append((self.turn + self.random.randrange(1, 4), effect))
        elif isinstance(effect, Call):
            self.handle(Answer(effect.id, 200))
        elif isinstance(effect, Bind):
            bound = with_spec(self.pods[effect.uid], node_name=effect.node)
            self.pods[effect.uid] = with_status(bound, nominated_node_name="")
            self.handle(Answer(effect.id, 201))
            self.handle(Watched("Pod", "MODIFIED", self.pods[effect.uid]))
        elif isinstance(effect, SetStatus) and effect.uid in self.pods:
            if effect.nominated_node is not None:
                written = with_status(
                    self.pods[effect.uid], nominated_node_name=effect.nominated_node
                )
                self.pods[effect.uid] = written
                if effect.nominated_node:
                    self.written[effect.uid] = effect.nominated_node
                self.handle(Watched("Pod", "MODIFIED", written))
        elif isinstance(effect, Evict) and "preempting" in effect.message:
            self.evict(effect)

    def evict(self, effect: Evict) -> None:
        self.evictions += 1
        victim = self.pods[effect.uid]
        meta = msgspec.structs.replace(victim.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
        self.pods[effect.uid] = msgspec.structs.replace(victim, metadata=meta)
        self.leaving[effect.uid] = self.turn + self.random.randrange(2, 6)
        self.preemptors[effect.uid] = {}
        self.handle(Answer(effect.id, 200))
        self.handle(Watched("Pod", "MODIFIED", self.pods[effect.uid]))

    def nominated(self) -> dict[str, str]:
        """Return the nodes that pending pods are nominated to in the API, by uid."""
        return {
            uid: pod.status.nominated_node_name
            for uid, pod in self.pods.items()
            if pod.status.nominated_node_name and not pod.spec.node_name
        }

    def check(self) -> None:
        """Check that each remaining victim is evicted for nominated pods.

        A member of a group is evicted with the others, which may be on the nominated node.
        """
        nominated = self.nominated()
        for uid, preemptors in self.preemptors.items():
            victim = self.pods.get(uid)
            if victim is None:
                continue
            node = "" if LABEL in victim.metadata.labels else victim.spec.node_name
            if not preemptors:
                preemptors.update(
                    (one, place)
                    for one, place in (nominated | self.written).items()
                    if node in ("", place) and self.priority(one) > self.priority(uid)
                )
                assert preemptors, f"{uid} is evicted, and no pod is nominated to {node}"
            for one in preemptors.keys() & self.pods.keys() - nominated.keys():
                is_bound = bool(self.pods[one].spec.node_name)
                nodes = {
                    place
                    for other, place in preemptors.items()
                    if other in self.pods and self.are_together(one, other)
                }
                assert is_bound or self.is_overtaken(one, nodes), f"{one} lost its node"

    def are_together(self, one: str, other: str) -> bool:
        """Return whether two pods are the same pod or members of one group."""
        if one == other:
            return True
        groups = {self.pods[uid].metadata.labels.get(LABEL, uid) for uid in (one, other)}
        return len(groups) == 1

    def is_overtaken(self, uid: str, nodes: set[str]) -> bool:
        """Return whether a pod that precedes this one is bound or nominated to one of its nodes.

        A group that is being planned precedes later pods of its priority.
        """
        order = {one: (-self.priority(one), number) for number, one in enumerate(self.pods)}
        return any(
            order[one] < order[uid] and nodes & {pod.spec.node_name, pod.status.nominated_node_name}
            for one, pod in self.pods.items()
            if not self.are_together(one, uid)
        )

    def priority(self, uid: str) -> int:
        return self.pods[uid].spec.priority or 0


@pytest.mark.parametrize("inline", [False, True])
@pytest.mark.parametrize("seed", batches(6, 12, 1))
def test_a_pod_is_nominated_while_evictions_for_it_are_under_way(seed: int, *, inline: bool):
    """A preemptor is nominated from the eviction until it is bound or overtaken. At the end no
    pending pod is nominated.
    """
    cluster = Cluster(seed, inline=inline)
    for _ in range(12):
        cluster.something()
    for _ in range(40):
        cluster.now += cluster.random.choice((0.1, 1.0, 12.0))
        cluster.step(events=cluster.random.randrange(3))
    for _ in range(6):
        cluster.settle()

    assert cluster.evictions
    assert {} == cluster.nominated()
