"""docs/examples/network: the shop is placed, near to itself, inside its limits."""

import json
from pathlib import Path

import pytest
import yaml

from scheduler.framework.registry import Registry
from scheduler.intree import IN_TREE
from scheduler.simulate.batch import Batch
from scheduler.simulate.setups import Setups
from scheduler.simulate.stage import AnswerOptions
from tests.unit.plugins.networkobjects import app_group, member, placed_node

FOLDER = Path(__file__).parents[3] / "docs/examples/network"
CLUSTER = [("us-west-1", "z1"), ("us-west-1", "z2"), ("us-east-1", "z3"), ("us-east-1", "z4")]


def documents(name):
    """Return the objects of an example."""
    return list(yaml.safe_load_all((FOLDER / name).read_text()))


def pods():
    """Return the pods that the shop's deployments would make."""
    found = []
    for raw in documents("shop.yaml"):
        for number in range(raw["spec"]["replicas"] if raw["kind"] == "Deployment" else 0):
            template = raw["spec"]["template"]
            meta = {
                **template["metadata"],
                "name": f"{raw['metadata']['name']}-{number}",
                "namespace": raw["metadata"]["namespace"],
            }
            found.append(
                {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": template["spec"]}
            )
    return found


def simulated(config):
    """Return the simulation of the shop on two regions with four zones of two nodes."""
    nodes = [
        {"apiVersion": "v1", "kind": "Node", **placed_node(f"{zone}{n}", region, zone)}
        for region, zone in CLUSTER
        for n in "ab"
    ]
    group = [raw for raw in documents("shop.yaml") if raw["kind"] == "AppGroup"]
    line = {"objects": [*nodes, *group, *documents("topology.yaml")], "pending": pods()}
    return answered(line, config)


def answered(line, config):
    """Return the simulation of a case."""
    batch = Batch(Setups(Registry(IN_TREE)), AnswerOptions(), lambda _name: "")
    answer = json.loads(batch.answer(json.dumps({**line, "config": config}).encode()))

    assert "error" not in answer, answer["error"]
    return answer["simulation"]


@pytest.mark.parametrize("config", [documents("scheduler.yaml")[0], None])
def test_the_shop_stays_together(config):
    """All pods are placed, at less than half of the cost of kube-scheduler's defaults."""
    plain = {key: documents("scheduler.yaml")[0][key] for key in ("apiVersion", "kind")}
    usual, ours = simulated(plain), simulated(config)

    assert len(pods()) == ours["summary"]["scheduled"] == usual["summary"]["scheduled"]
    assert ours["summary"]["networkCost"] <= 0.5 * usual["summary"]["networkCost"]


@pytest.mark.parametrize(
    ("config", "fit", "balanced"),
    [
        # Fit: the mean of the free shares of cpu (100m), memory (200Mi) and the link, in percent.
        (documents("bandwidth/config.yaml")[0], {"fast": 98, "slow": 95}, {"fast": 74, "slow": 72}),
        # Without the lists in the configuration the scores see cpu and memory only.
        (None, {"fast": 97, "slow": 97}, {}),
    ],
)
def test_bandwidth_is_a_resource_like_others(config, fit, balanced):
    """The pod of the design text: filtered by its request, scored by the free bandwidth of
    links.
    """
    line = {
        "objects": documents("bandwidth/cluster.yaml"),
        "pending": documents("bandwidth/pod.yaml"),
        "details": True,
    }
    simulation = answered(line, config)
    (one,) = simulation["pods"]
    nodes = {found["name"]: found for found in one["nodes"]}
    scores = {
        plugin: {
            name: nodes[name]["scores"][plugin]["raw"]
            for name in ("fast", "slow")
            if plugin in nodes[name]["scores"]
        }
        for plugin in ("NodeResourcesFit", "NodeResourcesBalancedAllocation")
    }

    assert one["result"] == "Scheduled"
    assert config is None or one["node"] == "fast"
    for name in ("full", "old"):
        assert nodes[name]["rejectedBy"] == "NodeResourcesFit"
        assert nodes[name]["reasons"] == ["Insufficient network.aware.com/bandwidth"]
    assert scores == {"NodeResourcesFit": fit, "NodeResourcesBalancedAllocation": balanced}


def test_manifests_alone_are_placed_in_the_order_of_dependencies():
    """No operator has written an order into a file: it is that of the spec."""
    config = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    queueSort: {enabled: [{name: TopologicalSort}], disabled: [{name: "*"}]}
"""
    group = app_group({"a": {}, "b": {"a": 1}, "c": {"b": 1}})
    for algorithm, order in (("KahnSort", "cba"), ("ReverseKahn", "abc"), ("AlternateKahn", "cab")):
        group["spec"]["topologySortingAlgorithm"] = algorithm
        waiting = [member(f"{name}-0", name) for name in "bac"]
        for raw in waiting:
            del raw["spec"]["nodeName"]
        line = {"objects": [placed_node("n"), group], "pending": waiting, "config": config}
        batch = Batch(Setups(Registry(IN_TREE)), AnswerOptions(), str)
        answer = json.loads(batch.answer(json.dumps(line).encode()))["simulation"]

        assert [f"default/{name}-0" for name in order] == answer["queueOrder"]
