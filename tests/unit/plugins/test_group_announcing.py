"""Reports about groups to the objects that describe them."""

from typing import Any

import msgspec
import pytest

from scheduler.framework.calls import ApiCall
from scheduler.framework.groups import GroupEvent, GroupLook, GroupStage, GroupWrite
from scheduler.groups.sources import appgroup, configmap, coscheduling, served, volcano
from scheduler.groups.sources.registry import NESTED
from scheduler.groups.status import lifecycle
from scheduler.groups.status.announcing import SEEN_BY_THEN_S, StageReport, announce
from scheduler.groups.status.lifecycle import GroupRecord
from scheduler.objects.groups.podgroup import PodGroup
from scheduler.objects.kinds import BY_KIND
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


@pytest.mark.parametrize("kind", [coscheduling.KIND, appgroup.KIND, volcano.KIND, *NESTED])
def test_a_report_is_written_again_at_once_if_the_object_states_what_changed(kind: str):
    """The watch has not shown the first write yet. The same report is not sent twice; another
    message is sent if the object has a field for messages, and only then.
    """
    meta = {"name": "g", "namespace": "ns", "uid": "u", "resourceVersion": "1"}
    obj = msgspec.convert({"metadata": meta}, BY_KIND[kind].struct)
    record = GroupRecord(reporter="trellis")

    def written(message: str, after_s: float) -> list[Any]:
        record.message = message
        report = StageReport(GroupStage.REFUSED, record, (), 2, NOW + after_s)
        return [one.body for one in announce(kind, obj, report) if isinstance(one, ApiCall)]

    (first,) = written("too few nodes", 0.0)
    assert [] == written("too few nodes", 0.1)
    assert ("too few nodes" in str(first)) == bool(written("too few racks", 0.2))
    assert 1 == len(written("too few racks", 0.2 + SEEN_BY_THEN_S))
