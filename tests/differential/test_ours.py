"""Our side of a decision: which of several equal nodes of a preemption agree with the peer's."""

from typing import Any

import pytest

from tests.differential.again import repeated
from tests.differential.case import Decision, Outcome
from tests.differential.compare import through_simulate
from tests.differential.ours import Ours

CONFIGURATION = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"schedulerName": "default-scheduler"}],
}
CANDIDATES = {f"n{number}": [f"default/v{number}"] for number in range(3)}


def node(name: str) -> dict[str, Any]:
    capacity = {"cpu": "1", "memory": "1Gi", "pods": "10"}
    status = {"allocatable": capacity, "capacity": capacity}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def pod(name: str, priority: int, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {
            "schedulerName": "default-scheduler",
            "priority": priority,
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
            **spec,
        },
        "status": {"phase": "Running" if "nodeName" in spec else "Pending"},
    }


def decision(nominated: str) -> Decision:
    """Return a preemption with equal victims on n0 and n1, of which v0 is terminating.

    The victim on n2 is more important. No victim has a start time, so that kube-scheduler takes the
    current time, and prefers the node that it compares last.
    """
    victims = [pod(f"v{number}", int(number == 2), nodeName=f"n{number}") for number in range(3)]
    victims[0]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:30Z"
    peer = Outcome(
        "Unschedulable",
        message="0/3 nodes are available: 3 Insufficient cpu.",
        plugins=["NodeResourcesFit"],
        nominated=nominated,
        candidates=CANDIDATES,
        victims=CANDIDATES[nominated],
    )
    nodes = [node(name) for name in CANDIDATES]
    return Decision("1/0/0", "c.json", [*nodes, *victims], pod("p", 10), peer)


@pytest.mark.parametrize("nominated", ["n0", "n1"])
def test_any_node_with_equal_victims_agrees(nominated: str):
    """kube-scheduler chooses by chance where this side prefers victims that are terminating."""
    one = decision(nominated)

    assert repeated(one, Ours(CONFIGURATION)) == {}
    assert one.ours is not None
    assert (one.differences, one.ours.best) == ({}, ["n0", "n1"])


def test_a_node_with_more_important_victims_differs():
    """The peer's choice must be one of the nodes with the least harm."""
    one = decision("n2")

    assert sorted(repeated(one, Ours(CONFIGURATION))) == ["best", "nominated", "victims"]


@pytest.mark.parametrize(("victim", "differs"), [("v0", False), ("v1", False), ("v2", True)])
def test_simulate_evicts_the_victims_of_one_of_the_best_nodes(victim: str, differs: bool):
    """`simulate` breaks ties as usual; its victims must be those of an equally good node."""
    best = Outcome(
        "Unschedulable", best=["n0", "n1"], candidates=CANDIDATES, victims=CANDIDATES["n0"]
    )
    simulated = {"victims": [{"namespace": "default", "name": victim}]}

    assert bool(through_simulate(simulated, best)) == differs
