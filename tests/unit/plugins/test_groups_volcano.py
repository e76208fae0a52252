"""Volcano's PodGroups: fields, refusals by name, messages and members."""

from __future__ import annotations

import msgspec
import pytest

from scheduler.base.errors import ObjectError
from scheduler.framework.calls import ApiCall
from scheduler.framework.groups import GroupEvent, GroupStage
from scheduler.groups.description.classes import ClassSpec
from scheduler.groups.sources import volcano
from scheduler.groups.sources.registry import group_of, moved
from scheduler.groups.status.announcing import StageReport, announce
from scheduler.groups.status.lifecycle import GroupRecord
from scheduler.objects.groups.volcano import VolcanoPodGroup
from scheduler.state.podindex import place as record_of
from scheduler.state.shapes import Shapes
from tests.unit.plugins.groupobjects import group, tree
from tests.unit.plugins.volcanoobjects import TASK, member, members, pod_group
from tests.unit.simulate.asking import place, results, snapshot

ONE_RACK = {"r": {"a": 2, "b": 2}}


def read(**spec):
    """Return the group read from a PodGroup with this spec."""
    raw = {"metadata": {"name": "g", "namespace": "ns"}, "spec": spec}
    return volcano.SOURCE.read(msgspec.convert(raw, VolcanoPodGroup))


def report(simulation, name="g"):
    """Return the report of a group."""
    (found,) = (one for one in simulation.groups if one.name == name)
    return found


def messages(simulation):
    """Return the messages of the pods, each text once."""
    return {one.message for one in simulation.pods}


def test_a_group_is_its_minimum_and_its_tasks():
    """Tasks with a number are classes by the label that Volcano sets; the priority is the pods'."""
    spec = read(minMember=5, minTaskMember={"ps": 1, "worker": 4, "log": 0})

    assert ("ns/g", 5, None, True) == (spec.key, spec.size, spec.priority, spec.is_minimum)
    assert (ClassSpec("ps", 1), ClassSpec("worker", 4)) == spec.classes.classes
    assert TASK == spec.classes.label
    assert not spec.is_ours


def test_eight_tasks_are_eight_roles():
    """The largest allowed number."""
    tasks = {f"t{at}": 1 for at in range(8)}
    assert [ClassSpec(name, 1) for name in tasks] == list(
        read(minMember=8, minTaskMember=tasks).classes.classes
    )


def test_a_minimum_below_the_tasks_stands_alone():
    """Volcano: a job of open size starts with any of its pods."""
    assert read(minMember=3, minTaskMember={"ps": 1, "worker": 4}).classes is None


def test_a_group_without_a_minimum_is_any_one_of_its_pods():
    """As in Volcano, which starts any pod of a group without minimum."""
    assert 1 == read().size


@pytest.mark.parametrize(
    ("spec", "expected_text"),
    [
        ({"minMember": -1}, r"spec\.minMember: -1 is not between"),
        ({"minMember": 10_001}, r"spec\.minMember: 10001 is not between"),
        ({"minTaskMember": {"ps": -1}}, r"spec\.minTaskMember\[ps\]: -1 is not between"),
        (
            {"minMember": 9, "minTaskMember": {f"t{at}": 1 for at in range(9)}},
            r"spec\.minTaskMember: 9 tasks are more than 8",
        ),
        ({"minResources": {"cpu": "many"}}, r"spec\.minResources: .*many"),
        ({"queue": "research"}, r"spec\.queue: 'research' is refused"),
        ({"subGroupPolicy": [{"name": "s"}]}, r"spec\.subGroupPolicy is refused"),
        ({"topologyAffinity": {"podGroupAntiAffinity": {}}}, r"spec\.topologyAffinity is refused"),
        ({"preemptable": False}, r"spec\.preemptable: false is refused"),
    ],
)
def test_what_is_wrong_or_not_placed_exactly_is_named(spec, expected_text):
    """Reading the PodGroup raises an error that names the field."""
    with pytest.raises(ObjectError, match=expected_text):
        read(**spec)


def test_tasks_and_classes_of_an_annotation_exclude_each_other():
    """Both would state the classes of the members."""
    raw = {
        "metadata": {"annotations": {"sakkara.group/classes": '{"ps": {}}'}},
        "spec": {"minMember": 1, "minTaskMember": {"ps": 1}},
    }
    with pytest.raises(ObjectError, match=r"sakkara\.group/classes exclude each other"):
        volcano.SOURCE.read(msgspec.convert(raw, VolcanoPodGroup))


