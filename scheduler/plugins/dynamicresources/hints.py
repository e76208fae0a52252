"""The changes that may help a pod that DynamicResources rejected or gated; kube-scheduler's rules.

Wider in four places where upstream misses a change that can help: a deleted slice may complete its
pool; a pod that was never bound releases its reservations; an allocated claim ends the wait for its
allocation; a deleted claim releases its devices, or permits the new one that a pod with extended
resources needs.
"""

from scheduler.objects.claims import ResourceClaim
from scheduler.objects.groups.podgroup import WorkloadGroup
from scheduler.objects.pod import Pod
from scheduler.plugins.deviceclasses import DEVICE_CLASS
from scheduler.plugins.dynamicresources import podclaims
from scheduler.plugins.dynamicresources.allocation.tainting import RULE
from scheduler.state import facts
from scheduler.state.change import Change


def helps(change: Change, pod: Pod, claims: podclaims.ClaimLookup) -> bool:
    """Return whether to retry the pod after the change."""
    if change.kind == "Pod":
        if facts.SELF_CLAIMS in change.facts:
            return _is_ready(change.pod, claims)
        if facts.POD_DELETED in change.facts:
            return change.before is not None and change.before.assumed
        return True  # the pod itself requests less
    if change.kind == podclaims.CLAIM:
        if change.new is None:
            return _going_helps(change.old, pod)
        return _claim_helps(change.old, change.new, pod, claims)
    if change.kind in podclaims.GROUP_KINDS:
        return _is_of(change.new, pod) and _is_ready(pod, claims)
    if change.kind == RULE:
        return change.old is not None  # a new rule taints devices, and frees none
    return change.kind != DEVICE_CLASS or change.new is not None


def _is_of(group: WorkloadGroup | None, pod: Pod) -> bool:
    """Return whether a pod with claims is a member of this group, whose claims may have been
    created.
    """
    named = pod.spec.scheduling_group
    return (
        group is not None
        and named is not None
        and bool(pod.spec.resource_claims)
        and named.pod_group_name == group.metadata.name
        and pod.metadata.namespace == group.metadata.namespace
    )


def _going_helps(claim: ResourceClaim, pod: Pod) -> bool:
    """Return whether a deleted claim had devices, or was left over from an attempt of the pod."""
    return claim.status.allocation is not None or pod.metadata.uid in podclaims.extended_for(claim)


def _claim_helps(
    old: ResourceClaim | None, new: ResourceClaim, pod: Pod, claims: podclaims.ClaimLookup
) -> bool:
    try:
        is_used = any(one.metadata.uid == new.metadata.uid for one in claims.of(pod))
    except podclaims.NotReadyError:
        return False
    if old is not None and old.status.allocation is not None and new.status.allocation is None:
        return True  # its devices are free
    return is_used and (old is None or old.status != new.status)


def _is_ready(pod: Pod, claims: podclaims.ClaimLookup) -> bool:
    try:
        return all(True for _ in claims.of(pod))
    except podclaims.NotReadyError:
        return False
