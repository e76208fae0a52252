"""The engine's counts of groups, wake-ups, preemptions and overcommitted nodes."""

from __future__ import annotations

from itertools import count

import pytest

from scheduler.base.meters import Histogram, Meters
from scheduler.base.release import V1_36, V1_37, Release
from scheduler.engine.effects import Answer, Bind, Call, Evict, Leading, Solve, Watched
from scheduler.engine.engine import Engine
from scheduler.engine.settings import EngineSettings
from scheduler.objects.configmap import GROUP_KEY, ConfigMap, ConfigMapMeta
from scheduler.objects.groups.podgroup import PodGroup, PodGroupSpec
from scheduler.objects.meta import AnnotatedMeta, LabelSelector, ObjectMeta
from scheduler.objects.policy import (
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
)
from tests.property.engines import PROFILES, REGISTRY
from tests.property.making import make_node, make_pod
from tests.unit.engine.test_groups import Floor, bound, the_solve
from tests.unit.engine.test_preemption import boss, effects, low, rig_with


def seen(meters: Meters, name: str) -> dict[tuple[str, ...], float]:
    """Return the values of a metric by labels; of a histogram the counts."""
    for spec, samples in meters.collect():
        if spec.name == name:
            return {
                one.labels: one.value.count if isinstance(one.value, Histogram) else one.value
                for one in samples
            }
    return {}


def placed_group() -> Floor:
    """Return a floor on which all members of the group were placed and bound."""
    floor = Floor(nodes=2, size=3)
    floor.solve(the_solve(floor.run()))
    for effect in floor.run():
        if isinstance(effect, Bind):
            floor.handle(Answer(effect.id, 201))
            labels = {"sakkara.group.name": "g"}
            pod = make_pod(effect.name, node=effect.node, labels=labels)
            floor.handle(Watched("Pod", "MODIFIED", pod))
    return floor


def test_a_group_that_is_placed_counts_once():
    """A placed group counts as one scheduled attempt; its stages are in order, and the gauge counts
    it as Bound.
    """
    floor = placed_group()
    meters = floor.engine.observation.meters

    assert {("scheduled", "trellis"): 1} == seen(
        meters, "scheduler_podgroup_schedule_attempts_total"
    )
    assert {(): 1} == seen(meters, "trellis_group_wait_seconds")
    assert {(): 1} == seen(meters, "scheduler_podgroup_scheduling_algorithm_duration_seconds")
    assert [("Started",), ("Assigned",), ("Permitted",), ("Bound",)] == list(
        seen(meters, "trellis_group_stages_total")
    )
    assert {("Bound",): 1} == seen(meters, "trellis_groups")


def test_a_group_without_capacity_counts_as_unschedulable():
    """Refused, and DoesNotFit in the gauge."""
    floor = Floor(nodes=1, size=6)
    floor.solve(the_solve(floor.run()))
    floor.run()
    meters = floor.engine.observation.meters

    assert {("unschedulable", "trellis"): 1} == seen(
        meters, "scheduler_podgroup_schedule_attempts_total"
    )
    assert {("DoesNotFit",): 1} == seen(meters, "trellis_groups")


def test_what_could_not_be_written_about_a_group_is_written_again():
    """A failed request is compared and sent again; a forbidden one is not repeated."""
    for code, again in ((500, True), (409, True), (403, False), (200, False)):
        floor = placed_group()
        calls = [one for one in floor.run() if isinstance(one, Call)]
        status = next(one for one in calls if "configmaps" in one.path)
        for call in calls:
            floor.handle(Answer(call.id, code if call is status else 200))
        if code == 200:
            data = {step["path"].removeprefix("/data/"): step.get("value") for step in status.body}
            meta = ConfigMapMeta(name="g", namespace="default", uid="cm-g", labels={GROUP_KEY: ""})
            shown = ConfigMap(meta, {"name": "g", "size": "3", "constraints": "{}", **data})
            floor.handle(Watched("GroupConfigMap", "MODIFIED", shown))
        floor.run()
        floor.now += 6
        paths = [one.path for one in floor.run() if isinstance(one, Call)]

        assert again == (status.path in paths), code


