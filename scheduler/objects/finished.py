"""Finished pods: which of them are kept, and which of their fields.

A finished pod uses no capacity, but it was a member of its group, so the group counts it. Only pods
that name a group are kept, without their containers. The store has them under the name `FINISHED`.
"""

from typing import Final

import msgspec

from scheduler.objects.groups import GROUP_LABEL
from scheduler.objects.pod import Pod, PodSpec, PodStatus

FINISHED: Final = "FinishedPod"
# The labels by which pods name a group of pods: of Sakkara, Coscheduling, Kueue, Grove and
# AppGroups.
GROUP_LABELS: Final = frozenset(
    (
        "sakkara.group.name",
        "scheduling.x-k8s.io/pod-group",
        "kueue.x-k8s.io/pod-group-name",
        "grove.io/podgang",
        GROUP_LABEL,
    )
)


def names_group(pod: Pod) -> bool:
    """Return whether a pod names a group of pods by any of the known labels or fields."""
    if pod.spec.scheduling_group is not None or pod.derived_group:
        return True
    meta = pod.metadata
    if meta.annotations.volcano_group or meta.annotations.kai_group:
        return True
    return not GROUP_LABELS.isdisjoint(meta.labels)


def is_kept(pod: Pod) -> bool:
    """Return whether a finished pod counts for a group: it names one and was bound."""
    return pod.is_finished and bool(pod.spec.node_name) and names_group(pod)


def kept(pod: Pod) -> Pod:
    """Return a finished pod without its containers and volumes."""
    spec = PodSpec(
        node_name=pod.spec.node_name,
        scheduler_name=pod.spec.scheduler_name,
        scheduling_group=pod.spec.scheduling_group,
        priority=pod.spec.priority,
    )
    return msgspec.structs.replace(pod, spec=spec, status=PodStatus(phase=pod.status.phase))
