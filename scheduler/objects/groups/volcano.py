"""Volcano's PodGroup (scheduling.volcano.sh/v1beta1) and HyperNode (topology.volcano.sh/v1alpha1).

The fields that determine the placement of pods and the distance between nodes; plain fields and
look-ups. They are interpreted in scheduler.groups: `sources.volcano`, `hypernodes`. Fields that are
read only to be rejected are kept undecoded.
"""

from typing import Any

import msgspec

from scheduler.objects.meta import AnnotatedMeta, Int32, LabelSelector, Object, ObjectMeta


class VolcanoTopologySpec(Object, frozen=True):
    """The HyperNode tiers within which the pods must be; `mode` is hard or soft."""

    mode: str = "hard"
    highest_tier_allowed: Int32 | None = None
    highest_tier_name: str = ""


class VolcanoGroupSpec(Object, frozen=True):
    """The spec of a PodGroup of Volcano; `min_member` 0 is unset."""

    min_member: Int32 = 0
    min_task_member: dict[str, Int32] = {}
    queue: str = ""
    priority_class_name: str = ""
    min_resources: dict[str, str | int | float] = {}
    network_topology: VolcanoTopologySpec | None = None
    sub_group_policy: Any = None
    topology_affinity: Any = None
    preemptable: bool | None = None


class VolcanoCondition(Object, frozen=True):
    """A condition of a group; Volcano numbers its sessions in `transition_id`."""

    type: str = ""
    status: str = ""
    transition_id: str = msgspec.field(name="transitionID", default="")
    last_transition_time: str | None = None
    reason: str = ""
    message: str = ""


class VolcanoGroupStatus(Object, frozen=True):
    """The status of a group; the CRD has no status subresource."""

    phase: str = ""
    conditions: tuple[VolcanoCondition, ...] = ()
    running: Int32 = 0


class VolcanoPodGroup(Object, frozen=True):
    """A PodGroup of Volcano."""

    metadata: AnnotatedMeta = AnnotatedMeta()
    spec: VolcanoGroupSpec = VolcanoGroupSpec()
    status: VolcanoGroupStatus = VolcanoGroupStatus()

    def condition(self, kind: str) -> VolcanoCondition | None:
        """Return the condition of type `kind`, or None."""
        return next((one for one in self.status.conditions if one.type == kind), None)


class ExactMatch(Object, frozen=True):
    """A member by its name."""

    name: str = ""


class RegexMatch(Object, frozen=True):
    """All members whose names have a part that matches."""

    pattern: str = ""


class HyperNodeSelector(Object, frozen=True):
    """One of the three is set; labels are those of nodes."""

    exact_match: ExactMatch | None = None
    regex_match: RegexMatch | None = None
    label_match: LabelSelector | None = None


class HyperNodeMember(Object, frozen=True):
    """Nodes, or HyperNodes, that belong to a HyperNode: `type` is Node or HyperNode."""

    type: str = ""
    selector: HyperNodeSelector = HyperNodeSelector()


class HyperNodeSpec(Object, frozen=True):
    """Members of a lower tier are nearer to one another; early versions wrote the tier as text."""

    tier: Int32 | str = 0
    tier_name: str = ""
    members: tuple[HyperNodeMember, ...] = ()


class HyperNode(Object, frozen=True):
    """A HyperNode of Volcano; cluster-scoped."""

    metadata: ObjectMeta = ObjectMeta()
    spec: HyperNodeSpec = HyperNodeSpec()
