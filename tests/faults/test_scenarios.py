"""Named faults between the engine and the API server, each as a list of events.

After each of them the faults end (`settle`) and the general invariants are checked; the asserts
check the scenario itself.
"""

import pytest

from scheduler.engine.effects import Bind, Call, Leading, Look
from scheduler.engine.queue.pod import Where
from scheduler.objects.meta import ObjectMeta
from scheduler.objects.workloads import Service
from tests.property.making import make_node, make_pod, node_with, with_status
from tests.property.rig import Rig


def rig_with(cpu: int = 4, nodes: int = 1, **labels: str) -> Rig:
    """Return a rig with nodes `n0`… whose engine has tried the pod `p` (1 CPU)."""
    rig = Rig()
    for number in range(nodes):
        rig.api.put("Node", make_node(f"n{number}", cpu=cpu))
    rig.api.put("Pod", make_pod("p", labels=labels))
    rig.watch("Node")
    rig.watch("Pod")
    rig.run()
    return rig


def place_of(rig: Rig, kind: type) -> int:
    """Return the position of the only effect of a kind in flight."""
    (place,) = [place for place, effect in enumerate(rig.wire) if isinstance(effect, kind)]
    return place


def kinds(rig: Rig, kind: type) -> int:
    """Return how many effects of a kind are on the wire."""
    return sum(isinstance(effect, kind) for effect in rig.wire)


def node_of(rig: Rig, name: str = "p") -> str:
    """Return where the API server has the pod."""
    return rig.api.pods[f"default/{name}"].spec.node_name


def binds(rig: Rig) -> int:
    """Return how many binds the engine has requested."""
    return sum(isinstance(e, Bind) for _, _, _, effects in rig.steps for e in effects)


def scheduled_events(rig: Rig) -> int:
    """Return how often the API server received that a pod was scheduled."""
    return sum(record.reason == "Scheduled" for record in rig.api.records)


def test_the_answer_is_lost():
    """The bind was carried out, its answer is lost: one look-up finds the pod bound, and no second
    bind is sent.
    """
    rig = rig_with()
    rig.perform(place_of(rig, Bind), deliver=False)
    rig.deliver(0)
    rig.run()
    assert 1 == kinds(rig, Look)

    rig.settle()
    assert ("n0", 1, 1) == (node_of(rig), binds(rig), scheduled_events(rig))


def test_the_request_is_lost():
    """The bind was not carried out: the look-up finds the pod unbound, the pod fails once and is
    retried.
    """
    rig = rig_with()
    rig.refuse(place_of(rig, Bind), 0)
    rig.deliver(0)
    rig.run()
    rig.settle()

    assert ("n0", 2, 1) == (node_of(rig), binds(rig), scheduled_events(rig))


def test_a_bind_that_arrives_after_the_look_overcommits_nothing():
    """The connection breaks, the look-up finds the pod unbound, and only then the bind is carried
    out.
    """
    rig = rig_with(cpu=1)
    rig.delay(place_of(rig, Bind))
    rig.deliver(0)
    rig.run()
    rig.perform(place_of(rig, Look))
    rig.deliver(0)
    rig.api.put("Pod", make_pod("q"))
    rig.watch("Pod")
    rig.run()
    assert [] == [
        effect
        for effect in rig.wire
        if getattr(effect, "uid", "") == "uid-q" and isinstance(effect, Bind)
    ]
    rig.settle()

    assert ("n0", "") == (node_of(rig, "p"), node_of(rig, "q"))


def test_capacity_is_reserved_until_a_late_bind_is_impossible():
    """A repeated bind that is rejected does not settle the first one; after a minute it can no
    longer arrive.
    """
    rig = rig_with(cpu=1)
    rig.delay(place_of(rig, Bind))
    rig.deliver(0)
    began = rig.now
    rig.api.put("Pod", make_pod("q"))
    rig.watch("Pod")
    while rig.where("p") is Where.IN_FLIGHT:
        rig.run()
        for place in reversed(range(len(rig.wire))):
            if isinstance(rig.wire[place], Bind):
                rig.refuse(place, 403)
            else:
                rig.perform(place)
        while rig.answers:
            rig.deliver(0)
        ends = rig.engine.next_wakeup()
        rig.pass_time(max(0.0, (ends or rig.now) - rig.now))
    assert 60 < rig.now - began < 100

    rig.settle()
    assert [] == rig.api.overcommitted


def test_the_answer_comes_twice():
    """A repeated answer is ignored."""
    rig = rig_with()
    rig.perform(place_of(rig, Bind))
    rig.deliver(0, times=3)
    rig.settle()

    assert (1, 1) == (binds(rig), scheduled_events(rig))


