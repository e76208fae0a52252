"""The writes to PodGroups of both API groups and to AppGroups, and the events about the object of
any group.

Kubernetes' own PodGroups get the condition of their version, coscheduling's the phase that its
controller would write, AppGroups `status.gang`; an unchanged value is not written. Counts and phase
of Coscheduling's and Volcano's PodGroups follow the pods. Every change of a message is an event on
the group as well. Pure; called by `statuswriter`, which writes ConfigMaps.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from scheduler.base import reasons
from scheduler.base.clock import rfc3339
from scheduler.framework.calls import ApiCall
from scheduler.framework.groups import GroupEvent, GroupLook, GroupStage, GroupWrite
from scheduler.groups.sources import appgroup, coscheduling, derived, volcano, workload
from scheduler.groups.sources.registry import BY_KIND, NESTED
from scheduler.groups.status.lifecycle import LONGEST_MESSAGE, GroupRecord
from scheduler.objects.groups.appgroup import GangStatus
from scheduler.objects.groups.volcano import VolcanoCondition
from scheduler.objects.meta import Condition
from scheduler.objects.pod import Pod
from scheduler.state.podindex import Placed

SEEN_BY_THEN_S = 5.0  # seconds after which an unseen write counts as lost and is sent again
WAITS = (GroupStage.REFUSED, GroupStage.PREEMPTING)
FOLLOWS = (GroupStage.BOUND, GroupStage.CHANGED)
# The interval between writes of counts alone: each member of a group changes them.
COUNTS_EVERY_S = 1.0
COUNTS = frozenset(("running", "scheduled"))


class StageReport(msgspec.Struct, frozen=True):
    """A report about a group: its stage, its members on nodes, the minimum, and the finished
    members that count.
    """

    stage: GroupStage
    record: GroupRecord
    members: Sequence[Placed]
    size: int
    now: float
    finished: Sequence[Pod] = ()

    @property
    def bound(self) -> int:
        """Return how many members are bound, as the API server reports."""
        return sum(not one.assumed for one in self.members)

    @property
    def running(self) -> int:
        """Return how many members run."""
        return sum(one.pod.status.phase == "Running" for one in self.members)

    @property
    def is_over(self) -> bool:
        """Return whether the group has its minimum by finished members alone."""
        return not self.members and 0 < self.size <= len(self.finished)

    @property
    def is_bound(self) -> bool:
        """Return whether the group's minimum is bound and this report is to state it."""
        return self.has_minimum and self.stage in FOLLOWS

    @property
    def has_minimum(self) -> bool:
        """Return whether the group's minimum is bound or has finished: waiting members are beyond
        it.
        """
        return 0 < self.size <= self.bound + len(self.finished)


def event(
    kind: str, obj: Any, reporter: str, reason: str, action: str, note: str, *, warns: bool = True
) -> GroupEvent:
    """Return an event about the object that describes a group."""
    source, meta = BY_KIND[kind], obj.metadata
    about = (meta.namespace, meta.name, meta.uid, meta.resource_version)
    level = "Warning" if warns else "Normal"
    return GroupEvent(
        source.api_version, source.served_as, *about, reporter, level, reason, action, note
    )


def announce(kind: str, obj: Any, report: StageReport) -> list[GroupWrite]:
    """Return the writes that report the stage to a PodGroup or AppGroup, and the event about it;
    nothing if the object states it already.
    """
    calls: list[GroupWrite] = []
    if kind == derived.KIND:
        return calls  # no object of the API server describes the group
    if kind == coscheduling.KIND:
        calls += _phase(obj, report)
    elif kind == appgroup.KIND:
        calls += _gang(obj, report)
    elif kind == volcano.KIND:
        calls += _volcano_status(obj, report)
    elif kind in NESTED:
        calls += _condition(NESTED[kind], obj, report)
    if calls and _is_counting(calls, report):
        since = report.record.counted_at + COUNTS_EVERY_S
        if report.now < since:
            return [GroupLook(since)]
        report.record.counted_at = report.now
    elif calls and _is_recently_sent(kind, obj, report):
        if report.is_bound:
            return []
        calls = []
    reporter = report.record.reporter
    # A condition is reported once; phases change further.
    is_first = kind in NESTED or not BY_KIND[kind].was_placed(obj)
    # The watch may show an earlier write of ours before the one with this event.
    is_first = is_first and report.record.bound_event_of != obj.metadata.uid
    if report.is_bound and calls and is_first:
        report.record.bound_event_of = obj.metadata.uid
        calls.append(bound_event(kind, obj, report))
    elif report.stage in WAITS and report.record.message != report.record.announced:
        report.record.announced = note = report.record.message
        calls.append(event(kind, obj, reporter, reasons.FAILED_SCHEDULING, "Scheduling", note))
    return calls