def test_wake_ups_are_useful_when_the_pod_is_bound():
    """Of two pods that one change wakes, only one fits."""
    floor = Floor(nodes=0, size=0)
    floor.single("a", cpu=3)
    floor.single("b", cpu=3)
    floor.run()
    floor.now += 60
    floor.handle(Watched("Node", "ADDED", make_node("late")))
    for effect in floor.run():
        if isinstance(effect, Bind):
            floor.handle(Answer(effect.id, 201))
    meters = floor.engine.observation.meters

    assert 1 == len(bound(floor.effects))
    assert {("NodeAdd", "useful"): 1, ("NodeAdd", "useless"): 1} == seen(
        meters, "trellis_queue_wakeups_total"
    )


def test_a_preemption_is_measured_until_its_evictions_are_answered():
    """Success if all are, error if one fails."""
    rig = rig_with(low(), boss())
    rig.perform(rig.wire.index(effects(rig, Evict)[0]))
    rig.deliver(0)
    other = rig_with(low(), boss())
    other.refuse(other.wire.index(effects(other, Evict)[0]), 403)
    other.deliver(0)

    name = "scheduler_preemption_goroutines_execution_total"
    assert {("success",): 1} == seen(rig.engine.observation.meters, name)
    assert {("error",): 1} == seen(other.engine.observation.meters, name)


def budget(allowed: int, app: str = "old", name: str = "old") -> Watched:
    """Return a budget of pods of an app that allows this many disruptions."""
    return Watched(
        "PodDisruptionBudget",
        "ADDED",
        PodDisruptionBudget(
            ObjectMeta(name=name, namespace="default", uid=name),
            PodDisruptionBudgetSpec(LabelSelector({"app": app})),
            PodDisruptionBudgetStatus(allowed),
        ),
    )


def group_on_full_nodes(
    priority: int, *, floor: Floor | None = None, size: int = 0
) -> tuple[Floor, list[Evict]]:
    """Return a floor whose nodes are full of lower pods, and the evictions that a group sends.

    With `size` these pods are a group of their own.
    """
    floor = floor or Floor(nodes=2, size=0)
    labels = {"app": "old"}
    if size:
        labels["scheduling.x-k8s.io/pod-group"] = "old"
        group = AnnotatedMeta(name="old", namespace="default", uid="old")
        floor.handle(Watched("PodGroup", "ADDED", PodGroup(group, PodGroupSpec(size))))
    for number in range(2):
        pod = make_pod(f"old-{number}", cpu=4, node=f"n{number}", labels=labels)
        floor.handle(Watched("Pod", "ADDED", pod))
    group = AnnotatedMeta(name="gang", namespace="default", uid="gang")
    floor.handle(Watched("PodGroup", "ADDED", PodGroup(group, PodGroupSpec(2))))
    for number in range(2):
        labels = {"scheduling.x-k8s.io/pod-group": "gang"}
        pod = make_pod(f"gang-{number}", cpu=3, priority=priority, labels=labels)
        floor.handle(Watched("Pod", "ADDED", pod))
    for _ in range(6):
        for effect in floor.run():
            if isinstance(effect, Solve):
                floor.solve(effect)
    return floor, [effect for effect in floor.effects if isinstance(effect, Evict)]


def test_a_preemption_by_a_group_is_counted_apart():
    """One attempt has two victims, and none by a single pod; it is measured until both are
    answered.
    """
    floor, evictions = group_on_full_nodes(priority=10)
    floor.now += 2
    for effect in evictions:
        floor.handle(Answer(effect.id, 200))
    meters = floor.engine.observation.meters

    assert 2 == len(evictions)
    assert {("Success",): 1} == seen(meters, "scheduler_workload_preemption_attempts_total")
    assert 2 == meters.workload_preemption_victims.sum
    assert {(): 0} == seen(meters, "scheduler_preemption_victims")
    assert {(): 0} == seen(meters, "scheduler_preemption_attempts_total")
    assert {("podgroup", "success"): 1} == seen(
        meters, "scheduler_preemption_execution_duration_seconds"
    )