def test_the_answer_comes_after_the_delete():
    """Bound and deleted before the answer arrives: no trace of the pod is left."""
    rig = rig_with()
    rig.perform(place_of(rig, Bind))
    rig.api.remove("Pod", "default/p")
    rig.watch("Pod")
    rig.deliver(0)
    rig.settle()

    assert 0 == len(rig.engine.cluster.pods)
    assert 0 == len(rig.engine.queues)


def test_the_pod_is_deleted_before_the_bind_is_sent():
    """The bind finds no pod; its 404 arrives after the watch has reported the deletion."""
    rig = rig_with()
    rig.api.remove("Pod", "default/p")
    rig.perform(place_of(rig, Bind))
    rig.watch("Pod")
    rig.deliver(0)
    assert () == rig.run()

    rig.settle()
    assert 0 == len(rig.engine.queues)


def test_a_404_arrives_before_the_watch_event():
    """The look-up agrees, the pod waits its back-off, and the late watch event removes it."""
    rig = rig_with()
    rig.api.remove("Pod", "default/p")
    rig.perform(place_of(rig, Bind))
    rig.deliver(0)
    rig.run()
    rig.perform(place_of(rig, Look))
    rig.deliver(0)
    assert Where.ERROR_BACKOFF is rig.where("p")
    assert 0 == len(rig.engine.cluster.pods)

    rig.settle()
    assert Where.GONE is rig.where("p")


def test_a_look_that_lies_loses_no_pod():
    """A proxy answers bind and look-up with 404. The pod is not dropped, because only the watch can
    remove a pod.
    """
    rig = rig_with()
    rig.refuse(place_of(rig, Bind), 404)
    rig.deliver(0)
    rig.run()
    rig.refuse(place_of(rig, Look), 404)
    rig.deliver(0)
    rig.settle()

    assert "n0" == node_of(rig)


def test_a_conflict_because_we_bound_it():
    """The request was carried out twice; the conflict of the second one does not fail the pod."""
    rig = rig_with()
    rig.perform(place_of(rig, Bind), times=2)
    assert 409 == rig.answers[0].code
    rig.deliver(0)
    rig.run()
    rig.settle()

    assert ("n0", 1, 1) == (node_of(rig), binds(rig), scheduled_events(rig))


def test_a_conflict_because_another_bound_it():
    """The pod is bound by another scheduler: its capacity here is released, and nothing more is
    written about it.
    """
    rig = rig_with(nodes=2)
    rig.api.bind_foreign("default/p", "n1")
    rig.perform(place_of(rig, Bind))
    rig.deliver(0)
    rig.run()
    rig.settle()

    assert ("n1", 1) == (node_of(rig), binds(rig))
    assert "True" == rig.api.pods["default/p"].status.conditions[0].status


def test_an_old_watch_event_comes_after_the_look():
    """The look-up found the pod elsewhere; an older event that shows it unbound does not restore
    it.
    """
    rig = rig_with(nodes=2)
    bind = rig.wire[place_of(rig, Bind)]
    assert isinstance(bind, Bind)
    other = "n1" if bind.node == "n0" else "n0"
    rig.api.put("Pod", with_status(rig.api.pods["default/p"], start_time="2026-01-01T00:00:00Z"))
    rig.api.bind_foreign("default/p", other)
    rig.perform(place_of(rig, Bind))
    rig.deliver(0)
    rig.run()
    rig.perform(place_of(rig, Look))
    rig.deliver(0)
    assert [other] == [placed.node for placed in rig.engine.cluster.pods]
    rig.watch("Pod", 1)

    assert Where.GONE is rig.where("p")
    rig.settle()
    assert (other, 1) == (node_of(rig), binds(rig))


def test_a_conflict_because_the_pod_is_being_deleted():
    """The pod cannot be bound any more: the attempt fails, and the pod is dropped at its next
    turn.
    """
    rig = rig_with()
    rig.api.terminate("default/p")
    rig.perform(place_of(rig, Bind))
    rig.deliver(0)
    rig.run()
    rig.settle()

    assert Where.GONE is rig.where("p")
    assert 0 == len(rig.engine.cluster.pods)


def test_the_watch_is_faster_than_the_answer():
    """The watch confirms the pod; the later answer has no effect."""
    rig = rig_with()
    rig.perform(place_of(rig, Bind))
    rig.watch("Pod")
    assert Where.GONE is rig.where("p")
    rig.deliver(0)
    rig.settle()

    assert 1 == scheduled_events(rig)


