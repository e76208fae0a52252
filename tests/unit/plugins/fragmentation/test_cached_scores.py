"""Scores of FragmentationAware that the framework caches equal those computed anew."""

from random import Random
from typing import Any

import pytest

from scheduler.config import load
from scheduler.config.presets import GPU
from scheduler.engine.attempt.attempt import decide
from scheduler.engine.attempt.cycle import Attempt
from scheduler.engine.effects import Leading, Watched
from scheduler.engine.engine import Engine
from scheduler.framework.registry import Registry
from scheduler.framework.running.answers import States
from scheduler.framework.running.runner import Runner
from scheduler.intree import IN_TREE
from scheduler.objects.plain import read_object, read_pod
from scheduler.state.shapes import Shape
from tests.property.making import make_node, make_pod
from tests.unit.plugins.devices import DRIVER, allocated, claim, claiming, gpu_class, local_slice

REGISTRY = Registry(IN_TREE)
SHAPES = "shapes: [{cpu: '2', devices: 1}, {cpu: '8', devices: 4, weight: 0.5}]"
CONFIG = GPU.replace("keepsOthersOff: true", f"keepsOthersOff: true, {SHAPES}")
PROFILES = load(CONFIG, file="gpu", registry=REGISTRY).profiles
NODES = 4
REMOTE = f'has(device.attributes["{DRIVER}"].remote)'


def remote(name: str) -> dict[str, Any]:
    """Return a device that every node reaches."""
    return {"name": name, "attributes": {"remote": {"bool": True}}}


def raw(attempt: Attempt) -> list[int]:
    """Return the plugin's scores of all nodes before they are normalized."""
    scores = (one for one in decide(attempt).scores if one.plugin == "FragmentationAware")
    return [value for one in scores for value in one.raw.tolist()]


def normalized(attempt: Attempt) -> list[int]:
    """Return the plugin's scores between 0 and 100 of all nodes."""
    scores = (one for one in decide(attempt).scores if one.plugin == "FragmentationAware")
    return [value for one in scores for value in one.normalized.tolist()]


@pytest.mark.parametrize("seed", range(3))
def test_scores_follow_the_use_of_devices_elsewhere(seed: int):
    """Devices are taken and freed by events of claims alone, and by allocations in flight."""
    random = Random(seed)
    engine = Engine(PROFILES, REGISTRY)
    names = [f"n{number}" for number in range(NODES)]
    for name in (*names, "plain"):
        engine.handle(Watched("Node", "ADDED", make_node(name, cpu=16)), 1.0)
    everywhere = local_slice("", *(remote(f"r{number}") for number in range(6)), name="remote")
    del everywhere["spec"]["nodeName"]
    everywhere["spec"] |= {"allNodes": True, "pool": everywhere["spec"]["pool"] | {"name": "far"}}
    for one in (gpu_class(), everywhere, *(local_slice(name, *"ab") for name in names)):
        kind, obj = read_object(one)
        engine.handle(Watched(kind.kind, "ADDED", obj), 1.0)
    engine.handle(Leading(active=True), 1.0)
    for step in range(60):
        kind, obj = read_object(claim(f"r{step}", selector=REMOTE))
        engine.handle(Watched(kind.kind, "ADDED", obj), 1.0)
    taken: list[str] = []
    pod = make_pod("p", cpu=1)
    shape: Shape = engine.cluster.shapes.of(pod)  # a reference: the cached values are freed with it
    found: set[tuple[int, ...]] = set()
    for step in range(60):
        known, fresh = engine.attempt(pod, 1.0), engine.attempt(pod, 1.0)
        fresh.runner, fresh.states = Runner(known.runner.profile), States()
        losses = raw(known)
        assert raw(fresh) == losses
        found.add(tuple(losses))

        chance = random.random()
        if chance < 0.2:
            # Allocated, and not written yet: no event shows it.
            used = read_pod(claiming(f"u{step}", f"r{step}"))
            engine.handle(Watched("Pod", "ADDED", used), 1.0)
            engine.run(1.0, 9)
        elif chance < 0.4:
            placed = make_pod(f"b{step}", cpu=1, node=random.choice([*names, "plain"]))
            engine.handle(Watched("Pod", "ADDED", placed), 1.0)
        elif chance < 0.8 or not taken:
            status = allocated(random.choice("ab"), node=random.choice(names))
            kind, obj = read_object(claim(f"c{step}", status=status))
            engine.handle(Watched(kind.kind, "ADDED", obj), 1.0)
            taken.append(f"c{step}")
        else:
            name = taken.pop(random.randrange(len(taken)))
            engine.handle(Watched("ResourceClaim", "DELETED", read_object(claim(name))[1]), 1.0)

    assert shape.derived
    assert len(found) > 10


@pytest.mark.parametrize("seed", range(3))
def test_normalized_scores_follow_the_feasible_nodes(seed: int):
    """The scores of two pods in turn, while nodes fill up and the best one becomes infeasible."""
    random = Random(seed)
    engine = Engine(PROFILES, REGISTRY)
    names = [f"n{number}" for number in range(NODES)]
    for name in (*names, "plain", "other"):
        engine.handle(Watched("Node", "ADDED", make_node(name, cpu=16)), 1.0)
    for one in (gpu_class(), *(local_slice(name, *"ab") for name in names)):
        kind, obj = read_object(one)
        engine.handle(Watched(kind.kind, "ADDED", obj), 1.0)
    pods = [make_pod("small", cpu=1), make_pod("large", cpu=9)]
    shapes = [engine.cluster.shapes.of(pod) for pod in pods]
    placed: list[str] = []
    found: set[tuple[int, ...]] = set()
    for step in range(60):
        for pod in pods:
            known, fresh = engine.attempt(pod, 1.0), engine.attempt(pod, 1.0)
            fresh.runner, fresh.states = Runner(known.runner.profile), States()
            scores = normalized(known)
            assert normalized(fresh) == scores
            found.add(tuple(scores))
        if len(placed) < 6 and random.random() < 0.7:
            placed.append(f"b{step}")
            bound = make_pod(placed[-1], cpu=9, node=random.choice([*names, "plain", "other"]))
            engine.handle(Watched("Pod", "ADDED", bound), 1.0)
        elif placed:
            gone = make_pod(placed.pop(random.randrange(len(placed))))
            engine.handle(Watched("Pod", "DELETED", gone), 1.0)

    assert all(shape.derived for shape in shapes)
    assert len(found) > 5


def test_devices_count_that_are_published_after_the_first_decision():
    """A driver publishes the ResourceSlice of a node seconds after the node has joined; the cached
    scores then change.
    """
    engine = Engine(PROFILES, REGISTRY)
    for name in ("gpus", "plain"):
        engine.handle(Watched("Node", "ADDED", make_node(name, cpu=16)), 1.0)
    assert [] == raw(engine.attempt(make_pod("before"), 1.0))
    for one in (gpu_class(), local_slice("gpus", *"abcd")):
        kind, obj = read_object(one)
        engine.handle(Watched(kind.kind, "ADDED", obj), 1.0)

    with_devices, without = raw(engine.attempt(make_pod("after"), 1.0))
    assert with_devices < without == 0