def test_a_search_for_victims_by_a_group_is_measured():
    """Each attempt is measured once, from the search for victims to the plan, also if no victims
    are found.
    """
    floor = Floor(nodes=2, size=0)
    ticks = count()
    floor.engine = Engine(PROFILES, REGISTRY, stopwatch=lambda: float(next(ticks)))
    floor.handle(Leading(active=True))
    for number in range(2):
        floor.handle(Watched("Node", "ADDED", make_node(f"n{number}")))
    _, evictions = group_on_full_nodes(priority=10, floor=floor)
    meters = floor.engine.observation.meters
    name = "scheduler_preemption_evaluation_duration_seconds"

    assert 2 == len(evictions)
    assert {("podgroup", "Success"): 1} == seen(meters, name)
    family = meters.preemption_evaluation_duration
    assert 0 < family.labels("podgroup", "Success").sum < next(ticks)
    assert {} == seen(group_on_full_nodes(priority=0)[0].engine.observation.meters, name)


@pytest.mark.parametrize(("allowed", "violations"), [(0, 2), (1, 1), (2, 0)])
def test_victims_that_violate_a_budget_are_counted(allowed: int, violations: int):
    """The victims of a group that exceed the budgets' allowances are counted; without one there is
    no series.
    """
    floor = Floor(nodes=2, size=0)
    floor.handle(budget(allowed))
    # A second budget of the same pods: a victim counts once.
    floor.handle(budget(allowed, name="again"))
    floor, evictions = group_on_full_nodes(priority=10, floor=floor)
    found = seen(floor.engine.observation.meters, "scheduler_preemption_pdb_violations_total")

    assert 2 == len(evictions)
    assert ({("podgroup",): violations} if violations else {}) == found


@pytest.mark.parametrize(("size", "whole"), [(2, 1), (1, 0), (0, 0)])
def test_groups_that_are_evicted_whole_are_counted(size: int, whole: int):
    """A group counts if its last member is evicted; single pods and surplus members do not."""
    floor = Floor(nodes=2 if size != 1 else 3, size=0)
    floor, evictions = group_on_full_nodes(priority=10, floor=floor, size=size)
    found = seen(floor.engine.observation.meters, "scheduler_preemption_workload_disruptions")

    assert (1 if size == 1 else 2) == len(evictions)
    assert ({("podgroup",): 1} if whole else {}) == found


def test_a_preemption_by_a_pod_counts_violated_budgets():
    """The budgets of the victims on the chosen node count; a pod's victims are no group
    disruptions.
    """
    floor = Floor(nodes=1, size=0)
    ticks = count()
    floor.engine = Engine(PROFILES, REGISTRY, stopwatch=lambda: float(next(ticks)))
    floor.handle(Leading(active=True))
    floor.handle(Watched("Node", "ADDED", make_node("n0")))
    floor.handle(budget(1))
    for number in range(4):
        pod = make_pod(f"old-{number}", node="n0", labels={"app": "old"})
        floor.handle(Watched("Pod", "ADDED", pod))
    floor.handle(Watched("Pod", "ADDED", make_pod("boss", cpu=3, priority=10)))
    evictions = [effect for effect in floor.run() if isinstance(effect, Evict)]
    meters = floor.engine.observation.meters

    assert 3 == len(evictions)
    assert {("pod",): 2} == seen(meters, "scheduler_preemption_pdb_violations_total")
    assert {} == seen(meters, "scheduler_preemption_workload_disruptions")
    assert {("pod", "Success"): 1} == seen(
        meters, "scheduler_preemption_evaluation_duration_seconds"
    )

    floor.handle(Watched("Pod", "ADDED", make_pod("equal", cpu=4)))
    floor.run()
    assert {("pod", "Success"): 1, ("pod", "Unschedulable"): 1} == seen(
        meters, "scheduler_preemption_evaluation_duration_seconds"
    )


def test_a_group_is_one_entity_of_the_queue():
    """A group counts in the queue of its foremost member; pods of no group count one by one."""
    floor, evictions = group_on_full_nodes(priority=10)
    floor.single("large-a", cpu=9)
    floor.single("large-b", cpu=9)
    floor.run()
    meters = floor.engine.observation.meters
    waiting = {labels: n for labels, n in seen(meters, "scheduler_queued_entities").items() if n}

    assert evictions
    assert {("unschedulable", "pod"): 2, ("unschedulable", "podgroup"): 1} == waiting
    entered = seen(meters, "scheduler_queue_incoming_entities_total")
    active = {labels[1:]: count for labels, count in entered.items() if labels[0] == "active"}
    assert {("UnschedulablePodAdd", "pod"): 2, ("UnschedulablePodAdd", "podgroup"): 1} == active