def test_the_watch_is_faster_than_a_lost_answer():
    """No look-up is needed for a state that the watch has shown."""
    rig = rig_with()
    rig.perform(place_of(rig, Bind), deliver=False)
    rig.watch("Pod")
    rig.deliver(0)
    rig.run()

    assert 0 == kinds(rig, Look)
    rig.settle()


@pytest.mark.parametrize("in_parts", [False, True])
@pytest.mark.parametrize("carried_out", [False, True])
def test_a_relist_in_the_middle_of_a_bind(in_parts: bool, carried_out: bool):
    """A list that shows the pod unbound or bound neither drops the pod nor counts it twice."""
    rig = rig_with()
    if carried_out:
        rig.perform(place_of(rig, Bind))
    if in_parts:
        rig.relist_in_parts("Pod")
        rig.watch("Pod", 1)
        rig.run()
    else:
        rig.relist("Pod")
    rig.settle()

    assert ("n0", 1, 1) == (node_of(rig), binds(rig), scheduled_events(rig))


def test_a_relist_that_misses_a_pod_in_flight():
    """The pod was deleted while the watch was disconnected: only the list shows it."""
    rig = rig_with()
    rig.api.remove("Pod", "default/p")
    rig.relist("Pod")

    assert Where.GONE is rig.where("p")
    rig.settle()


@pytest.mark.parametrize("arrives", [False, True])
def test_the_leader_is_lost_in_the_middle_of_a_bind(arrives: bool):
    """The bind was sent or dropped. When the lease is regained, the engine reads which of
    the two.
    """
    rig = rig_with()
    place = place_of(rig, Bind)
    if arrives:
        rig.perform(place)
        rig.answers.clear()
    rig.lead(active=False)
    rig.pass_time(60)
    rig.run()
    assert 0 == len(rig.wire)
    assert 1 == len(rig.engine.bindings)
    rig.settle()

    assert "n0" == node_of(rig)
    assert (1 if arrives else 2) == binds(rig)


def test_another_leader_binds_what_we_were_binding():
    """Without the lease the engine only watches. The bind of the other leader ends the engine's
    attempt.
    """
    rig = rig_with(nodes=2)
    rig.lead(active=False)
    rig.api.bind_foreign("default/p", "n1")
    rig.watch("Pod")

    assert 0 == len(rig.engine.bindings)
    assert ["n1"] == [placed.node for placed in rig.engine.cluster.pods]
    rig.settle()


def test_the_node_is_deleted_while_binding():
    """The API server binds to any node name. The pod stays bound there, and counts when the node
    returns.
    """
    rig = rig_with()
    rig.api.remove("Node", "n0")
    rig.perform(place_of(rig, Bind))
    rig.watch("Node")
    rig.settle()
    assert "n0" == node_of(rig)

    rig.api.put("Node", make_node("n0", cpu=4))
    rig.watch("Node")
    row = rig.engine.cluster.table.rows["n0"]
    assert 1000 == rig.engine.cluster.table.requested("cpu")[row]


def test_the_node_is_deleted_before_the_bind_is_sent():
    """The engine sends no bind to a node that it knows is deleted: the pod waits for another
    one.
    """
    rig = rig_with()
    rig.api.remove("Node", "n0")
    rig.watch("Node")
    rig.settle()
    assert "" == node_of(rig)

    rig.api.put("Node", make_node("n9"))
    rig.watch("Node")
    rig.settle()
    assert "n9" == node_of(rig)


def test_the_node_is_deleted_and_the_bind_fails():
    """The node is deleted and then the bind fails: no amount is subtracted from the node's freed
    row, and the pod waits for another node.
    """
    rig = rig_with()
    rig.api.remove("Node", "n0")
    rig.watch("Node")
    rig.refuse(place_of(rig, Bind), 422)
    rig.deliver(0)
    rig.run()
    rig.settle()

    assert Where.UNSCHEDULABLE is rig.where("p")
    rig.api.put("Node", make_node("n9"))
    rig.watch("Node")
    rig.settle()
    assert "n9" == node_of(rig)


def test_the_node_shrinks_while_binding():
    """Bound pods stay bound, and the next pod finds no capacity."""
    rig = rig_with(cpu=1)
    rig.api.put("Node", node_with(rig.api.nodes["n0"], allocatable={"cpu": 0, "pods": 110}))
    rig.perform(place_of(rig, Bind))
    rig.api.put("Pod", make_pod("q"))
    rig.watch("Node")
    rig.watch("Pod")
    rig.settle()

    assert ("n0", "") == (node_of(rig), node_of(rig, "q"))


