"""The kinds that Trellis reads: kind ↔ struct ↔ URL ↔ facts that a change of it affects.

`scheduler.kube` lists and watches them, the engine stores them, `simulate` reads them from files.
An optional kind that the API server does not serve is skipped until it appears.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from scheduler.objects.claims import ResourceClaim, ResourceClaimTemplate
from scheduler.objects.configmap import GROUP_KEY, TOPOLOGY_KEY, ConfigMap
from scheduler.objects.devices import DeviceClass, DeviceTaintRule, ResourceSlice
from scheduler.objects.groups.appgroup import AppGroup
from scheduler.objects.groups.derivedgroups import DerivedGroup, DeriveKinds
from scheduler.objects.groups.gangs import KaiPodGroup, PodGang
from scheduler.objects.groups.jobs import Job, JobSet, LeaderWorkerSet, MPIJob, RayCluster
from scheduler.objects.groups.kueue import KueueTopology
from scheduler.objects.groups.podgroup import CompositePodGroup, PodGroup, WorkloadGroup
from scheduler.objects.groups.volcano import HyperNode, VolcanoPodGroup
from scheduler.objects.moves.moveplan import MovePlan
from scheduler.objects.network import NetworkTopology, NetworkTopologySlice
from scheduler.objects.node import Node
from scheduler.objects.pod import Pod
from scheduler.objects.policy import PodDisruptionBudget
from scheduler.objects.reports.nodemetric import NodeMetric
from scheduler.objects.reports.numa import NodeResourceTopology
from scheduler.objects.reports.podmix import PodMixHistory
from scheduler.objects.reports.watchermetrics import WatcherMetrics
from scheduler.objects.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from scheduler.objects.workloads import (
    Namespace,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
)


class Kind(msgspec.Struct, frozen=True):
    """A watched kind: `group` is empty for core.

    A `required` kind is part of every API server and of every decision: a 404 for it is a fault,
    and scheduling stops while it is listed again. Any other kind may be missing.

    ConfigMaps are named by their content (`GroupConfigMap`); the selector distinguishes them. So
    are the versions of a kind that are read separately; `served_as` is the API server's name for
    them.
    """

    kind: str
    group: str
    version: str
    plural: str
    struct: type[Any]
    namespaced: bool = True
    field_selector: str = ""
    label_selector: str = ""
    required: bool = True
    served_as: str = ""

    @property
    def name(self) -> str:
        """Return the API server's name of the kind."""
        return self.served_as or self.kind

    @property
    def api_version(self) -> str:
        """Return `group/version`, or the version alone for core."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """Return `plural.group`, as kubectl names the resource."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def path(self) -> str:
        """Return the URL path of the collection over all namespaces."""
        root = f"/apis/{self.group}" if self.group else "/api"
        return f"{root}/{self.version}/{self.plural}"


def _optional(
    group: str, version: str, plural: str, struct: type[Any], *, namespaced: bool = True
) -> Kind:
    """Return a kind that is required only by the features that use it."""
    name = struct.__name__
    return Kind(name, group, version, plural, struct, namespaced=namespaced, required=False)


# Includes finished pods, which count for their groups. A second watch would report the end of a pod
# before or after the first one does.
POD = Kind("Pod", "", "v1", "pods", Pod)
NODE = Kind("Node", "", "v1", "nodes", Node, namespaced=False)
GROUP_CONFIG_MAP = Kind(
    "GroupConfigMap", "", "v1", "configmaps", ConfigMap, label_selector=GROUP_KEY,
    required=False, served_as="ConfigMap",
)  # fmt: skip
TOPOLOGY_CONFIG_MAP = Kind(
    "TopologyConfigMap", "", "v1", "configmaps", ConfigMap,
    label_selector=TOPOLOGY_KEY, required=False, served_as="ConfigMap",
)  # fmt: skip

WORKLOAD_GROUP_API = "scheduling.k8s.io"


def _versions(
    group: str, versions: tuple[str, ...], plural: str, struct: type[Any], served_as: str,
    *, name: str = "", namespaced: bool = True,
) -> tuple[Kind, ...]:  # fmt: skip
    """Return the kinds of one object by version, the newest first: the newest one served is
    used.
    """
    return tuple(
        Kind(
            f"{name or served_as}.{version}", group, version, plural, struct,
            namespaced=namespaced, required=False, served_as=served_as,
        )
        for version in versions
    )  # fmt: skip


WORKLOAD_GROUPS = _versions(
    WORKLOAD_GROUP_API, ("v1beta1", "v1alpha3", "v1alpha2"), "podgroups", WorkloadGroup, "PodGroup"
)
COMPOSITE_GROUP = _optional(WORKLOAD_GROUP_API, "v1alpha3", "compositepodgroups", CompositePodGroup)
VOLCANO_GROUP = Kind(
    "VolcanoPodGroup", "scheduling.volcano.sh", "v1beta1", "podgroups", VolcanoPodGroup,
    required=False, served_as="PodGroup",
)  # fmt: skip
KAI_GROUP = Kind(
    "KaiPodGroup", "scheduling.run.ai", "v2alpha2", "podgroups", KaiPodGroup,
    required=False, served_as="PodGroup",
)  # fmt: skip
POD_GANG = _optional("scheduler.grove.io", "v1alpha1", "podgangs", PodGang)
HYPER_NODE = _optional("topology.volcano.sh", "v1alpha1", "hypernodes", HyperNode, namespaced=False)
KUEUE_TOPOLOGIES = _versions(
    "kueue.x-k8s.io", ("v1beta2", "v1beta1", "v1alpha1"), "topologies", KueueTopology, "Topology",
    name="KueueTopology", namespaced=False,
)  # fmt: skip

