"""The changes of placed pods, for trackers and for waiting pods."""

from scheduler.state.change import NOTHING
from scheduler.state.cluster import Cluster
from tests.property.making import make_node, make_pod, with_spec


def cluster_with_assumed() -> Cluster:
    """Return a cluster that has assumed the pod `p` on the node `a`."""
    cluster = Cluster()
    cluster.put_node(make_node("a"))
    cluster.put_node(make_node("b"))
    change = cluster.assume(make_pod("p"), "a")
    assert ("add", frozenset()) == (change.verb, change.facts)
    return cluster


def test_a_confirmed_pod_is_new_to_those_who_wait():
    """The assumed pod was not announced: only now may it satisfy an affinity."""
    cluster = cluster_with_assumed()
    change = cluster.put_pod(with_spec(make_pod("p"), node_name="a"))

    assert ("add", None, {"pod.added"}) == (change.verb, change.old, set(change.facts))
    assert change.before is not None
    assert change.before.assumed
    assert change.after is not None
    assert not change.after.assumed


def test_a_pod_that_was_bound_elsewhere_comes_and_goes():
    """The pod appears on that node, and the assumed node is free again."""
    cluster = cluster_with_assumed()
    change = cluster.put_pod(with_spec(make_pod("p"), node_name="b"))

    assert {"pod.added", "pod.deleted"} == set(change.facts)
    assert change.old is not None
    assert [0, 1] == cluster.table.requested("pods").tolist()


def test_a_confirmed_pod_cannot_be_forgotten():
    """A pod that the API server reported as bound cannot be forgotten by the scheduler."""
    cluster = cluster_with_assumed()
    cluster.put_pod(with_spec(make_pod("p"), node_name="a"))

    assert cluster.forget("uid-p") is NOTHING
    assert 1 == len(cluster.pods)


def test_rows_made_beforehand_take_nodes_in_order():
    """Reserved rows hold no node until one is added; freed rows are used before new ones."""
    ready, plain = Cluster(), Cluster()
    ready.table.reserve(2)
    zones = ready.table.labels.column("zone")
    assert [False, False] == ready.table.exists.tolist()
    assert [-1, -1] == zones.ids.tolist()
    for cluster in (ready, plain):
        for name in "abc":
            cluster.put_node(make_node(name, labels={"zone": name}, cpu=ord(name)))
        cluster.drop_node("b")
        cluster.table.reserve(1)
        cluster.put_node(make_node("d"))

    assert ["a", "d", "c"] == ready.table.names.tolist()
    assert ready.table.rows == plain.table.rows
    assert ready.table.allocatable("cpu").tolist() == plain.table.allocatable("cpu").tolist()
    assert ["a", None, "c"] == [zones.values[n] if n >= 0 else None for n in zones.ids.tolist()]