def bound_event(kind: str, obj: Any, report: StageReport) -> GroupEvent:
    """Return the event that a group is bound, with the proof of its placement."""
    count, nodes = len(report.members), len({one.node for one in report.members})
    note = f"bound {_many(count, 'pod')} of the group to {_many(nodes, 'node')}"
    if report.record.is_partial:
        pass  # the last proof is about its newest members alone
    elif report.record.proof.optimal:
        note += "; no placement is better"
    elif report.record.proof.objective:
        note += "; it was not proven that no placement is better"
    return event(kind, obj, report.record.reporter, reasons.SCHEDULED, "Binding", note, warns=False)


def given_up(whom: str, pods: Sequence[str], kept: int) -> str:
    """Return the message for a group whose pods are evicted for another; `kept` pods stay."""
    names = ", ".join(sorted(pods))
    if not kept:
        return f"Pods of the group are evicted for the {whom}: {names}"
    lost = f"{_many(len(pods), 'pod')} of {len(pods) + kept}"
    return f"The group gives up {lost} for the {whom} and goes on with {kept}: {names}"


def _is_counting(calls: Sequence[GroupWrite], report: StageReport) -> bool:
    """Return whether only counts of members are to be written."""
    if report.stage is not GroupStage.CHANGED:
        return False
    bodies = (one.body["status"] for one in calls if isinstance(one, ApiCall))
    return all(COUNTS.issuperset(body) for body in bodies)


def _is_recently_sent(kind: str, obj: Any, report: StageReport) -> bool:
    """Return whether the same report was sent within SEEN_BY_THEN_S and the watch has not returned
    the changed object yet.

    Members are bound one by one, and each changes the report about the group.
    """
    reported = "bound" if report.is_bound else "waits" if report.stage in WAITS else "on hold"
    if kind != coscheduling.KIND:
        reported += report.record.message
    record, report_key = report.record, f"{obj.metadata.resource_version} {reported}"
    if record.reported_of == report_key and report.now - record.reported_at < SEEN_BY_THEN_S:
        return True
    record.reported_of, record.reported_at = report_key, report.now
    return False


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _condition(source: workload.WorkloadGroups, obj: Any, report: StageReport) -> list[GroupWrite]:
    is_final = report.record.final == obj.metadata.uid
    if report.is_bound or (is_final and report.stage is GroupStage.CHANGED):
        status, reason, message = "True", reasons.SCHEDULED, ""
        report.record.final = obj.metadata.uid
    elif is_final:
        return []  # True is final, and may be on its way
    elif report.stage in WAITS or (report.stage is GroupStage.ON_HOLD and report.record.message):
        status, message = "False", report.record.message
        reason = reasons.SCHEDULER_ERROR if report.record.is_error else reasons.UNSCHEDULABLE
    else:
        return []
    return condition_effects(source.kind, obj, status, reason, message, report.now)


def condition_effects(
    kind: str, obj: Any, status: str, reason: str, message: str, now: float
) -> list[GroupWrite]:
    """Return the request that writes the condition of a group of scheduling.k8s.io, None if it is
    unchanged.
    """
    source = NESTED[kind]
    reported = Condition(
        source.condition, status, last_transition_time=rfc3339(now), reason=reason,
        message=message[:LONGEST_MESSAGE],
    )  # fmt: skip
    return [*source.conditions(obj, reported)]


