"""No event during an attempt is missed, and a pod's own failure does not wake it."""

from scheduler.engine.effects import Bind
from scheduler.engine.engine import Engine
from scheduler.engine.queue.pod import Where
from scheduler.framework.args import NoArgs
from scheduler.framework.cycle import Cycle
from scheduler.framework.plugin import Plugin
from scheduler.framework.registry import Registry
from scheduler.framework.status import Status, unschedulable
from scheduler.objects.meta import ObjectMeta
from scheduler.objects.workloads import Service
from tests.property.making import make_node, make_pod, with_meta
from tests.property.rig import Rig
from tests.property.tinyplugins import ALL, spec_of


def rig_with(**labels: str) -> Rig:
    """Return a rig with one node and a pod in flight."""
    rig = Rig()
    rig.api.put("Node", make_node("n0", cpu=2))
    rig.api.put("Pod", make_pod("p", labels=labels))
    rig.watch("Node")
    rig.watch("Pod")
    rig.run()
    return rig


def test_a_pods_own_update_during_its_attempt_counts_afterwards():
    """The label that made Doorman wait is removed before the wait times out: the pod is retried at
    once.
    """
    rig = rig_with(permit="wait")
    pod = rig.api.pods["default/p"]
    rig.api.put("Pod", with_meta(pod, labels={}))
    rig.watch("Pod")
    rig.pass_time(30)
    rig.run(0)

    assert rig.where("p") in (Where.ACTIVE, Where.BACKOFF)


def test_another_pods_update_does_not_count():
    """An update of one pod is irrelevant to another in flight."""
    rig = rig_with(permit="wait")
    rig.api.put("Pod", make_pod("q", labels={"permit": "wait"}))
    rig.watch("Pod")
    rig.run()
    rig.api.put("Pod", with_meta(rig.api.pods["default/q"], labels={}))
    rig.watch("Pod")
    rig.pass_time(30)
    rig.run(0)

    assert Where.UNSCHEDULABLE is rig.where("p")


def test_a_change_during_an_attempt_wakes_the_pod_afterwards():
    """The node's label changes while a pod waits at permit; the rejecting plugin reads labels."""
    rig = rig_with(permit="wait", prebind="wait")
    # Preparer reads Service; a service is created while the pod is still at permit.
    rig.engine.bindings.allow("uid-p", "Doorman", rig.now)
    rig.api.put("Service", Service(ObjectMeta(name="other", namespace="default")))
    rig.watch("Service")
    rig.pass_time(20)
    rig.run(0)

    assert rig.where("p") in (Where.ACTIVE, Where.BACKOFF)


def test_capacity_freed_by_a_foreign_bind_elsewhere_wakes_others():
    """A pod was assumed here and bound elsewhere by another scheduler: the capacity here is free
    again.
    """
    rig = rig_with(permit="wait")
    rig.api.put("Pod", make_pod("big", cpu=2))
    rig.watch("Pod")
    rig.run()
    assert Where.UNSCHEDULABLE is rig.where("big")
    rig.api.bind_foreign("default/p", "elsewhere")
    rig.watch("Pod")

    assert Where.UNSCHEDULABLE is not rig.where("big")
    rig.pass_time(1)
    assert [Bind] == [type(effect) for effect in rig.run() if isinstance(effect, Bind)]


class Greedy(Plugin[NoArgs]):
    """Rejects at permit, and is woken by any deleted pod."""

    reads = ("pod.deleted",)

    def permit(self, cycle: Cycle, node: str) -> Status:
        return unschedulable("not yet")


def test_a_pod_is_not_woken_by_its_own_failure():
    """The pod's released capacity helps others; the pod itself waits for a real change."""
    rig = Rig(lambda: Engine([spec_of(*ALL, Greedy)], Registry((*ALL, Greedy))))
    rig.api.put("Node", make_node("n0", cpu=2))
    rig.api.put("Pod", make_pod("p"))
    rig.watch("Node")
    rig.watch("Pod")
    rig.run()
    assert Where.UNSCHEDULABLE is rig.where("p")

    rig.api.put("Pod", make_pod("f", node="n0", scheduler="another"))
    rig.api.remove("Pod", "default/f")
    rig.watch("Pod")
    assert Where.BACKOFF is rig.where("p")
