"""The Ready, Status and Restarts cells of a pod in a table, as kube-apiserver's printer derives them."""

from scheduler.sandbox.api.status import Object
from scheduler.sandbox.kinds.ages import age
from scheduler.sandbox.store.collection import field


def pod_ready(pod: Object) -> str:
    """`ready/all` containers."""
    statuses = field(pod, "status", "containerStatuses") or ()
    ready = sum(1 for status in statuses if status.get("ready"))
    return f"{ready}/{len(field(pod, 'spec', 'containers') or ())}"


def pod_phase(pod: Object) -> str:
    """The phase, or what keeps the pod from it."""
    status = pod.get("status") or {}
    reason = str(status.get("reason") or status.get("phase") or "Unknown")
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            reason = "SchedulingGated"
    for container in status.get("containerStatuses") or ():
        state = container.get("state") or {}
        waiting, ended = state.get("waiting") or {}, state.get("terminated") or {}
        if waiting.get("reason"):
            reason = str(waiting["reason"])
        elif ended.get("reason"):
            reason = str(ended["reason"])
        elif ended:
            reason = f"ExitCode:{ended.get('exitCode', 0)}"
    if "deletionTimestamp" in pod["metadata"]:
        return "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    return reason


def pod_restarts(pod: Object, now: float) -> str:
    """The sum of restarts, with the time of the last one."""
    total, last = 0, None
    for status in field(pod, "status", "containerStatuses") or ():
        total += int(status.get("restartCount") or 0)
        ended = field(status, "lastState", "terminated", "finishedAt")
        if ended and (last is None or ended > last):
            last = ended
    return f"{total} ({age(last, now)} ago)" if total and last else str(total)
