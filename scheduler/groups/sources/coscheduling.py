"""PodGroups of scheduling.x-k8s.io, which coscheduling made common; a label on the pods names them.

`minMember` is a minimum: members beyond it are placed as well, as capacity allows. Rules for levels
of the tree are in an annotation. The members belong to their controller, so Trellis never deletes
one because its group is incomplete.
"""

from typing import Any

from msgspec.structs import replace

from scheduler.base.errors import ObjectError
from scheduler.framework.calls import ApiCall
from scheduler.groups.description import classes
from scheduler.groups.description.spec import LARGEST_GROUP, GroupSpec
from scheduler.groups.sources import annotated
from scheduler.groups.sources.claim import by_label
from scheduler.groups.sources.inputs import check_between, check_count
from scheduler.groups.sources.served import changed, renamed
from scheduler.objects.groups.podgroup import PodGroup, PodGroupStatus
from scheduler.objects.pod import ResourceList
from scheduler.state.resources import Amounts, amounts, counted

KIND = "PodGroup"
LABEL = "scheduling.x-k8s.io/pod-group"
CLAIM = by_label(LABEL, "PodGroup", (KIND,))
MERGE_PATCH = "application/merge-patch+json"
MOST_RESOURCES = 128
# The phases of a group, in Coscheduling's words.
PENDING, SCHEDULING, SCHEDULED, RUNNING = "Pending", "Scheduling", "Scheduled", "Running"
UNKNOWN, FINISHED, FAILED = "Unknown", "Finished", "Failed"
# Of a group whose minimum is bound.
PLACED = (SCHEDULED, RUNNING)
BEFORE_SCHEDULED = ("", PENDING, "PreScheduling", SCHEDULING)


class PodGroups:
    """The source of these PodGroups."""

    kind = KIND
    served_as = "PodGroup"
    api_version = "scheduling.x-k8s.io/v1alpha1"
    label = "PodGroup.scheduling.x-k8s.io"

    def status(self, obj: PodGroup, **values: Any) -> list[ApiCall]:
        """Return the request that sets fields of the status, if any differs."""
        fields = changed(obj.status, values)
        if not fields:
            return []
        meta = obj.metadata
        path = f"/apis/{self.api_version}/namespaces/{meta.namespace}/podgroups/{meta.name}/status"
        body = {"metadata": {"uid": meta.uid}, "status": fields}
        return [ApiCall("PATCH", path, body, MERGE_PATCH)]

    def key(self, obj: PodGroup) -> str:
        """Return `namespace/name`."""
        return f"{obj.metadata.namespace}/{obj.metadata.name}"

    def read(self, obj: PodGroup) -> GroupSpec:
        """Return the group that the PodGroup describes; ObjectError names the invalid field."""
        meta, spec = obj.metadata, obj.spec
        check_between(spec.min_member, 1, LARGEST_GROUP, "spec.minMember")
        return replace(
            annotated.minimum_group(
                meta, spec.min_member, f"PodGroup {meta.namespace}/{meta.name}"
            ),
            classes=classes.read_annotations(meta.annotations, LARGEST_GROUP),
            needs=needs(spec.min_resources),
            hold_s=float(spec.schedule_timeout_seconds or 0),
        )

    def was_placed(self, obj: PodGroup) -> bool:
        """Return whether its phase is Scheduled or a later one."""
        return obj.status.phase not in BEFORE_SCHEDULED

    def renamed(self, obj: PodGroup, name: str) -> PodGroup:
        """Return a copy of the PodGroup under another name."""
        return renamed(obj, name, status=PodGroupStatus())


def needs(least: ResourceList) -> Amounts:
    """Return the stated total needs of a group; ObjectError names the field."""
    check_count(least, MOST_RESOURCES, "spec.minResources", "resources")
    try:
        return counted(amounts(least))
    except ObjectError as error:
        raise ObjectError(f"spec.minResources: {error.message}") from error


SOURCE = PodGroups()
