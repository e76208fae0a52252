"""Volcano's PodGroup (scheduling.volcano.sh/v1beta1): the fields that say how its pods are to be placed.

Plain fields and look-ups; what they ask for is worked out in scheduler.plugins.groups.sources.volcano. The
fields that are only looked at to be refused are kept as they come.
"""

from typing import Any

import msgspec

from scheduler.objects.meta import AnnotatedMeta, Int32, Object


class VolcanoTopologySpec(Object, frozen=True):
    """How near to one another the pods have to be, by tiers of HyperNodes: `mode` is hard or soft."""

    mode: str = "hard"
    highest_tier_allowed: Int32 | None = None
    highest_tier_name: str = ""


class VolcanoGroupSpec(Object, frozen=True):
    """What a PodGroup of Volcano asks for; `min_member` 0 stands for none given."""

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
    """One statement about a group; Volcano numbers its sessions in `transition_id`."""

    type: str = ""
    status: str = ""
    transition_id: str = msgspec.field(name="transitionID", default="")
    last_transition_time: str | None = None
    reason: str = ""
    message: str = ""


class VolcanoGroupStatus(Object, frozen=True):
    """What was said of a group; the definition gives it no subresource."""

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