def test_a_gang_is_placed_whole_or_waits():
    """Four pods of one CPU fit on two nodes of two; five do not, and none of them is placed."""
    done = place(*tree(ONE_RACK), pod_group("g", 4), *members("g", 4))
    assert 4 == done.summary.scheduled
    assert "PodGroup.scheduling.volcano.sh" == report(done).source
    assert report(done).optimal

    pending = place(*tree(ONE_RACK), pod_group("g", 5), *members("g", 5))
    assert 0 == pending.summary.scheduled
    assert "does not fit" in report(pending).message


def test_members_beyond_the_minimum_are_placed_where_capacity_is_free():
    """Four of six are placed."""
    done = place(*tree(ONE_RACK), pod_group("g", 3), *members("g", 6))
    assert 4 == done.summary.scheduled


def test_each_task_has_its_number():
    """The cluster has capacity for four: one ps and three workers fit, four workers without ps
    never do.
    """
    spec = {"minTaskMember": {"ps": 1, "worker": 3}}
    workers = members("g", 4, "worker")
    waits = place(*tree(ONE_RACK), pod_group("g", 4, **spec), *workers)
    assert 0 == waits.summary.scheduled
    assert any("its class ps has 0 members" in one for one in messages(waits))

    done = place(*tree(ONE_RACK), pod_group("g", 4, **spec), *workers, *members("g", 1, "ps"))
    placed = [name for name, node in results(done).items() if node in ("a", "b")]
    assert 4 == len(placed)
    assert "gps-0" in placed


def test_a_group_without_an_object_is_waited_for():
    """The pods name their group."""
    pending = place(*tree(ONE_RACK), *members("g", 2))
    text = "no PodGroup of scheduling.volcano.sh/v1beta1 describes the group default/g"
    assert {text} == messages(pending)


def test_an_invalid_name_is_reported_in_short_form():
    """Annotations may be long; messages about them may not."""
    (text,) = messages(place(*tree(ONE_RACK), member("g-0", "x" * 100_000)))
    assert "describes the group default/xxx" in text
    assert len(text) < 400


def test_groups_of_equal_names_from_two_sources_are_separate():
    """Groups of equal names from two sources have their own members."""
    labelled = member("own-0", "g")
    labelled["metadata"] |= {"annotations": {}, "labels": {"sakkara.group.name": "g"}}
    done = place(*tree(ONE_RACK), pod_group("g", 3), group("g", 1), *members("g", 3), labelled)
    assert 4 == done.summary.scheduled
    assert {"ConfigMap", "PodGroup.scheduling.volcano.sh"} == {one.source for one in done.groups}


def test_a_pod_of_two_groups_is_blocked_with_both_named():
    """Two kinds of objects claim the pod, also if both have one name."""
    ambiguous = member("ambiguous", "g")
    ambiguous["metadata"]["labels"] = {"sakkara.group.name": "g"}
    pending = place(*tree(ONE_RACK), pod_group("g", 1), group("g", 1), ambiguous)
    (text,) = messages(pending)
    assert "label sakkara.group.name (g) and annotation scheduling.k8s.io/group-name (g)" in text


def test_a_priority_class_counts_where_the_pods_name_it():
    """No admission controller reads the class of a PodGroup."""
    named = members("g", 2, priorityClassName="high")
    done = place(*tree(ONE_RACK), high_class(), pod_group("g", 2, priorityClassName="high"), *named)
    assert 2 == done.summary.scheduled

    pending = place(*tree(ONE_RACK), pod_group("g", 2, priorityClassName="high"), *members("g", 2))
    assert 0 == pending.summary.scheduled
    assert any("priorityClassName is 'high', that of g-0 ''" in one for one in messages(pending))


