"""The facts that a change touches, and their names in metrics."""

from typing import Any

import msgspec
import pytest

from scheduler.base.release import V1_36, V1_37
from scheduler.engine.intake import gave_up
from scheduler.objects.node import ContainerImage, Node, Taint
from scheduler.objects.pod import SchedulingGate, Toleration
from scheduler.state import facts
from scheduler.state.cluster import Cluster
from tests.property.making import make_node, make_pod, node_with, relabelled, with_meta, with_spec


def spec(node: Node, **changes: Any) -> Node:
    """Return the node with other spec fields."""
    return msgspec.structs.replace(node, spec=msgspec.structs.replace(node.spec, **changes))


@pytest.mark.parametrize(
    ("change", "fact", "label"),
    [
        (lambda n: relabelled(n, {"a": "b"}), "node.labels", "NodeUpdateNodeLabel"),
        (lambda n: spec(n, taints=(Taint("k"),)), "node.taints", "NodeUpdateNodeTaint"),
        (lambda n: spec(n, unschedulable=True), "node.taints", "NodeUpdateNodeTaint"),
        (
            lambda n: node_with(n, allocatable={"cpu": 9}),
            "node.allocatable",
            "NodeUpdateNodeAllocatable",
        ),
        (
            lambda n: node_with(n, declared_features=("x",)),
            "node.features",
            "NodeUpdateNodeDeclaredFeature",
        ),
        (lambda n: node_with(n, images=(ContainerImage(("x",)),)), "node.images", "NodeUpdate"),
    ],
)
def test_each_fact_of_a_node(change: Any, fact: str, label: str):
    """One change, one fact, and kube-scheduler's name of it."""
    cluster = Cluster()
    node = make_node("n")
    cluster.put_node(node)
    found = cluster.put_node(change(node))

    assert ({fact}, label) == (set(found.facts), found.label)
    assert node is found.old
    assert found.node is found.new


def test_a_heartbeat_touches_nothing():
    """An unchanged write of a node wakes no pod."""
    cluster = Cluster()
    cluster.put_node(make_node("n"))

    assert frozenset() == cluster.put_node(make_node("n")).facts


def test_a_node_that_comes_touches_all_but_its_going():
    """The removal is excluded so that plugins need not name both."""
    cluster = Cluster()
    change = cluster.put_node(make_node("n"))

    assert {"node", "node.labels", "node.taints", "node.allocatable"} <= change.facts
    assert "node.deleted" not in change.facts
    assert {"node.deleted"} == set(cluster.drop_node("n").facts)


def test_the_waiting_pod_itself():
    """The facts are labels, tolerations, gates, and smaller requests."""
    pod = make_pod("p", gates=["g"])

    def found(new: Any, *, shrank: bool = False) -> set[str]:
        return set(facts.waiting_facts(pod, new, shrank=shrank))

    assert {"self.labels"} == found(with_meta(pod, labels={"a": "b"}))
    assert {"self.tolerations"} == found(with_spec(pod, tolerations=(Toleration("x"),)))
    assert {"self.gates"} == found(with_spec(pod, scheduling_gates=()))
    assert set() == found(with_spec(pod, scheduling_gates=(SchedulingGate("g"),)))
    assert {"self.requests"} == found(pod, shrank=True)


def test_a_placed_pod():
    """The facts are its labels, and the release of resources."""
    cluster = Cluster()
    cluster.put_pod(make_pod("p", node="n", cpu=2))
    assert {"pod.labels"} == set(
        cluster.put_pod(make_pod("p", node="n", cpu=2, labels={"a": "b"})).facts
    )
    labels = {"a": "b"}
    less = cluster.put_pod(make_pod("p", node="n", cpu=1, labels=labels))
    assert {"pod.requests"} == set(less.facts)
    assert "AssignedPodUpdatePodScaleDown" == less.label
    more = cluster.put_pod(make_pod("p", node="n", cpu=3, labels=labels))
    assert set() == set(more.facts)


@pytest.mark.parametrize(
    ("label", "since_1_37"),
    [
        ("UnschedulablePodAdd", "UnscheduledPodAdd"),
        ("UnschedulablePodUpdate", "UnscheduledPodUpdate"),
        ("UnschedulablePodDelete", "UnscheduledPodDelete"),
        *((one, one.replace("Unschedulable", "Target")) for one in facts.SELF_LABEL_OF.values()),
        ("AssignedPodUpdatePodScaleDown", "AssignedPodUpdatePodScaleDown"),
        ("NodeAdd", "NodeAdd"),
    ],
)
def test_events_of_waiting_pods_have_other_names_since_1_37(label, since_1_37):
    """Labels of metrics: an unscheduled pod, and the pod itself that waits."""
    assert (label, since_1_37) == (
        facts.event_name(label, V1_36),
        facts.event_name(label, V1_37),
    )


def test_a_pod_that_stops_waiting_is_an_unschedulable_pod_that_goes():
    """The event has the name that kube-scheduler 1.36 gives it."""
    assert "UnschedulablePodDelete" == gave_up(make_pod("p")).label
