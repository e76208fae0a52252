"""Helpers that make storage objects and pods with volumes for tests, as plain manifests."""

from scheduler.testing import pod

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
DRIVER = "csi.example.com"


def claim(
    name="c",
    *,
    to="",
    storage_class=None,
    size="1Gi",
    modes=("ReadWriteOnce",),
    phase="",
    annotations=None,
    owner="",
    deleting=False,
    **spec,
):
    """Return a claim in `default`; `to` binds it to a volume, `owner` is the name of a pod."""
    meta = {"name": name, "namespace": "default", "uid": f"claim-{name}"}
    meta["annotations"] = dict(annotations or {})
    if to:
        meta["annotations"]["pv.kubernetes.io/bind-completed"] = "yes"
        spec["volumeName"] = to
    if owner:
        uid = f"Pod/default/{owner}"
        meta["ownerReferences"] = [{"kind": "Pod", "name": owner, "uid": uid, "controller": True}]
    if deleting:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    spec |= {"accessModes": list(modes), "resources": {"requests": {"storage": size}}}
    if storage_class is not None:
        spec["storageClassName"] = storage_class
    status = {"phase": phase or ("Bound" if to else "Pending")}
    return _object("v1", "PersistentVolumeClaim", meta, spec=spec, status=status)


def volume(
    name="v",
    *,
    storage_class="",
    size="1Gi",
    modes=("ReadWriteOnce",),
    hosts=(),
    zones=(),
    owner="",
    owner_uid=None,
    handle="",
    phase="Available",
    labels=None,
    **spec,
):
    """Return a volume, perhaps for some hosts or zones; `owner` is the claim that it is for."""
    meta = {"name": name, "uid": f"volume-{name}", "labels": dict(labels or {})}
    spec |= {
        "capacity": {"storage": size},
        "accessModes": list(modes),
        "storageClassName": storage_class,
    }
    for key, values in ((HOST, hosts), (ZONE, zones)):
        if values:
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [_in(key, values)]}}
    if owner:
        ref = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": owner}
        spec["claimRef"] = ref | {"uid": f"claim-{owner}" if owner_uid is None else owner_uid}
    if handle:
        spec["csi"] = {"driver": DRIVER, "volumeHandle": handle}
    return _object("v1", "PersistentVolume", meta, spec=spec, status={"phase": phase})


def storage_class(name="s", *, provisioner=DRIVER, mode="WaitForFirstConsumer", zones=(), **fields):
    """Return a class that waits for a consumer, perhaps allowed in some zones alone."""
    if zones:
        wanted = {"key": ZONE, "values": list(zones)}
        fields["allowedTopologies"] = [{"matchLabelExpressions": [wanted]}]
    return _object(
        "storage.k8s.io/v1",
        "StorageClass",
        {"name": name},
        provisioner=provisioner,
        volumeBindingMode=mode,
        **fields,
    )


def csi_node(name, limits=None, annotations=None):
    """Return a CSINode; `limits` are driver → most volumes, None for no limit."""
    drivers = [
        {"name": driver, "allocatable": {} if count is None else {"count": count}}
        for driver, count in (limits or {}).items()
    ]
    meta = {"name": name, "annotations": dict(annotations or {})}
    return _object("storage.k8s.io/v1", "CSINode", meta, spec={"drivers": drivers})


def attachment(name, node_name, volume_name, attacher=DRIVER):
    """Return a VolumeAttachment."""
    source = {"persistentVolumeName": volume_name}
    spec = {"attacher": attacher, "nodeName": node_name, "source": source}
    return _object("storage.k8s.io/v1", "VolumeAttachment", {"name": name}, spec=spec)


def csi_driver(name=DRIVER, *, storage_capacity=True):
    """Return a CSIDriver that publishes its capacity."""
    spec = {"storageCapacity": storage_capacity}
    return _object("storage.k8s.io/v1", "CSIDriver", {"name": name}, spec=spec)


def capacity(name, *, zone, size=None, most=None, storage_class="s"):
    """Return the capacity object of a class in a zone."""
    meta = {"name": name, "namespace": "default"}
    return _object(
        "storage.k8s.io/v1",
        "CSIStorageCapacity",
        meta,
        storageClassName=storage_class,
        nodeTopology={"matchLabels": {ZONE: zone}},
        capacity=size,
        maximumVolumeSize=most,
    )


def device_class(name, resource=None):
    """Return a DeviceClass, perhaps for an extended resource."""
    spec = {"extendedResourceName": resource}
    return _object("resource.k8s.io/v1", "DeviceClass", {"name": name}, spec=spec)


def using(*claims, name="p", node_name="", volumes=(), ephemeral=(), **fields):
    """Return a pod that uses claims, other volumes and ephemeral ones."""
    used = [
        {"name": f"v{n}", "persistentVolumeClaim": {"claimName": c}} for n, c in enumerate(claims)
    ]
    used += [{"name": f"w{n}", **other} for n, other in enumerate(volumes)]
    used += [{"name": one, "ephemeral": {"volumeClaimTemplate": {}}} for one in ephemeral]
    return pod(
        name, node_name=node_name, spec={"volumes": used, **fields.pop("spec", {})}, **fields
    )


def _in(key, values):
    return {"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}


def _object(version, kind, meta, **fields):
    return {"apiVersion": version, "kind": kind, "metadata": meta} | fields
