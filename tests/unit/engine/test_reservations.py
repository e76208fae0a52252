"""Destinations that MovePlans reserve: for the owner's next pod, against every other pod."""

from typing import Any

import pytest
from msgspec.structs import replace

from scheduler.base.clock import rfc3339
from scheduler.config import default_config
from scheduler.engine.effects import Answer, Bind, Solve, Watched
from scheduler.engine.engine import Engine
from scheduler.framework.registry import Registry
from scheduler.groups.solver.questions import answer
from scheduler.intree import IN_TREE
from scheduler.objects.groups.podgroup import PodGroup, PodGroupSpec
from scheduler.objects.meta import AnnotatedMeta, ObjectMeta
from scheduler.objects.moves.moveplan import MoveOwner, MovePlan, MovePlanStatus, PlannedMove
from scheduler.objects.plain import read_node, read_pod
from scheduler.objects.pod import ContainerPort
from scheduler.testing import node, pod

NOW = 1_800_000_000.0
END = NOW + 600


def owned(name, owner="web", on="", cpu="2", priority=0, port=None):
    """A pod of a controller, with a host port if one is given."""
    raw = pod(name, requests={"cpu": cpu})
    if port:
        raw["spec"]["containers"][0]["ports"] = [port]
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
        for one in [one for one in effects if isinstance(one, Solve)]:
            self.engine.handle(Answer(one.id, 200, body=answer(one.instance)), self.now)
            effects += self.engine.run(self.now, 64)
        return {one.name: one.node for one in effects if isinstance(one, Bind)}


def test_only_the_owners_pod_takes_the_destination():
    """Pods of any priority leave it free; the replacement is placed there first."""
    at = Cluster().put("MovePlan", plan(count=2))
    at.put("Pod", owned("rude", "other", priority=2_000_000_000))

    assert at.bound() == {}
    at.put("Pod", owned("web-1"), owned("web-2"), owned("web-3"))
    assert at.bound() == {"web-1": "n1", "web-2": "n1"}


@pytest.mark.parametrize("is_lost", [False, True])
def test_the_host_ports_of_a_moved_pod_are_reserved(is_lost):
    """On the destination, and on the node that the pod leaves: no other pod takes them there."""
    port = {"containerPort": 80, "hostPort": 80}
    ports = (ContainerPort(host_port=80),)
    at = Cluster()
    at.gone("Pod", owned("full", "other", on="n2", cpu="4"))
    if is_lost:
        at.put("Pod", owned("taker", "other", on="n1", cpu="4"))
    at.put("MovePlan", plan("Evicted", requests={"cpu": "1"}, host_ports=ports))
    for number, priority in enumerate((0, 1000)):
        at.put("Pod", owned(f"rude-{number}", "other", cpu="1", port=port, priority=priority))
    at.put("Pod", owned("modest", "other", cpu="1", port={**port, "hostPort": 81}))
    assert list(at.bound()) == ["modest"]

    at.now += 20
    at.put("Pod", owned("web-1", cpu="1", port=port))
    after = {"web-1": "n2"} if is_lost else {"web-1": "n1", "rude-1": "n2"}
    assert at.bound() == after


@pytest.mark.parametrize("state", ["Planned", "Done"])
def test_a_move_in_another_state_reserves_nothing(state):
    """Only a reserved or evicted pod has a reservation."""
    at = Cluster().put("MovePlan", plan(state)).put("Pod", owned("rude", "other", cpu="4"))

    assert at.bound() == {"rude": "n1"}


@pytest.mark.parametrize("how", ["deleted", "aborted", "deadline"])
def test_what_ends_a_reservation_wakes_the_pods_that_waited(how):
    """When the plan is deleted or aborted, or its deadline passes, a waiting pod is bound."""
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


@pytest.mark.parametrize("how", ["filled", "lost"])
def test_a_destination_that_is_taken_leaves_the_source_to_the_replacement(how):
    """Another scheduler fills the destination, or its node is deleted, after the eviction: no pod
    of any priority takes the node that the evicted pod leaves.
    """
    at = Cluster()
    at.gone("Pod", owned("full", "other", on="n2", cpu="4"))
    at.put("MovePlan", plan("Evicted", requests={"cpu": "4"}))
    if how == "filled":
        at.put("Pod", owned("rude", "other", on="n1", cpu="4"))
    else:
        at.gone("Node", read_node(node("n1", cpu="4")))
    at.put("Pod", owned("train", "train", cpu="4", priority=1000))

    assert at.bound() == {}
    assert at.put("Pod", owned("web-1", cpu="4")).bound() == {"web-1": "n2"}


