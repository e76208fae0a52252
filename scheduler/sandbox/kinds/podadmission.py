"""Admission of pods in the sandbox: the shared rules with the store's objects, and the server's
own.

`controlplane.admission` has the rules; here are the rejections of priorities, zone labels, the
first status, and the part of a pod that a subresource may change. Called by `defaults.py` on a
private copy; reads the store, never writes it.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from scheduler.controlplane import admission
from scheduler.controlplane.objects import AdmissionError, containers, name_of
from scheduler.controlplane.quantities import value
from scheduler.sandbox.api.status import Object, forbidden
from scheduler.sandbox.kinds.kinds import (
    LIMITRANGES,
    NODES,
    PODS,
    PRIORITYCLASSES,
    RUNTIMECLASSES,
    STORAGECLASSES,
    Resource,
)

if TYPE_CHECKING:
    from scheduler.sandbox.store.store import ObjectStore

_TOPOLOGY_LABELS: Final = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
_READ: Final = {
    one.kind: one for one in (LIMITRANGES, PRIORITYCLASSES, RUNTIMECLASSES, STORAGECLASSES)
}


class StoredObjects:
    """The objects of a store that admission reads."""

    def __init__(self, store: "ObjectStore") -> None:
        self._store = store

    def find(self, kind: str, name: str) -> Object | None:
        """Return the cluster-scoped object of that name, or None."""
        stored = self._store.find(_READ[kind], "", name)
        return stored.obj if stored is not None else None

    def all(self, kind: str, namespace: str = "") -> Iterable[Object]:
        """Return the objects of a kind, those of one namespace if it is given."""
        return (stored.obj for stored in self._store.list(_READ[kind], namespace))


def admit(store: "ObjectStore", pod: Object) -> None:
    """Change a defaulted pod as kube-apiserver's admission plugins do; 403 where they reject it."""
    spec = pod["spec"]
    if spec.get("overhead") and not spec.get("runtimeClassName"):
        text = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
        raise forbidden(PODS, name_of(pod), text)
    try:
        admission.admit_pod(StoredObjects(store), pod)
    except AdmissionError as refusal:
        raise forbidden(PODS, name_of(pod), refusal.message) from refusal
    apply_priority(store, PODS, pod)
    if spec.get("nodeName"):
        labels = topology_labels(store, spec["nodeName"])
        if labels:
            pod["metadata"]["labels"] = {**(pod["metadata"].get("labels") or {}), **labels}


def admit_volume_claim(store: "ObjectStore", claim: Object) -> None:
    """Set the default StorageClass in a claim without a class."""
    admission.admit_volume_claim(StoredObjects(store), claim)


def topology_labels(store: "ObjectStore", node: str) -> dict[str, Any]:
    """Return the node's zone and region labels, which kube-apiserver copies to an assigned pod."""
    stored = store.find(NODES, "", node)
    labels = (stored.obj["metadata"].get("labels") or {}) if stored else {}
    return {name: labels[name] for name in _TOPOLOGY_LABELS if name in labels}


def first_status(pod: Object, now: str) -> Object:
    """Return the status that a new pod starts with."""
    status: Object = {"phase": "Pending", "qosClass": qos_class(pod["spec"])}
    if pod["spec"].get("schedulingGates"):
        status["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "lastProbeTime": None,
                "lastTransitionTime": now,
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
        ]
    return status


def completed_status(status: Object) -> Object:
    """Return a written status with the list of addresses for its single address."""
    address = status.get("podIP")
    if address and not status.get("podIPs"):
        return {**status, "podIPs": [{"ip": address}]}
    return status


def keep_to_part(new: Object, old: Object, subresource: str) -> None:
    """Restrict a write through `resize` or `ephemeralcontainers` to its fields, in place."""
    sent, spec = new["spec"], dict(old["spec"])
    if subresource == "ephemeralcontainers":
        spec["ephemeralContainers"] = sent.get("ephemeralContainers") or []
    elif subresource == "resize":
        for part in ("containers", "initContainers"):
            resources = {
                current["name"]: current.get("resources") or {} for current in sent.get(part) or ()
            }
            if part in spec:
                spec[part] = [
                    {
                        **current,
                        "resources": resources.get(current["name"], current.get("resources", {})),
                    }
                    for current in spec[part]
                ]
        if "resources" in sent:
            spec["resources"] = sent["resources"]
    new["spec"] = spec
    new["metadata"] = {**old["metadata"], "resourceVersion": new["metadata"]["resourceVersion"]}


def qos_class(spec: Object) -> str:
    """Guaranteed, Burstable or BestEffort, by cpu and memory of all containers."""
    if (spec.get("resources") or {}).get("requests") or (spec.get("resources") or {}).get("limits"):
        parts = [spec["resources"]]
    else:
        parts = [container.get("resources") or {} for container in containers(spec)]
    any_set, all_equal = False, bool(parts)
    for resources in parts:
        requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
        for name in ("cpu", "memory"):
            request, limit = requests.get(name), limits.get(name)
            if (request and value(request)) or (limit and value(limit)):
                any_set = True
            if not limit or value(request or limit) != value(limit):
                all_equal = False
    if not any_set:
        return "BestEffort"
    return "Guaranteed" if all_equal else "Burstable"


def apply_priority(
    store: "ObjectStore", resource: Resource, obj: Object, *, with_policy: bool = True
) -> None:
    """Resolve the priority class of a pod or PodGroup; reject a value that differs from its class.

    Since Kubernetes 1.37 the class of a group also determines its preemption policy.
    """
    spec, name = obj["spec"], obj["spec"].get("priorityClassName") or ""
    found = admission.priority_class(StoredObjects(store), name)
    if found is None:
        if name:
            text = f"no PriorityClass with name {name} was found"
            raise forbidden(resource, name_of(obj), text)
        found = {}
    elif not name:
        spec["priorityClassName"] = found["metadata"]["name"]
    _impose(resource, obj, "priority", "integer value of priority", found.get("value", 0))
    if with_policy:
        policy = found.get("preemptionPolicy") or "PreemptLowerPriority"
        _impose(resource, obj, "preemptionPolicy", "string value of PreemptionPolicy", policy)


def _impose(resource: Resource, obj: Object, field: str, what: str, wanted: Any) -> None:
    """Set a field to the value of the priority class; reject another value."""
    sent = obj["spec"].get(field)
    if sent is not None and sent != wanted:
        kind = "pod" if resource is PODS else "pod group"
        text = (
            f"the {what} ({sent}) must not be provided in {kind} spec; priority admission "
            "controller "
            f"computed {wanted} from the given PriorityClass name"
        )
        raise forbidden(resource, name_of(obj), text)
    obj["spec"][field] = wanted
