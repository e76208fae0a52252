"""Groups as Volcano, AppGroups and Kueue's pods describe them, for lives: what says of what they
need, and how a pod names one.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from scheduler.groups.sources import appgroup, kueue, volcano
from scheduler.objects.groups import (
    GROUP_LABEL,
    WORKLOAD_LABEL,
    AppGroup,
    AppGroupSpec,
    Workload,
    WorkloadRef,
)
from scheduler.objects.meta import AnnotatedMeta, ObjectMeta
from scheduler.objects.pod import Pod, PodAnnotations
from scheduler.objects.volcano import VolcanoGroupSpec, VolcanoPodGroup
from tests.property.making import with_meta

VOLCANO, APP_GROUP = volcano.KIND, appgroup.KIND
KINDS = (VOLCANO, APP_GROUP)
# No kind of an API: its pods describe such a group.
KUEUE = "pods of Kueue"
# All members of an application are of one workload: what several may be together is not played
# here.
_SELECTOR = "w"


def made(kind: str, about: AnnotatedMeta, least: int, known: Any) -> Any:
    """Return the object of a group that needs so many members.

    Of one that is `known` the status stays.
    """
    if kind == VOLCANO:
        found: Any = VolcanoPodGroup(about, VolcanoGroupSpec(least))
    else:
        meta = ObjectMeta(name=about.name, namespace=about.namespace, uid=about.uid)
        workload = Workload(WorkloadRef(selector=_SELECTOR), (), least)
        found = AppGroup(meta, AppGroupSpec(gang=True, workloads=(workload,)))
    return found if known is None else msgspec.structs.replace(found, status=known.status)


def least_of(kind: str, obj: Any) -> int:
    """Return how many members an object says that its group needs."""
    if kind == VOLCANO:
        return int(obj.spec.min_member)
    return sum(one.min_members for one in obj.spec.workloads)


def joined(kind: str, pod: Pod, group: str) -> Pod:
    """Return a pod as a member of a group."""
    if kind == VOLCANO:
        return with_meta(pod, annotations=PodAnnotations(volcano_group=group))
    labels: Mapping[str, str] = {GROUP_LABEL: group, WORKLOAD_LABEL: _SELECTOR}
    return with_meta(pod, labels=labels)


def joined_in_kueue(pod: Pod, group: str, said: PodAnnotations) -> Pod:
    """Return a pod as one of a group of Kueue, of which `said` is what all of them say."""
    return with_meta(pod, labels={kueue.LABEL: group}, annotations=said)


def name_in(pod: Pod) -> str:
    """Return the name of the group of a pod in one of these dialects, or an empty text."""
    labels = pod.metadata.labels
    return (
        pod.metadata.annotations.volcano_group
        or labels.get(GROUP_LABEL, "")
        or labels.get(kueue.LABEL, "")
    )
