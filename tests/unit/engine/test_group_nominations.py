"""Nominations of groups' members, and when they are cleared."""

import pytest

from scheduler.objects.groups.podgroup import PodGroup, PodGroupSpec
from scheduler.objects.meta import AnnotatedMeta
from tests.property.engines import build
from tests.property.making import make_node, make_pod, with_spec
from tests.property.rig import Rig

LABELS = {"scheduling.x-k8s.io/pod-group": "g"}


def test_all_members_of_a_less_important_group_are_evicted():
    """A group counts as its least important member; the remaining ones would count for more, and
    stay.
    """
    rig = Rig(build)
    rig.api.put("Node", make_node("n0", cpu=3))
    rig.api.put("Pod", make_pod("low", uid="low", cpu=3, node="n0"))
    meta = AnnotatedMeta(name="g", namespace="default", uid="g")
    rig.api.put("PodGroup", PodGroup(meta, PodGroupSpec(4)))
    for name, priority in (("a", 2), ("b", 1), ("c", 2)):
        member = make_pod(name, uid=name, priority=priority, labels=LABELS, nominated="n0")
        rig.api.put("Pod", member)
    rig.api.put("Pod", make_pod("boss", uid="boss", cpu=3, priority=2))
    for kind in rig.kinds:
        rig.watch(kind)
    assert {"a", "b", "c"} == set(rig.engine.nominations.on("n0"))

    rig.run()
    assert {"boss"} == set(rig.engine.nominations.on("n0"))


@pytest.mark.parametrize("policy", ["Never", "PreemptLowerPriority"])
def test_pods_that_may_not_evict_leave_a_groups_capacity(policy: str):
    """A pod that may evict takes the capacity, as it could have freed it.

    The other waits, and is placed without the group.
    """
    rig = Rig(build)
    rig.api.put("Node", make_node("n0", cpu=2))
    rig.api.put("Pod", make_pod("old", uid="old", cpu=2, node="n0"))
    meta = AnnotatedMeta(name="g", namespace="default", uid="g")
    rig.api.put("PodGroup", PodGroup(meta, PodGroupSpec(2)))
    for name in ("a", "b"):
        rig.api.put("Pod", make_pod(name, uid=name, priority=1, labels=LABELS))
    turns(rig, 10)
    assert {"a", "b"} == set(rig.engine.nominations.on("n0"))

    keen = make_pod("keen", uid="keen", priority=9)
    rig.api.put("Pod", with_spec(keen, preemption_policy=policy))
    rig.api.remove("Pod", "default/old")
    rig.calm()

    bound = {pod.metadata.name for pod in rig.api.pods.values() if pod.spec.node_name}
    assert ({"a", "b"} if policy == "Never" else {"keen"}) == bound
    if policy == "Never":
        rig.api.remove("Pod", "default/b")
        rig.api.remove("Pod", "default/a")
        rig.calm()
        assert "n0" == rig.api.pods["default/keen"].spec.node_name


def turns(rig: Rig, number: int) -> None:
    """Run this many turns of the engine, with all their effects."""
    for _ in range(number):
        rig.run()
        while rig.wire:
            rig.perform(0)
        while rig.answers:
            rig.deliver(0)
        for kind in rig.kinds:
            rig.watch(kind)
