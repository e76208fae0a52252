"""A group that shrinks for several preemptors in quick succession: never below its minimum.

The preemptors are groups of one, or single pods.
"""

import pytest

from scheduler.engine.effects import Evict, Watched
from tests.property.engines import build
from tests.property.making import make_node, make_pod
from tests.property.rig import Rig
from tests.property.unitcluster import CONFIG_MAP_LABEL, POD_GROUP_LABEL, describe


def full_of_an_elastic_group(least: int) -> Rig:
    """Return three nodes with a member each of a group that needs only `least` of them."""
    rig = Rig(build)
    rig.api.put("PodGroup", describe("PodGroup", "elastic", least, None))
    for number in range(3):
        rig.api.put("Node", make_node(f"n{number}", cpu=1))
        labels = {POD_GROUP_LABEL: "elastic"}
        rig.api.put("Pod", make_pod(f"e{number}", cpu=1, node=f"n{number}", labels=labels))
    for kind in rig.kinds:
        rig.watch(kind)
    return rig


def ask(rig: Rig, name: str, *, alone: bool) -> None:
    """Create a pod of higher priority: without a group if `alone`, else in a group of its own."""
    if alone:
        rig.handle(Watched("Pod", "ADDED", make_pod(f"{name}-0", cpu=1, priority=15)))
        return
    labels = {CONFIG_MAP_LABEL: name}
    rig.api.put("GroupConfigMap", describe("GroupConfigMap", name, 1, 15))
    rig.watch("GroupConfigMap")
    # Reported before the events of other pods meanwhile.
    rig.handle(Watched("Pod", "ADDED", make_pod(f"{name}-0", cpu=1, priority=15, labels=labels)))


def go_on(rig: Rig, *, evict: bool) -> None:
    """Carry out the effects in flight, evictions only with `evict`; their pods are not reported as
    deleted.
    """
    for _ in range(8):
        rig.run()
        for place in reversed(range(len(rig.wire))):
            if evict or not isinstance(rig.wire[place], Evict):
                rig.perform(place)
        while rig.answers:
            rig.deliver(0)


def evicted(rig: Rig) -> set[str]:
    """Return the members that have an eviction event."""
    return {r.name for r in rig.api.records if r.reason == "Preempted" and r.kind == "Pod"}


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("answered", [False, True])
def test_the_second_one_counts_who_goes_for_the_first(answered: bool, alone: bool):
    """The group's surplus is used up once its member is being evicted, reported or not."""
    rig = full_of_an_elastic_group(2)
    ask(rig, "first", alone=alone)
    go_on(rig, evict=answered)
    assert 1 == len(evicted(rig))

    ask(rig, "second", alone=alone)
    go_on(rig, evict=answered)
    assert {"e0", "e1", "e2"} == evicted(
        rig
    )  # the group ends: with one member left it would be below its minimum


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("answered", [False, True])
def test_two_members_to_spare_are_for_two(answered: bool, alone: bool):
    """The second preemptor evicts the other one, and the group continues with its minimum."""
    rig = full_of_an_elastic_group(1)
    for name in ("first", "second"):
        ask(rig, name, alone=alone)
        go_on(rig, evict=answered)

    assert 2 == len(evicted(rig))


def test_two_pods_that_come_at_once_are_two():
    """The second is decided before any effect of the first is carried out."""
    rig = full_of_an_elastic_group(2)
    for name in ("first", "second"):
        ask(rig, name, alone=True)
    rig.run()
    rig.run()
    go_on(rig, evict=False)

    assert {"e0", "e1", "e2"} == evicted(rig)