def test_the_node_shrinks_before_the_bind_is_sent():
    """A bind that would exceed the node's known capacity is not sent."""
    rig = rig_with(cpu=1)
    rig.api.put("Node", node_with(rig.api.nodes["n0"], allocatable={"cpu": 0, "pods": 110}))
    rig.watch("Node")
    rig.settle()

    assert "" == node_of(rig)
    assert Where.UNSCHEDULABLE is rig.where("p")


def test_permit_times_out_while_the_pod_is_being_deleted():
    """The deletion ends the wait; the timeout has no effect."""
    rig = rig_with(permit="wait")
    rig.api.terminate("default/p")
    rig.watch("Pod")
    rig.pass_time(30)
    rig.run()

    assert Where.GONE is rig.where("p")
    assert [] == [r for r in rig.api.records if r.reason == "FailedScheduling"]
    rig.settle()


def test_permit_times_out_before_the_delete_is_seen():
    """The pod gets the timeout's condition, then is deleted."""
    rig = rig_with(permit="wait")
    rig.api.remove("Pod", "default/p")
    rig.pass_time(30)
    rig.run()
    reported = rig.queued("p").reported
    text = "rejected due to timeout after waiting 30s at plugin Doorman"
    assert ("Unschedulable", f"0/1 nodes are available: 1 {text}.") == reported

    rig.settle()
    assert Where.GONE is rig.where("p")


def test_a_pod_is_recreated_with_the_same_name_while_it_is_bound():
    """The bind of the old pod does not bind the new pod, and the states of both are correct at the
    end.
    """
    rig = rig_with()
    rig.api.remove("Pod", "default/p")
    rig.api.put("Pod", make_pod("p", uid="uid-new"))
    rig.perform(place_of(rig, Bind))
    assert 409 == rig.answers[0].code
    assert "" == node_of(rig)
    rig.deliver(0)
    rig.run()
    rig.perform(place_of(rig, Look))
    rig.deliver(0)
    assert Where.GONE is rig.where("p")
    rig.settle()

    assert ("n0", "us") == rig.api.bound_by["uid-new"]
    assert "uid-p" not in rig.api.bound_by


def test_a_pod_is_recreated_and_the_watch_event_arrives_first():
    """The answer about the old pod changes nothing for the new one."""
    rig = rig_with()
    place = place_of(rig, Bind)
    rig.api.remove("Pod", "default/p")
    rig.api.put("Pod", make_pod("p", uid="uid-new"))
    rig.watch("Pod")
    rig.run()
    rig.perform(place)
    rig.deliver(0)
    rig.settle()

    assert ("n0", "us") == rig.api.bound_by["uid-new"]


def test_a_recreated_pod_is_only_seen_by_a_relist():
    """The name has a new uid: the old pod was deleted although its name is listed."""
    rig = rig_with()
    rig.api.remove("Pod", "default/p")
    rig.api.put("Pod", make_pod("p", uid="uid-new"))
    rig.relist("Pod")

    assert Where.GONE is rig.where("p")
    rig.settle()
    assert ("n0", "us") == rig.api.bound_by["uid-new"]


@pytest.mark.parametrize("code", [500, 503, 504])
@pytest.mark.parametrize("carried_out", [False, True])
def test_a_server_error(code: int, carried_out: bool):
    """A 5xx leaves the outcome unknown: the pod is looked up."""
    rig = rig_with()
    place = place_of(rig, Bind)
    if carried_out:
        rig.api.perform(rig.wire[place])
    rig.refuse(place, code)
    rig.deliver(0)
    rig.run()
    assert 1 == kinds(rig, Look)
    assert 1 == len(rig.engine.cluster.pods)
    rig.settle()

    assert "n0" == node_of(rig)


@pytest.mark.parametrize("code", [400, 403, 410, 422, 429])
def test_a_refusal(code: int):
    """Any other 4xx means that the bind did not happen: the capacity is free at once, the pod waits
    its back-off.
    """
    rig = rig_with()
    rig.refuse(place_of(rig, Bind), code)
    rig.deliver(0)
    assert 0 == len(rig.engine.cluster.pods)
    assert Where.ERROR_BACKOFF is rig.where("p")
    rig.settle()

    assert "n0" == node_of(rig)


