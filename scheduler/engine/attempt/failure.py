"""How a failed attempt is reported: the PodScheduled condition and the event, in kube-scheduler's
format.
"""

from collections.abc import Mapping, Sequence

import msgspec

from scheduler.base import reasons
from scheduler.base.clock import rfc3339
from scheduler.base.text import go_duration
from scheduler.engine.effects import Record, SetStatus
from scheduler.engine.queue.pod import QueuedPod
from scheduler.framework.calls import PodEvent, WaitUntil
from scheduler.framework.groups import COMPOSITE_PREFIX, GroupEvent, title
from scheduler.framework.hypothetical.disruption import Disruption
from scheduler.framework.status import Status
from scheduler.objects.node import Node
from scheduler.objects.pod import Pod, PodCondition
from scheduler.state.podindex import Placed

POD_SCHEDULED = "PodScheduled"
# A note has at most 1,024 bytes; names of pods and nodes may be long.
MOST_NAMED = 8
# A patch that the pod does not show after this long was refused, or another client has overwritten
# it: the next attempt writes it again. Retries of an unanswered patch are over by then.
SHOWN_WITHIN_S = 60.0


def rejected_after_choice(status: Status) -> str:
    """Return the message of a pod that reserve or permit rejected, after a node was chosen."""
    return f"0/1 nodes are available: 1 {status.message}."


def status_patch(
    queued: QueuedPod, reason: str, message: str, nominated_node: str | None, now: float
) -> SetStatus | None:
    """Return the patch with the reason why the pod is not scheduled, or None if it is unchanged.

    The time of the condition moves only when its status flips, as the API conventions require.
    """
    pod = queued.pod
    known = pod.condition(POD_SCHEDULED)
    reported = queued.reported if now - queued.reported_at < SHOWN_WITHIN_S else None
    reported = reported or ((known.reason, known.message) if known is not None else None)
    is_changed = reported != (reason, message) or (known is not None and known.status != "False")
    if nominated_node is not None and nominated_node == _nominated(queued):
        nominated_node = None
    if nominated_node is not None:
        queued.nominated = nominated_node
    if not is_changed and nominated_node is None:
        return None
    condition = None
    if is_changed:
        since = queued.reported_since
        if known is not None and known.status == "False":
            since = known.last_transition_time
        queued.reported, queued.reported_at = (reason, message), now
        queued.reported_since = since or rfc3339(now)
        condition = PodCondition(
            type=POD_SCHEDULED,
            status="False",
            reason=reason,
            message=message,
            observed_generation=pod.metadata.generation,
            last_transition_time=queued.reported_since,
        )
    meta = pod.metadata
    return SetStatus(meta.namespace, meta.name, meta.uid, condition, nominated_node)


def waited_too_long(plugin: str, timeout_s: float) -> str:
    """Return the reason of a pod that a permit plugin did not allow in time."""
    return f"rejected due to timeout after waiting {go_duration(timeout_s)} at plugin {plugin}"


def waiting(
    queued: QueuedPod, node: str, until: WaitUntil, now: float
) -> tuple[SetStatus | None, Record]:
    """Return the patch (None as above) and the warning for a pod with a chosen node that waits;
    both state the reason.
    """
    kinds = sorted({fact.partition(".")[0] for fact in until.reads} - {"node", "pod"})
    what = until.what or f"{', '.join(kinds)} are ready"
    text = (
        f"node {node} is chosen and its capacity reserved; waiting for up to "
        f"{go_duration(until.timeout_s)} until {what}"
    )
    return (
        status_patch(queued, reasons.WAITING_ON_PRE_BIND, text, None, now),
        _record(queued.pod, "Warning", reasons.WAITING_ON_PRE_BIND, "Binding", text, now),
    )


def waiting_for_members(
    queued: QueuedPod, node: str, others: str, now: float
) -> tuple[SetStatus | Record, ...]:
    """Return the patch and the warning of a member that waits for the pre-bind of others; () if
    known.
    """
    text = (
        f"node {node} is chosen and its capacity reserved; its group is bound together, "
        f"and waits for the volumes or claims of {others}"
    )
    patch = status_patch(queued, reasons.WAITING_ON_PRE_BIND, text, None, now)
    if patch is None:
        return ()
    record = _record(queued.pod, "Warning", reasons.WAITING_ON_PRE_BIND, "Binding", text, now)
    return patch, record


def nomination_patch(queued: QueuedPod, node: str) -> SetStatus | None:
    """Return the patch that sets or clears a pod's nomination, or None if it is so already."""
    if _nominated(queued) == node:
        return None
    queued.nominated = node
    meta = queued.pod.metadata
    return SetStatus(meta.namespace, meta.name, meta.uid, None, node)


def _nominated(queued: QueuedPod) -> str:
    """Return the nomination as we wrote it, or as the watch shows it."""
    wrote = queued.nominated
    return queued.pod.status.nominated_node_name if wrote is None else wrote


def failed_event(pod: Pod, message: str, now: float) -> Record:
    """Return the warning that an attempt failed."""
    return _record(pod, "Warning", reasons.FAILED_SCHEDULING, "Scheduling", message, now)


