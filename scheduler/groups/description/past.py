"""A group's past by its objects: whether it was ever whole, or was certainly never whole.

Nothing is kept in memory for this: a process that restarts or takes over reads the same objects and
reaches the same answer. Members of a whole group carry a label that is written once all are bound;
a group that may have been whole is never dissolved. Called by `deciding` before bound members are
dissolved; pure.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from scheduler.base.clock import parse_rfc3339
from scheduler.base.reasons import PREEMPTION_BY_SCHEDULER
from scheduler.groups.sources.configmap import BOUND
from scheduler.groups.sources.registry import BY_KIND
from scheduler.groups.status.lifecycle import MEMBER_STATUS
from scheduler.objects.pod import Pod
from scheduler.state.podindex import Placed


def was_whole(members: Iterable[Pod], described_by: Iterable[tuple[str, Any]]) -> bool:
    """Return whether an object shows that all members, or the minimum, were bound at one time.

    `members` are bound or finished. The next refusal overwrites the status of a ConfigMap, the
    label of a bound member lasts as long as the member: either is enough.
    """
    if any(one.metadata.labels.get(MEMBER_STATUS) == BOUND for one in members):
        return True
    return any(BY_KIND[kind].was_placed(obj) for kind, obj in described_by)


def never_whole(
    placed: Sequence[Placed], waiting: Sequence[Pod], size: int, described: Iterable[str | None]
) -> bool:
    """Return whether it is certain that the group has never had all its members bound.

    It is certain if the waiting members are exactly the missing ones and all existed before the
    first of the others was bound: a member of a complete group would still be bound. A member that
    was created later may replace a deleted one whose binding is unknown. The objects that describe
    the group must be as old, and unchanged since (`described` is the time of the last change):
    earlier objects may have existed, or may have been edited. Terminating members count as placed.
    Times are whole seconds, so equal ones prove nothing; neither do missing ones.
    """
    if len(placed) + len(waiting) != size:
        return False
    bound = [bound_at(one.pod) for one in placed]
    times = (*(one.metadata.creation_timestamp for one in waiting), *described)
    created = [parse_rfc3339(time) for time in times]
    first = min((time for time in bound if time is not None), default=None)
    if first is None or None in bound:
        return False
    return all(time is not None and time < first for time in created)


def is_marked(pod: Pod) -> bool:
    """Return whether an eviction of this pod was begun for a pod of higher priority and has not
    been undone.

    Kubernetes removes the mark after two minutes if the pod is still there.
    """
    mark = pod.condition("DisruptionTarget")
    return mark is not None and (mark.status, mark.reason) == ("True", PREEMPTION_BY_SCHEDULER)


def bound_at(pod: Pod) -> float | None:
    """Return when a pod was bound, in seconds since the epoch; None for a pod that was created with
    a node.
    """
    scheduled = pod.condition("PodScheduled")
    if scheduled is None or scheduled.status != "True":
        return None
    return parse_rfc3339(scheduled.last_transition_time)