# The daemon watches it only for a profile that names an object of it.
POD_MIX_HISTORY = _optional(
    "trellis.dev", "v1alpha1", "podmixhistories", PodMixHistory, namespaced=False
)

WATCHED: tuple[Kind, ...] = (
    NODE,
    POD,
    Kind("Namespace", "", "v1", "namespaces", Namespace, namespaced=False),
    Kind("Service", "", "v1", "services", Service),
    Kind("ReplicationController", "", "v1", "replicationcontrollers", ReplicationController),
    Kind("ReplicaSet", "apps", "v1", "replicasets", ReplicaSet),
    Kind("StatefulSet", "apps", "v1", "statefulsets", StatefulSet),
    Kind("PodDisruptionBudget", "policy", "v1", "poddisruptionbudgets", PodDisruptionBudget),
    Kind("PersistentVolume", "", "v1", "persistentvolumes", PersistentVolume, namespaced=False),
    Kind("PersistentVolumeClaim", "", "v1", "persistentvolumeclaims", PersistentVolumeClaim),
    Kind("StorageClass", "storage.k8s.io", "v1", "storageclasses", StorageClass, namespaced=False),
    Kind("CSINode", "storage.k8s.io", "v1", "csinodes", CSINode, namespaced=False),
    Kind("CSIDriver", "storage.k8s.io", "v1", "csidrivers", CSIDriver, namespaced=False),
    Kind("CSIStorageCapacity", "storage.k8s.io", "v1", "csistoragecapacities", CSIStorageCapacity),
    Kind(
        "VolumeAttachment",
        "storage.k8s.io",
        "v1",
        "volumeattachments",
        VolumeAttachment,
        namespaced=False,
    ),
    _optional("resource.k8s.io", "v1", "deviceclasses", DeviceClass, namespaced=False),
    _optional("resource.k8s.io", "v1", "resourceclaims", ResourceClaim),
    _optional("resource.k8s.io", "v1", "resourceslices", ResourceSlice, namespaced=False),
    _optional("resource.k8s.io", "v1", "devicetaintrules", DeviceTaintRule, namespaced=False),
    _optional(
        "topology.node.k8s.io",
        "v1alpha2",
        "noderesourcetopologies",
        NodeResourceTopology,
        namespaced=False,
    ),
    _optional("slo.koordinator.sh", "v1alpha1", "nodemetrics", NodeMetric, namespaced=False),
    GROUP_CONFIG_MAP,
    TOPOLOGY_CONFIG_MAP,
    _optional("scheduling.x-k8s.io", "v1alpha1", "podgroups", PodGroup),
    *WORKLOAD_GROUPS,
    COMPOSITE_GROUP,
    VOLCANO_GROUP,
    KAI_GROUP,
    POD_GANG,
    HYPER_NODE,
    *KUEUE_TOPOLOGIES,
    _optional("appgroup.diktyo.x-k8s.io", "v1alpha1", "appgroups", AppGroup),
    _optional("networktopology.diktyo.x-k8s.io", "v1alpha1", "networktopologies", NetworkTopology),
    _optional("trellis.dev", "v1alpha1", "networktopologyslices", NetworkTopologySlice),
    POD_MIX_HISTORY,
)
# Never watched: fed by our own metric providers, or read from a snapshot where a simulation acts as
# a controller of the cluster.
FED: tuple[Kind, ...] = (
    _optional("resource.k8s.io", "v1", "resourceclaimtemplates", ResourceClaimTemplate),
    _optional("trellis.dev", "v1alpha1", "watchermetrics", WatcherMetrics, namespaced=False),
)

# Watched where a profile derives groups from them; the groups themselves are made by the engine.
DERIVABLE: tuple[Kind, ...] = (
    _optional("batch", "v1", "jobs", Job),
    _optional("jobset.x-k8s.io", "v1alpha2", "jobsets", JobSet),
    _optional("leaderworkerset.x-k8s.io", "v1", "leaderworkersets", LeaderWorkerSet),
    _optional("ray.io", "v1", "rayclusters", RayCluster),
    _optional("kubeflow.org", "v2beta1", "mpijobs", MPIJob),
)
DERIVED = _optional("trellis.dev", "v1alpha1", "derivedgroups", DerivedGroup)
# Watched where the configuration enables moves.
MOVE_PLAN = _optional("trellis.dev", "v1alpha1", "moveplans", MovePlan, namespaced=False)

BY_KIND: dict[str, Kind] = {
    kind.kind: kind for kind in (*WATCHED, *FED, *DERIVABLE, DERIVED, MOVE_PLAN)
}


def derived_from(derive: Mapping[str, DeriveKinds] | None) -> tuple[Kind, ...]:
    """Return the kinds to watch for the groups that profiles derive."""
    wanted = {kind for one in (derive or {}).values() for kind in one.always | one.on_request}
    return tuple(kind for kind in DERIVABLE if kind.kind in wanted)


# The kinds that are read separately by version, or by group, by group and the API server's name.
BY_VERSION: dict[tuple[str, str], dict[str, Kind]] = {
    (kinds[0].group, kinds[0].name): {kind.version: kind for kind in kinds}
    for kinds in (WORKLOAD_GROUPS, KUEUE_TOPOLOGIES, (VOLCANO_GROUP,), (KAI_GROUP,))
}
