"""`summary.networkCost`, and the cost of a pod's dependencies in `explain`: equal with any
configuration.
"""

import json

import msgspec
import pytest

from scheduler.explain.explain import explain
from scheduler.explain.report import explanation_tables
from scheduler.framework.registry import Registry
from scheduler.intree import IN_TREE
from scheduler.simulate.batch import Batch
from scheduler.simulate.setups import Setups
from scheduler.simulate.stage import AnswerOptions
from scheduler.snapshot.documents import items_of_objects
from scheduler.snapshot.snapshot import read_snapshot
from tests.unit.plugins.networkobjects import app_group, member, placed_node, topology

NODES = [placed_node(f"{zone}{n}", zone[0], zone) for zone in ("a1", "a2", "b1") for n in "xy"]
COSTS = topology(regions=[("a", "b", 20)], zones=[("a1", "a2", 5)])
SHOP = app_group({"front": {"cart": 5}, "cart": {"store": 30}, "store": {}})
PLACED = [
    member("f1", "front", "a1x"),
    member("c1", "cart", "a1x"),
    member("c2", "cart", "a2x"),
    member("s1", "store", "b1x"),
    member("s2", "store", "a2y"),
]
# front to c1 0, to c2 5; c1 to s1 20, to s2 5; c2 to s1 20, to s2 1.
TOTAL = 0 + 5 + 20 + 5 + 20 + 1


def simulated(objects, pending=(), plugins=None):
    """Return the summary of a simulation."""
    line = {"id": 1, "objects": list(objects), "pending": list(pending)}
    if plugins is not None:
        line["config"] = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [{"schedulerName": "trellis", "plugins": plugins}],
        }
    batch = Batch(Setups(Registry(IN_TREE)), AnswerOptions(), lambda _name: "")
    answer = json.loads(batch.answer(json.dumps(line).encode()))

    assert "error" not in answer, answer["error"]
    return answer["simulation"]["summary"]


def kinds(raws, kind):
    """Return manifests with `apiVersion` and `kind` set."""
    return [{"apiVersion": "v1", **raw, "kind": kind} for raw in raws]


@pytest.mark.parametrize(
    "plugins", [None, {}, {"multiPoint": {"enabled": [{"name": "NetworkOverhead"}]}}]
)
def test_the_cost_of_what_is_placed_is_counted_pair_by_pair(plugins):
    """The sum over all pairs of placed pods is the same with and without the plugin, with and
    without a file.
    """
    objects = [*kinds(NODES, "Node"), *kinds(PLACED, "Pod"), COSTS, SHOP]

    assert TOTAL == simulated(objects, plugins=plugins)["networkCost"]


def test_it_is_0_without_groups_or_costs():
    """Without AppGroups or without a NetworkTopology the cost is 0."""
    pods = kinds(PLACED, "Pod")

    assert 0 == simulated([*kinds(NODES, "Node"), *pods, COSTS])["networkCost"]
    assert 0 == simulated([*kinds(NODES, "Node"), *pods, SHOP])["networkCost"]


def test_explain_prices_a_pods_ties_at_both_ends():
    """`explain` counts dependencies and dependents: for the cart in zone a2 the front costs 5, the
    stores 20 and 1.
    """
    raws = [*kinds(NODES, "Node"), *kinds(PLACED, "Pod"), COSTS, SHOP]
    items = items_of_objects([msgspec.Raw(json.dumps(raw).encode()) for raw in raws], "objects")
    setup = Setups(Registry(IN_TREE)).of(
        json.dumps(
            {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "profiles": [{"plugins": {"filter": {"disabled": [{"name": "*"}]}}}],
            }
        ),
        file="config",
    )
    found = explain(read_snapshot(items), setup, "default/c2").explanation

    ties = {(tie.workload, tie.is_dependent): (tie.pods, tie.kept) for tie in found.ties}
    assert {("store", False): (2, 2), ("front", True): (1, 1)} == ties
    assert sum(tie.cost for tie in found.ties) == found.network_cost
    assert "network cost" in explanation_tables(found, wide=False, one_node=False)[-1].heading