def _gang(obj: Any, report: StageReport) -> list[GroupWrite]:
    source = appgroup.SOURCE
    if report.is_bound:
        since = (obj.status.gang or GangStatus()).schedule_time or rfc3339(report.now)
        reported = {"phase": appgroup.SCHEDULED, "message": "", "scheduleTime": since}
        return [*source.status(obj, **reported)]
    if report.has_minimum:
        # unchanged: the next comparison would remove a report that the group waits
        return []
    if report.stage in WAITS or (report.stage is GroupStage.ON_HOLD and report.record.message):
        message = report.record.message[:LONGEST_MESSAGE]
        return [*source.status(obj, phase=appgroup.PENDING, message=message)]
    return []


def _volcano_status(obj: Any, report: StageReport) -> list[GroupWrite]:
    """Return the status that Volcano's scheduler would write: a phase, and why a group waits."""
    source, phase, since = volcano.SOURCE, obj.status.phase, rfc3339(report.now)
    if report.is_bound:
        reported = (
            _volcano_condition(volcano.UNSCHEDULABLE, "False", since, "", ""),
            _volcano_condition(volcano.SCHEDULED, "True", since, reasons.SCHEDULED, ""),
        )
        phase = volcano.COMPLETED if report.is_over else volcano.RUNNING
        return [*source.status(obj, reported, phase=phase, running=report.running)]
    if report.stage is GroupStage.CHANGED:
        if report.members or report.finished:
            phase = volcano.UNKNOWN if source.was_placed(obj) else phase
        elif phase in (volcano.RUNNING, volcano.UNKNOWN):
            phase = volcano.PENDING
        return [*source.status(obj, phase=phase, running=report.running)]
    waits = report.stage in WAITS or (
        report.stage is GroupStage.ON_HOLD and bool(report.record.message)
    )
    if report.has_minimum or (report.stage is not GroupStage.ON_HOLD and not waits):
        # members that wait beyond the minimum are not reported for a group that has its minimum
        return []
    if report.members:
        phase = volcano.UNKNOWN if waits and source.was_placed(obj) else phase
    elif phase != volcano.INQUEUE:
        phase = volcano.PENDING
    if not waits:
        return [*source.status(obj, phase=phase)]
    reason = volcano.NOT_ENOUGH_RESOURCES if report.stage in WAITS else reasons.UNSCHEDULABLE
    why = _volcano_condition(volcano.UNSCHEDULABLE, "True", since, reason, report.record.message)
    return [*source.status(obj, (why,), phase=phase)]


def _volcano_condition(
    kind: str, status: str, since: str, reason: str, message: str
) -> VolcanoCondition:
    text = message[:LONGEST_MESSAGE]
    return VolcanoCondition(kind, status, last_transition_time=since, reason=reason, message=text)


def _phase(obj: Any, report: StageReport) -> list[GroupWrite]:
    source, phase = coscheduling.SOURCE, obj.status.phase
    if report.stage in FOLLOWS:
        phase = _phase_by_pods(phase, report)
        return [*source.status(obj, phase=phase, scheduled=report.bound, running=report.running)]
    if report.stage is GroupStage.ON_HOLD and not phase:
        return [*source.status(obj, phase=coscheduling.PENDING)]
    if report.stage in WAITS:
        # The message has no field of its own; the event contains it, also if the phase is
        # unchanged.
        fields = (
            {} if phase not in ("", coscheduling.PENDING) else {"phase": coscheduling.SCHEDULING}
        )
        if fields:
            fields["scheduleStartTime"] = rfc3339(report.now)
        return [*source.status(obj, **fields)]
    return []


def _phase_by_pods(phase: str, report: StageReport) -> str:
    """Return the phase of Coscheduling's PodGroup by its pods.

    A phase that its own controller may have set for the same pods stays: two writers would
    overwrite each other.
    """
    if report.has_minimum:
        if report.is_over:
            has_failed = any(pod.status.phase == "Failed" for pod in report.finished)
            return coscheduling.FAILED if has_failed else coscheduling.FINISHED
        enough = report.running + len(report.finished) >= report.size
        return coscheduling.RUNNING if enough else coscheduling.SCHEDULED
    if report.members or report.finished:
        return coscheduling.UNKNOWN if phase in coscheduling.PLACED else phase
    return coscheduling.PENDING if phase in (*coscheduling.PLACED, coscheduling.UNKNOWN) else phase