def test_a_delayed_bind_arrives_after_the_look():
    """A bind is abandoned, looked up and sent again, and then the first one arrives: exactly one of
    them succeeds.
    """
    rig = rig_with(nodes=2)
    rig.delay(place_of(rig, Bind))
    rig.deliver(0)
    rig.run()
    rig.perform(place_of(rig, Look))
    rig.deliver(0)
    assert Where.IN_FLIGHT is rig.where("p")
    rig.pass_time(1)
    rig.run()
    assert 1 == kinds(rig, Bind)
    rig.arrive(0)
    rig.settle()

    assert 1 == len(rig.engine.cluster.pods)


def test_no_bind_at_all_is_answered_for_an_hour():
    """While the API server is unavailable, no pod is abandoned, and no pod has two binds in
    flight.
    """
    rig = rig_with()
    rig.swallow(place_of(rig, Bind))
    for _ in range(60):
        rig.pass_time(60)
        rig.run()
        assert 1 == len(rig.engine.bindings)
        for place in reversed(range(len(rig.wire))):
            rig.swallow(place)
    rig.settle()

    assert "n0" == node_of(rig)


def test_a_restart_in_the_middle_of_a_bind():
    """The old process's bind arrives late; the new one neither loses the pod nor binds it twice."""
    rig = rig_with(nodes=2)
    rig.restart()
    rig.run()
    assert 1 == kinds(rig, Bind)
    rig.arrive(0)
    rig.settle()

    assert node_of(rig) in ("n0", "n1")


def test_a_restart_while_a_pod_waits_at_permit():
    """The wait ends with the process. The new process starts another wait, and the pod keeps its
    nomination.
    """
    rig = rig_with(permit="wait")
    rig.perform(0)
    assert "n0" == rig.api.pods["default/p"].status.nominated_node_name
    rig.restart()
    rig.run()

    assert Where.IN_FLIGHT is rig.where("p")
    assert "n0" == rig.engine.bindings._pods["uid-p"].node
    rig.settle()


def test_another_scheduler_binds_to_the_chosen_node_while_the_pod_waits():
    """Another scheduler bound the pod to the chosen node: nothing is written, and the amounts stay
    counted.
    """
    rig = rig_with(permit="wait")
    rig.api.bind_foreign("default/p", "n0")
    rig.watch("Pod")

    assert 0 == len(rig.engine.bindings)
    rig.settle()
    assert 0 == binds(rig)


def test_another_scheduler_binds_elsewhere_during_a_call():
    """The answer of the plugin's call is ignored."""
    rig = rig_with(nodes=2, prebind="call")
    node = rig.engine.bindings._pods["uid-p"].node
    rig.api.bind_foreign("default/p", "n1" if node == "n0" else "n0")
    rig.watch("Pod")
    rig.perform(place_of(rig, Call))
    rig.deliver(0)
    rig.settle()

    assert 0 == binds(rig)


def test_a_pod_goes_while_it_waits_before_its_bind():
    """When the pod is deleted, the waiting plugin is closed. If its condition becomes true later,
    nothing happens.
    """
    rig = rig_with(prebind="wait")
    rig.api.remove("Pod", "default/p")
    rig.watch("Pod")
    rig.api.put("Service", Service(ObjectMeta(name="p", namespace="default")))
    rig.watch("Service")
    rig.settle()

    assert 0 == binds(rig)


def test_a_lost_lease_outlives_a_permit_timeout():
    """A permit timeout without the lease is reported after the lease is regained."""
    rig = rig_with(permit="wait")
    rig.lead(active=False)
    rig.pass_time(30)
    rig.run()
    assert Where.UNSCHEDULABLE is rig.where("p")
    rig.settle()

    condition = rig.api.pods["default/p"].condition("PodScheduled")
    assert condition is not None
    assert "timeout" in condition.message


def test_pods_of_other_schedulers_are_ignored():
    """Unbound pods of other schedulers are ignored."""
    rig = rig_with()
    rig.api.put("Pod", make_pod("other", scheduler="another"))
    rig.watch("Pod")
    rig.handle(Leading(active=True))

    assert Where.GONE is rig.where("other")


def test_a_finished_pod_that_is_not_deleted_frees_its_capacity():
    """A phase of Succeeded counts as deleted, whichever verb the watch uses."""
    rig = rig_with(cpu=1)
    rig.settle()
    rig.api.put("Pod", make_pod("q"))
    rig.watch("Pod")
    rig.run()
    assert Where.UNSCHEDULABLE is rig.where("q")
    rig.api.put("Pod", with_status(rig.api.pods["default/p"], phase="Succeeded"))
    rig.watch("Pod")

    assert Where.UNSCHEDULABLE is not rig.where("q")
    assert 0 == len(rig.engine.cluster.pods)
