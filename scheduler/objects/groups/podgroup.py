"""PodGroups of scheduling.x-k8s.io (coscheduling) and of scheduling.k8s.io, all versions.

CompositePodGroups (1.37) put PodGroups, and one another, into trees.

Kubernetes' own PodGroup has been served as v1alpha2 (1.36), v1alpha3 and v1beta1 (1.37). One struct
reads all of them: where their spellings differ (`disruptionMode`), the field takes either. Plain
fields and look-ups; scheduler.groups.sources interprets them.
"""

from typing import Any

import msgspec

from scheduler.objects.meta import AnnotatedMeta, Condition, Int32, Object


class PodGroupSpec(Object, frozen=True):
    """The spec of a PodGroup of scheduling.x-k8s.io; `min_member` 0 is unset."""

    min_member: Int32 = 0
    min_resources: dict[str, str | int | float] = {}
    schedule_timeout_seconds: Int32 | None = None


class PodGroupStatus(Object, frozen=True):
    """The status that coscheduling writes to a PodGroup."""

    phase: str = ""
    scheduled: Int32 = 0
    running: Int32 = 0
    schedule_start_time: str | None = None


class PodGroup(Object, frozen=True):
    """A PodGroup of scheduling.x-k8s.io."""

    metadata: AnnotatedMeta = AnnotatedMeta()
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


class BasicPolicy(Object, frozen=True):
    """Pods of the group are placed one by one: there is no minimum."""


class GangPolicy(Object, frozen=True):
    """At least `min_count` pods are placed at the same time, or none."""

    min_count: Int32 = 0


class SchedulingPolicy(Object, frozen=True):
    """One of the two is set."""

    basic: BasicPolicy | None = None
    gang: GangPolicy | None = None


class TopologyConstraint(Object, frozen=True):
    """All pods of the group go to nodes with one value of the label `key`."""

    key: str = ""


class SchedulingConstraints(Object, frozen=True):
    """Placement constraints of a group's pods; at most one entry is served so far."""

    topology: tuple[TopologyConstraint, ...] = ()


class PodResourceClaim(Object, frozen=True):
    """A reference of a pod, or of a PodGroup, to a ResourceClaim or its template."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodResourceClaimStatus(Object, frozen=True):
    """The claim created for an entry of `spec.resourceClaims`; without a name none is needed."""

    name: str = ""
    resource_claim_name: str | None = None


class WorkloadReference(Object, frozen=True):
    """The template in a Workload that a group was made from."""

    workload_name: str = ""
    template_name: str = ""


class WorkloadGroupSpec(Object, frozen=True):
    """The spec of a PodGroup of scheduling.k8s.io.

    `disruption_mode` is a text in v1alpha2 ("Pod", "PodGroup") and a union later (`{"single": {}}`,
    `{"all": {}}`). A group without a priority has priority 0. `resource_claims` are used by all
    pods with an entry of the same name.
    """

    scheduling_policy: SchedulingPolicy = SchedulingPolicy()
    scheduling_constraints: SchedulingConstraints = SchedulingConstraints()
    disruption_mode: Any = None
    priority: Int32 | None = None
    preemption_policy: str = ""
    resource_claims: tuple[PodResourceClaim, ...] = ()
    parent_composite_pod_group_name: str = ""
    workload_ref: WorkloadReference | None = None


class WorkloadGroupStatus(Object, frozen=True):
    """The status of a PodGroup of scheduling.k8s.io."""

    conditions: tuple[Condition, ...] = ()
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()


class WorkloadGroup(Object, frozen=True):
    """A PodGroup of scheduling.k8s.io, of any version."""

    metadata: AnnotatedMeta = AnnotatedMeta()
    spec: WorkloadGroupSpec = WorkloadGroupSpec()
    status: WorkloadGroupStatus = WorkloadGroupStatus()

    def condition(self, kind: str) -> Condition | None:
        """Return the condition of type `kind`, or None."""
        return next((one for one in self.status.conditions if one.type == kind), None)


class CompositeGangPolicy(Object, frozen=True):
    """At least `min_group_count` of its groups are placed at the same time, or none."""

    min_group_count: Int32 = 0


class CompositePolicy(Object, frozen=True):
    """One of the two is set."""

    basic: BasicPolicy | None = None
    gang: CompositeGangPolicy | None = None


class CompositeGroupSpec(Object, frozen=True):
    """The spec of a CompositePodGroup; its groups name it as their parent."""

    parent_composite_pod_group_name: str = ""
    workload_ref: WorkloadReference | None = None
    scheduling_policy: CompositePolicy = CompositePolicy()
    scheduling_constraints: SchedulingConstraints = SchedulingConstraints()
    disruption_mode: Any = None
    priority: Int32 | None = None
    preemption_policy: str = ""


class CompositePodGroup(Object, frozen=True):
    """A CompositePodGroup of scheduling.k8s.io: a group of groups."""

    metadata: AnnotatedMeta = AnnotatedMeta()
    spec: CompositeGroupSpec = CompositeGroupSpec()
    status: WorkloadGroupStatus = WorkloadGroupStatus()

    def condition(self, kind: str) -> Condition | None:
        """Return the condition of type `kind`, or None."""
        return next((one for one in self.status.conditions if one.type == kind), None)


class SchedulingGroup(Object, frozen=True):
    """The reference of a pod to its PodGroup of scheduling.k8s.io, in the pod's namespace."""

    pod_group_name: str = msgspec.field(name="podGroupName", default="")
