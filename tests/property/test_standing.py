"""What the framework remembers per shape changes no decision.

A runner that has met a shape before must decide as one that meets everything for the first time.
"""

from random import Random
from typing import Any

import numpy as np
import pytest

from scheduler.config import default_config
from scheduler.engine.cycle import Attempt, decide
from scheduler.engine.decision import Decision
from scheduler.engine.effects import Watched
from scheduler.engine.engine import Engine
from scheduler.framework.registry import Registry
from scheduler.framework.runner import Runner, States
from scheduler.objects.meta import LabelSelector
from scheduler.objects.node import Taint
from scheduler.objects.pod import (
    Affinity,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    Toleration,
    TopologySpreadConstraint,
)
from scheduler.plugins.intree import IN_TREE
from tests.property.making import make_node, make_pod

REGISTRY = Registry(IN_TREE)
PROFILES = default_config(REGISTRY).profiles


def random_pod(random: Random, name: str, node: str = "") -> Pod:
    """Return a pod with a few of the wishes that plugins know."""
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
    """Return all that a decision says."""
    return (
        decision.node,
        decision.status,
        decision.message,
        decision.nominated_node,
        [victim.pod.key for victim in decision.victims],
        None if decision.feasible is None else decision.feasible.tolist(),
        [(one.plugin, one.rows.tolist()) for one in decision.rejections],
        [(one.plugin, one.normalized[decision.feasible].tolist()) for one in decision.scores],
        None if decision.total is None else decision.total[decision.feasible].tolist(),
    )


def outcome(attempt: Attempt) -> tuple[Any, ...]:
    """Return what an ordinary attempt decides."""
    with pytest.raises(StopIteration) as stop:
        next(decide(attempt))
    return described(stop.value.value)


@pytest.mark.parametrize("seed", range(12))
def test_known_shapes_are_decided_like_new_ones(seed):
    """While nodes, taints and pods come and go, both decide the same for every pod."""
    random = Random(seed)
    engine = Engine(PROFILES, REGISTRY)
    pods = [random_pod(random, f"p{number}") for number in range(12)]
    for step in range(60):
        name = f"n{random.randrange(8)}"
        labels = {"zone": random.choice("xyz"), "host": name}
        taints = [Taint("dedicated", "", "NoSchedule")] if random.random() < 0.2 else []
        node = make_node(name, labels=labels, taints=taints, cpu=random.choice([2, 4]))
        engine.handle(Watched("Node", "MODIFIED", node), 1.0)
        placed = random_pod(random, f"held{step}", f"n{random.randrange(8)}")
        engine.handle(Watched("Pod", "ADDED", placed), 1.0)
        pod = random.choice(pods)
        shape = engine.cluster.shapes.of(pod)  # held here: what is kept of it stays

        known, fresh = engine.attempt(pod, 1.0), engine.attempt(pod, 1.0)
        fresh.runner, fresh.states = Runner(known.runner.profile), States()
        state = known.cycle.random.getstate()
        one = outcome(known)
        known.cycle.random.setstate(state)

        assert outcome(fresh) == one
        assert shape.kept


def test_columns_stay_as_they_were():
    """Columns of decisions that somebody keeps are not written to by later ones."""
    engine = Engine(PROFILES, REGISTRY)
    for number in range(5):
        engine.handle(Watched("Node", "ADDED", make_node(f"n{number}")), 1.0)
    kept: list[tuple[np.ndarray, list[int]]] = []
    engine.observation.on_decision = lambda _queued, decision: kept.extend(
        (column, column.tolist())
        for score in decision.scores
        for column in (score.raw, score.normalized)
    )
    for number in range(8):
        engine.handle(Watched("Pod", "ADDED", make_pod(f"p{number}")), 1.0)
        engine.run(1.0, 1)

    assert len(kept) > 8
    assert all(column.tolist() == values for column, values in kept)
