"""The kinds of objects that cases are made of, and where the API server has them."""

from typing import Any

Manifest = dict[str, Any]

# kind → API path, plural, namespaced; in the order of creation: referenced objects first, then
# those that kube-scheduler logs.
KINDS: dict[str, tuple[str, str, bool]] = {
    "Namespace": ("/api/v1", "namespaces", False),
    "Service": ("/api/v1", "services", True),
    "ReplicationController": ("/api/v1", "replicationcontrollers", True),
    "ReplicaSet": ("/apis/apps/v1", "replicasets", True),
    "StatefulSet": ("/apis/apps/v1", "statefulsets", True),
    "PodDisruptionBudget": ("/apis/policy/v1", "poddisruptionbudgets", True),
    "CSIDriver": ("/apis/storage.k8s.io/v1", "csidrivers", False),
    "StorageClass": ("/apis/storage.k8s.io/v1", "storageclasses", False),
    "CSIStorageCapacity": ("/apis/storage.k8s.io/v1", "csistoragecapacities", True),
    "VolumeAttachment": ("/apis/storage.k8s.io/v1", "volumeattachments", False),
    "PersistentVolume": ("/api/v1", "persistentvolumes", False),
    "PersistentVolumeClaim": ("/api/v1", "persistentvolumeclaims", True),
    "DeviceClass": ("/apis/resource.k8s.io/v1", "deviceclasses", False),
    "DeviceTaintRule": ("/apis/resource.k8s.io/v1", "devicetaintrules", False),
    "ResourceSlice": ("/apis/resource.k8s.io/v1", "resourceslices", False),
    "ResourceClaimTemplate": ("/apis/resource.k8s.io/v1", "resourceclaimtemplates", True),
    "ResourceClaim": ("/apis/resource.k8s.io/v1", "resourceclaims", True),
    "CSINode": ("/apis/storage.k8s.io/v1", "csinodes", False),
    "Node": ("/api/v1", "nodes", False),
    "Pod": ("/api/v1", "pods", True),
}
# Kinds whose status the API server takes only afterwards.
STATUS_APART = frozenset(
    {
        "Pod",
        "PersistentVolume",
        "PersistentVolumeClaim",
        "PodDisruptionBudget",
        "ReplicaSet",
        "ResourceClaim",
    }
)
# Events that kube-scheduler counts as handled; no plugin of the default profile uses others.
COUNTED = frozenset(
    {
        "PersistentVolumeAdd",
        "PersistentVolumeClaimAdd",
        "StorageClassAdd",
        "CSINodeAdd",
        "CSIStorageCapacityAdd",
        "VolumeAttachmentDelete",
        "DeviceClassAdd",
        "ResourceSliceAdd",
        "ResourceClaimAdd",
    }
)
# Kinds that change while pods are scheduled; all other objects stay as created.
CHANGING = ("Pod", "PersistentVolume", "PersistentVolumeClaim", "ResourceClaim")


def collection(kind: str, namespace: str = "") -> str:
    """Return the path of all objects of a kind, in one namespace or in all."""
    root, plural, namespaced = KINDS[kind]
    if namespaced and namespace:
        return f"{root}/namespaces/{namespace}/{plural}"
    return f"{root}/{plural}"


def path_of(obj: Manifest) -> str:
    """Return the path of one object."""
    meta = obj["metadata"]
    return f"{collection(obj['kind'], meta.get('namespace', ''))}/{meta['name']}"


def key_of(obj: Manifest) -> str:
    """Return `namespace/name`, or `name` for cluster-scoped objects."""
    meta = obj["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else str(meta["name"])


def api_version(kind: str) -> str:
    """Return the apiVersion of a kind."""
    return KINDS[kind][0].removeprefix("/apis/").removeprefix("/api/")
