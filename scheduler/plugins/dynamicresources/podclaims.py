"""The claims of a pod, their consumers, and why it waits; for PreEnqueue, PreFilter and hints.

A claim that a PodGroup of scheduling.k8s.io names is used by all pods of it with an equal entry,
and reserved for the group: one entry for thousands of pods. The messages are kube-scheduler's.
Reads objects in memory only.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from scheduler.objects.claims import EXTENDED_RESOURCE_CLAIM, ConsumerReference, ResourceClaim
from scheduler.objects.groups.podgroup import PodResourceClaim, WorkloadGroup
from scheduler.objects.kinds import WORKLOAD_GROUP_API, WORKLOAD_GROUPS
from scheduler.objects.pod import Pod

CLAIM = "ResourceClaim"
GROUP_KINDS = tuple(kind.kind for kind in WORKLOAD_GROUPS)
PODS, PODGROUPS = "pods", "podgroups"


class NotReadyError(Exception):
    """The reason why a pod waits; `missing` is a claim that it names and that does not exist."""

    def __init__(self, text: str, *, missing: str = "") -> None:
        super().__init__(text)
        self.missing = missing


class ClaimLookup:
    """All claims, and the PodGroups whose claims their pods use.

    `objects` returns those of a kind by key.
    """

    def __init__(self, objects: Callable[[str], Mapping[str, Any]]) -> None:
        self.by_key: Mapping[str, ResourceClaim] = objects(CLAIM)
        self._groups = [objects(kind) for kind in GROUP_KINDS]

    def of(self, pod: Pod) -> Iterator[ResourceClaim]:
        """Yield the claims of a pod in the order of its spec; NotReadyError for a missing one."""
        namespace = pod.metadata.namespace
        for entry in pod.spec.resource_claims:
            group = self._group(pod, entry)
            name = _name(pod, entry, group)
            if name is None:
                continue
            claim = self.by_key.get(f"{namespace}/{name}")
            if claim is None:
                text = f'could not find ResourceClaim "{namespace}/{name}"'
                raise NotReadyError(text, missing=entry.resource_claim_name or "")
            if claim.metadata.deletion_timestamp is not None:
                raise NotReadyError(f'resourceclaim "{name}" is being deleted')
            if entry.resource_claim_name is None and not is_for(group or pod, claim):
                owner = f"Pod {pod.key}" if group is None else f"PodGroup {_key(group)}"
                raise NotReadyError(
                    f"ResourceClaim {namespace}/{name} was not created for {owner} "
                    f"({'Pod' if group is None else 'PodGroup'} is not owner)"
                )
            yield claim

    def user(self, pod: Pod, claim: ResourceClaim) -> ConsumerReference:
        """Return the consumer of a pod's claim: the pod, or its group."""
        for entry in pod.spec.resource_claims:
            group = self._group(pod, entry)
            if group is not None and _name(pod, entry, group) == claim.metadata.name:
                meta = group.metadata
                return ConsumerReference(WORKLOAD_GROUP_API, PODGROUPS, meta.name, meta.uid)
        return ConsumerReference("", PODS, pod.metadata.name, pod.metadata.uid)

    def _group(self, pod: Pod, entry: PodResourceClaim) -> WorkloadGroup | None:
        """Return the pod's group if the entry equals one of the group's."""
        named = pod.spec.scheduling_group
        if named is None or not named.pod_group_name:
            return None
        key = f"{pod.metadata.namespace}/{named.pod_group_name}"
        found = next((groups[key] for groups in self._groups if key in groups), None)
        return found if found is not None and entry in found.spec.resource_claims else None


def _name(pod: Pod, entry: PodResourceClaim, group: WorkloadGroup | None) -> str | None:
    """Return the name of an entry's claim, None if none is needed.

    NotReadyError before it exists.
    """
    if entry.resource_claim_name is not None:
        return entry.resource_claim_name
    if entry.resource_claim_template_name is None:
        raise NotReadyError(f'pod "{pod.key}", spec.resourceClaim "{entry.name}": unsupported')
    for status in (group or pod).status.resource_claim_statuses:
        if status.name == entry.name:
            return status.resource_claim_name
    whose = f'pod "{pod.key}"' if group is None else f'pod group "{_key(group)}"'
    raise NotReadyError(f"{whose}: ResourceClaim not created yet")


def _key(group: WorkloadGroup) -> str:
    return f"{group.metadata.namespace}/{group.metadata.name}"


def identity(claim: ResourceClaim) -> str:
    """Return an identifier of a claim: its uid, in a file without uids its name."""
    return claim.metadata.uid or claim.key


def is_for(owner: Pod | WorkloadGroup, claim: ResourceClaim) -> bool:
    """Return whether a claim was created for a pod, or for a group."""
    meta = owner.metadata
    return claim.metadata.namespace == meta.namespace and any(
        owner.controller and owner.uid == meta.uid for owner in claim.metadata.owner_references
    )


def is_reserved_for(user: ConsumerReference, claim: ResourceClaim) -> bool:
    """Return whether a claim is reserved for a consumer."""
    return any(one.uid == user.uid for one in claim.status.reserved_for)


def extended_for(claim: ResourceClaim) -> list[str]:
    """Return the pods (at most one) for whose extended resources a claim was created."""
    if claim.metadata.annotations.get(EXTENDED_RESOURCE_CLAIM) != "true":
        return []
    return [owner.uid for owner in claim.metadata.owner_references if owner.controller]
