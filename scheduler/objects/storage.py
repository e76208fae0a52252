"""Storage: volumes, claims, classes, and what CSI drivers report about nodes and free capacity.

Read by the volume plugins. Quantities stay as written. A volume or claim is written back by the
component that fetched the whole object: these structs have only the fields that scheduling reads.
"""

import msgspec

from scheduler.objects.meta import AnnotatedMeta, Int32, LabelSelector, Object, ObjectMeta
from scheduler.objects.pod import DiskSource, NodeSelector, ResourceList, ResourceRequirements

# Annotations of claims and volumes, and field values that the plugins compare with.
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
MIGRATED_PLUGINS = "storage.alpha.kubernetes.io/migrated-plugins"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"
READ_WRITE_ONCE_POD = "ReadWriteOncePod"
STORAGE = "storage"


class ObjectReference(Object, frozen=True):
    """The claim that a volume is bound to.

    Without a uid it is reserved for a claim of that name.
    """

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class VolumeNodeAffinity(Object, frozen=True):
    """The nodes from which a volume can be reached."""

    required: NodeSelector | None = None


class CSISource(Object, frozen=True):
    """A volume of a CSI driver; driver and handle together identify it."""

    driver: str = ""
    volume_handle: str = ""


class PersistentVolumeSpec(Object, frozen=True):
    """The spec fields of a volume; in-tree sources are read where they are migrated to CSI."""

    capacity: ResourceList = {}
    access_modes: tuple[str, ...] = ()
    storage_class_name: str = ""
    volume_mode: str = "Filesystem"
    volume_attributes_class_name: str = ""
    claim_ref: ObjectReference | None = None
    node_affinity: VolumeNodeAffinity | None = None
    csi: CSISource | None = None
    aws_elastic_block_store: DiskSource | None = None
    gce_persistent_disk: DiskSource | None = None
    azure_disk: DiskSource | None = None
    cinder: DiskSource | None = None
    portworx_volume: DiskSource | None = None


class PhaseStatus(Object, frozen=True):
    """The status of a volume or claim."""

    phase: str = ""


class PersistentVolume(Object, frozen=True):
    """A volume."""

    metadata: AnnotatedMeta = AnnotatedMeta()
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PhaseStatus = PhaseStatus()


class PersistentVolumeClaimSpec(Object, frozen=True):
    """The spec fields of a claim; a missing class name and an empty one differ."""

    access_modes: tuple[str, ...] = ()
    selector: LabelSelector | None = None
    resources: ResourceRequirements = ResourceRequirements()
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str = "Filesystem"
    volume_attributes_class_name: str = ""


class PersistentVolumeClaim(Object, frozen=True):
    """A claim."""

    metadata: AnnotatedMeta = AnnotatedMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PhaseStatus = PhaseStatus()

    @property
    def key(self) -> str:
        """Return `namespace/name`."""
        return f"{self.metadata.namespace}/{self.metadata.name}"


class TopologySelectorRequirement(Object, frozen=True):
    """A label that must have one of these values."""

    key: str = ""
    values: tuple[str, ...] = ()


class TopologySelectorTerm(Object, frozen=True):
    """Requirements, ANDed; a term without any matches nothing."""

    match_label_expressions: tuple[TopologySelectorRequirement, ...] = ()


class StorageClass(Object, frozen=True):
    """A storage class; the API server fills in the binding mode."""

    metadata: ObjectMeta = ObjectMeta()
    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()


class VolumeNodeResources(Object, frozen=True):
    """How many volumes of a driver a node takes; None is no limit."""

    count: Int32 | None = None


class CSINodeDriver(Object, frozen=True):
    """One driver on a node."""

    name: str = ""
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(Object, frozen=True):
    """The drivers of a node."""

    drivers: tuple[CSINodeDriver, ...] = ()


class CSINode(Object, frozen=True):
    """The CSI drivers of the node of the same name."""

    metadata: AnnotatedMeta = AnnotatedMeta()
    spec: CSINodeSpec = CSINodeSpec()

    @property
    def limits(self) -> dict[str, int]:
        """Return driver → the most volumes; drivers without a limit are left out."""
        return {
            driver.name: driver.allocatable.count
            for driver in self.spec.drivers
            if driver.allocatable is not None and driver.allocatable.count is not None
        }


class CSIDriverSpec(Object, frozen=True):
    """Whether the driver reports free capacity, and whether a pod needs it installed on its
    node.
    """

    storage_capacity: bool = False
    prevent_pod_scheduling_if_missing: bool | None = None


class CSIDriver(Object, frozen=True):
    """A CSI driver."""

    metadata: ObjectMeta = ObjectMeta()
    spec: CSIDriverSpec = CSIDriverSpec()


class CSIStorageCapacity(Object, frozen=True):
    """The free capacity of a class on the nodes that the topology selects; None selects none."""

    metadata: ObjectMeta = ObjectMeta()
    storage_class_name: str = ""
    node_topology: LabelSelector | None = None
    capacity: str | int | float | None = None
    maximum_volume_size: str | int | float | None = None

    @property
    def limit(self) -> str | int | float | None:
        """Return the largest volume that can be created there, as a quantity.

        None if not limited.
        """
        return self.capacity if self.maximum_volume_size is None else self.maximum_volume_size


class AttachmentSource(Object, frozen=True):
    """The volume that is attached; inline volumes have no name."""

    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(Object, frozen=True):
    """Which volume is attached to which node by which driver."""

    attacher: str = ""
    node_name: str = ""
    source: AttachmentSource = AttachmentSource()


class VolumeAttachment(Object, frozen=True):
    """A volume attached, or being attached, to a node."""

    metadata: ObjectMeta = ObjectMeta()
    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()


def with_annotation(
    obj: PersistentVolume | PersistentVolumeClaim, key: str, value: str
) -> AnnotatedMeta:
    """Return the metadata of `obj` with one more annotation."""
    annotations = obj.metadata.annotations | {key: value}
    return msgspec.structs.replace(obj.metadata, annotations=annotations)
