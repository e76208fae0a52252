"""The network gauges: the cost of the present placement, and the age of the costs."""

from random import Random
from typing import Any

import pytest

from scheduler.base.clock import ManualClock, rfc3339
from scheduler.base.meters import Meters
from scheduler.config import load
from scheduler.daemon.gauges import show_network
from scheduler.engine.effects import Watched
from scheduler.engine.engine import Engine
from scheduler.framework.registry import Registry
from scheduler.intree import IN_TREE
from scheduler.objects.plain import read_node, read_object, read_pod
from scheduler.plugins.network import TotalCost
from scheduler.testing.scene import NOW
from tests.unit.plugins.networkobjects import app_group, member, placed_node, topology
from tests.unit.simulate.asking import HEAD

PLACES = [("r1", "z1"), ("r1", "z2"), ("r2", "z3"), ("", "")]
GROUP = app_group({"a": {"b": (10, None), "c": (5, None)}, "b": {"c": (5, None)}, "c": {}})
COSTS = topology([("r1", "r2", 20)], [("z1", "z2", 5)])
PLUGINS = {"with": "enabled: [{name: NetworkOverhead}]", "without": 'disabled: [{name: "*"}]'}


class Setting:
    """An engine that watches, and the gauges over it."""

    def __init__(self, plugins: str = "with") -> None:
        registry = Registry(IN_TREE)
        needed = ", enabled: [{name: DefaultBinder}, {name: PrioritySort}]"
        wanted = PLUGINS[plugins] + (needed if plugins == "without" else "")
        config = f"{HEAD}profiles: [{{plugins: {{multiPoint: {{{wanted}}}}}}}]"
        self.engine = Engine(load(config, file="test", registry=registry).profiles, registry)
        self.clock, self.meters = ManualClock(NOW), Meters()
        show_network(self.engine, self.clock, self.meters)
        for number, place in enumerate(PLACES):
            self.see(read_node(placed_node(f"n{number}", *place)))

    def see(self, thing: Any, verb: str = "ADDED") -> None:
        kind = thing.metadata and type(thing).__name__
        self.engine.handle(Watched(kind, verb, thing), NOW)

    def put(self, name: str, workload: str, node: str) -> None:
        self.see(read_pod(member(name, workload, node)))

    def gauge(self, name: str) -> dict[tuple[str, ...], Any]:
        for spec, samples in self.meters.collect():
            if spec.name == name:
                return {one.labels: one.value for one in samples}
        return {}

    @property
    def cost(self) -> float:
        (value,) = self.gauge("trellis_network_cost").values()
        return float(value)


def test_the_cost_is_that_of_what_is_placed():
    """0 on one node, 1 in a zone, the listed cost beyond; it follows pods and costs."""
    setting = Setting()
    assert setting.cost == 0
    for raw in (GROUP, COSTS):
        setting.see(read_object(raw)[1])
    setting.put("a0", "a", "n0")
    setting.put("b0", "b", "n0")
    assert setting.cost == 0
    setting.put("c0", "c", "n1")
    assert setting.cost == 5 + 5
    setting.put("c1", "c", "n2")
    assert setting.cost == 5 + 5 + 20 + 20
    setting.see(read_object(topology([("r1", "r2", 7)], [("z1", "z2", 5)]))[1], "MODIFIED")
    assert setting.cost == 5 + 5 + 7 + 7
    setting.see(read_node(placed_node("n2", "r1", "z1")), "MODIFIED")
    assert setting.cost == 5 + 5 + 1 + 1


@pytest.mark.parametrize("seed", range(2))
def test_remembered_costs_are_those_worked_out_anew(seed: int):
    """However pods are created, deleted and moved, and whatever their application states."""
    setting, random = Setting(), Random(seed)
    setting.see(read_object(COSTS)[1])
    (profile,) = setting.engine.profiles.values()
    lookup: Any = profile.plugins["NetworkOverhead"]
    for number in range(80):
        group = random.choice(("app", "shop"))
        raw = member(f"p{random.randrange(12)}", random.choice("abc"), f"n{random.randrange(4)}")
        raw["metadata"]["labels"]["appgroup.diktyo.x-k8s.io"] = group
        pod = read_pod(raw)
        setting.see(pod, "DELETED" if random.random() < 0.3 else "ADDED")
        if number % 10 == 0:
            edges = {"a": {random.choice("bc"): (5, None)}, "b": {"c": (1, None)}, "c": {}}
            setting.see(read_object(app_group(edges, name=group))[1])
        assert setting.cost == TotalCost(lookup.lookup).now()


def test_a_scrape_works_out_only_so_much():
    """The rest counts with its old value, and is updated at the next scrapes."""
    setting = Setting()
    setting.see(read_object(COSTS)[1])
    for name in ("one", "two", "three"):
        setting.see(read_object(app_group({"a": {"b": (10, None)}, "b": {}}, name=name))[1])
        setting.see(read_pod(member(f"{name}-a", "a", "n0", group=name)))
        setting.see(read_pod(member(f"{name}-b", "b", "n1", group=name)))
    (profile,) = setting.engine.profiles.values()
    plugin: Any = profile.plugins["NetworkOverhead"]
    total = TotalCost(plugin.lookup)

    assert [total.now(most=2) for _ in range(3)] == [10, 15, 15]


def test_only_calculated_costs_have_an_age():
    """A table in spec is the user's and has no age; one in status has its time of calculation."""
    setting = Setting()
    setting.see(read_object(COSTS)[1])
    assert setting.gauge("trellis_network_weights_age_seconds") == {}
    calculated = {**COSTS, "spec": {}, "status": {"weights": COSTS["spec"]["weights"]}}
    calculated["status"]["weightCalculationTime"] = rfc3339(NOW)
    setting.see(read_object(calculated)[1], "MODIFIED")
    setting.clock.advance(30)

    assert setting.gauge("trellis_network_weights_age_seconds") == {("default/nt-default",): 30}


def test_figures_that_no_plugin_uses_are_not_exported():
    """Without a network plugin the metrics have no age and no cost."""
    setting = Setting("without")
    for raw in (GROUP, COSTS):
        setting.see(read_object(raw)[1])

    assert setting.cost == 0
    assert setting.gauge("trellis_network_weights_age_seconds") == {}
