"""The consequences of a post-filter plugin's decision to evict."""

from typing import Any

import pytest

from scheduler.engine.binding.preemption import eviction
from scheduler.engine.effects import Bind, Evict, Record, SetStatus, longest_eviction_s
from scheduler.engine.queue.pod import Where
from scheduler.kube.writing.eviction import MARGIN_S
from scheduler.objects.pod import Pod, PodCondition
from tests.property.making import make_node, make_pod, with_status
from tests.property.rig import Rig


def rig_with(*pods: Pod, cpu: int = 2) -> Rig:
    """Return a rig with one node; each pod is tried once, in turn."""
    rig = Rig()
    rig.api.put("Node", make_node("n0", cpu=cpu))
    rig.watch("Node")
    for pod in pods:
        rig.api.put("Pod", pod)
        rig.watch("Pod")
        rig.run(1)
    return rig


def boss() -> Pod:
    """Return a pod of high priority that may evict."""
    return make_pod("boss", cpu=2, priority=10, labels={"preempt": "yes"})


def low() -> Pod:
    """Return a pod of low priority that is bound on `n0` already."""
    return make_pod("low", cpu=2, node="n0")


def effects(rig: Rig, kind: type) -> list[Any]:
    """Return the effects of a kind on the wire."""
    return [effect for effect in rig.wire if isinstance(effect, kind)]


def test_a_bound_victim_is_evicted_and_the_preemptor_waits():
    """There is one eviction, one event and a nomination; the preemptor is gated until the
    answer.
    """
    rig = rig_with(low(), boss())

    (evict,) = effects(rig, Evict)
    assert ("low", "uid-low") == (evict.name, evict.uid)
    assert "trellis: preempting to accommodate a higher priority pod" == evict.message
    (patch,) = effects(rig, SetStatus)
    assert ("boss", "n0") == (patch.name, patch.nominated_node)
    (record,) = [r for r in effects(rig, Record) if r.reason == "Preempted"]
    note = "Preempted by pod uid-boss on node n0: Evictor frees capacity for the pod default/boss"
    assert f"{note} of priority 10" == record.note
    (reported,) = [r for r in effects(rig, Record) if r.reason == "Preempting"]
    assert ("uid-boss", "default/low on node n0") == (
        reported.uid,
        reported.note.rpartition(": ")[2],
    )
    assert rig.wire.index(record) < rig.wire.index(evict)
    assert ("default", "boss", "uid-boss") == record.related
    assert "n0" == rig.engine.nominations.node_of("uid-boss")

    rig.settle()
    assert "n0" == rig.api.pods["default/boss"].spec.node_name


def test_the_preemptor_stays_out_while_evictions_run():
    """An event that would wake it finds the gate shut; the answer opens it."""
    rig = rig_with(low(), boss())
    rig.api.put("Pod", make_pod("f", node="n0", scheduler="another"))
    rig.api.remove("Pod", "default/f")
    rig.watch("Pod")
    rig.pass_time(1)
    rig.run()
    assert Where.GATED is rig.where("boss")

    rig.perform(rig.wire.index(effects(rig, Evict)[0]))
    rig.deliver(0)
    assert Where.ACTIVE is rig.where("boss")


def test_a_failed_eviction_lets_the_preemptor_try_again():
    """404 counts as success.

    After any other failure the pod waits out its back-off, longer each time.
    """
    rig = rig_with(low(), boss())
    waited = []
    for _ in range(5):
        rig.refuse(rig.wire.index(effects(rig, Evict)[0]), 403)
        rig.wire.clear()
        rig.deliver(0)
        assert Where.ERROR_BACKOFF is rig.where("boss")
        assert "uid-boss" not in rig.engine.preemptions.running
        since = rig.now
        while Where.ERROR_BACKOFF is rig.where("boss"):
            rig.pass_time(0.25)
            rig.run()
        waited.append(rig.now - since)

    assert [1, 2, 4, 8, 10] == waited


def test_an_unanswered_eviction_ends_after_a_minute():
    """A lost answer is not awaited forever."""
    rig = rig_with(low(), boss())
    rig.wire.clear()
    assert rig.now + 60 == rig.engine.preemptions.next_deadline()
    rig.pass_time(60)
    rig.run(0)

    assert Where.ACTIVE is rig.where("boss")
    rig.settle()
    assert "n0" == rig.api.pods["default/boss"].spec.node_name


