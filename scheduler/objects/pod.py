"""Pod: the fields that scheduling reads.

Quantities stay as written (text or number); `scheduler.objects.quantity` reads them.
"""

from typing import TypeAlias

import msgspec

from scheduler.objects.groups.podgroup import (
    PodResourceClaim,
    PodResourceClaimStatus,
    SchedulingGroup,
)
from scheduler.objects.meta import Int32, Int64, LabelSelector, Object, ObjectMeta

ResourceList: TypeAlias = dict[str, str | int | float]


class ResourceRequirements(Object, frozen=True):
    """Requests and limits of a container or of a whole pod."""

    requests: ResourceList = {}
    limits: ResourceList = {}


class ContainerPort(Object, frozen=True):
    """A port of a container; scheduling uses host ports only."""

    container_port: Int32 = 0
    host_port: Int32 = 0
    host_ip: str = msgspec.field(name="hostIP", default="")
    protocol: str = "TCP"


class RestartRule(Object, frozen=True):
    """The action after a container exits with certain codes."""

    action: str = ""


class Container(Object, frozen=True):
    """A container or init container; `restart_policy` Always marks a sidecar."""

    name: str = ""
    image: str = ""
    restart_policy: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy_rules: tuple[RestartRule, ...] = ()


class Toleration(Object, frozen=True):
    """A toleration; empty `effect` and `key` match all."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class NodeSelectorRequirement(Object, frozen=True):
    """One expression over node labels or fields; also Gt and Lt."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class NodeSelectorTerm(Object, frozen=True):
    """Expressions over labels and fields, ANDed; a term without any matches nothing."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(Object, frozen=True):
    """Terms, ORed; no terms match nothing."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredSchedulingTerm(Object, frozen=True):
    """A node selector term with a weight."""

    weight: Int32 = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Object, frozen=True):
    """Required and preferred node affinity."""

    required: NodeSelector | None = msgspec.field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=None
    )
    preferred: tuple[PreferredSchedulingTerm, ...] = msgspec.field(
        name="preferredDuringSchedulingIgnoredDuringExecution", default=()
    )


class PodAffinityTerm(Object, frozen=True):
    """Pods to be near to (or far from), within a topology."""

    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Object, frozen=True):
    """A pod affinity term with a weight."""

    weight: Int32 = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(Object, frozen=True):
    """Required and preferred (anti-)affinity between pods; one type for both directions."""

    required: tuple[PodAffinityTerm, ...] = msgspec.field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=()
    )
    preferred: tuple[WeightedPodAffinityTerm, ...] = msgspec.field(
        name="preferredDuringSchedulingIgnoredDuringExecution", default=()
    )


class Affinity(Object, frozen=True):
    """All affinities of a pod."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(Object, frozen=True):
    """How evenly matching pods spread over the domains of a topology key."""

    max_skew: Int32 = 1
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: Int32 | None = None
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"
    match_label_keys: tuple[str, ...] = ()


class SchedulingGate(Object, frozen=True):
    """A gate that keeps the pod out of the queue."""

    name: str = ""


class ClaimSource(Object, frozen=True):
    """A volume's reference to a claim in the pod's namespace."""

    claim_name: str = ""
    read_only: bool = False


class EphemeralSource(Object, frozen=True):
    """A volume whose claim is made from a template; its name is `<pod>-<volume>`."""


class DiskSource(Object, frozen=True):
    """The identity of an in-tree disk: only the fields by which two of them are the same."""

    pd_name: str = ""
    volume_id: str = msgspec.field(name="volumeID", default="")
    disk_name: str = ""
    disk_uri: str = msgspec.field(name="diskURI", default="")
    iqn: str = ""
    monitors: tuple[str, ...] = ()
    pool: str = ""
    image: str = ""
    read_only: bool = False


class ImageSource(Object, frozen=True):
    """An image mounted as a volume."""

    reference: str = ""


class Volume(Object, frozen=True):
    """A volume of a pod, with the fields that scheduling reads."""

    name: str = ""
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: EphemeralSource | None = None
    gce_persistent_disk: DiskSource | None = msgspec.field(name="gcePersistentDisk", default=None)
    aws_elastic_block_store: DiskSource | None = msgspec.field(
        name="awsElasticBlockStore", default=None
    )
    iscsi: DiskSource | None = None
    rbd: DiskSource | None = None
    azure_disk: DiskSource | None = None
    azure_file: DiskSource | None = None
    cinder: DiskSource | None = None
    portworx_volume: DiskSource | None = None
    vsphere_volume: DiskSource | None = None
    image: ImageSource | None = None


class PodSpec(Object, frozen=True):
    """The spec fields that determine where a pod may run."""

    node_name: str = ""
    scheduler_name: str = "default-scheduler"
    priority: Int32 | None = None
    priority_class_name: str = ""
    preemption_policy: str = "PreemptLowerPriority"
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    overhead: ResourceList = {}
    resources: ResourceRequirements | None = None
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    volumes: tuple[Volume, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    host_network: bool = False
    host_users: bool | None = None
    scheduling_group: SchedulingGroup | None = None
    active_deadline_seconds: Int64 | None = None


class PodCondition(Object, frozen=True):
    """A condition of a pod's status."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    observed_generation: Int64 = 0
    last_transition_time: str | None = None


