"""PodGroups of scheduling.volcano.sh, which Volcano made common; an annotation of the pods names
them.

`minMember` pods are placed together, among them the number of each task in `minTaskMember`; further
members are placed with them where they fit. A task is a role, identified by the label that
Volcano's controllers set. `networkTopology` refers to tiers of HyperNodes (see `hypernodes`).
Fields that cannot be satisfied exactly are rejected by name. The members belong to their
controller: the scheduler never releases any.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from scheduler.base.errors import ObjectError
from scheduler.framework.calls import ApiCall
from scheduler.groups.description import classes
from scheduler.groups.description.spec import LARGEST_GROUP, GroupSpec, TierRule
from scheduler.groups.problem.classes import MOST_CLASSES
from scheduler.groups.sources import annotated
from scheduler.groups.sources.claim import by_annotation
from scheduler.groups.sources.coscheduling import MERGE_PATCH, needs
from scheduler.groups.sources.inputs import check_between, check_count
from scheduler.groups.sources.labelled import excluded
from scheduler.groups.sources.served import ServedGroups, changed, renamed
from scheduler.groups.topology import hypernodes
from scheduler.objects.groups.volcano import (
    VolcanoCondition,
    VolcanoGroupStatus,
    VolcanoPodGroup,
)
from scheduler.objects.kinds import VOLCANO_GROUP
from scheduler.objects.pod import Pod

KIND = VOLCANO_GROUP.kind
PREFIX = "volcano:"
ANNOTATION = "scheduling.k8s.io/group-name"
TASK_LABEL = "volcano.sh/task-spec"
PENDING, INQUEUE, RUNNING, UNKNOWN = "Pending", "Inqueue", "Running", "Unknown"
COMPLETED = "Completed"
# Phases of a group that has not been placed.
BEFORE_PLACED = ("", PENDING, INQUEUE)
UNSCHEDULABLE, SCHEDULED = "Unschedulable", "Scheduled"
NOT_ENOUGH_RESOURCES = "NotEnoughResources"
HARD, SOFT = "hard", "soft"
LONGEST_NAME = 253
MOST_TASKS = 1_000  # for a group whose tasks' numbers do not count; for others `MOST_CLASSES`
_DEFAULT_QUEUE = "default"


def name_in(pod: Pod) -> str:
    """Return the name of the pod's group, or ''; cut to one character more than the maximum
    length.
    """
    return pod.metadata.annotations.volcano_group[: LONGEST_NAME + 1]


class VolcanoGroups(ServedGroups):
    """The source of these PodGroups."""

    of = VOLCANO_GROUP
    prefix = PREFIX

    def read(self, obj: VolcanoPodGroup) -> GroupSpec:
        """Return the group that the PodGroup describes; ObjectError names an invalid field, or one
        that cannot be placed exactly.
        """
        meta, spec = obj.metadata, obj.spec
        check_between(spec.min_member, 0, LARGEST_GROUP, "spec.minMember")
        _check(obj)
        topology, tiers, has_outside_nodes = _near(obj)
        return replace(
            annotated.minimum_group(
                meta, max(1, spec.min_member), f"PodGroup {meta.namespace}/{meta.name} of Volcano"
            ),
            topology=topology,
            classes=_tasks(spec.min_task_member, spec.min_member)
            or classes.read_annotations(meta.annotations, LARGEST_GROUP),
            needs=needs(spec.min_resources),
            priority_class=spec.priority_class_name,
            tiers=tiers,
            has_outside_nodes=has_outside_nodes,
        )

    def was_placed(self, obj: VolcanoPodGroup) -> bool:
        """Return whether its phase is Running or a later one."""
        return obj.status.phase not in BEFORE_PLACED

    def renamed(self, obj: VolcanoPodGroup, name: str) -> VolcanoPodGroup:
        """Return a copy of the PodGroup under another name."""
        return renamed(obj, name, status=VolcanoGroupStatus())

    def status(
        self, obj: VolcanoPodGroup, conditions: tuple[VolcanoCondition, ...] = (), **values: Any
    ) -> list[ApiCall]:
        """Return the request that sets fields of the status, and these conditions, if anything
        differs.

        It patches the object itself: Volcano's definition has no status subresource.
        """
        fields = changed(obj.status, values)
        changes = [one for one in conditions if not _is_reported(obj, one)]
        if changes:
            types = {one.type for one in changes}
            kept = (one for one in obj.status.conditions if one.type not in types)
            fields["conditions"] = [msgspec.to_builtins(one) for one in (*kept, *changes)]
        if not fields:
            return []
        meta = obj.metadata
        collection = f"/apis/{self.api_version}/namespaces/{meta.namespace}"
        path = f"{collection}/{VOLCANO_GROUP.plural}/{meta.name}"
        body = {"metadata": {"uid": meta.uid}, "status": fields}
        return [ApiCall("PATCH", path, body, MERGE_PATCH)]


def _is_reported(obj: VolcanoPodGroup, condition: VolcanoCondition) -> bool:
    known = obj.condition(condition.type)
    if known is None:
        # A condition that was never true need not be set to false.
        return condition.status == "False"
    return (known.status, known.reason, known.message) == (
        condition.status,
        condition.reason,
        condition.message,
    )


def _check(obj: VolcanoPodGroup) -> None:
    """Reject fields that cannot be placed exactly, by name."""
    spec = obj.spec
    if spec.queue not in ("", _DEFAULT_QUEUE):
        raise ObjectError(
            f"spec.queue: {spec.queue!r:.60} is refused, quotas of Volcano's queues are "
            "not kept here; "
            f"{_DEFAULT_QUEUE!r} is taken for none"
        )
    if spec.sub_group_policy:
        raise ObjectError("spec.subGroupPolicy is refused, its groups are not placed exactly here")
    if spec.topology_affinity:
        text = "spec.topologyAffinity is refused, rules between PodGroups are not kept here"
        raise ObjectError(text)
    if spec.preemptable is False:
        raise ObjectError("spec.preemptable: false is refused, pods go by their priority here")
    if not spec.min_task_member:
        return
    excluded("spec.minTaskMember", obj.metadata.annotations, classes.ANNOTATIONS)


def _near(obj: VolcanoPodGroup) -> tuple[str, TierRule | None, bool]:
    """Return the tree that it is placed in, its rule for tiers, and whether nodes outside may be
    used.
    """
    rule, annotations = obj.spec.network_topology, obj.metadata.annotations
    if rule is None:
        return annotated.topology(annotations), None, False
    excluded("spec.networkTopology", annotations, annotated.OF_TREES)
    if rule.mode == SOFT:
        return hypernodes.NAME, None, True
    where, highest = "spec.networkTopology", rule.highest_tier_allowed
    if rule.mode != HARD:
        raise ObjectError(f'{where}.mode: "hard" or "soft" is needed, not {rule.mode!r:.60}')
    if (highest is None) == (not rule.highest_tier_name):
        raise ObjectError(
            f"{where}: with mode hard one of highestTierAllowed and highestTierName is needed"
        )
    return hypernodes.NAME, TierRule(highest, rule.highest_tier_name), False


def _tasks(least: Mapping[str, int], members: int) -> classes.ClassesSpec | None:
    """Return the tasks as roles, None if their numbers do not count.

    Volcano: if `minMember` is below the sum of the tasks' numbers, only `minMember` counts, so that
    a job without a fixed size may start.
    """
    check_count(least, MOST_TASKS, "spec.minTaskMember", "tasks")
    for name, number in least.items():
        check_between(number, 0, LARGEST_GROUP, f"spec.minTaskMember[{name:.60}]")
    minimums = {name: number for name, number in least.items() if number}
    if not minimums or members < sum(minimums.values()):
        return None
    if len(minimums) > MOST_CLASSES:
        text = f"spec.minTaskMember: {len(minimums)} tasks are more than {MOST_CLASSES}"
        raise ObjectError(text)
    each = tuple(classes.ClassSpec(name, number) for name, number in sorted(minimums.items()))
    return classes.ClassesSpec(each, label=TASK_LABEL)


SOURCE = VolcanoGroups()
CLAIM = by_annotation(
    ANNOTATION,
    "volcano_group",
    f"{SOURCE.served_as} of {SOURCE.api_version}",
    (KIND,),
    prefix=PREFIX,
    name=name_in,
)
