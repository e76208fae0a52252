"""The queue of applications in the engine: siblings in order, and a changed order at once."""

import json

import pytest

from scheduler.config import load
from scheduler.engine.effects import Bind, Listed, Watched
from scheduler.engine.engine import Engine
from scheduler.framework.registry import Registry
from scheduler.intree import IN_TREE
from scheduler.objects.plain import read_node, read_object, read_pod
from scheduler.testing import node
from tests.unit.plugins.networkobjects import app_group, member

NOW = 1_800_000_000.0
ORDER = ("a", "b", "c")


class Waiting:
    """An engine with one node, whose pods wait until they are requested."""

    def __init__(self, sort="TopologicalSort", args=None):
        config = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [
                {
                    "schedulerName": "trellis",
                    "plugins": {
                        "queueSort": {"enabled": [{"name": sort}], "disabled": [{"name": "*"}]}
                    },
                    "pluginConfig": [{"name": sort, "args": args or {}}],
                }
            ],
        }
        registry = Registry(IN_TREE)
        profiles = load(json.dumps(config), file="test", registry=registry).profiles
        self.engine = Engine(profiles, registry)
        self.engine.handle(Listed("Node", (read_node(node("n", cpu="64")),)), NOW)
        self.moment = NOW

    def group(self, verb="ADDED", name="app", order=ORDER):
        """Show an AppGroup."""
        kind, obj = read_object(app_group({one: {} for one in ORDER}, name=name, order=order))
        self.engine.handle(Watched(kind.kind, verb, obj), self.moment)

    def pod(self, name, workload="", group="app", priority=0, requests=None):
        """Create a waiting pod, a second after the previous one."""
        self.moment += 1
        raw = member(name, workload, group=group, requests=requests)
        raw["spec"] = {**raw["spec"], "schedulerName": "trellis", "priority": priority}
        del raw["spec"]["nodeName"]
        self.engine.handle(Watched("Pod", "ADDED", read_pod(raw)), self.moment)
        return self

    def bound(self):
        """Return the pods in the order in which they are bound."""
        effects = self.engine.run(self.moment, 64)
        return [effect.name for effect in effects if isinstance(effect, Bind)]


def test_a_group_stands_where_its_best_waiting_pod_stands():
    """The earliest time of its waiting pods counts; inside the group the index decides."""
    queue = Waiting()
    queue.group()
    queue.pod("late-b", "b").pod("lone", group="").pod("first-a", "a").pod("c", "c")

    assert ["first-a", "late-b", "lone", "c"] == queue.bound()


def test_a_sibling_of_high_priority_lifts_all_until_it_is_gone():
    """The pods before it in its group are lifted with it; the ones after it fall back."""
    queue = Waiting()
    queue.group()
    queue.pod("c", "c").pod("lone", group="", priority=1).pod("b", "b", priority=5).pod("a", "a")

    assert ["a", "b", "lone", "c"] == queue.bound()


def test_another_order_holds_for_those_who_wait_already():
    """A new order applies to waiting pods as soon as the operator has written it."""
    queue = Waiting()
    queue.group()
    queue.pod("a", "a").pod("b", "b").pod("c", "c")
    queue.group("MODIFIED", order=("c", "a", "b"))

    assert ["c", "a", "b"] == queue.bound()


@pytest.mark.parametrize("comes", [True, False])
def test_a_group_that_comes_or_goes_is_noticed(comes):
    """Without its AppGroup each pod is ordered alone, by time."""
    queue = Waiting()
    if not comes:
        queue.group()
    queue.pod("b", "b").pod("lone", group="").pod("a", "a")
    queue.group("ADDED" if comes else "DELETED")

    assert (["a", "b", "lone"] if comes else ["b", "lone", "a"]) == queue.bound()


def test_quality_of_service_orders_entities_of_one_priority():
    """As the design text states; the argument `fallback` disables it."""
    small, sure = {"cpu": "1m"}, {"cpu": "2m"}
    for args, expected in (
        ({}, ["burst", "best"]),
        ({"fallback": "PrioritySort"}, ["best", "burst"]),
    ):
        queue = Waiting(args=args)
        queue.pod("best", group="").pod("burst", group="", requests=small)
        assert expected == queue.bound()
    queue = Waiting("QOSSort")
    queue.pod("best", group="").pod("burst", group="", requests=sure)
    assert ["burst", "best"] == queue.bound()