class ContainerStatus(Object, frozen=True):
    """The kubelet's report on a container's resources (in-place resize)."""

    name: str = ""
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceList | None = None


class PodStatus(Object, frozen=True):
    """The status fields that determine a pod's resource usage."""

    phase: str = ""
    nominated_node_name: str = ""
    conditions: tuple[PodCondition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceList | None = None
    start_time: str | None = None
    qos_class: str = ""
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()


class PodAnnotations(Object, frozen=True):
    """The annotations of a pod that Trellis reads, each as written."""

    reserve_pod: str = msgspec.field(name="scheduling.koordinator.sh/reserve-pod", default="")
    load_scaling_factors: str = msgspec.field(
        name="scheduling.koordinator.sh/load-estimated-scaling-factors", default=""
    )
    load_seconds_after_scheduled: str = msgspec.field(
        name="scheduling.koordinator.sh/load-estimated-seconds-after-pod-scheduled", default=""
    )
    load_seconds_after_initialized: str = msgspec.field(
        name="scheduling.koordinator.sh/load-estimated-seconds-after-initialized", default=""
    )
    exclusive_job: str = msgspec.field(
        name="alpha.jobset.sigs.k8s.io/exclusive-topology", default=""
    )
    exclusive_group: str = msgspec.field(
        name="leaderworkerset.sigs.k8s.io/exclusive-topology", default=""
    )
    kai_group: str = msgspec.field(name="pod-group-name", default="")
    volcano_group: str = msgspec.field(name="scheduling.k8s.io/group-name", default="")
    kueue_total: str = msgspec.field(name="kueue.x-k8s.io/pod-group-total-count", default="")
    kueue_is_fast: str = msgspec.field(name="kueue.x-k8s.io/pod-group-fast-admission", default="")
    kueue_role: str = msgspec.field(name="kueue.x-k8s.io/role-hash", default="")
    kueue_required: str = msgspec.field(name="kueue.x-k8s.io/podset-required-topology", default="")
    kueue_preferred: str = msgspec.field(
        name="kueue.x-k8s.io/podset-preferred-topology", default=""
    )
    kueue_unconstrained: str = msgspec.field(
        name="kueue.x-k8s.io/podset-unconstrained-topology", default=""
    )
    kueue_group: str = msgspec.field(name="kueue.x-k8s.io/podset-group-name", default="")
    kueue_slices: str = msgspec.field(
        name="kueue.x-k8s.io/podset-slice-required-topology", default=""
    )
    kueue_slice_size: str = msgspec.field(name="kueue.x-k8s.io/podset-slice-size", default="")
    kueue_layers: str = msgspec.field(
        name="kueue.x-k8s.io/podset-slice-required-topology-constraints", default=""
    )


class PodMeta(ObjectMeta, frozen=True):
    """`metadata` of a pod."""

    annotations: PodAnnotations = PodAnnotations()


class Pod(Object, frozen=True):
    """A pod; `derived_group` is no field of the API: the engine sets it (see `derivedgroups`)."""

    metadata: PodMeta = PodMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()
    derived_group: str = ""

    @property
    def key(self) -> str:
        """Return `namespace/name`."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def priority(self) -> int:
        """Return the pod's priority; 0 when it has none."""
        return self.spec.priority or 0

    @property
    def is_finished(self) -> bool:
        """Return whether the pod has terminated and uses no resources."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def is_terminating(self) -> bool:
        """Return whether deletion of the pod was requested."""
        return self.metadata.deletion_timestamp is not None

    def condition(self, kind: str) -> PodCondition | None:
        """Return the condition of type `kind`, or None."""
        return next((c for c in self.status.conditions if c.type == kind), None)