def gang_of(floor: Floor, size: int, first: int, last: int) -> None:
    """Add members of a gang that needs `size`."""
    labels = {"scheduling.x-k8s.io/pod-group": "gang"}
    for number in range(first, last):
        floor.handle(Watched("Pod", "ADDED", make_pod(f"gang-{number}", labels=labels)))
    if size:
        group = AnnotatedMeta(name="gang", namespace="default", uid="gang")
        floor.handle(Watched("PodGroup", "ADDED", PodGroup(group, PodGroupSpec(size))))


def waiting(floor: Floor, name: str) -> dict[tuple[str, ...], float]:
    """Return the values of a gauge that are not zero."""
    found = seen(floor.engine.observation.meters, f"scheduler_{name}")
    return {labels: value for labels, value in found.items() if value}


@pytest.mark.parametrize("release", [V1_36, V1_37])
def test_pods_that_wait_for_their_group_have_queues_of_their_own_since_1_37(release: Release):
    """Incomplete: no object describes the group, which is no entity of a queue then.

    Pending: others of the group are in flight. Before 1.37 both are gated.
    """
    is_later = release >= V1_37
    floor = Floor(nodes=2, size=0)
    floor.engine = Engine(PROFILES, REGISTRY, settings=EngineSettings(release=release))
    floor.handle(Leading(active=True))
    for number in range(2):
        floor.handle(Watched("Node", "ADDED", make_node(f"n{number}")))
    gang_of(floor, 0, 0, 2)
    assert {("incomplete" if is_later else "gated",): 2} == waiting(floor, "pending_pods")
    assert {} == waiting(floor, "queued_entities")

    gang_of(floor, 3, 2, 2)
    assert {("gated",): 2} == waiting(floor, "pending_pods")
    assert {("gated", "podgroup"): 1} == waiting(floor, "queued_entities")

    gang_of(floor, 0, 2, 3)
    assert {("active",): 3} == waiting(floor, "pending_pods")
    the_solve(floor.run())
    assert {} == waiting(floor, "pending_pods")
    gang_of(floor, 0, 3, 4)
    assert {("pending" if is_later else "active",): 1} == waiting(floor, "pending_pods")
    assert {} == waiting(floor, "queued_entities")


def test_a_group_enters_a_queue_once():
    """Counted with the first of its members, by that one's event; again after each attempt."""
    floor = Floor(nodes=1, size=0)
    gang_of(floor, 6, 0, 6)
    floor.solve(the_solve(floor.run()))
    floor.run()
    name = "scheduler_queue_incoming_entities_total"
    found = seen(floor.engine.observation.meters, name)
    entered = {labels: count for labels, count in found.items() if labels[2] == "podgroup"}

    assert {1} == set(entered.values())
    assert {"active", "unschedulable"} == {queue for queue, _, _ in entered}
    assert ("unschedulable", "ScheduleAttemptFailure", "podgroup") in entered
    floor.handle(Watched("Node", "ADDED", make_node("n1", cpu=8)))
    assert ("active", "NodeAdd", "podgroup") in seen(floor.engine.observation.meters, name)


def test_nodes_with_too_much_on_them_are_counted_while_they_are():
    """Foreign pods may be bound to a full node; the gauge follows."""
    floor = Floor(nodes=2, size=0)
    meters = floor.engine.observation.meters
    floor.handle(Watched("Pod", "ADDED", make_pod("big", cpu=5, node="n0", scheduler="other")))
    assert {(): 1} == seen(meters, "trellis_overcommitted_nodes")

    floor.handle(Watched("Pod", "DELETED", make_pod("big", cpu=5, node="n0", scheduler="other")))
    assert {(): 0} == seen(meters, "trellis_overcommitted_nodes")
    assert 1 == seen(meters, "trellis_store_objects")["GroupConfigMap",]
