"""The columns of `kubectl get` for each built-in kind: names and cells.

One row of columns per kind in `COLUMNS`; `tables.py` adds the name column in front. Cells follow
kube-apiserver's printers.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from scheduler.sandbox.api.status import Object
from scheduler.sandbox.kinds import cells
from scheduler.sandbox.kinds.humanduration import age
from scheduler.sandbox.store.collection import field

Cell = Callable[[Object, float], Any]


@dataclass(frozen=True, slots=True)
class PrinterColumn:
    """A column: `cell(object, now)` gives the value, priority 1 shows only with `-o wide`."""

    name: str
    type: str
    cell: Cell
    form: str = ""
    priority: int = 0
    description: str = ""

    def definition(self) -> Object:
        """Return the column's definition in a Table."""
        return {
            "name": self.name,
            "type": self.type,
            "format": self.form,
            "description": self.description,
            "priority": self.priority,
        }


def _text(name: str, *path: str, empty: str = "", wide: bool = False) -> PrinterColumn:
    def cell(obj: Object, _now: float) -> Any:
        found = field(obj, *path)
        return empty if found in (None, "") else str(found)

    return PrinterColumn(name, "string", cell, priority=int(wide))


def _count(name: str, *path: str, kind: str = "integer") -> PrinterColumn:
    return PrinterColumn(name, kind, lambda obj, _now: field(obj, *path) or 0)


def _made(
    name: str, cell: Callable[[Object], Any], kind: str = "string", *, wide: bool = False
) -> PrinterColumn:
    return PrinterColumn(name, kind, lambda obj, _now: cell(obj), priority=int(wide))


def _when(name: str, *path: str) -> PrinterColumn:
    return PrinterColumn(name, "string", lambda obj, now: age(field(obj, *path), now))


_AGE: Final = _when("Age", "metadata", "creationTimestamp")


_CREATED: Final = PrinterColumn(
    "Created At", "date", lambda obj, _now: obj["metadata"].get("creationTimestamp")
)
_TEMPLATE_WIDE: Final = (
    _made("Containers", cells.template("name"), wide=True),
    _made("Images", cells.template("image"), wide=True),
    _made("Selector", cells.selector, wide=True),
)

COLUMNS: Final[dict[str, tuple[PrinterColumn, ...]]] = {
    "pods": (
        _made("Ready", cells.pod_ready),
        _made("Status", cells.pod_phase),
        PrinterColumn("Restarts", "string", cells.pod_restarts),
        _AGE,
        _text("IP", "status", "podIP", empty=cells.NONE, wide=True),
        _text("Node", "spec", "nodeName", empty=cells.NONE, wide=True),
        _text("Nominated Node", "status", "nominatedNodeName", empty=cells.NONE, wide=True),
        _made("Readiness Gates", lambda _obj: cells.NONE, wide=True),
    ),
    "nodes": (
        _made("Status", cells.node_status),
        _made("Roles", cells.node_roles),
        _AGE,
        _text("Version", "status", "nodeInfo", "kubeletVersion"),
        _made("Internal-IP", cells.address("InternalIP"), wide=True),
        _made("External-IP", cells.address("ExternalIP"), wide=True),
        _text("OS-Image", "status", "nodeInfo", "osImage", empty="<unknown>", wide=True),
        _made("Kernel-Version", cells.kernel, wide=True),
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
        _text("Cluster-IP", "spec", "clusterIP", empty=cells.NONE),
        _made("External-IP", cells.external),
        _made("Port(s)", cells.ports),
        _AGE,
        _made("Selector", cells.pairs("spec", "selector"), wide=True),
    ),
    "deployments.apps": (
        _made("Ready", cells.ratio(("status", "readyReplicas"), ("spec", "replicas"))),
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
        _made("Ready", cells.ratio(("status", "readyReplicas"), ("spec", "replicas"))),
        _AGE,
        *_TEMPLATE_WIDE[:2],
    ),
    "daemonsets.apps": (
        _count("Desired", "status", "desiredNumberScheduled"),
        _count("Current", "status", "currentNumberScheduled"),
        _count("Ready", "status", "numberReady"),
        _count("Up-to-date", "status", "updatedNumberScheduled"),
        _count("Available", "status", "numberAvailable"),
        _made("Node Selector", cells.pairs("spec", "template", "spec", "nodeSelector")),
        _AGE,
        *_TEMPLATE_WIDE,
    ),
    "jobs.batch": (
        _made("Status", cells.job_status),
        _made("Completions", cells.job_completions),
        PrinterColumn("Duration", "string", cells.job_duration),
        _AGE,
        *_TEMPLATE_WIDE,
    ),
    "cronjobs.batch": (
        _text("Schedule", "spec", "schedule"),
        _text("Timezone", "spec", "timeZone", empty=cells.NONE),
        _made("Suspend", lambda obj: "True" if field(obj, "spec", "suspend") else "False"),
        _made("Active", lambda obj: len(field(obj, "status", "active") or ()), "integer"),
        PrinterColumn(
            "Last Schedule",
            "string",
            lambda obj, now: (
                age(t, now) if (t := field(obj, "status", "lastScheduleTime")) else cells.NONE
            ),
        ),
        _AGE,
    ),
    "configmaps": (_made("Data", cells.size("data", "binaryData"), "string"), _AGE),
    "secrets": (_text("Type", "type"), _made("Data", cells.size("data"), "string"), _AGE),
    "poddisruptionbudgets.policy": (
        _made("Min Available", cells.budget_field("minAvailable")),
        _made("Max Unavailable", cells.budget_field("maxUnavailable")),
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
        PrinterColumn("Last Seen", "string", cells.event_seen),
        _text("Type", "type"),
        _text("Reason", "reason"),
        _made("Object", cells.event_object),
        _text("Subobject", "involvedObject", "fieldPath", wide=True),
        _made("Source", cells.event_source, wide=True),
        _text("Message", "message"),
        PrinterColumn("First Seen", "string", cells.event_first, priority=1),
        _made("Count", cells.event_count, wide=True),
        PrinterColumn("Name", "string", lambda obj, _now: obj["metadata"]["name"], "name", 1),
    ),
    "persistentvolumeclaims": (
        _text("Status", "status", "phase"),
        _text("Volume", "spec", "volumeName"),
        _text("Capacity", "status", "capacity", "storage"),
        _made("Access Modes", cells.bound_modes),
        _text("StorageClass", "spec", "storageClassName"),
        _text("VolumeAttributesClass", "spec", "volumeAttributesClassName", empty="<unset>"),
        _AGE,
        _text("VolumeMode", "spec", "volumeMode", wide=True),
    ),
    "persistentvolumes": (
        _text("Capacity", "spec", "capacity", "storage"),
        _made("Access Modes", cells.modes),
        _text("Reclaim Policy", "spec", "persistentVolumeReclaimPolicy"),
        _text("Status", "status", "phase"),
        _made("Claim", cells.claim_of),
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
