"""The operators' view of the cluster, and its wake-ups."""

from scheduler.objects.meta import ObjectMeta
from scheduler.objects.workloads import Namespace, NamespaceMeta, Service
from scheduler.state.change import NOTHING
from scheduler.state.cluster import Cluster
from scheduler.state.store import object_key
from scheduler.state.view import LiveView
from tests.property.making import make_node, make_pod


def test_it_shows_the_live_cluster():
    """Nodes, placed pods and other objects, as they are now."""
    cluster = Cluster()
    view = LiveView(cluster)
    cluster.put_node(make_node("a"))
    cluster.put_node(make_node("b"))
    cluster.drop_node("a")
    cluster.put_pod(make_pod("p", node="b"))
    cluster.put_object("Service", Service(ObjectMeta(name="s", namespace="n")))

    assert 1 == view.node_count()
    assert ["b"] == [node.key for node in view.nodes()]
    assert ["p"] == [placed.pod.metadata.name for placed in view.pods()]
    assert ["n/s"] == list(view.objects("Service"))
    assert [] == list(view.objects("Unheard"))


def test_changes_wake_once_per_batch():
    """A subscriber of a kind is woken once per batch, until it leaves."""
    cluster = Cluster()
    view = LiveView(cluster)
    woken: list[str] = []
    leave = view.changes(("Node",), lambda: woken.append("nodes"))
    view.changes(("Pod", "Service"), lambda: woken.append("others"))

    view.flush()
    assert [] == woken
    for name in ("a", "b"):
        view.note(cluster.put_node(make_node(name)))
    view.flush()
    view.flush()
    assert ["nodes"] == woken

    leave()
    leave()
    view.note(cluster.put_node(make_node("c")))
    view.note(cluster.put_pod(make_pod("p", node="a")))
    view.flush()
    assert ["nodes", "others"] == woken


def test_objects_without_columns():
    """Added, replaced, dropped; dropping a missing object is no change."""
    cluster = Cluster()
    first = Namespace(NamespaceMeta(name="n"))
    second = Namespace(NamespaceMeta(name="n", labels={"a": "b"}))
    assert "n" == object_key(first)

    added = cluster.put_object("Namespace", first)
    changed = cluster.put_object("Namespace", second)
    gone = cluster.drop_object("Namespace", second)
    assert ("add", "NamespaceAdd", None) == (added.verb, added.label, added.old)
    assert ("update", first, second) == (changed.verb, changed.old, changed.new)
    assert ("delete", second, frozenset({"Namespace"})) == (gone.verb, gone.old, gone.facts)
    assert cluster.drop_object("Namespace", second) is NOTHING