def test_a_victim_that_was_not_bound_yet_goes_at_once():
    """No request is needed; the preemptor is retried and does not miss its chance."""
    waiting = make_pod("low", cpu=2, labels={"permit": "wait"})
    rig = rig_with(waiting, boss())

    assert [] == effects(rig, Evict)
    assert Where.UNSCHEDULABLE is rig.where("low")
    (record,) = [r for r in effects(rig, Record) if r.reason == "Preempted"]
    assert "on node n0 (in kube-scheduler memory): Evictor frees capacity" in record.note
    assert Where.BACKOFF is rig.where("boss")
    rig.run()
    assert ["boss"] == [effect.name for effect in effects(rig, Bind)]


def test_a_victim_in_memory_is_tried_again_soon():
    """The changes that help the victim are unknown, so any next change wakes it."""
    waiting = make_pod("low", cpu=2, labels={"permit": "wait"})
    rig = rig_with(waiting, boss())
    rig.run()
    assert Where.UNSCHEDULABLE is rig.where("low")
    rig.perform(rig.wire.index(effects(rig, Bind)[0]))
    rig.watch("Pod")

    assert Where.BACKOFF is rig.where("low")


def test_a_victim_whose_bind_is_in_progress_is_evicted():
    """A pod that may be bound already cannot be removed in memory alone."""
    rig = rig_with(make_pod("low", cpu=2), boss())

    assert ["low"] == [effect.name for effect in effects(rig, Evict)]
    rig.settle()


def test_victims_that_leave_already_are_not_evicted_again():
    """No eviction is sent for them, and lower nominations stay, as in kube-scheduler."""
    rig = rig_with(low())
    rig.api.terminate("default/low")
    rig.watch("Pod")
    rig.api.put("Pod", boss())
    rig.watch("Pod")
    rig.run()

    assert [] == effects(rig, Evict)
    assert "n0" == rig.engine.nominations.node_of("uid-boss")


def test_a_victim_that_is_leaving_is_seen_to_leave_while_its_bind_is_in_doubt():
    """A victim that is known to be terminating is not evicted again, although the outcome of its
    bind is unknown.
    """
    rig = rig_with(make_pod("low", cpu=2), boss())
    bind = rig.wire.index(effects(rig, Bind)[0])
    rig.swallow(bind)
    rig.perform(rig.wire.index(effects(rig, Evict)[0]))
    rig.watch("Pod")
    rig.deliver(0)
    (low,) = rig.engine.cluster.pods
    assert low.assumed
    assert low.pod.is_terminating
    for _ in range(5):
        rig.engine.queues.activate(["uid-boss"], rig.now)
        rig.run()

    assert [] == effects(rig, Evict)
    rig.settle()


def test_lower_nominations_are_cleared():
    """A lower pod nominated to the node is retried at once."""
    rig = rig_with(low())
    small = make_pod("small", priority=5, cpu=2, nominated="n0", gates=["g"])
    rig.api.put("Pod", small)
    rig.watch("Pod")
    rig.api.put("Pod", boss())
    rig.watch("Pod")
    rig.run()

    assert "" == rig.engine.nominations.node_of("uid-small")
    assert ("small", "") in [(e.name, e.nominated_node) for e in effects(rig, SetStatus)]


def test_a_preemptor_that_goes_leaves_nothing():
    """The answers to its evictions have no effect."""
    rig = rig_with(low(), boss())
    rig.api.remove("Pod", "default/boss")
    rig.watch("Pod")
    rig.settle()

    assert "uid-boss" not in rig.engine.preemptions.running
    assert 0 == len(rig.engine.nominations)


@pytest.mark.parametrize(("victims", "seconds"), [(1, 60), (99, 60), (2000, 100)])
def test_the_eviction_of_many_pods_may_take_longer(victims, seconds):
    """The engine waits for a unit of 2,000 while the executor may still mark and delete them."""
    assert seconds == longest_eviction_s(victims)
    assert 0 < longest_eviction_s(victims) - MARGIN_S


@pytest.mark.parametrize(("status", "is_marked"), [("True", True), ("False", False), (None, False)])
def test_an_eviction_knows_whether_its_victim_is_marked(status: str | None, is_marked: bool):
    """A mark that was withdrawn is written again; the size of a unit counts in a unit alone."""
    mark = () if status is None else (PodCondition(type="DisruptionTarget", status=status),)
    victim = with_status(make_pod("v"), conditions=mark)

    alone, together = eviction(1, victim, "why", 0, 4), eviction(2, victim, "why", 7, 4)
    assert (is_marked, is_marked) == (alone.is_marked, together.is_marked)
    assert (0, 4) == (alone.unit_size, together.unit_size)
