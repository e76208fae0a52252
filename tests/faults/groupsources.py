"""Groups described by Volcano, AppGroups and Kueue's pods, for lifecycles: their objects, and how a
pod names one.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from scheduler.groups.sources import appgroup, kueue, volcano
from scheduler.objects.groups.appgroup import (
    GROUP_LABEL,
    WORKLOAD_LABEL,
    AppGroup,
    AppGroupSpec,
    Workload,
    WorkloadRef,
)
from scheduler.objects.groups.volcano import VolcanoGroupSpec, VolcanoPodGroup
from scheduler.objects.meta import AnnotatedMeta, ObjectMeta
from scheduler.objects.pod import Pod, PodAnnotations
from tests.property.making import with_meta

VOLCANO, APP_GROUP = volcano.KIND, appgroup.KIND
KINDS = (VOLCANO, APP_GROUP)
# Not a kind of an API: its pods describe such a group.
KUEUE = "pods of Kueue"
# All members of an application are of one workload: several workloads are not covered here.
_SELECTOR = "w"


def made(kind: str, about: AnnotatedMeta, least: int, known: Any) -> Any:
    """Return the object of a group that needs this many members.

    The status of a `known` one stays.
    """
    if kind == VOLCANO:
        found: Any = VolcanoPodGroup(about, VolcanoGroupSpec(least))
    else:
        meta = ObjectMeta(name=about.name, namespace=about.namespace, uid=about.uid)
        workload = Workload(WorkloadRef(selector=_SELECTOR), (), least)
        found = AppGroup(meta, AppGroupSpec(gang=True, workloads=(workload,)))
    return found if known is None else msgspec.structs.replace(found, status=known.status)


def least_of(kind: str, obj: Any) -> int:
    """Return the minimum of members in an object."""
    if kind == VOLCANO:
        return int(obj.spec.min_member)
    return sum(one.min_members for one in obj.spec.workloads)


def joined(kind: str, pod: Pod, group: str) -> Pod:
    """Return a pod as a member of a group."""
    if kind == VOLCANO:
        return with_meta(pod, annotations=PodAnnotations(volcano_group=group))
    labels: Mapping[str, str] = {GROUP_LABEL: group, WORKLOAD_LABEL: _SELECTOR}
    return with_meta(pod, labels=labels)


def joined_in_kueue(pod: Pod, group: str, stated: PodAnnotations) -> Pod:
    """Return a pod as a member of a Kueue group whose pods have the annotations `stated`."""
    return with_meta(pod, labels={kueue.LABEL: group}, annotations=stated)


def name_in(pod: Pod) -> str:
    """Return the name of a pod's group from one of these sources, or ''."""
    labels = pod.metadata.labels
    return (
        pod.metadata.annotations.volcano_group
        or labels.get(GROUP_LABEL, "")
        or labels.get(kueue.LABEL, "")
    )