def test_the_source_is_free_once_the_replacement_is_placed():
    """The waiting pod of the goal is tried again without another event."""
    at = Cluster()
    at.gone("Pod", owned("full", "other", on="n2", cpu="4"))
    at.put("MovePlan", plan("Evicted", requests={"cpu": "4"}))
    at.put("Pod", owned("train", "train", cpu="4"))
    assert at.bound() == {}

    at.now += 20
    assert at.put("Pod", owned("web-1", cpu="4")).bound() == {"web-1": "n1", "train": "n2"}


def test_a_scale_up_does_not_take_the_destination_before_the_eviction():
    """While the moved pod runs, its owner's new pods leave the reservation to its replacement."""
    at = Cluster()
    at.gone("Pod", owned("full", "other", on="n2", cpu="4"))
    running = owned("old-0", on="n2", cpu="4")
    at.put("Pod", running).put("MovePlan", plan(requests={"cpu": "4"}))

    assert at.put("Pod", owned("web-1", cpu="4")).bound() == {}
    leaving = replace(running.metadata, deletion_timestamp=rfc3339(NOW))
    at.put("Pod", replace(running, metadata=leaving), owned("web-2", cpu="4"))
    at.now += 20
    assert len(at.bound()) == 1


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
    assert at.put("Pod", owned("web-7", cpu="4")).bound() == {"web-7": "n1"}


def grouped(name, **fields):
    """Return a member of the gang `g`, whose pods one Job creates."""
    found = owned(name, **fields)
    labels = {"scheduling.x-k8s.io/pod-group": "g"}
    return replace(found, metadata=replace(found.metadata, labels=labels))


@pytest.mark.parametrize("cpu", ["1", "2"])
def test_a_group_takes_the_destinations_of_all_its_members(cpu):
    """Together, although each member counts the others' reservations against itself.

    A node with more free capacity is not used: other pods may wait for it.
    """
    meta = AnnotatedMeta(name="g", namespace="default", uid="g")
    at = Cluster().put("PodGroup", PodGroup(meta, PodGroupSpec(3)))
    at.put("Node", read_node(node("n3", cpu="4")), read_node(node("n0", cpu="64")))
    moves = plan(count=3, unit="default/g", requests={"cpu": cpu})
    targets = ["n1", "n1", "n3"]
    status = replace(
        moves.status,
        moves=tuple(
            replace(move, target=target)
            for move, target in zip(moves.status.moves, targets, strict=True)
        ),
    )
    at.put("MovePlan", replace(moves, status=status))
    at.put("Pod", grouped("g-0", cpu=cpu), grouped("g-1", cpu=cpu))
    assert at.bound() == {}
    at.put("Pod", grouped("g-2", cpu=cpu))

    assert sorted(at.bound().values()) == targets
    assert not at.engine.nominations


def test_a_group_whose_destinations_are_taken_is_placed_elsewhere():
    """The owner of the pods was recreated with the same name; one destination is missing."""
    meta = AnnotatedMeta(name="g", namespace="default", uid="g")
    at = Cluster().put("PodGroup", PodGroup(meta, PodGroupSpec(2)))
    at.put("Node", read_node(node("n0", cpu="4")))
    moves = plan(count=2, unit="default/g", owner=MoveOwner("ReplicaSet", "web", "before"))
    at.put("MovePlan", moves).put("Pod", owned("rude", "other", on="n1"))
    at.put("Pod", grouped("g-0"), grouped("g-1"))

    assert list(at.bound()) == ["g-0", "g-1"]


def test_a_moved_group_leaves_its_source_to_the_waiting_pod():
    """The waiting pod of the goal is tried again when the group has taken its destinations."""
    meta = AnnotatedMeta(name="g", namespace="default", uid="g")
    at = Cluster().put("PodGroup", PodGroup(meta, PodGroupSpec(2)))
    at.gone("Pod", owned("full", "other", on="n2", cpu="4"))
    at.put("MovePlan", plan("Evicted", count=2, unit="default/g", requests={"cpu": "1"}))
    at.put("Pod", owned("train", "train", cpu="4"))
    assert at.bound() == {}

    at.now += 20
    at.put("Pod", grouped("g-0", cpu="1"), grouped("g-1", cpu="1"))
    placed = at.bound()
    at.now += 20
    assert placed | at.bound() == {"g-0": "n1", "g-1": "n1", "train": "n2"}
