"""PodGroups of scheduling.k8s.io, Kubernetes' own; `spec.schedulingGroup` of the pods names them.

Served as v1alpha2 (1.36), v1alpha3 and v1beta1 (1.37); all are read into one struct, and what differs
is the spelling of `disruptionMode` and the type of the condition that tells of them. A gang needs `minCount` pods
at a time, a basic group none; both take whatever else fits. A topology key keeps all pods of the group
in one value of a node label, whichever it is: a tree of one level that nobody has to declare.
"""

from __future__ import annotations

from typing import Any

from scheduler.base.errors import ObjectError
from scheduler.objects.kinds import WORKLOAD_GROUPS, Kind
from scheduler.objects.podgroup import WorkloadGroup
from scheduler.plugins.groups.group import LARGEST_GROUP, Constraint, GroupSpec

PREFIX = "podgroup:"
CONDITION_1_36, CONDITION = "PodGroupScheduled", "PodGroupInitiallyScheduled"
SINGLE, ALL = ("Pod", "single"), ("PodGroup", "all")


class WorkloadGroups:
    """The source of the PodGroups of one version."""

    served_as = "PodGroup"
    label = "PodGroup.scheduling.k8s.io"

    def __init__(self, kind: Kind) -> None:
        self.kind = kind.kind
        self.api_version = kind.api_version
        self.path = kind.path
        self.condition = CONDITION_1_36 if kind.version == "v1alpha2" else CONDITION

    def key(self, obj: WorkloadGroup) -> str:
        """Return `namespace/name` behind the word that sets these groups apart."""
        return f"{PREFIX}{obj.metadata.namespace}/{obj.metadata.name}"

    def read(self, obj: WorkloadGroup) -> GroupSpec:
        """Return what it asks for; ObjectError names the field that is wrong."""
        meta, spec = obj.metadata, obj.spec
        policy = spec.scheduling_policy
        if (policy.gang is None) == (policy.basic is None):
            raise ObjectError("spec.schedulingPolicy: exactly one of basic and gang is needed")
        least = 1 if policy.gang is None else policy.gang.min_count
        if not 1 <= least <= LARGEST_GROUP:
            text = (
                f"spec.schedulingPolicy.gang.minCount: {least} is not between 1 and {LARGEST_GROUP}"
            )
            raise ObjectError(text)
        key = _key_label(spec.scheduling_constraints.topology)
        return GroupSpec(
            meta.namespace,
            meta.name,
            least,
            spec.priority or 0,
            {key: Constraint("pack", hard=True)} if key else {},
            f"PodGroup {meta.namespace}/{meta.name}",
            is_minimum=True,
            counts_alone=True,
            key_label=key,
            may_evict=spec.preemption_policy != "Never",
            goes_whole=_mode(spec.disruption_mode) in ALL,
            has_classes=True,
        )


def _key_label(topology: tuple[Any, ...]) -> str:
    if len(topology) > 1:
        raise ObjectError(
            "spec.schedulingConstraints.topology: one entry is the most that is known"
        )
    if topology and not topology[0].key:
        raise ObjectError("spec.schedulingConstraints.topology[0].key is missing")
    return topology[0].key if topology else ""


def _mode(found: Any) -> str:
    """Return the disruption mode in either spelling; ObjectError on any other."""
    if found is None or found == {}:
        return SINGLE[0]
    if isinstance(found, dict) and len(found) == 1:
        (found,) = found
    if found in SINGLE or found in ALL:
        return str(found)
    raise ObjectError(f'spec.disruptionMode: {found!r:.60} is neither "single" nor "all"')


SOURCES = tuple(WorkloadGroups(kind) for kind in WORKLOAD_GROUPS)
