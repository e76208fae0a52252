"""The framework's caches per shape and per kind of pods change no decision.

A runner that has seen such pods before must decide like one without caches.
"""

from random import Random
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from scheduler.engine.attempt.attempt import decide
from scheduler.engine.attempt.cycle import Attempt
from scheduler.engine.decision import Decision
from scheduler.engine.effects import Watched
from scheduler.engine.engine import Engine
from scheduler.framework.running.answers import States
from scheduler.framework.running.runner import Runner
from scheduler.objects.devices import DeviceClass, DeviceClassSpec
from scheduler.objects.meta import LabelSelector, ObjectMeta, OwnerReference
from scheduler.objects.node import ContainerImage, Node, Taint
from scheduler.objects.pod import (
    Affinity,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    Toleration,
    TopologySpreadConstraint,
)
from scheduler.objects.workloads import (
    MapSelectorSpec,
    Namespace,
    NamespaceMeta,
    ReplicaSet,
    SelectorSpec,
    Service,
)
from tests.property.engines import PROFILES, REGISTRY
from tests.property.making import make_node, make_pod

FREE = OwnerReference("apps/v1", "ReplicaSet", "web", "uid-web")
CONTROLLER = replace(FREE, controller=True)


def random_pod(random: Random, name: str, node: str = "") -> Pod:
    """Return a pod with a few of the fields that plugins read."""
    selector = LabelSelector({"app": random.choice("ab")})
    term = (PodAffinityTerm(random.choice(["zone", "host"]), selector),)
    spec: dict[str, Any] = {}
    if random.random() < 0.3:
        spec["node_selector"] = {"zone": random.choice("xyz")}
    if random.random() < 0.3:
        spec["tolerations"] = (Toleration("dedicated", "Exists"),)
    if random.random() < 0.3:
        near, far = PodAffinity(term), PodAffinity()
        both = (near, far) if random.random() < 0.5 else (far, near)
        spec["affinity"] = Affinity(None, *both)
    if random.random() < 0.3:
        when = random.choice(["DoNotSchedule", "ScheduleAnyway"])
        spec["topology_spread_constraints"] = (TopologySpreadConstraint(1, "zone", when, selector),)
    return make_pod(
        name,
        node=node,
        labels={"app": random.choice("ab")},
        cpu=random.choice([0, 1, 2]),
        host_port=random.choice([0, 0, 0, 80]),
        priority=random.choice([0, 0, 5]),
        **spec,
    )


def described(decision: Decision) -> tuple[Any, ...]:
    """Return all contents of a decision."""
    return (
        decision.node,
        decision.status,
        decision.message,
        decision.nominated_node,
        [victim.pod.key for victim in decision.victims],
        decision.disruption,
        None if decision.feasible is None else decision.feasible.tolist(),
        [(one.plugin, one.rows.tolist()) for one in decision.rejections],
        [(one.plugin, one.normalized[decision.feasible].tolist()) for one in decision.scores],
        None if decision.total is None else decision.total[decision.feasible].tolist(),
    )


def outcome(attempt: Attempt) -> tuple[Any, ...]:
    """Return the decision of an ordinary attempt."""
    return described(decide(attempt))


@pytest.mark.parametrize("seed", range(6))
def test_known_shapes_are_decided_like_new_ones(seed):
    """While nodes, taints and pods are added and deleted, both decide the same for every pod."""
    random = Random(seed)
    engine = Engine(PROFILES, REGISTRY)
    pods = [random_pod(random, f"p{number}") for number in range(12)]
    for step in range(60):
        name = f"n{random.randrange(8)}"
        labels = {"zone": random.choice("xyz"), "host": name}
        taints = [Taint("dedicated", "", "NoSchedule")] if random.random() < 0.2 else []
        node = make_node(name, labels=labels, taints=taints, cpu=random.choice([2, 4]))
        engine.handle(Watched("Node", "MODIFIED", node), 1.0)
        placed = random_pod(random, f"bound{step}", f"n{random.randrange(8)}")
        engine.handle(Watched("Pod", "ADDED", placed), 1.0)
        pod = random.choice(pods)
        shape = engine.cluster.shapes.of(pod)  # referenced here, so that its cache entry stays

        known, fresh = engine.attempt(pod, 1.0), engine.attempt(pod, 1.0)
        fresh.runner, fresh.states = Runner(known.runner.profile), States()
        state = known.cycle.random.getstate()
        one = outcome(known)
        known.cycle.random.setstate(state)

        assert outcome(fresh) == one
        assert shape.derived


