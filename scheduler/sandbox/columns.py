"""What `kubectl get` shows of each built-in kind: column names and how a cell is made.

One row of columns per kind in `COLUMNS`; the name column is put in front by `tables.py`. Cells follow
kube-apiserver's printers.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from scheduler.base.clock import parse_rfc3339
from scheduler.sandbox.ages import age, duration
from scheduler.sandbox.collection import field
from scheduler.sandbox.podcells import pod_phase, pod_ready, pod_restarts
from scheduler.sandbox.status import Object

Cell = Callable[[Object, float], Any]
_NONE: Final = "<none>"


@dataclass(frozen=True, slots=True)
class Column:
    """A column: `cell(object, now)` gives the value, priority 1 shows only with `-o wide`."""

    name: str
    type: str
    cell: Cell
    form: str = ""
    priority: int = 0
    description: str = ""

    def definition(self) -> Object:
        """The column as a table tells it."""
        return {
            "name": self.name,
            "type": self.type,
            "format": self.form,
            "description": self.description,
            "priority": self.priority,
        }


def _text(name: str, *path: str, empty: str = "", wide: bool = False) -> Column:
    def cell(obj: Object, _now: float) -> Any:
        found = field(obj, *path)
        return empty if found in (None, "") else str(found)

    return Column(name, "string", cell, priority=int(wide))


def _count(name: str, *path: str, kind: str = "integer") -> Column:
    return Column(name, kind, lambda obj, _now: field(obj, *path) or 0)


def _made(
    name: str, cell: Callable[[Object], Any], kind: str = "string", *, wide: bool = False
) -> Column:
    return Column(name, kind, lambda obj, _now: cell(obj), priority=int(wide))


def _when(name: str, *path: str) -> Column:
    return Column(name, "string", lambda obj, now: age(field(obj, *path), now))


_AGE: Final = _when("Age", "metadata", "creationTimestamp")


def _node_status(obj: Object) -> str:
    words = [
        "Ready" if condition.get("status") == "True" else "NotReady"
        for condition in field(obj, "status", "conditions") or ()
        if condition.get("type") == "Ready"
    ] or ["Unknown"]
    if field(obj, "spec", "unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def _kernel(obj: Object) -> str:
    info = field(obj, "status", "nodeInfo") or {}
    version, machine = info.get("kernelVersion"), info.get("architecture")
    if not version:
        return "<unknown>"
    return f"{version} ({machine})" if machine else str(version)


def _node_roles(obj: Object) -> str:
    labels = obj["metadata"].get("labels") or {}
    roles = {
        key.removeprefix("node-role.kubernetes.io/")
        for key in labels
        if key.startswith("node-role.kubernetes.io/")
    }
    if labels.get("kubernetes.io/role"):
        roles.add(labels["kubernetes.io/role"])
    return ",".join(sorted(roles)) or _NONE


def _address(kind: str) -> Callable[[Object], str]:
    def cell(obj: Object) -> str:
        for entry in field(obj, "status", "addresses") or ():
            if entry.get("type") == kind:
                return str(entry.get("address"))
        return _NONE

    return cell


def _ratio(top: tuple[str, ...], bottom: tuple[str, ...]) -> Callable[[Object], str]:
    return lambda obj: f"{field(obj, *top) or 0}/{field(obj, *bottom) or 0}"


def _template(part: str) -> Callable[[Object], str]:
    def cell(obj: Object) -> str:
        found = field(obj, "spec", "template", "spec", "containers") or ()
        return ",".join(str(container.get(part, "")) for container in found)

    return cell


def _selector(obj: Object) -> str:
    selector = field(obj, "spec", "selector") or {}
    pairs = selector.get("matchLabels", selector)
    if not isinstance(pairs, dict) or not pairs:
        return _NONE
    return ",".join(f"{key}={pairs[key]}" for key in sorted(pairs) if isinstance(pairs[key], str))


def _pairs(*path: str) -> Callable[[Object], str]:
    def cell(obj: Object) -> str:
        found = field(obj, *path) or {}
        return ",".join(f"{key}={found[key]}" for key in sorted(found)) or _NONE

    return cell


def _ports(obj: Object) -> str:
    shown = []
    for port in field(obj, "spec", "ports") or ():
        outside = f":{port['nodePort']}" if port.get("nodePort") else ""
        shown.append(f"{port.get('port')}{outside}/{port.get('protocol', 'TCP')}")
    return ",".join(shown) or _NONE


def _external(obj: Object) -> str:
    spec = obj.get("spec") or {}
    if spec.get("type") == "ExternalName":
        return str(spec.get("externalName", ""))
    if spec.get("externalIPs"):
        return ",".join(spec["externalIPs"])
    return "<pending>" if spec.get("type") == "LoadBalancer" else _NONE


def _job_status(obj: Object) -> str:
    for condition in field(obj, "status", "conditions") or ():
        if condition.get("status") == "True" and condition.get("type") in ("Complete", "Failed"):
            return str(condition["type"])
    if "deletionTimestamp" in obj["metadata"]:
        return "Terminating"
    return "Suspended" if field(obj, "spec", "suspend") else "Running"


def _job_duration(obj: Object, now: float) -> str:
    start = parse_rfc3339(field(obj, "status", "startTime"))
    if start is None:
        return ""
    end = parse_rfc3339(field(obj, "status", "completionTime"))
    return duration((now if end is None else end) - start)


def _job_completions(obj: Object) -> str:
    done, wanted = field(obj, "status", "succeeded") or 0, field(obj, "spec", "completions")
    return f"{done}/{wanted}" if wanted is not None else f"{done}/1"


def _size(*names: str) -> Callable[[Object], int]:
    return lambda obj: sum(len(obj.get(name) or ()) for name in names)


def _budget_field(name: str) -> Callable[[Object], str]:
    def cell(obj: Object) -> str:
        found = field(obj, "spec", name)
        return "N/A" if found is None else str(found)

    return cell


def _event_object(obj: Object) -> str:
    about = obj.get("involvedObject") or {}
    return f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}"


def _event_seen(obj: Object, now: float) -> str:
    series = obj.get("series") or {}
    last = series.get("lastObservedTime") or obj.get("lastTimestamp") or obj.get("eventTime")
    return age(last, now)


def _event_first(obj: Object, now: float) -> str:
    return age(obj.get("firstTimestamp") or obj.get("eventTime"), now)


def _event_count(obj: Object) -> int:
    return field(obj, "series", "count") or obj.get("count") or 1


def _event_source(obj: Object) -> str:
    source = obj.get("source") or {}
    name = source.get("component") or obj.get("reportingComponent") or ""
    host = source.get("host") or obj.get("reportingInstance")
    return f"{name}, {host}" if host else name


def _modes(obj: Object) -> str:
    short = {
        "ReadWriteOnce": "RWO",
        "ReadOnlyMany": "ROX",
        "ReadWriteMany": "RWX",
        "ReadWriteOncePod": "RWOP",
    }
    return ",".join(short.get(mode, mode) for mode in field(obj, "spec", "accessModes") or ())


def _bound_modes(obj: Object) -> str:
    return _modes(obj) if field(obj, "spec", "volumeName") else ""


def _claim_of(obj: Object) -> str:
    claim = field(obj, "spec", "claimRef")
    return f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else ""


_CREATED: Final = Column(
    "Created At", "date", lambda obj, _now: obj["metadata"].get("creationTimestamp")
)
_TEMPLATE_WIDE: Final = (
    _made("Containers", _template("name"), wide=True),
    _made("Images", _template("image"), wide=True),
    _made("Selector", _selector, wide=True),
)

COLUMNS: Final[dict[str, tuple[Column, ...]]] = {
    "pods": (
        _made("Ready", pod_ready),
        _made("Status", pod_phase),
        Column("Restarts", "string", pod_restarts),
        _AGE,
        _text("IP", "status", "podIP", empty=_NONE, wide=True),
        _text("Node", "spec", "nodeName", empty=_NONE, wide=True),
        _text("Nominated Node", "status", "nominatedNodeName", empty=_NONE, wide=True),
        _made("Readiness Gates", lambda _obj: _NONE, wide=True),
    ),
    "nodes": (
        _made("Status", _node_status),
        _made("Roles", _node_roles),
        _AGE,
        _text("Version", "status", "nodeInfo", "kubeletVersion"),
        _made("Internal-IP", _address("InternalIP"), wide=True),
        _made("External-IP", _address("ExternalIP"), wide=True),
        _text("OS-Image", "status", "nodeInfo", "osImage", empty="<unknown>", wide=True),
        _made("Kernel-Version", _kernel, wide=True),
        _text(
            "Container-Runtime",
            "status",
            "nodeInfo",
            "containerRuntimeVersion",
            empty="<unknown>",
            wide=True,
        ),
    ),
    "namespaces": (_text("Status", "status", "phase"), _AGE),
    "services": (
        _text("Type", "spec", "type"),
        _text("Cluster-IP", "spec", "clusterIP", empty=_NONE),
        _made("External-IP", _external),
        _made("Port(s)", _ports),
        _AGE,
        _made("Selector", _pairs("spec", "selector"), wide=True),
    ),
    "deployments.apps": (
        _made("Ready", _ratio(("status", "readyReplicas"), ("spec", "replicas"))),
        _count("Up-to-date", "status", "updatedReplicas", kind="string"),
        _count("Available", "status", "availableReplicas", kind="string"),
        _AGE,
        *_TEMPLATE_WIDE,
    ),
    "replicasets.apps": (
        _count("Desired", "spec", "replicas"),
        _count("Current", "status", "replicas"),
        _count("Ready", "status", "readyReplicas"),
        _AGE,
        *_TEMPLATE_WIDE,
    ),
    "statefulsets.apps": (
        _made("Ready", _ratio(("status", "readyReplicas"), ("spec", "replicas"))),
        _AGE,
        *_TEMPLATE_WIDE[:2],
    ),
    "daemonsets.apps": (
        _count("Desired", "status", "desiredNumberScheduled"),
        _count("Current", "status", "currentNumberScheduled"),
        _count("Ready", "status", "numberReady"),
        _count("Up-to-date", "status", "updatedNumberScheduled"),
        _count("Available", "status", "numberAvailable"),
        _made("Node Selector", _pairs("spec", "template", "spec", "nodeSelector")),
        _AGE,
        *_TEMPLATE_WIDE,
    ),
    "jobs.batch": (
        _made("Status", _job_status),
        _made("Completions", _job_completions),
        Column("Duration", "string", _job_duration),
        _AGE,
        *_TEMPLATE_WIDE,
    ),
    "cronjobs.batch": (
        _text("Schedule", "spec", "schedule"),
        _text("Timezone", "spec", "timeZone", empty=_NONE),
        _made("Suspend", lambda obj: "True" if field(obj, "spec", "suspend") else "False"),
        _made("Active", lambda obj: len(field(obj, "status", "active") or ()), "integer"),
        Column(
            "Last Schedule",
            "string",
            lambda obj, now: (
                age(t, now) if (t := field(obj, "status", "lastScheduleTime")) else _NONE
            ),
        ),
        _AGE,
    ),
    "configmaps": (_made("Data", _size("data", "binaryData"), "string"), _AGE),
    "secrets": (_text("Type", "type"), _made("Data", _size("data"), "string"), _AGE),
    "poddisruptionbudgets.policy": (
        _made("Min Available", _budget_field("minAvailable")),
        _made("Max Unavailable", _budget_field("maxUnavailable")),
        _count("Allowed Disruptions", "status", "disruptionsAllowed"),
        _AGE,
    ),
    "priorityclasses.scheduling.k8s.io": (
        _count("Value", "value"),
        _made("Global-Default", lambda obj: bool(obj.get("globalDefault")), "boolean"),
        _AGE,
        _text("PreemptionPolicy", "preemptionPolicy"),
    ),
    "leases.coordination.k8s.io": (_text("Holder", "spec", "holderIdentity"), _AGE),
    "events": (
        Column("Last Seen", "string", _event_seen),
        _text("Type", "type"),
        _text("Reason", "reason"),
        _made("Object", _event_object),
        _text("Subobject", "involvedObject", "fieldPath", wide=True),
        _made("Source", _event_source, wide=True),
        _text("Message", "message"),
        Column("First Seen", "string", _event_first, priority=1),
        _made("Count", _event_count, wide=True),
        Column("Name", "string", lambda obj, _now: obj["metadata"]["name"], "name", 1),
    ),
    "persistentvolumeclaims": (
        _text("Status", "status", "phase"),
        _text("Volume", "spec", "volumeName"),
        _text("Capacity", "status", "capacity", "storage"),
        _made("Access Modes", _bound_modes),
        _text("StorageClass", "spec", "storageClassName"),
        _text("VolumeAttributesClass", "spec", "volumeAttributesClassName", empty="<unset>"),
        _AGE,
        _text("VolumeMode", "spec", "volumeMode", wide=True),
    ),
    "persistentvolumes": (
        _text("Capacity", "spec", "capacity", "storage"),
        _made("Access Modes", _modes),
        _text("Reclaim Policy", "spec", "persistentVolumeReclaimPolicy"),
        _text("Status", "status", "phase"),
        _made("Claim", _claim_of),
        _text("StorageClass", "spec", "storageClassName"),
        _AGE,
    ),
    "storageclasses.storage.k8s.io": (
        _text("Provisioner", "provisioner"),
        _text("ReclaimPolicy", "reclaimPolicy"),
        _text("VolumeBindingMode", "volumeBindingMode"),
        _made("AllowVolumeExpansion", lambda obj: bool(obj.get("allowVolumeExpansion")), "boolean"),
        _AGE,
    ),
    "roles.rbac.authorization.k8s.io": (_CREATED,),
    "clusterroles.rbac.authorization.k8s.io": (_CREATED,),
    "customresourcedefinitions.apiextensions.k8s.io": (
        _text("Created At", "metadata", "creationTimestamp"),
    ),
}
