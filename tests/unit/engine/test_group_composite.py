"""Groups of groups in the engine: the order of objects and pods, joint evictions, and reports."""

from __future__ import annotations

import gc
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from scheduler.base import sweep
from scheduler.engine.effects import Answer, Bind, Call, Evict, Record, Solve, Watched
from scheduler.groups.status.innergroups import InnerGroupWriter
from scheduler.objects.groups.podgroup import CompositePodGroup, WorkloadGroup
from scheduler.objects.pod import Pod
from tests.property.making import make_node
from tests.unit.engine.test_groups import Floor
from tests.unit.engine.test_measured import seen
from tests.unit.plugins.compositeobjects import composite, leaf, pods

STRUCTS: dict[str, tuple[str, type[Any]]] = {
    "Pod": ("Pod", Pod),
    "PodGroup": ("PodGroup.v1alpha3", WorkloadGroup),
    "CompositePodGroup": ("CompositePodGroup", CompositePodGroup),
}


def handle(floor: Floor, *objects: dict[str, Any], how: str = "ADDED") -> None:
    """Deliver objects to an engine as a watch does."""
    for one in objects:
        kind, struct = STRUCTS[one["kind"]]
        one["metadata"].setdefault("uid", f"uid-{one['metadata']['name']}")
        floor.handle(Watched(kind, how, msgspec.convert(one, struct)))


def settle(floor: Floor) -> list[Any]:
    """Run the engine until no work is left; return its effects."""
    effects = floor.run()
    found: list[Any] = list(effects)
    while effects:
        for solve in [one for one in effects if isinstance(one, Solve)]:
            floor.solve(solve)
        effects = floor.run()
        found += effects
    return found


def bound(effects: list[Any]) -> set[str]:
    return {one.name for one in effects if isinstance(one, Bind)}


def test_objects_may_come_in_any_order():
    """Pods arrive first, then their groups, and the root last: the solver is called once, and all
    pods are bound.
    """
    floor = Floor(nodes=2, size=0)
    handle(floor, *pods("g", 2), *pods("h", 2))
    assert not bound(settle(floor))
    handle(floor, leaf("g", 2, "app"))
    assert not bound(settle(floor))
    handle(floor, leaf("h", 2, "app"))
    assert not bound(settle(floor))
    handle(floor, composite("app", 2))

    assert {"g-0", "g-1", "h-0", "h-1"} == bound(settle(floor))
    groups: Any = floor.engine.groups
    kept = groups._members
    assert [] == kept.waiting("podgroup:default/g")


def test_evicted_members_get_an_event_with_their_group_and_the_root():
    """The pods of one child are evicted: the child and the root get an event with the preemptor.

    The other child gets none.
    """
    floor = Floor(nodes=0, size=0)
    for name in ("n0", "n1"):
        floor.handle(Watched("Node", "ADDED", make_node(name, cpu=2)))
    handle(floor, composite("app", 1))
    for name, node in (("g", "n0"), ("h", "n1")):
        handle(floor, leaf(name, 2, "app", mode="all"), *pods(name, 2, on=node))
    asking = [*pods("vip", 2), leaf("vip", 2)]
    for one in asking:
        one["spec"]["priority"] = 9
    handle(floor, *asking)
    found = settle(floor)
    gone = {one.name for one in found if isinstance(one, Evict)}
    reported = {
        (one.kind, one.name)
        for one in found
        if isinstance(one, Record) and one.reason == "GroupPreempted"
    }

    assert gone in ({"g-0", "g-1"}, {"h-0", "h-1"})
    (name,) = {pod.partition("-")[0] for pod in gone}
    assert {("CompositePodGroup", "app"), ("PodGroup", name)} == reported


def test_a_preemption_by_a_group_of_groups_has_a_label_of_its_own():
    """Victims, disruptions and evictions count for `compositepodgroup`; texts have the plain name.

    kube-scheduler: the search for victims counts for `podgroup`.
    """
    floor = Floor(nodes=0, size=0)
    floor.handle(Watched("Node", "ADDED", make_node("n0", cpu=2)))
    handle(floor, leaf("old", 2, mode="all"), *pods("old", 2, on="n0"))
    asking = [composite("app", 1), leaf("g", 2, "app"), *pods("g", 2)]
    for one in asking:
        one["spec"]["priority"] = 9
    handle(floor, *asking)
    found = settle(floor)
    evictions = [one for one in found if isinstance(one, Evict)]
    for evict in evictions:
        floor.handle(Answer(evict.id, 200))
    meters = floor.engine.observation.meters
    notes = [one.note for one in found if isinstance(one, Record) and one.reason == "Preempting"]

    assert {"old-0", "old-1"} == {one.name for one in evictions}
    assert "for the group default/app by evicting 2 pods" in notes[0]
    for name in ("workload_disruptions", "execution_duration_seconds"):
        labels = seen(meters, f"scheduler_preemption_{name}")
        assert {"compositepodgroup"} == {one[0] for one in labels}, name
    assert {("podgroup", "Success"): 1} == seen(
        meters, "scheduler_preemption_evaluation_duration_seconds"
    )