def random_change(random: Random, step: int, existing: list[Pod]) -> Watched:
    """Return a random event: usually a pod is placed on a node or leaves it."""
    chance = random.random()
    if chance < 0.1:
        name = f"n{random.randrange(8)}"
        return Watched("Node", random.choice(["MODIFIED", "DELETED"]), random_node(random, name))
    if chance < 0.15:
        service = Service(
            ObjectMeta("web", "default"), MapSelectorSpec({"app": random.choice("ab")})
        )
        return Watched("Service", random.choice(["ADDED", "DELETED"]), service)
    if chance < 0.2:
        labels = {"team": random.choice("xy")}
        return Watched("Namespace", "MODIFIED", Namespace(NamespaceMeta("default", labels=labels)))
    if chance < 0.25:
        made = DeviceClass(
            ObjectMeta("gpus"), DeviceClassSpec(extended_resource_name="example.com/gpu")
        )
        return Watched("DeviceClass", random.choice(["ADDED", "DELETED"]), made)
    if chance < 0.3:
        selector = SelectorSpec(LabelSelector({"app": random.choice("ab")}))
        owner = ReplicaSet(ObjectMeta("web", "default"), selector)
        return Watched("ReplicaSet", random.choice(["ADDED", "DELETED"]), owner)
    if chance < 0.4 and existing:
        return Watched("Pod", "DELETED", existing.pop(random.randrange(len(existing))))
    existing.append(random_pod(random, f"bound{step}", f"n{random.randrange(8)}"))
    return Watched("Pod", "ADDED", existing[-1])


def random_node(random: Random, name: str) -> Node:
    """Return a node with or without taints of both kinds."""
    taints = [Taint("dedicated", "", "NoSchedule")] if random.random() < 0.2 else []
    taints += [Taint("busy", "", "PreferNoSchedule")] if random.random() < 0.1 else []
    return make_node(
        name,
        labels={"zone": random.choice("xyz"), "host": name},
        taints=taints,
        cpu=random.choice([4, 8]),
        unschedulable=random.random() < 0.1,
        images=[ContainerImage(("app:1",), 500 << 20)] if random.random() < 0.3 else [],
    )


@pytest.mark.parametrize("seed", range(5))
def test_known_kinds_are_decided_like_new_ones(seed: int):
    """Pods of a few kinds on nodes that change little except for their pods."""
    random = Random(seed)
    engine = Engine(PROFILES, REGISTRY)
    existing: list[Pod] = []
    for number in range(8):
        node = random_node(random, f"n{number}")
        engine.handle(Watched("Node", "ADDED", node), 1.0)
    kinds = [random_pod(random, f"kind{number}") for number in range(4)]
    derived = 0
    for step in range(80):
        # Labels, namespaces and owners differ, so that shapes differ and kinds do not.
        kind = random.choice(kinds)
        meta = replace(
            kind.metadata,
            namespace=random.choice(["default", "default", "other"]),
            labels={**kind.metadata.labels, "n": str(random.randrange(3))},
            owner_references=random.choice([(), (), (FREE,), (CONTROLLER,)]),
        )
        pod = replace(kind, metadata=meta)

        known, fresh = engine.attempt(pod, 1.0), engine.attempt(pod, 1.0)
        fresh.runner, fresh.states = Runner(known.runner.profile), States()
        state = known.cycle.random.getstate()
        one = outcome(known)
        known.cycle.random.setstate(state)

        assert outcome(fresh) == one
        derived += len(known.states.kinds) > 3
        for _ in range(random.choice([0, 1, 1, 2, 30])):
            engine.handle(random_change(random, step, existing), 1.0)

    assert derived > 10


def test_columns_stay_as_they_were():
    """Later decisions do not write to columns of kept decisions."""
    engine = Engine(PROFILES, REGISTRY)
    for number in range(5):
        engine.handle(Watched("Node", "ADDED", make_node(f"n{number}")), 1.0)
    derived: list[tuple[np.ndarray, list[int]]] = []
    engine.observation.on_decision = lambda _queued, decision: derived.extend(
        (column, column.tolist())
        for score in decision.scores
        for column in (score.raw, score.normalized, decision.total)
        if column is not None
    )
    for number in range(8):
        engine.handle(Watched("Pod", "ADDED", make_pod(f"p{number}")), 1.0)
        engine.run(1.0, 1)

    assert len(derived) > 8
    assert all(column.tolist() == values for column, values in derived)
