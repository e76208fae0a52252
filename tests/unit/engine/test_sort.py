"""The order of the queue with a faulty sort plugin."""

from scheduler.engine.effects import Bind
from tests.property.making import make_node, make_pod
from tests.property.rig import Rig


def test_a_broken_sort_plugin_costs_its_order_only():
    """Pods that `less` cannot compare are ordered by priority and age, and the fault is
    reported.
    """
    rig = Rig()
    rig.api.put("Node", make_node("n0"))
    for number in range(4):
        labels = {"raise": "less"} if number == 1 else {}
        rig.api.put("Pod", make_pod(f"p{number}", priority=number, labels=labels))
    rig.watch("Node")
    rig.watch("Pod")

    order = [effect.name for effect in rig.run() if isinstance(effect, Bind)]

    assert ["p3", "p2", "p1", "p0"] == order
    assert ("Sort", "QueueSort") in rig.faults
