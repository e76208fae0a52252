"""PodGroups of scheduling.k8s.io, Kubernetes' own; `spec.schedulingGroup` of the pods names them.

Served as v1alpha2 (1.36), v1alpha3 and v1beta1 (1.37); all are read into one struct. They differ in
the spelling of `disruptionMode` and in the type of the condition that reports the group. A gang
needs `minCount` pods at a time, a basic group none; further pods are placed if they fit. A topology
key keeps all pods of the group in one value of any node label: a tree of one level that needs no
declaration. Without one, annotations may state rules for the levels of a tree. A PodGroup may be in
a CompositePodGroup (`composite`).
"""

from typing import Any

from msgspec.structs import replace

from scheduler.base.errors import ObjectError
from scheduler.framework.calls import ApiCall
from scheduler.framework.groups import COMPOSITE_PREFIX
from scheduler.groups.description import classes
from scheduler.groups.description.rules import LevelConstraint
from scheduler.groups.description.spec import LARGEST_GROUP, GroupSpec, TreeMembership
from scheduler.groups.sources import annotated
from scheduler.groups.sources.claim import Claim
from scheduler.groups.sources.inputs import check_between
from scheduler.groups.sources.served import renamed
from scheduler.objects.groups.podgroup import (
    CompositePodGroup,
    WorkloadGroup,
    WorkloadGroupStatus,
    WorkloadReference,
)
from scheduler.objects.kinds import WORKLOAD_GROUPS, Kind
from scheduler.objects.meta import Condition
from scheduler.objects.pod import Pod

PREFIX = "podgroup:"
CONDITION_1_36, CONDITION = "PodGroupScheduled", "PodGroupInitiallyScheduled"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
# Claims of the group, its classes and the tree that it is placed in are a single group's alone.
_ALONE = (annotated.TOPOLOGY_ANNOTATION, *classes.ANNOTATIONS)
SINGLE, ALL = ("Pod", "single"), ("PodGroup", "all")
Group = WorkloadGroup | CompositePodGroup


class WorkloadGroups:
    """The source of the PodGroups of one version."""

    served_as = "PodGroup"
    label = "PodGroup.scheduling.k8s.io"
    prefix = PREFIX

    def __init__(self, kind: Kind) -> None:
        self.kind = kind.kind
        self.api_version = kind.api_version
        self.path = kind.path
        self.plural = kind.plural
        self.condition = CONDITION_1_36 if kind.version == "v1alpha2" else CONDITION

    def conditions(self, obj: Group, condition: Condition) -> list[ApiCall]:
        """Return the request that writes a condition, if it changes.

        True is final in both versions: later changes are reported on the members.
        """
        if self.was_placed(obj):
            return []
        known = obj.condition(self.condition)
        since = condition.last_transition_time
        if known is not None:
            if _words(known) == _words(condition):
                return []
            since = known.last_transition_time if known.status == condition.status else since
        written = {
            "type": self.condition,
            "status": condition.status,
            "reason": condition.reason,
            "message": condition.message,
            "observedGeneration": obj.metadata.generation,
            "lastTransitionTime": since,
        }
        meta = obj.metadata
        collection = self.path.removesuffix(f"/{self.plural}")
        path = f"{collection}/namespaces/{meta.namespace}/{self.plural}/{meta.name}/status"
        body = {"metadata": {"uid": meta.uid}, "status": {"conditions": [written]}}
        return [ApiCall("PATCH", path, body, STRATEGIC_PATCH)]

    def was_placed(self, obj: Group) -> bool:
        """Return whether one of its conditions for a scheduled group is true; their type depends on
        the version.
        """
        conditions = map(obj.condition, (CONDITION_1_36, CONDITION, self.condition))
        return any(one is not None and one.status == "True" for one in conditions)

    def renamed(self, obj: Group, name: str) -> Group:
        """Return a copy of the PodGroup under another name."""
        return renamed(obj, name, status=WorkloadGroupStatus())

    def key(self, obj: Group) -> str:
        """Return the group's key: the prefix of this source, then `namespace/name`."""
        return f"{self.prefix}{obj.metadata.namespace}/{obj.metadata.name}"

    def parent(self, obj: Group) -> str:
        """Return the key of its parent CompositePodGroup, or ''."""
        name = obj.spec.parent_composite_pod_group_name
        return f"{COMPOSITE_PREFIX}{obj.metadata.namespace}/{name}" if name else ""

    def key_of(self, obj: Group) -> str:
        """Return the label that its topology constraint names, or ''; ObjectError if the PodGroup
        also has annotations of a topology tree.
        """
        key = _key_label(obj.spec.scheduling_constraints.topology)
        beside = next((one for one in annotated.OF_TREES if one in obj.metadata.annotations), "")
        if key and beside:
            text = (
                f"spec.schedulingConstraints.topology and the annotation {beside} exclude "
                "each other"
            )
            raise ObjectError(text)
        return key

    def read(self, obj: WorkloadGroup) -> GroupSpec:
        """Return the group that the PodGroup describes; ObjectError names the invalid field."""
        meta, spec = obj.metadata, obj.spec
        policy = spec.scheduling_policy
        if (policy.gang is None) == (policy.basic is None):
            raise ObjectError("spec.schedulingPolicy: exactly one of basic and gang is needed")
        least = 1 if policy.gang is None else policy.gang.min_count
        check_between(least, 1, LARGEST_GROUP, "spec.schedulingPolicy.gang.minCount")
        key = self.key_of(obj)
        return GroupSpec(
            meta.namespace,
            meta.name,
            least,
            spec.priority or 0,
            {key: LevelConstraint("pack", hard=True)} if key else annotated.rules(meta.annotations),
            f"PodGroup {meta.namespace}/{meta.name}",
            is_minimum=True,
            counts_alone=True,
            key_label=key,
            topology=annotated.topology(meta.annotations),
            may_evict=spec.preemption_policy != "Never",
            is_evicted_together=mode(spec.disruption_mode) in ALL,
            has_classes=True,
            classes=classes.read_annotations(meta.annotations, LARGEST_GROUP),
            within=TreeMembership(
                self.parent(obj), workload(spec.workload_ref), policy.gang is None, _alone(obj)
            ),
        )


