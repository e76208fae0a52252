"""Only a leader schedules, and a regained lease completes work that the loss interrupted."""

from scheduler.engine.effects import Bind, SetStatus
from scheduler.engine.queue.pod import Where
from tests.property.making import make_node, make_pod
from tests.property.rig import Rig


def test_no_pod_is_tried_without_the_lease():
    """Events are processed, pods stay in the queue."""
    rig = Rig()
    rig.lead(active=False)
    rig.api.put("Node", make_node("n0"))
    rig.api.put("Pod", make_pod("p"))
    rig.watch("Node")
    rig.watch("Pod")

    assert () == rig.run()
    assert not rig.engine.has_work()
    assert Where.ACTIVE is rig.where("p")

    rig.lead(active=True)
    assert [Bind] == [type(effect) for effect in rig.run()]


def test_an_unsent_condition_is_written_again():
    """A verdict whose patch died with the lease is written by the next attempt."""
    rig = Rig()
    rig.api.put("Node", make_node("n0", cpu=1))
    rig.api.put("Pod", make_pod("p", cpu=2))
    rig.watch("Node")
    rig.watch("Pod")
    assert SetStatus in [type(effect) for effect in rig.run()]
    rig.lead(active=False)
    rig.lead(active=True)
    rig.pass_time(331)

    assert SetStatus in [type(effect) for effect in rig.run()]


def test_a_condition_that_is_known_is_not_patched_again():
    """If the condition is unchanged, an attempt writes an event and no patch."""
    rig = Rig()
    rig.api.put("Node", make_node("n0", cpu=1))
    rig.api.put("Pod", make_pod("p", cpu=2))
    rig.settle()
    rig.pass_time(331)

    assert ["Record"] == [type(effect).__name__ for effect in rig.run()]
