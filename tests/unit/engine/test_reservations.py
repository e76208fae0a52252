"""Destinations that MovePlans reserve: for the owner's next pod, against every other pod."""

from typing import Any

import pytest

from scheduler.base.clock import rfc3339
from scheduler.config import default_config
from scheduler.engine.effects import Bind, Watched
from scheduler.engine.engine import Engine
from scheduler.framework.registry import Registry
from scheduler.intree import IN_TREE
from scheduler.objects.meta import ObjectMeta
from scheduler.objects.moveplan import MoveOwner, MovePlan, MovePlanStatus, PlannedMove
from scheduler.objects.plain import read_node, read_pod
from scheduler.testing import node, pod

NOW = 1_800_000_000.0
END = NOW + 600


def owned(name, owner="web", on="", cpu="2", priority=0):
    """A pod of a controller."""
    raw = pod(name, requests={"cpu": cpu})
    raw["spec"] |= {"schedulerName": "trellis", "priority": priority, "nodeName": on}
    raw["metadata"]["uid"] = name
    raw["metadata"]["ownerReferences"] = [
        {"kind": "ReplicaSet", "name": owner, "uid": owner, "controller": True}
    ]
    return read_pod(raw)


def plan(state="Reserved", phase="Executing", *, count=1, present=(), **move):
    """A plan that moves pods of `web` to `n1`."""
    fields: Any = {"owner": MoveOwner("ReplicaSet", "web", "web"), "requests": {"cpu": "2"}} | move
    moves = tuple(
        PlannedMove(
            "default", f"old-{at}", f"old-{at}", "n2", "n1",
            state=state, deadline=rfc3339(END), present=present, **fields,
        )
        for at in range(count)
    )  # fmt: skip
    return MovePlan(
        ObjectMeta("defragment", uid="plan"), status=MovePlanStatus(phase=phase, moves=moves)
    )


class Cluster:
    """An engine with two nodes of 4 cpu; `n2` is full."""

    def __init__(self):
        registry = Registry(IN_TREE)
        self.engine = Engine(default_config(registry).profiles, registry)
        self.now = NOW
        self.put("Node", read_node(node("n1", cpu="4")), read_node(node("n2", cpu="4")))
        self.put("Pod", owned("full", "other", on="n2", cpu="4"))

    def put(self, kind, *objects):
        """Show objects."""
        for one in objects:
            self.engine.handle(Watched(kind, "ADDED", one), self.now)
        return self

    def gone(self, kind, one):
        """Show that an object is deleted."""
        self.engine.handle(Watched(kind, "DELETED", one), self.now)
        return self

    def bound(self):
        """Return the pods that are bound now, with their nodes."""
        effects = self.engine.run(self.now, 64)
        return {one.name: one.node for one in effects if isinstance(one, Bind)}


def test_only_the_owners_pod_takes_the_destination():
    """A pod of any priority leaves it free; the replacement goes there first."""
    at = Cluster().put("MovePlan", plan(count=2))
    at.put("Pod", owned("rude", "other", priority=2_000_000_000))

    assert at.bound() == {}
    at.put("Pod", owned("web-1"), owned("web-2"), owned("web-3"))
    assert at.bound() == {"web-1": "n1", "web-2": "n1"}


@pytest.mark.parametrize("state", ["Planned", "Done"])
def test_a_move_in_another_state_reserves_nothing(state):
    """Only a reserved or evicted pod has a reservation."""
    at = Cluster().put("MovePlan", plan(state)).put("Pod", owned("rude", "other", cpu="4"))

    assert at.bound() == {"rude": "n1"}


@pytest.mark.parametrize("how", ["deleted", "aborted", "deadline"])
def test_what_ends_a_reservation_wakes_the_pods_that_waited(how):
    """The plan is deleted or aborted, or the deadline passes: another pod is bound."""
    at = Cluster().put("MovePlan", plan()).put("Pod", owned("rude", "other", cpu="4"))
    assert at.bound() == {}
    assert at.engine.next_wakeup() is not None

    at.now += 100
    if how == "deleted":
        at.gone("MovePlan", plan())
    elif how == "aborted":
        at.put("MovePlan", plan(phase="Aborted"))
    else:
        assert at.engine.next_wakeup() <= END
        at.now = END
    at.engine.run(at.now, 0)
    at.now += 20
    assert at.bound() == {"rude": "n1"}


def test_a_new_engine_derives_the_same_reservations():
    """After a restart the replacement that is bound already counts once, not twice."""
    at = Cluster().put("Pod", owned("web-1", on="n1")).put("MovePlan", plan("Evicted"))
    assert at.put("Pod", owned("rude", "other")).bound() == {"rude": "n1"}

    other = Cluster().put("Pod", owned("web-0", on="n1"))
    other.put("MovePlan", plan("Evicted", present=("web-0",)))
    assert other.put("Pod", owned("rude", "other")).bound() == {}


def test_a_replacement_that_goes_away_leaves_the_reservation():
    """The owner's next pod gets the destination."""
    at = Cluster().put("MovePlan", plan())
    first = owned("web-1")
    assert at.put("Pod", first).bound() == {"web-1": "n1"}
    at.gone("Pod", owned("web-1", on="n1"))

    at.put("Pod", owned("rude", "other", cpu="4"))
    assert at.bound() == {}
    assert at.put("Pod", owned("web-2")).bound() == {"web-2": "n1"}


def test_a_pod_of_a_stateful_set_needs_the_same_name():
    """Name and owner decide; another ordinal has no reservation."""
    owner = MoveOwner("StatefulSet", "web", "web")
    at = Cluster().put("MovePlan", plan(owner=owner, ordinal="web-7", requests={"cpu": "4"}))

    assert at.put("Pod", owned("web-6")).bound() == {}
    assert at.put("Pod", owned("web-7")).bound() == {"web-7": "n1"}
