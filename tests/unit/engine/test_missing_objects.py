"""A pod that refers to a missing object: scheduled nevertheless, with an event."""

import json

import pytest

from scheduler.config import load
from scheduler.engine.effects import Bind, Listed, Record, Watched
from scheduler.engine.engine import Engine
from scheduler.framework.registry import Registry
from scheduler.intree import IN_TREE
from scheduler.objects.plain import read_node, read_object, read_pod
from tests.unit.plugins.networkobjects import app_group, member, placed_node, topology

NOW = 1_800_000_000.0
CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "schedulerName": "trellis",
            "plugins": {"multiPoint": {"enabled": [{"name": "NetworkOverhead"}]}},
        }
    ],
}
SHOP = app_group({"front": {"cart": 5}, "cart": {}})


def waiting(name):
    """Return a pod of the shop that is to be placed."""
    raw = member(name, "front")
    raw["spec"] = {**raw["spec"], "schedulerName": "trellis"}
    del raw["spec"]["nodeName"]
    return read_pod(raw)


def engine_with(*objects):
    """Return an engine with two nodes and these objects."""
    registry = Registry(IN_TREE)
    engine = Engine(load(json.dumps(CONFIG), file="test", registry=registry).profiles, registry)
    nodes = [placed_node(f"n{n}", "r", f"z{n}") for n in (1, 2)]
    engine.handle(Listed("Node", tuple(map(read_node, nodes))), NOW)
    engine.handle(Watched("Pod", "ADDED", read_pod(member("c", "cart", "n1"))), NOW)
    for raw in objects:
        kind, obj = read_object(raw)
        engine.handle(Watched(kind.kind, "ADDED", obj), NOW)
    return engine


def reported(engine, name="new"):
    """Place a pod; return the messages of the events about missing objects."""
    engine.handle(Watched("Pod", "ADDED", waiting(name)), NOW)
    effects = engine.run(NOW, 8)
    assert [name] == [effect.name for effect in effects if isinstance(effect, Bind)]
    return [e.note for e in effects if isinstance(e, Record) and e.reason == "MissingObject"]


@pytest.mark.parametrize(
    ("objects", "kind", "name"),
    [((), "AppGroup", "app"), ((SHOP,), "NetworkTopology", "nt-default")],
)
def test_the_event_names_what_is_missing_and_where_it_was_sought(objects, kind, name):
    """Each attempt writes one event on the pod that refers to the object, and a metric counts
    it.
    """
    engine = engine_with(*objects)

    notes = reported(engine)

    text = f'{kind} "{name}" was not found in namespace(s) default'
    assert [f"{text}: NetworkOverhead treats all nodes equally"] == notes
    counted = engine.observation.meters.missing_objects.labels("NetworkOverhead", kind)
    assert 1 == counted.value


def test_no_event_is_written_if_all_objects_exist_or_none_is_named():
    """A group whose pods have no dependencies needs no costs."""
    assert [] == reported(engine_with(SHOP, topology()))
    assert [] == reported(engine_with(app_group({"front": {}})))


def test_a_topology_that_goes_and_comes_back_is_used_again():
    """Scheduling continues meanwhile."""
    engine = engine_with(SHOP, topology())
    kind, obj = read_object(topology())
    engine.handle(Watched(kind.kind, "DELETED", obj), NOW)
    assert reported(engine)
    engine.handle(Watched(kind.kind, "ADDED", obj), NOW)

    assert [] == reported(engine, "later")
