"""Reports about groups to the objects that describe them."""

import msgspec

from scheduler.framework.calls import ApiCall
from scheduler.framework.groups import GroupEvent, GroupLook, GroupStage, GroupWrite
from scheduler.groups.sources import configmap, coscheduling, served
from scheduler.groups.status import lifecycle
from scheduler.groups.status.announcing import StageReport, announce
from scheduler.groups.status.lifecycle import GroupRecord
from scheduler.objects.groups.podgroup import PodGroup
from tests.unit.plugins.test_groups_volcano import running

NOW = 1_700_000_000.0


def described(version: str, phase: str) -> PodGroup:
    """Return the PodGroup as the watch shows it."""
    meta = {"name": "g", "namespace": "ns", "uid": "u", "resourceVersion": version}
    raw = {"metadata": meta, "spec": {"minMember": 2}, "status": {"phase": phase}}
    return msgspec.convert(raw, PodGroup)


def test_a_bound_group_gets_one_event_while_the_watch_shows_an_earlier_phase():
    """The watch shows the phase Pending, written before, after the event that the group is bound.

    The phase is written again, the event is not.
    """
    record, members = GroupRecord(reporter="trellis"), running("Pending", "Pending")
    first = announce(
        coscheduling.KIND,
        described("1", ""),
        StageReport(GroupStage.BOUND, record, members, 2, NOW),
    )
    second = announce(
        coscheduling.KIND,
        described("2", "Pending"),
        StageReport(GroupStage.CHANGED, record, members, 2, NOW + 0.01),
    )

    assert [1, 0] == [sum(isinstance(one, GroupEvent) for one in got) for got in (first, second)]
    (call,) = (one for one in second if isinstance(one, ApiCall))
    assert coscheduling.SCHEDULED == call.body["status"]["phase"]


def test_every_reported_key_is_known_as_one_of_ours():
    """A key that is missing in REPORTED would be copied into another group's ConfigMap."""
    assert lifecycle.results([], GroupRecord()).keys() <= configmap.REPORTED


def test_a_field_with_its_default_is_not_written_again():
    """Status structs leave defaults out: 0 and an absent count are equal."""
    status = described("1", "Pending").status
    assert {} == served.changed(status, {"running": 0, "scheduleStartTime": None})
    assert {"running": 1} == served.changed(status, {"running": 1, "phase": "Pending"})


def test_counts_alone_are_written_once_a_second_and_stages_at_once():
    """Each member changes the counts of its group; a write that is due in part waits for a look."""
    record, obj = GroupRecord(reporter="trellis"), described("1", "Running")

    def written(stage: GroupStage, after_s: float, *phases: str) -> list[GroupWrite]:
        report = StageReport(stage, record, running(*phases), 2, NOW + after_s)
        return [
            one
            for one in announce(coscheduling.KIND, obj, report)
            if isinstance(one, ApiCall | GroupLook)
        ]

    (first,) = written(GroupStage.CHANGED, 0.0, "Running", "Running", "Pending")
    assert isinstance(first, ApiCall)
    assert {"running": 2, "scheduled": 3} == first.body["status"]
    (look,) = written(GroupStage.CHANGED, 0.5, "Running", "Running", "Running")
    assert GroupLook(NOW + 1.0) == look
    (later,) = written(GroupStage.CHANGED, 1.0, "Running", "Running", "Running")
    assert isinstance(later, ApiCall)
    assert 3 == later.body["status"]["running"]
    (stage,) = written(GroupStage.BOUND, 1.1, "Running", "Running", "Pending")
    assert isinstance(stage, ApiCall)