def scheduled_event(pod: Pod, node: str, now: float) -> Record:
    """Return the event that a pod was bound."""
    note = f"Successfully assigned {pod.key} to {node}"
    return _record(pod, "Normal", reasons.SCHEDULED, "Binding", note, now)


def plain_event(pod: Pod, event: PodEvent, now: float) -> Record:
    """Return a plugin's event on a pod."""
    return _record(pod, "Normal", event.reason, event.action, event.note, now)


def missing_event(pod: Pod, text: str, now: float) -> Record:
    """Return the warning that an object which the pod refers to does not exist."""
    return _record(pod, "Warning", reasons.MISSING_OBJECT, "Scheduling", text, now)


def node_event(node: Node, scheduler: str, reason: str, text: str, now: float) -> Record:
    """Return a warning about a node; `scheduler` is the profile that reports it."""
    meta = node.metadata
    return Record(
        "default",
        meta.name,
        meta.uid,
        meta.resource_version,
        scheduler,
        "Warning",
        reason,
        "Scheduling",
        text,
        now,
        kind="Node",
    )


def group_event(event: GroupEvent, now: float) -> Record:
    """Return the event about the object that describes a group."""
    return Record(
        event.namespace,
        event.name,
        event.uid,
        event.resource_version,
        event.reporter,
        event.type,
        event.reason,
        event.action,
        event.note,
        now,
        kind=event.kind,
        api_version=event.api_version,
    )


def released_event(member: Pod, group: str, why: str, now: float) -> Record:
    """Return the event on a bound member that its group releases, with the reason."""
    note = f"The group {group} lets its bound members go: it has never been whole, and {why}"
    return _record(member, "Warning", reasons.GROUP_RELEASED, "Releasing", note, now)


def left_event(member: Pod, group: str, now: float) -> Record:
    """Return the event on a member that is evicted as the last of a group that was evicted."""
    note = (
        f"The group {group} was evicted for another, as an event on each of its pods says; "
        "this one could not be evicted then and goes now, for no part of a group stays alone"
    )
    return _record(member, "Warning", reasons.GROUP_RELEASED, "Evicting", note, now)


class PreemptionRecord(msgspec.Struct, frozen=True):
    """The preemptor, for the victims' events: `plugin` chose the victims for `pod`, nominated to
    `node`.

    `group` is the key of the group that `pod` acts for, empty for a pod without a group. `expected`
    has by uid the nodes where victims are expected to fit, `disruption` what they count for in
    metrics.
    """

    pod: Pod
    node: str
    plugin: str
    group: str = ""
    expected: Mapping[str, str] = {}
    disruption: Disruption = Disruption()

    @property
    def group_name(self) -> str:
        """Return the display name of the group, or ''."""
        return title(self.group)

    @property
    def preemptor(self) -> str:
        """Return the type of the preemptor, as kube-scheduler's metrics name it."""
        if not self.group:
            return "pod"
        return "compositepodgroup" if self.group.startswith(COMPOSITE_PREFIX) else "podgroup"


def preempted_event(victim: Placed, by: PreemptionRecord, now: float) -> Record:
    """Return the event on a victim that names its preemptor; reported by the preemptor's profile.

    Begins as kube-scheduler's, with the victim's own node.
    """
    note = f"Preempted by pod {by.pod.metadata.uid} on node {victim.node}"
    if victim.assumed:
        note += " (in kube-scheduler memory)"
    what = f"group {by.group_name}, pod {by.pod.key}" if by.group else f"pod {by.pod.key}"
    note += f": {by.plugin} frees capacity for the {what} of priority {by.pod.priority}"
    if victim.node != by.node and not by.group:
        note += f" on node {by.node}, and all pods of this group go together"
    elsewhere = by.expected.get(victim.pod.metadata.uid)
    if elsewhere:
        note += f"; it is expected to fit on node {elsewhere}"
    profile, related = by.pod.spec.scheduler_name, by.pod.metadata
    about = _record(victim.pod, "Normal", reasons.PREEMPTED, "Preempting", note, now)
    return msgspec.structs.replace(
        about, scheduler_name=profile, related=(related.namespace, related.name, related.uid)
    )


def preempting_event(by: PreemptionRecord, victims: Sequence[Placed], now: float) -> Record:
    """Return the event on a preemptor that lists its victims; of many it names the first."""
    named = [f"{victim.pod.key} on node {victim.node}" for victim in victims[:MOST_NAMED]]
    if len(victims) > MOST_NAMED:
        named.append(f"{len(victims) - MOST_NAMED} more")
    number = f"{len(victims)} {'pod' if len(victims) == 1 else 'pods'} of lower priority"
    who = f"the group {by.group_name}" if by.group else f"it on node {by.node}"
    note = f"{by.plugin} frees capacity for {who} by evicting {number}: {', '.join(named)}"
    return _record(by.pod, "Normal", reasons.PREEMPTING, "Preempting", note, now)


def _record(pod: Pod, kind: str, reason: str, action: str, note: str, now: float) -> Record:
    meta = pod.metadata
    return Record(
        meta.namespace,
        meta.name,
        meta.uid,
        meta.resource_version,
        pod.spec.scheduler_name,
        kind,
        reason,
        action,
        note,
        now,
    )
