"""The names and the topology of in-tree volumes that a CSI driver serves.

Facts of the Kubernetes CSI translation library for the plugins that it migrates everywhere. Called
by NodeVolumeLimits, which counts volumes by driver and handle, and by VolumeBinding, since a
migrated volume is reached by the labels of its driver.
"""

from collections.abc import Iterable

import msgspec

from scheduler.objects import pod
from scheduler.objects.storage import PersistentVolume

ZONE, BETA_ZONE = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"
REGION, BETA_REGION = "topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"


class Migration(msgspec.Struct, frozen=True):
    """An in-tree plugin: the field of its source, its driver, and the driver's zone label."""

    plugin: str
    field: str
    driver: str
    zone_label: str = ""


MIGRATIONS = (
    Migration(
        "kubernetes.io/aws-ebs",
        "aws_elastic_block_store",
        "ebs.csi.aws.com",
        "topology.ebs.csi.aws.com/zone",
    ),
    Migration(
        "kubernetes.io/gce-pd",
        "gce_persistent_disk",
        "pd.csi.storage.gke.io",
        "topology.gke.io/zone",
    ),
    Migration("kubernetes.io/azure-disk", "azure_disk", "disk.csi.azure.com"),
    Migration(
        "kubernetes.io/cinder",
        "cinder",
        "cinder.csi.openstack.org",
        "topology.cinder.csi.openstack.org/zone",
    ),
    Migration("kubernetes.io/portworx-volume", "portworx_volume", "pxd.portworx.com"),
)
# Inline volumes of these types have a driver as well, but the scheduler knows no count of them.
_UNCOUNTED = ("azure_file", "vsphere_volume")
_BY_PLUGIN = {migration.plugin: migration for migration in MIGRATIONS}


def driver_of_provisioner(provisioner: str) -> str:
    """Return the CSI driver behind a class's provisioner, empty for one that is not counted."""
    if provisioner in ("kubernetes.io/azure-file", "kubernetes.io/vsphere-volume"):
        return ""
    migration = _BY_PLUGIN.get(provisioner)
    return provisioner if migration is None else migration.driver


def migration_of(volume: PersistentVolume) -> Migration | None:
    """Return the migration of an in-tree volume, None for any other."""
    spec = volume.spec
    return next((m for m in MIGRATIONS if getattr(spec, m.field) is not None), None)


def handle_of(volume: PersistentVolume) -> tuple[str, str] | None:
    """Return driver and handle of a volume, None for one that no CSI driver serves."""
    if volume.spec.csi is not None:
        return volume.spec.csi.driver, volume.spec.csi.volume_handle
    migration = migration_of(volume)
    if migration is None:
        return None
    source: pod.DiskSource = getattr(volume.spec, migration.field)
    labels = volume.metadata.labels
    return migration.driver, _handle(source, labels.get(BETA_ZONE) or labels.get(ZONE, ""))


def handle_of_inline(volume: pod.Volume) -> tuple[str, str] | None:
    """Return driver and handle of an inline volume of a pod's spec, None without a driver."""
    for migration in MIGRATIONS:
        source = getattr(volume, migration.field)
        if source is not None:
            return migration.driver, _handle(source, "")
    return None


def is_inline_migratable(volume: pod.Volume) -> bool:
    """Return whether a volume in a pod's spec is one that CSI drivers have taken over."""
    fields = (*(migration.field for migration in MIGRATIONS), *_UNCOUNTED)
    return any(getattr(volume, field) is not None for field in fields)


def migrated_affinity(volume: PersistentVolume, migration: Migration) -> pod.NodeSelector | None:
    """Return the nodes of a migrated volume, in the labels of its driver.

    kube-scheduler: a zone in the volume's affinity, else in its labels, is one of the driver's
    zone.
    """
    affinity = volume.spec.node_affinity.required if volume.spec.node_affinity else None
    if not migration.zone_label:
        return affinity
    labels = volume.metadata.labels
    zone, region = (ZONE, REGION)
    if not _has_key(affinity, ZONE) and (
        _has_key(affinity, BETA_ZONE) or (ZONE not in labels and BETA_ZONE in labels)
    ):
        zone, region = BETA_ZONE, BETA_REGION
    renamed = {zone: migration.zone_label}
    if region == BETA_REGION:
        renamed[BETA_REGION] = REGION
    if _values(affinity, zone):
        return _renamed(affinity, renamed)
    zones = sorted({part.strip() for part in labels.get(zone, "").split("__")} - {""})
    moved = _renamed(affinity, renamed)
    return _also(moved, migration.zone_label, zones) if zones else moved


def _handle(source: pod.DiskSource, zone: str) -> str:
    if source.pd_name:
        first, is_regional, _ = zone.partition("__")
        region = first.rpartition("-")[0]
        place = f"regions/{region}" if is_regional else f"zones/{zone or 'UNSPECIFIED'}"
        return f"projects/UNSPECIFIED/{place}/disks/{source.pd_name}"
    if source.volume_id.startswith("aws://"):
        return source.volume_id.rpartition("/")[2]
    return source.volume_id or source.disk_uri or source.disk_name


def _terms(selector: pod.NodeSelector | None) -> Iterable[pod.NodeSelectorTerm]:
    return selector.node_selector_terms if selector is not None else ()


def _has_key(selector: pod.NodeSelector | None, key: str) -> bool:
    return any(e.key == key for term in _terms(selector) for e in term.match_expressions)


def _values(selector: pod.NodeSelector | None, key: str) -> list[str]:
    return sorted(
        {
            value
            for term in _terms(selector)
            for expression in term.match_expressions
            if expression.key == key
            for value in expression.values
        }
    )


def _renamed(selector: pod.NodeSelector | None, keys: dict[str, str]) -> pod.NodeSelector | None:
    if selector is None:
        return None
    return pod.NodeSelector(
        tuple(
            pod.NodeSelectorTerm(
                tuple(
                    pod.NodeSelectorRequirement(keys.get(e.key, e.key), e.operator, e.values)
                    for e in term.match_expressions
                ),
                term.match_fields,
            )
            for term in selector.node_selector_terms
        )
    )


def _also(selector: pod.NodeSelector | None, key: str, values: list[str]) -> pod.NodeSelector:
    """Add one expression to every term; to a term of its own if there is none."""
    more = pod.NodeSelectorRequirement(key, "In", tuple(values))
    terms = tuple(_terms(selector)) or (pod.NodeSelectorTerm(),)
    return pod.NodeSelector(
        tuple(pod.NodeSelectorTerm((*t.match_expressions, more), t.match_fields) for t in terms)
    )
