"""Objects of a live cluster → objects of a snapshot, with the fields for scheduling and no private
data.

Containers keep image, resources and ports. Removed are environment, commands, names of secrets,
annotations that no plugin reads, and fields that would prevent `kubectl apply` from creating the
objects again. Works on plain data; called by `trellis snapshot`.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from msgspec import to_builtins

from scheduler.objects.kinds import BY_KIND, Kind
from scheduler.objects.plain import read_as

Object = dict[str, Any]

_DROPPED_META: Final = ("managedFields", "resourceVersion", "selfLink", "generation")
# Every cluster has objects of these kinds: with a foreign uid they could not be applied.
_WITHOUT_UID: Final = ("Namespace", "PriorityClass", "Service", "Node", "CSINode", "CSIDriver")
_ANNOTATIONS: Final = (
    "pv.kubernetes.io/",
    "volume.kubernetes.io/",
    "volume.beta.kubernetes.io/",
    "storage.alpha.kubernetes.io/",
    "node.koordinator.sh/raw-allocatable",
    "scheduling.koordinator.sh/",
    "trellis.dev/load-source",
    "trellis.dev/derive-groups",
    "resource.kubernetes.io/",
    "sakkara.group/",
    "scheduling.k8s.io/group-name",
    "pod-group-name",
    "kueue.x-k8s.io/",
    "alpha.jobset.sigs.k8s.io/",
    "leaderworkerset.sigs.k8s.io/",
)
_ANNOTATED: Final = (
    "PersistentVolume",
    "PersistentVolumeClaim",
    "CSINode",
    "Node",
    "Pod",
    "NodeMetric",
    "ResourceClaim",
    "PodGroup",
    "PodGang",
    "CompositePodGroup",
    "Namespace",
)
_POD_SPEC: Final = re.compile(
    "activeDeadlineSeconds|affinity|containers|hostNetwork|initContainers|nodeName|nodeSelector|os"
    "|overhead|preemptionPolicy|priority|priorityClassName|resourceClaims|resources|restartPolicy"
    "|runtimeClassName|schedulerName|schedulingGates|schedulingGroup|terminationGracePeriodSeconds"
    "|tolerations|topologySpreadConstraints|volumes|workloadRef"
)
_POD_STATUS: Final = re.compile(
    "allocatedResources|conditions|containerStatuses|extendedResourceClaimStatus"
    "|initContainerStatuses|nominatedNodeName|phase|qosClass|resourceClaimStatuses|resources"
    "|startTime"
)
_CONTAINER: Final = re.compile("name|image|resources|ports|restartPolicy")
_CONTAINER_STATUS: Final = re.compile("name|resources|allocatedResources")
_VOLUME_SOURCES: Final = (
    "persistentVolumeClaim",
    "ephemeral",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "azureDisk",
    "cinder",
    "iscsi",
    "rbd",
    "image",
)
_NODE_SPEC: Final = re.compile("taints|unschedulable")
_NODE_STATUS: Final = re.compile(
    "allocatable|capacity|conditions|declaredFeatures|images|volumesAttached"
)
_JOB_FAILURE: Final = ("backoffLimit", "podFailurePolicy")
_PORT: Final = re.compile("name|port|protocol")
_SERVICE_SPEC: Final = re.compile("selector|ports")
_SECRETIVE: Final = ("volumeAttributes", "parameters", "mountOptions", "attachmentMetadata")


def exported(kind: str, api_version: str, raw: Mapping[str, Any]) -> Object:
    """Return an object in the format of a snapshot."""
    obj = _without_secrets(raw)
    # Some kinds have our own name beside the API server's.
    known = BY_KIND.get(kind)
    name = kind if known is None else known.name
    meta = _metadata(name, obj.get("metadata") or {})
    obj = {"apiVersion": api_version, "kind": name, "metadata": meta} | {
        key: value for key, value in obj.items() if key not in ("apiVersion", "kind", "metadata")
    }
    spec = obj.get("spec")
    if kind == "Pod":
        obj["spec"] = _pod_spec(spec or {})
        obj["status"] = _pod_status(obj.get("status") or {})
    elif kind == "Node":
        obj["spec"] = _only(spec or {}, _NODE_SPEC)
        obj["status"] = _only(obj.get("status") or {}, _NODE_STATUS)
    elif kind == "Service":
        obj["spec"] = _service_spec(spec or {})
        obj.pop("status", None)
    elif isinstance(spec, dict) and isinstance(spec.get("template"), dict):
        obj["spec"] = spec | {"template": _template(spec["template"])}
    return obj


def exported_workload(kind: Kind, raw: Mapping[str, Any]) -> Object:
    """Return a workload with the fields from which groups are derived, without its templates.

    A Job keeps its failure policy, by which `trellis moves` judges an eviction.
    """
    spec = to_builtins(read_as(kind, raw).spec)
    if kind.kind == "Job":
        own = raw.get("spec") or {}
        spec |= {field: own[field] for field in _JOB_FAILURE if own.get(field) is not None}
    meta = _metadata(kind.kind, _without_secrets(raw["metadata"]))
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta, "spec": spec}


def _metadata(kind: str, meta: Mapping[str, Any]) -> Object:
    kept = {key: value for key, value in meta.items() if key not in _DROPPED_META}
    if kind in _WITHOUT_UID:
        kept.pop("uid", None)
    annotations = kept.pop("annotations", None)
    return kept | (_annotations(annotations) if kind in _ANNOTATED else {})


def _annotations(found: Mapping[str, str] | None) -> Object:
    known = {key: v for key, v in (found or {}).items() if key.startswith(_ANNOTATIONS)}
    return {"annotations": known} if known else {}


def _pod_spec(spec: Mapping[str, Any]) -> Object:
    kept = _only(spec, _POD_SPEC)
    for field in ("containers", "initContainers"):
        if kept.get(field):
            kept[field] = [_only(container, _CONTAINER) for container in kept[field]]
    if kept.get("volumes"):
        kept["volumes"] = [_volume(volume) for volume in kept["volumes"]]
    return kept


def _pod_status(status: Mapping[str, Any]) -> Object:
    kept = _only(status, _POD_STATUS)
    for field in ("containerStatuses", "initContainerStatuses"):
        if kept.get(field):
            kept[field] = [_only(one, _CONTAINER_STATUS) for one in kept[field]]
    return kept


def _volume(volume: Mapping[str, Any]) -> Object:
    """Return a volume with the fields for scheduling; any other source becomes an emptyDir."""
    kept = {"name": volume.get("name", "")}
    for source in _VOLUME_SOURCES:
        if volume.get(source) is not None:
            return kept | {source: volume[source]}
    return kept | {"emptyDir": {}}


def _template(template: Mapping[str, Any]) -> Object:
    meta = template.get("metadata") or {}
    kept = {"labels": meta.get("labels") or {}} | _annotations(meta.get("annotations"))
    return {"metadata": kept, "spec": _pod_spec(template.get("spec") or {})}


def _service_spec(spec: Mapping[str, Any]) -> Object:
    kept = _only(spec, _SERVICE_SPEC)
    kept["ports"] = [_only(port, _PORT) for port in kept.get("ports") or ()]
    if spec.get("clusterIP") == "None":
        kept["clusterIP"] = "None"
    return kept


def _only(fields: Mapping[str, Any], names: re.Pattern[str]) -> Object:
    return {key: value for key, value in fields.items() if names.fullmatch(key)}


def _without_secrets(value: Any) -> Any:
    """Return plain data without nulls, and without references to secrets and drivers'
    parameters.
    """
    if isinstance(value, Mapping):
        return {
            key: _opaque(item) if key == "opaque" else _without_secrets(item)
            for key, item in value.items()
            if item is not None and key not in _SECRETIVE and not _is_secret(key)
        }
    return [_without_secrets(item) for item in value] if isinstance(value, list) else value


def _opaque(config: Any) -> Any:
    """Keep the driver of settings, which the API server requires, and drop the private settings."""
    return {"driver": config.get("driver", ""), "parameters": {}}


def _is_secret(key: str) -> bool:
    return key.lower().endswith(("secretref", "secretname", "secretnamespace"))
