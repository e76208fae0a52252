"""The rights of a user of the page: checked kind by kind, and no other object is left of a
cluster.
"""

import json

import pytest

from scheduler.daemon import rights as module
from scheduler.daemon.rights import Rights, may_see_pod, rights, within
from scheduler.objects.plain import read_node, read_pod
from scheduler.snapshot.documents import SourceFile, items_of
from scheduler.snapshot.snapshot import Snapshot, read_snapshot
from scheduler.snapshot.views import sections
from scheduler.testing import node, pod

STORED = {"Service": {"a", "b"}, "Pod": {"a", "b", "c"}, "StorageClass": ()}


class Granted:
    """Answers reviews from a list of (resource, namespace), "" for everywhere."""

    def __init__(self, *allowed):
        self.allowed = allowed
        self.asked = []

    async def __call__(self, attributes):
        assert attributes["verb"] == "list"
        asked = (attributes["resource"], attributes.get("namespace", ""))
        self.asked.append(asked)
        return asked in self.allowed


async def test_who_may_list_everything_is_asked_once_per_kind():
    """The user sees every kind, without notices."""
    may = Granted(("nodes", ""), ("pods", ""), ("services", ""), ("storageclasses", ""))
    seen = await rights(may, STORED)

    assert Rights(frozenset({"Node", "Pod", "Service", "StorageClass"})) == seen
    assert len(may.asked) == 4


async def test_who_may_not_is_asked_for_each_namespace():
    """Only namespaces with objects are reviewed; a notice names the invisible ones."""
    may = Granted(("pods", "a"), ("pods", "c"), ("services", "b"), ("nodes", ""))
    seen = await rights(may, STORED)

    assert frozenset({"Node"}) == seen.everywhere
    assert {"Pod": {"a", "c"}, "Service": {"b"}} == dict(seen.namespaces)
    assert {
        "pods of 2 namespaces only: you may not list the others",
        "services of namespace b only: you may not list the others",
        "without storageclasses: you may not list them",
    } == set(seen.notices)
    assert ("storageclasses", "a") not in may.asked


async def test_a_named_namespace_is_the_only_one_asked_for():
    """If a namespace is given, no other one is reviewed."""
    may = Granted(("pods", "a"), ("pods", "b"))
    seen = await rights(may, STORED, "a")

    assert {"Pod": {"a"}} == {kind: set(where) for kind, where in seen.namespaces}
    assert ("pods", "b") not in may.asked


async def test_there_is_a_limit_to_reviews(monkeypatch):
    """Unchecked namespaces are not shown, and a notice states it."""
    monkeypatch.setattr(module, "MOST_REVIEWS", 10)
    may = Granted(*(("pods", f"n{at:02}") for at in range(30)))
    seen = await rights(may, {"Pod": {f"n{at:02}" for at in range(30)}})

    assert {f"n{at:02}" for at in range(10)} == dict(seen.namespaces)["Pod"]
    assert "10 rights were asked for, 20 were not: name a namespace" in seen.notices
    assert len(may.asked) == 12


def snapshot():
    """Return two namespaces on one node, and a service each."""
    services = [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": f"s-{where}", "namespace": where},
        }
        for where in ("a", "b")
    ]
    items = [
        node("n1"),
        *(pod(f"p-{where}", namespace=where, node_name="n1") for where in ("a", "b")),
        *(pod(f"w-{where}", namespace=where) for where in ("a", "b")),
        *services,
    ]
    return read_snapshot(items_of(SourceFile("test", json.dumps(items).encode())))


@pytest.mark.parametrize("with_nodes", [True, False])
def test_nothing_else_is_left(with_nodes):
    """The page is computed from the visible pods, objects and sums."""
    everywhere = frozenset({"Node"} if with_nodes else ())
    seen = Rights(everywhere, (("Pod", frozenset({"a"})), ("Service", frozenset({"b"}))), ("hm",))
    left = within(snapshot(), seen)

    assert ["a/p-a"] == [one.key for one in left.bound]
    assert ["a/w-a"] == [one.key for one in left.unbound]
    assert ["s-b"] == [obj.metadata.name for _, obj in left.objects]
    assert "hm" in left.notices
    drawn = sections(left, 0.0)
    assert with_nodes == ("n1" in drawn["units"])
    if with_nodes:
        assert 1 == drawn["units"]["n1"]["pods"]
    assert (True, False) == (may_see_pod(seen, "a"), may_see_pod(seen, "b"))


def test_everything_is_left_to_who_may_see_it():
    """A user with all rights gets the same objects, not copies."""
    whole = Snapshot(nodes=(read_node(node("n")),), bound=(read_pod(pod("p", node_name="n")),))

    assert whole == within(whole, Rights(frozenset({"Node", "Pod"})))
