"""Pods that a pre-enqueue plugin gates: what ungates them, and faulty plugins."""

from typing import Any

from scheduler.engine.queue.pod import Where
from scheduler.objects.meta import ObjectMeta
from scheduler.objects.workloads import Service
from tests.property.making import make_node, make_pod, with_spec
from tests.property.rig import Rig


def rig_with(pod_fields: dict[str, Any], **labels: str) -> Rig:
    """Return a rig with a node and a pod that the engine has seen."""
    rig = Rig()
    rig.api.put("Node", make_node("n0"))
    rig.api.put("Pod", make_pod("p", labels=labels, **pod_fields))
    rig.watch("Node")
    rig.watch("Pod")
    return rig


def test_a_gated_pod_gets_no_condition():
    """A gated pod gets no attempt, no condition and no event; the API server informs its user."""
    rig = rig_with({"gates": ["later"]})

    assert () == rig.run()
    assert Where.GATED is rig.where("p")
    assert "Gates" == rig.queued("p").gated_by


def test_the_pods_own_update_opens_a_gate():
    """A pod without gates is active at once."""
    rig = rig_with({"gates": ["later"]})
    rig.api.put("Pod", with_spec(rig.api.pods["default/p"], scheduling_gates=()))
    rig.watch("Pod")

    assert Where.ACTIVE is rig.where("p")
    assert "" == rig.queued("p").gated_by


def test_a_gate_opens_by_what_its_plugin_reads():
    """A pre-enqueue plugin that reads other objects runs again when they change."""
    rig = rig_with({}, needs="s1")
    assert Where.GATED is rig.where("p")

    rig.api.put("Service", Service(ObjectMeta(name="s1", namespace="default")))
    rig.watch("Service")

    assert Where.ACTIVE is rig.where("p")


def test_a_gated_pod_is_asked_again_after_five_minutes():
    """A gate that opened without any change that its plugin reads cannot hold a pod for ever."""
    rig = rig_with({}, **{"raise": "pre_enqueue", "times": "1"})
    assert Where.GATED is rig.where("p")
    assert [("Raiser", "PreEnqueue")] == rig.faults

    rig.pass_time(300)
    rig.run()
    assert Where.GATED is rig.where("p")
    rig.pass_time(30)
    rig.run()

    assert Where.IN_FLIGHT is rig.where("p")


def test_a_deleted_gated_pod_is_forgotten():
    """A deleted gated pod leaves no trace."""
    rig = rig_with({"gates": ["later"]})
    rig.api.remove("Pod", "default/p")
    rig.watch("Pod")

    assert 0 == len(rig.engine.queues)
    assert [] == list(rig.engine.queues._unschedulable_pods.parked())
