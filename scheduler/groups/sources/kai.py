"""PodGroups of scheduling.run.ai (KAI); an annotation of the pods names them.

`minMember` pods start together, and in each subgroup its own `minMember`; further members are
placed as capacity allows. Subgroups are classes of members, by the label that KAI defines. A
required level keeps all members in one value of a node label; a preferred one needs a Topology of
Kueue with that level. Queues have no effect: their quotas stay with KAI. The status is its
controller's and is not written.
"""

from typing import Final

from msgspec.structs import replace

from scheduler.base.errors import ObjectError
from scheduler.groups.description import classes
from scheduler.groups.description.spec import LARGEST_GROUP, GroupSpec
from scheduler.groups.problem.classes import MOST_CLASSES
from scheduler.groups.sources import annotated
from scheduler.groups.sources.claim import by_annotation
from scheduler.groups.sources.inputs import check_between
from scheduler.groups.sources.labelled import excluded, placed_by
from scheduler.groups.sources.served import ServedGroups
from scheduler.objects.groups.gangs import KaiPodGroup, KaiSubGroup
from scheduler.objects.kinds import KAI_GROUP
from scheduler.objects.pod import Pod

KIND: Final = KAI_GROUP.kind
PREFIX: Final = "kai:"
ANNOTATION: Final = "pod-group-name"
SUBGROUP_LABEL: Final = "kai.scheduler/subgroup-name"
LONGEST_NAME: Final = 253
_EVICTABLE: Final = ("", "preemptible")


def name_in(pod: Pod) -> str:
    """Return the name of the pod's group, '' for none; cut to one character more than the maximum
    length.
    """
    return pod.metadata.annotations.kai_group[: LONGEST_NAME + 1]


class KaiGroups(ServedGroups):
    """The source of these PodGroups."""

    of = KAI_GROUP
    prefix = PREFIX

    def read(self, obj: KaiPodGroup) -> GroupSpec:
        """Return the group that the PodGroup describes; ObjectError names an invalid or unsupported
        field.
        """
        meta, spec = obj.metadata, obj.spec
        check_between(spec.min_member, 0, LARGEST_GROUP, "spec.minMember")
        if spec.preemptibility not in _EVICTABLE:
            text = f"{spec.preemptibility!r:.60} is refused, pods are evicted by priority here"
            raise ObjectError(f"spec.preemptibility: {text}")
        if spec.min_sub_group is not None:
            raise ObjectError("spec.minSubGroup is refused: all subgroups start together here")
        constraint = spec.topology_constraint
        parts = _parts(spec.sub_groups)
        size = max(1, spec.min_member, sum(one.min for one in parts.classes) if parts else 0)
        check_between(size, 1, LARGEST_GROUP, "the sum of minMember of spec.subGroups")
        if parts is not None:
            excluded("spec.subGroups", meta.annotations, classes.ANNOTATIONS)
        group = replace(
            annotated.minimum_group(meta, size, f"PodGroup {meta.namespace}/{meta.name} of KAI"),
            classes=parts or classes.read_annotations(meta.annotations, LARGEST_GROUP),
            priority_class=spec.priority_class_name,
        )
        required, preferred = (
            constraint.required_topology_level,
            constraint.preferred_topology_level,
        )
        return placed_by(group, required, preferred, "spec.topologyConstraint", meta.annotations)


def _parts(found: tuple[KaiSubGroup, ...]) -> classes.ClassesSpec | None:
    """Return subgroups as classes of members, None without any; ObjectError for nested ones."""
    if not found:
        return None
    if len(found) > MOST_CLASSES:
        raise ObjectError(f"spec.subGroups: {len(found)} are more than {MOST_CLASSES}")
    made = {}
    for at, one in enumerate(found):
        where, least = f"spec.subGroups[{at}]", 1 if one.min_member is None else one.min_member
        for field, value in (
            ("parent", one.parent),
            ("minSubGroup", one.min_sub_group),
            ("topologyConstraint", one.topology_constraint),
        ):
            if value:
                raise ObjectError(f"{where}.{field} is refused: subgroups are flat here")
        if not one.name or one.name in made:
            raise ObjectError(f"{where}.name is missing or not unique")
        check_between(least, 0, LARGEST_GROUP, f"{where}.minMember")
        made[one.name] = classes.ClassSpec(one.name, least)
    return classes.ClassesSpec(tuple(made[name] for name in sorted(made)), label=SUBGROUP_LABEL)


SOURCE = KaiGroups()
CLAIM = by_annotation(
    ANNOTATION,
    "kai_group",
    f"{SOURCE.served_as} of {SOURCE.api_version}",
    (KIND,),
    prefix=PREFIX,
    name=name_in,
)
