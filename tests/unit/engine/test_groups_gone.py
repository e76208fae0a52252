"""Stored data of groups is dropped with them: a cluster has more groups in a year than at a
time.
"""

import gc
import json

import pytest

from scheduler.base import sweep
from scheduler.engine.effects import Answer, Bind, Call, Solve, Watched
from scheduler.engine.queue import membership
from scheduler.groups.cycle.writing import Writing
from scheduler.groups.status.lifecycle import GroupRecord
from scheduler.groups.topology.tree import Topology
from scheduler.objects.configmap import GROUP_KEY, ConfigMap, ConfigMapMeta
from tests.property.making import make_node, make_pod
from tests.unit.engine.test_groups import Floor

KEPT = (GroupRecord, Topology, membership._Members)


def live(floor: Floor, name: str) -> None:
    """Create a group, place it on its own node, and delete it with the node."""
    node, labels = make_node(f"node-of-{name}"), {"sakkara.group.name": name}
    data = {"name": name, "size": "2", "constraints": json.dumps({})}
    meta = ConfigMapMeta(name=name, namespace="default", uid=name, labels={GROUP_KEY: ""})
    described = ConfigMap(meta, data)
    pods = [make_pod(f"{name}-{number}", labels=labels) for number in range(2)]
    floor.handle(Watched("Node", "ADDED", node))
    floor.handle(Watched("GroupConfigMap", "ADDED", described))
    for pod in pods:
        floor.handle(Watched("Pod", "ADDED", pod))
    bound = 0
    for _ in range(6):
        for effect in floor.run():
            bound += isinstance(effect, Bind) and effect.name.startswith(name)
            if isinstance(effect, Solve):
                floor.solve(effect)
            elif isinstance(effect, Bind | Call):
                floor.handle(Answer(effect.id, 200, body={}))
    assert 2 == bound
    for pod in pods:
        floor.handle(Watched("Pod", "DELETED", pod))
    floor.handle(Watched("GroupConfigMap", "DELETED", described))
    floor.handle(Watched("Node", "DELETED", node))
    floor.now += 10
    floor.run()
    floor.effects.clear()


def kept() -> dict[str, int]:
    """Return the number of objects of each kind that are stored by group."""
    gc.collect()
    there = gc.get_objects()
    types = [type(one) for one in there]
    reported = sum(len(one._known) for one in there if type(one) is Writing)
    return {"reported": reported, **{each.__name__: types.count(each) for each in KEPT}}


def test_what_is_kept_of_groups_goes_with_them(monkeypatch: pytest.MonkeyPatch):
    """After many groups were created and deleted, memory has no more than after a few."""
    monkeypatch.setattr(sweep, "LEAST_KEPT", 4)
    floor = Floor(nodes=2, size=1)
    before = kept()
    for number in range(40):
        live(floor, f"h{number}")
    grown = {name: count - before[name] for name, count in kept().items()}
    assert all(count <= 8 for count in grown.values()), grown
