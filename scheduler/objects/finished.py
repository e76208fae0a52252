"""Finished pods: which of their fields are kept.

A finished pod uses no capacity, but it was a member of its group, so the group counts it. Only pods
that were bound and name a group are kept, see scheduler.engine.intake. The store has them under the
name `FINISHED`.
"""

from typing import Final

import msgspec

from scheduler.objects.pod import Pod, PodSpec, PodStatus

FINISHED: Final = "FinishedPod"


def kept(pod: Pod) -> Pod:
    """Return a finished pod without its containers and volumes."""
    spec = PodSpec(
        node_name=pod.spec.node_name,
        scheduler_name=pod.spec.scheduler_name,
        scheduling_group=pod.spec.scheduling_group,
        priority=pod.spec.priority,
    )
    return msgspec.structs.replace(pod, spec=spec, status=PodStatus(phase=pod.status.phase))