def test_no_group_in_a_group_begins_with_fewer_than_it_needs():
    """One bind of each child is rejected. The large child has one surplus member, the other none,
    and the root needs both.
    """
    floor = Floor(nodes=2, size=0)
    handle(floor, composite("app", 2), leaf("g", 2, "app"), leaf("h", 2, "app"))
    handle(floor, *pods("g", 3), *pods("h", 2))
    binds = {one.name: one for one in settle(floor) if isinstance(one, Bind)}
    assert 5 == len(binds)
    floor.handle(Answer(binds["g-0"].id, 403, "", "no"))
    assert not floor.engine.objection(binds["g-1"])
    floor.handle(Answer(binds["h-0"].id, 403, "", "no"))

    wanted = "the group default/app must not begin: app has 1 of the 2 groups it needs: "
    wanted += "h has 1 of the 2 pods it needs"
    assert wanted == floor.engine.objection(binds["g-1"])
    assert wanted == floor.engine.objection(binds["h-1"])


def test_a_group_that_joins_one_that_runs_does_not_begin_with_fewer_than_it_needs():
    """The running members meet the root's minimum. One bind of a child that arrives later is
    rejected, so that child is not started.
    """
    floor = Floor(nodes=2, size=0)
    handle(floor, composite("app", 1), leaf("g", 2, "app"), *pods("g", 2, on="n0"))
    handle(floor, leaf("h", 2, "app"), *pods("h", 2))
    binds = {one.name: one for one in settle(floor) if isinstance(one, Bind)}
    assert {"h-0", "h-1"} == set(binds)
    floor.handle(Answer(binds["h-0"].id, 403, "", "no"))

    wanted = "the group default/app must not begin: h has 1 of the 2 pods it needs"
    assert wanted == floor.engine.objection(binds["h-1"])


def words(effects: list[Any], group: str) -> list[str]:
    """Return the messages of a group of pods that is not placed, in order."""
    about = f"/podgroups/{group}/status"
    bodies = [one.body for one in effects if isinstance(one, Call) and one.path.endswith(about)]
    reported = [one for body in bodies for one in body["status"]["conditions"]]
    return [one["message"] for one in reported if one["status"] == "False"]


@pytest.mark.parametrize(
    ("least", "expected_text"),
    [
        (1, "has its minimum without this one"),
        (2, "is not complete: app has 1 of the 2 groups it needs: h has 0 of the 2 pods it needs"),
    ],
)
def test_an_unplaced_group_gets_a_condition_about_its_root(least: int, expected_text: str):
    """A pod of g is replaced while h has no capacity: the bound pods determine whether the root has
    its minimum.
    """
    floor = Floor(nodes=0, size=0)
    floor.handle(Watched("Node", "ADDED", make_node("n0", cpu=2)))
    handle(floor, composite("app", least), leaf("g", 2, "app"), leaf("h", 2, "app"))
    handle(floor, *pods("g", 1, on="n0"), *pods("g", 1, first=1), *pods("h", 2))
    found = settle(floor)
    for bind in [one for one in found if isinstance(one, Bind)]:
        floor.handle(Answer(bind.id, 201))
    found += settle(floor)

    assert {"g-1"} == bound(found)
    assert [f"the group default/app {expected_text}"] == words(found, "h")[-1:]


def kept(writers: Iterable[InnerGroupWriter]) -> int:
    """Return the number of groups with stored messages."""
    return sum(len(one._reported) + len(one._final) for one in writers)


def test_records_of_subgroup_conditions_are_deleted_with_the_subgroups(
    monkeypatch: pytest.MonkeyPatch,
):
    """After many groups of groups were created, reported and deleted, no more is stored than after
    a few.
    """
    monkeypatch.setattr(sweep, "LEAST_KEPT", 4)
    floor = Floor(nodes=1, size=0)
    # Looked for once: a search of all objects takes long in a process that ran many tests.
    writers = [one for one in gc.get_objects() if type(one) is InnerGroupWriter]
    assert writers
    before, most = kept(writers), 0
    for number in range(20):
        root, one, other = (f"{name}{number}" for name in "agh")
        there = [composite(root, 1), leaf(one, 2, root), leaf(other, 4, root)]
        there += [*pods(one, 2), *pods(other, 4)]
        handle(floor, *there)
        for bind in [effect for effect in settle(floor) if isinstance(effect, Bind)]:
            floor.handle(Answer(bind.id, 201))
        for pod in pods(one, 2, on="n0"):
            handle(floor, pod, how="MODIFIED")
        settle(floor)
        most = max(most, kept(writers) - before)
        handle(floor, *there, how="DELETED")
        floor.now += 10
        settle(floor)

    assert 4 < most <= 12
    assert kept(writers) - before <= 8
