"""A group that waits for many victims: its gates run when the last one has left, not for each."""

import json

import pytest

from scheduler.config import default_config
from scheduler.engine.effects import Answer, Bind, Evict, Leading, Solve, Watched
from scheduler.engine.engine import Engine
from scheduler.framework.registry import Registry
from scheduler.groups.solver.questions import answer
from scheduler.intree import IN_TREE
from scheduler.objects.configmap import GROUP_KEY, ConfigMap, ConfigMapMeta
from tests.property.making import make_node, make_pod

REGISTRY = Registry(IN_TREE)
NOW = 1_767_225_600.0
NODES, CPUS = 6, 4


def full_cluster() -> Engine:
    """Return an engine whose nodes are full, with a pending group of one pod for each node."""
    engine = Engine(default_config(REGISTRY).profiles, REGISTRY)
    engine.handle(Leading(active=True), NOW)
    for at in range(NODES):
        engine.handle(Watched("Node", "ADDED", make_node(f"n{at}", cpu=CPUS)), NOW)
        for number in range(CPUS):
            engine.handle(
                Watched("Pod", "ADDED", make_pod(f"low-{at}-{number}", node=f"n{at}")), NOW
            )
    data = {"name": "g", "size": str(NODES), "priority": "10", "constraints": json.dumps({})}
    meta = ConfigMapMeta(name="g", namespace="default", uid="cm-g", labels={GROUP_KEY: ""})
    engine.handle(Watched("GroupConfigMap", "ADDED", ConfigMap(meta, data)), NOW)
    for number in range(NODES):
        labels = {"sakkara.group.name": "g"}
        pod = make_pod(f"g-{number}", cpu=CPUS, priority=10, labels=labels)
        engine.handle(Watched("Pod", "ADDED", pod), NOW)
    return engine


def run(engine: Engine) -> list[object]:
    """Run until the solver has no question; return the other effects."""
    effects: list[object] = []
    while some := engine.run(NOW, 50):
        for one in some:
            if isinstance(one, Solve):
                engine.handle(Answer(one.id, 200, body=answer(one.instance)), NOW)
            else:
                effects.append(one)
    return effects


@pytest.mark.parametrize("is_answered_first", [False, True])
def test_only_the_last_victim_wakes_the_group(is_answered_first: bool):
    """Each member moves in the queue once before the last of 24 victims has left, and is bound
    then, whether the evictions are answered before or after the deletions are reported.
    """
    engine = full_cluster()
    evictions = [one for one in run(engine) if isinstance(one, Evict)]
    assert NODES * CPUS == len(evictions)
    members = [engine.queues.get(f"uid-g-{number}") for number in range(NODES)]
    moves = [{one.ticket for one in members if one is not None}]
    answers = [Answer(one.id, 200) for one in evictions]
    gone = [
        Watched("Pod", "DELETED", make_pod(one.name, node=f"n{one.name[4]}")) for one in evictions
    ]
    first, last = (answers, gone) if is_answered_first else (gone, answers)
    effects: list[object] = []
    for event in (*first, *last):
        assert not any(isinstance(one, Bind) for one in effects)
        moves.append({one.ticket for one in members if one is not None})
        engine.handle(event, NOW)
        effects += run(engine)

    until = len(evictions) * (2 if is_answered_first else 1)  # the last deletion is reported there
    assert len(set().union(*moves[: until + 1])) <= 2 * NODES
    assert {f"g-{number}" for number in range(NODES)} == {
        one.name for one in effects if isinstance(one, Bind)
    }
