"""Why a pod is not in the queue: the message of the gating plugin, and the missing members."""

from collections.abc import Iterable, Iterator

from scheduler.engine.engine import Engine
from scheduler.engine.view import QueuedView
from scheduler.framework.groups import COMPOSITE_PREFIX
from scheduler.framework.status import Code, Status
from scheduler.objects.pod import Pod

MOST_NAMED = 3


def gate_text(engine: Engine, queued: QueuedView, others: Iterable[Pod] = ()) -> str:
    """Return the message of the plugin that gates a pod.

    For a member of a group it has the number of members, and the reasons why `others` are no
    members yet. The daemon omits those: every arrival would change the conditions of all pending
    members.
    """
    for bound in engine.profiles[queued.profile].pre_enqueue:
        if bound.name == queued.gated_by:
            try:
                status: Status | None = bound.call(queued.pod)
            except Exception as error:  # noqa: BLE001 - the engine gates the pod because of it
                return str(error)
            if status is None:
                return ""
            # More members do not help a group without a valid description.
            is_awaited = status.code is Code.UNSCHEDULABLE
            counted = _counted(engine, queued, others) if is_awaited else ""
            return f"{status.message}: {counted}" if counted else status.message
    return ""


def _counted(engine: Engine, queued: QueuedView, others: Iterable[Pod]) -> str:
    named = (one for one in engine.group_planners() if one.name == queued.gated_by)
    planner = next(named, None)
    if planner is None:
        return ""
    # The planner reads labels of pods of any scheduler; the engine has its own profiles.
    key = planner.group_of(queued.pod)
    there = {one.pod.metadata.uid for one in engine.view.placed if planner.group_of(one.pod) == key}
    whys = []
    for pod in others:
        if pod.metadata.uid in there or planner.group_of(pod) != key:
            continue
        if why := next(_reasons(pod, engine.profiles), ""):
            whys.append(why)
        else:
            there.add(pod.metadata.uid)
    listed = whys[:MOST_NAMED] + [f"{len(whys) - MOST_NAMED} more"] * (len(whys) > MOST_NAMED)
    if key.startswith(COMPOSITE_PREFIX):  # the message has the counts of its groups
        return ", ".join(listed)
    return "; ".join(filter(None, (there_text(len(there)), ", ".join(listed))))


def there_text(count: int) -> str:
    """Return how many members of a group exist, as words."""
    return f"{count} {'is' if count == 1 else 'are'} there"


def _reasons(pod: Pod, profiles: Iterable[str]) -> Iterator[str]:
    name, spec = pod.metadata.name, pod.spec
    if pod.is_finished:
        yield f"{name} has ended ({pod.status.phase})"
    if spec.scheduler_name not in profiles:
        yield f"{name} does not count: its schedulerName is {spec.scheduler_name}"
    if spec.scheduling_gates and not spec.node_name:
        gates = ", ".join(gate.name for gate in spec.scheduling_gates)
        yield f"{name} does not count yet: it has the scheduling gate {gates}"
    if pod.is_terminating:
        yield f"{name} does not count: it is being deleted"