def high_class():
    """Return a PriorityClass."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "high"},
        "value": 0,
    }


def test_resources_that_members_ask_for_need_not_be_free_before_victims_go():
    """The group's own sum is no more than its pods' sum; the rest has to be free."""
    old = member("old", "", cpu="4", nodeName="a")
    old["metadata"]["annotations"] = {}
    cluster = tree({"r": {"a": 4}})
    spec = {"minResources": {"cpu": "4"}}
    done = place(*cluster, old, pod_group("g", 2, **spec), *members("g", 2, cpu="2", priority=9))
    assert ["old"] == [one["name"] for one in report(done).victims]

    more = {"minResources": {"cpu": "5"}}
    pending = place(*cluster, pod_group("g", 2, **more), *members("g", 2, cpu="2"))
    assert "it needs 5000 of cpu in all, 4000 are free" in report(pending).message


def test_every_resource_of_the_group_has_to_be_free():
    """The members request all cpu of the sum; what they lack of memory is named."""
    spec = {"minResources": {"cpu": "4", "memory": "1Ti"}}
    done = place(*tree({"r": {"a": 4}}), pod_group("g", 2, **spec), *members("g", 2, cpu="2"))

    assert f"it needs {1 << 40} of memory in all" in report(done).message


def test_a_member_can_be_moved_to_another_group():
    """`moved` names another group in a member, as copies of a group need it."""
    (waiting,) = snapshot(member("p", "g")).unbound
    assert "volcano:default/g" == group_of(waiting)
    assert "volcano:default/other" == group_of(moved(waiting, "other"))


# Messages

NOW = 1_700_000_000.0


def described(**status):
    """Return a PodGroup with a status."""
    raw = {
        "metadata": {"name": "g", "namespace": "ns", "uid": "u", "resourceVersion": "1"},
        "spec": {"minMember": 2},
        "status": status,
    }
    return msgspec.convert(raw, VolcanoPodGroup)


def reported(obj, stage, *, message="", running=()):
    """Return the status that is written, and the reasons of events."""
    record = GroupRecord(message=message, reporter="trellis")
    stated = announce(volcano.KIND, obj, StageReport(stage, record, running, 2, NOW))
    calls = [one for one in stated if isinstance(one, ApiCall)]
    events = [one.reason for one in stated if isinstance(one, GroupEvent)]
    return [one.body["status"] for one in calls], events, [one.path for one in calls]


def test_a_group_that_waits_says_why_in_volcanos_words():
    """Phase Pending, and the condition Unschedulable.

    They are written to the object, as there is no subresource.
    """
    ((status,), events, paths) = reported(described(), GroupStage.REFUSED, message="no capacity")

    assert "Pending" == status["phase"]
    (condition,) = status["conditions"]
    assert {"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources"}.items() <= (
        condition.items()
    )
    assert "no capacity" == condition["message"]
    assert ["FailedScheduling"] == events
    assert ["/apis/scheduling.volcano.sh/v1beta1/namespaces/ns/podgroups/g"] == paths


def test_a_written_status_is_not_written_again():
    """Only changes are written, whatever the time; conditions of other clients stay."""
    ((first,), _, _) = reported(
        described(phase="Inqueue"), GroupStage.REFUSED, message="no capacity"
    )
    assert "phase" not in first
    known = described(
        phase="Inqueue", conditions=[{"type": "Their", "status": "True"}, *first["conditions"]]
    )
    assert [] == reported(known, GroupStage.REFUSED, message="no capacity")[0]
    ((other,), _, _) = reported(known, GroupStage.REFUSED, message="less capacity")
    assert ["Their", "Unschedulable"] == [one["type"] for one in other["conditions"]]


def running(*phases):
    """Return bound members in these phases."""
    found = []
    for at, phase in enumerate(phases):
        one = {**member(f"g-{at}", "g", nodeName="a"), "status": {"phase": phase}}
        (pod,) = snapshot(one).bound
        found.append(record_of(pod, Shapes().of(pod), f"n{at}"))
    return found


def test_a_bound_group_runs():
    """Phase Running, the condition Scheduled, no longer Unschedulable.

    The count follows the pods.
    """
    waited = described(conditions=[{"type": "Unschedulable", "status": "True"}])
    ((status,), events, _) = reported(
        waited, GroupStage.BOUND, running=running("Pending", "Pending")
    )
    found = {one["type"]: one["status"] for one in status["conditions"]}
    assert ("Running", 0) == (status["phase"], status.get("running", 0))
    assert {"Unschedulable": "False", "Scheduled": "True"} == found
    assert ["Scheduled"] == events

    known = described(phase="Running", conditions=status["conditions"])
    ((one,), _, _) = reported(known, GroupStage.CHANGED, running=running("Running", "Pending"))
    assert {"running": 1} == one
    ((more,), again, _) = reported(known, GroupStage.CHANGED, running=running("Running", "Running"))
    assert {"running": 2} == more
    assert [] == again


def test_a_group_that_lost_a_member_is_unknown():
    """Volcano's phase for a group of which some pods run and others are unschedulable.

    It counts as once placed.
    """
    lost = described(phase="Running")
    ((status,), _, _) = reported(lost, GroupStage.REFUSED, message="m", running=running("Running"))

    assert "Unknown" == status["phase"]
    assert volcano.SOURCE.was_placed(described(phase="Unknown"))
    assert not volcano.SOURCE.was_placed(described(phase="Inqueue"))
