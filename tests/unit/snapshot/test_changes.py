"""Snapshots with more or fewer nodes: moved pods, deleted pods, and refused questions."""

import pytest

from scheduler.base.errors import InputError
from scheduler.simulate.simulate import simulate
from scheduler.snapshot.changes import NodeChanges, changed
from scheduler.testing import node
from tests.unit.simulate.asking import default_setup, pod, results, snapshot

RACK = "topology.trellis.dev/rack"


def bound(name, on, owner="ReplicaSet", **more):
    """Return a pod on a node, made by some controller."""
    found = pod(name, node_name=on, requests={"cpu": "2"}, **more)
    found["metadata"]["ownerReferences"] = [
        {"apiVersion": "v1", "kind": owner, "name": "o", "uid": "o", "controller": True}
    ]
    return found


def two_racks():
    """Return two racks of one node each; every node runs a pod and one of a DaemonSet."""
    return snapshot(
        node("a", cpu="4", labels={RACK: "r0"}),
        node("b", cpu="4", labels={RACK: "r1"}),
        bound("web", "a"),
        bound("logs-a", "a", "DaemonSet"),
    )


def placed(changes):
    """Return where the pods go that had to move, or wait."""
    return results(simulate(changed(two_racks(), changes), default_setup()))


@pytest.mark.parametrize(
    "changes", [NodeChanges(removed=("a",)), NodeChanges(drained=(f"{RACK}=r0",))]
)
def test_pods_of_a_node_that_goes_are_placed_elsewhere_and_its_own_go_with_it(changes):
    """The replica moves to the other node; the DaemonSet's pod is deleted with its node."""
    assert {"web": "b"} == placed(changes)
    assert [] == list(changed(two_racks(), changes).bound)


def test_a_removed_node_is_missing_and_a_drained_one_accepts_no_pod():
    """After a drain the node is still in the cluster."""
    removed = changed(two_racks(), NodeChanges(removed=("a",)))
    drained = changed(two_racks(), NodeChanges(drained=(f"{RACK}=r0",)))
    assert ["b"] == [one.key for one in removed.nodes]
    assert [("a", True), ("b", False)] == [
        (one.key, one.spec.unschedulable) for one in drained.nodes
    ]


def test_a_rack_goes_with_its_nodes():
    """A rack is removed with its nodes, by the label that makes racks for groups; its pods move."""
    assert {"web": "b"} == placed(NodeChanges(removed_racks=("r0",)))
    assert ["b"] == [
        one.key for one in changed(two_racks(), NodeChanges(removed_racks=("r0",))).nodes
    ]


def test_added_nodes_may_be_like_one_that_is_not_there():
    """Nodes that are added like the node of a file have names made from that node's name."""
    (large,) = snapshot(node("large", cpu="64")).nodes
    more = changed(two_racks(), NodeChanges(added=("2=large.yaml",), models={"large.yaml": large}))
    assert ["a", "b", "large-added-1", "large-added-2"] == [one.key for one in more.nodes]
    assert "64" == str(more.nodes[3].status.allocatable["cpu"])


def test_without_racks_none_can_go():
    """The message names the labels that make a rack."""
    with pytest.raises(InputError, match=RACK):
        changed(snapshot(node("a")), NodeChanges(removed_racks=("r0",)))


def test_added_nodes_are_like_their_model_and_empty():
    """Two more nodes like `a` are in its rack, under free names."""
    more = changed(two_racks(), NodeChanges(added=("2=a", "1=a")))
    names = [one.key for one in more.nodes]
    assert ["a", "b", "a-added-1", "a-added-2", "a-added-3"] == names
    assert {"r0"} == {one.metadata.labels[RACK] for one in more.nodes if one.key.startswith("a")}
    assert len({one.metadata.labels.get("kubernetes.io/hostname") for one in more.nodes[2:]}) == 3


@pytest.mark.parametrize(
    ("changes", "reported"),
    [
        (NodeChanges(removed=("c",)), "there is no node 'c'"),
        (NodeChanges(removed_racks=("r7",)), "there is no rack 'r7'"),
        (NodeChanges(added=("9" * 5000 + "=a",)), "between 1 and"),
        (NodeChanges(drained=("rack",)), "LABEL=VALUE"),
        (NodeChanges(drained=("rack=r7",)), "no node has the label rack=r7"),
        (NodeChanges(added=("a",)), "COUNT=NODE"),
        (NodeChanges(added=("0=a",)), "between 1 and"),
        (NodeChanges(added=("99999999999999999999=a",)), "between 1 and"),
        (NodeChanges(added=("1=z",)), "there is no node 'z'"),
    ],
)
def test_what_cannot_be_asked_is_named(changes, reported):
    """The text names the mistake."""
    with pytest.raises(InputError, match=reported):
        changed(two_racks(), changes)