def workload(reference: WorkloadReference | None) -> str:
    """Return the name of the Workload that the group was created from, or ''."""
    return "" if reference is None else reference.workload_name


def _alone(obj: WorkloadGroup) -> str:
    if obj.spec.resource_claims:
        return "spec.resourceClaims"
    named = next((one for one in _ALONE if one in obj.metadata.annotations), "")
    return f"the annotation {named}" if named else ""


def _words(one: Condition) -> tuple[str, str, str]:
    return one.status, one.reason, one.message


def _key_label(topology: tuple[Any, ...]) -> str:
    """Return the label that a topology constraint names, '' without a constraint; ObjectError for
    any other constraint.
    """
    if len(topology) > 1:
        raise ObjectError(
            "spec.schedulingConstraints.topology: one entry is the most that is known"
        )
    if topology and not topology[0].key:
        raise ObjectError("spec.schedulingConstraints.topology[0].key is missing")
    return topology[0].key if topology else ""


def mode(found: Any) -> str:
    """Return the disruption mode in either spelling; ObjectError on any other."""
    if found is None or found == {}:
        return SINGLE[0]
    if isinstance(found, dict) and len(found) == 1:
        (found,) = found
    if found in SINGLE or found in ALL:
        return str(found)
    raise ObjectError(f'spec.disruptionMode: {found!r:.60} is neither "single" nor "all"')


SOURCES = tuple(WorkloadGroups(kind) for kind in WORKLOAD_GROUPS)
BY_KIND = {source.kind: source for source in SOURCES}


def name_in(pod: Pod) -> str:
    """Return the name of the PodGroup that the pod names, or ''."""
    group = pod.spec.scheduling_group
    return group.pod_group_name or "" if group is not None else ""


def _moved(pod: Pod, name: str) -> Pod:
    group = pod.spec.scheduling_group
    if group is None:
        raise ValueError("the pod names no PodGroup")
    group = replace(group, pod_group_name=name)
    return replace(pod, spec=replace(pod.spec, scheduling_group=group))


CLAIM = Claim(
    "spec.schedulingGroup",
    PREFIX,
    name_in,
    _moved,
    "PodGroup of scheduling.k8s.io",
    tuple(source.kind for source in SOURCES),
)
