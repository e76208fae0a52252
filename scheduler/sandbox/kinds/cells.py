"""The cells of `columns.py` that are more than a plain field.

Each function takes an object (and the time where needed) and returns kubectl's text; they follow
kube-apiserver's printers.
"""

from collections.abc import Callable
from typing import Final

from scheduler.base.clock import parse_rfc3339
from scheduler.sandbox.api.status import Object
from scheduler.sandbox.kinds.humanduration import age, duration
from scheduler.sandbox.store.collection import field

NONE: Final = "<none>"


def pod_ready(pod: Object) -> str:
    """`ready/all` containers."""
    statuses = field(pod, "status", "containerStatuses") or ()
    ready = sum(1 for status in statuses if status.get("ready"))
    return f"{ready}/{len(field(pod, 'spec', 'containers') or ())}"


def pod_phase(pod: Object) -> str:
    """Return the phase, or the reason that replaces it."""
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
    """Return the sum of restarts, with the time of the last one."""
    total, last = 0, None
    for status in field(pod, "status", "containerStatuses") or ():
        total += int(status.get("restartCount") or 0)
        ended = field(status, "lastState", "terminated", "finishedAt")
        if ended and (last is None or ended > last):
            last = ended
    return f"{total} ({age(last, now)} ago)" if total and last else str(total)


def node_status(obj: Object) -> str:
    """Return whether the node is Ready, and whether it is schedulable."""
    words = [
        "Ready" if condition.get("status") == "True" else "NotReady"
        for condition in field(obj, "status", "conditions") or ()
        if condition.get("type") == "Ready"
    ] or ["Unknown"]
    if field(obj, "spec", "unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def kernel(obj: Object) -> str:
    """Kernel version and architecture."""
    info = field(obj, "status", "nodeInfo") or {}
    version, machine = info.get("kernelVersion"), info.get("architecture")
    if not version:
        return "<unknown>"
    return f"{version} ({machine})" if machine else str(version)


def node_roles(obj: Object) -> str:
    """Return the roles its labels give a node."""
    labels = obj["metadata"].get("labels") or {}
    roles = {
        key.removeprefix("node-role.kubernetes.io/")
        for key in labels
        if key.startswith("node-role.kubernetes.io/")
    }
    if labels.get("kubernetes.io/role"):
        roles.add(labels["kubernetes.io/role"])
    return ",".join(sorted(roles)) or NONE


def address(kind: str) -> Callable[[Object], str]:
    """Return a cell that shows the address of one type."""

    def cell(obj: Object) -> str:
        for entry in field(obj, "status", "addresses") or ():
            if entry.get("type") == kind:
                return str(entry.get("address"))
        return NONE

    return cell


def ratio(top: tuple[str, ...], bottom: tuple[str, ...]) -> Callable[[Object], str]:
    """Return a cell that shows `top/bottom`."""
    return lambda obj: f"{field(obj, *top) or 0}/{field(obj, *bottom) or 0}"


def template(part: str) -> Callable[[Object], str]:
    """Return a cell that joins one field of the template's containers."""

    def cell(obj: Object) -> str:
        found = field(obj, "spec", "template", "spec", "containers") or ()
        return ",".join(str(container.get(part, "")) for container in found)

    return cell


def selector(obj: Object) -> str:
    """Return the selector of a workload."""
    selector = field(obj, "spec", "selector") or {}
    pairs = selector.get("matchLabels", selector)
    if not isinstance(pairs, dict) or not pairs:
        return NONE
    return ",".join(f"{key}={pairs[key]}" for key in sorted(pairs) if isinstance(pairs[key], str))


def pairs(*path: str) -> Callable[[Object], str]:
    """Return a cell that shows a map as `key=value,...`."""

    def cell(obj: Object) -> str:
        found = field(obj, *path) or {}
        return ",".join(f"{key}={found[key]}" for key in sorted(found)) or NONE

    return cell


def ports(obj: Object) -> str:
    """Return the ports of a service."""
    shown = []
    for port in field(obj, "spec", "ports") or ():
        outside = f":{port['nodePort']}" if port.get("nodePort") else ""
        shown.append(f"{port.get('port')}{outside}/{port.get('protocol', 'TCP')}")
    return ",".join(shown) or NONE


def external(obj: Object) -> str:
    """Return the external addresses of a service."""
    spec = obj.get("spec") or {}
    if spec.get("type") == "ExternalName":
        return str(spec.get("externalName", ""))
    if spec.get("externalIPs"):
        return ",".join(spec["externalIPs"])
    return "<pending>" if spec.get("type") == "LoadBalancer" else NONE


def job_status(obj: Object) -> str:
    """Return the state of a job."""
    for condition in field(obj, "status", "conditions") or ():
        if condition.get("status") == "True" and condition.get("type") in ("Complete", "Failed"):
            return str(condition["type"])
    if "deletionTimestamp" in obj["metadata"]:
        return "Terminating"
    return "Suspended" if field(obj, "spec", "suspend") else "Running"


def job_duration(obj: Object, now: float) -> str:
    """How long a job has run."""
    start = parse_rfc3339(field(obj, "status", "startTime"))
    if start is None:
        return ""
    end = parse_rfc3339(field(obj, "status", "completionTime"))
    return duration((now if end is None else end) - start)


def job_completions(obj: Object) -> str:
    """Return the succeeded pods of the wanted number."""
    done, wanted = field(obj, "status", "succeeded") or 0, field(obj, "spec", "completions")
    return f"{done}/{wanted}" if wanted is not None else f"{done}/1"


def size(*names: str) -> Callable[[Object], int]:
    """Return a cell that counts the entries of some maps."""
    return lambda obj: sum(len(obj.get(name) or ()) for name in names)


def budget_field(name: str) -> Callable[[Object], str]:
    """Return a cell that shows one side of a budget."""

    def cell(obj: Object) -> str:
        found = field(obj, "spec", name)
        return "N/A" if found is None else str(found)

    return cell


def event_object(obj: Object) -> str:
    """Return the object of an event."""
    about = obj.get("involvedObject") or {}
    return f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}"


def event_seen(obj: Object, now: float) -> str:
    """Return when an event was last seen."""
    series = obj.get("series") or {}
    last = series.get("lastObservedTime") or obj.get("lastTimestamp") or obj.get("eventTime")
    return age(last, now)


def event_first(obj: Object, now: float) -> str:
    """When an event was seen first."""
    return age(obj.get("firstTimestamp") or obj.get("eventTime"), now)


def event_count(obj: Object) -> int:
    """How often an event was seen."""
    return field(obj, "series", "count") or obj.get("count") or 1


def event_source(obj: Object) -> str:
    """Return the reporter of an event."""
    source = obj.get("source") or {}
    name = source.get("component") or obj.get("reportingComponent") or ""
    host = source.get("host") or obj.get("reportingInstance")
    return f"{name}, {host}" if host else name


def modes(obj: Object) -> str:
    """Access modes, short."""
    short = {
        "ReadWriteOnce": "RWO",
        "ReadOnlyMany": "ROX",
        "ReadWriteMany": "RWX",
        "ReadWriteOncePod": "RWOP",
    }
    return ",".join(short.get(mode, mode) for mode in field(obj, "spec", "accessModes") or ())


def bound_modes(obj: Object) -> str:
    """Access modes of a claim that has its volume."""
    return modes(obj) if field(obj, "spec", "volumeName") else ""


def claim_of(obj: Object) -> str:
    """Return the claim that a volume belongs to."""
    claim = field(obj, "spec", "claimRef")
    return f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else ""
