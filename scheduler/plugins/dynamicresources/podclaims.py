"""Which claims a pod uses, and why it has to wait for them; PreEnqueue, PreFilter and hints ask here.

The words are kube-scheduler's. Reads objects in memory only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from scheduler.objects.claims import EXTENDED_RESOURCE_CLAIM, ResourceClaim
from scheduler.objects.pod import Pod, PodResourceClaim

CLAIM = "ResourceClaim"


class NotReadyError(Exception):
    """Why a pod has to wait before it can be tried; `missing` is a claim that it names and nobody made."""

    def __init__(self, text: str, *, missing: str = "") -> None:
        super().__init__(text)
        self.missing = missing


def claims_of(pod: Pod, claims: Mapping[str, ResourceClaim]) -> Iterator[ResourceClaim]:
    """Yield the claims of a pod in the order of its spec; NotReadyError for one that is not there yet."""
    namespace = pod.metadata.namespace
    for entry in pod.spec.resource_claims:
        name = claim_name(pod, entry)
        if name is None:
            continue
        claim = claims.get(f"{namespace}/{name}")
        if claim is None:
            text = f'could not find ResourceClaim "{namespace}/{name}"'
            raise NotReadyError(text, missing=entry.resource_claim_name or "")
        if claim.metadata.deletion_timestamp is not None:
            raise NotReadyError(f'resourceclaim "{name}" is being deleted')
        if entry.resource_claim_name is None and not is_for(pod, claim):
            raise NotReadyError(
                f"ResourceClaim {namespace}/{name} was not created for Pod {pod.key} "
                "(Pod is not owner)"
            )
        yield claim


def claim_name(pod: Pod, entry: PodResourceClaim) -> str | None:
    """Return the name of an entry's claim, None where none is needed; NotReadyError before it is made."""
    if entry.resource_claim_name is not None:
        return entry.resource_claim_name
    if entry.resource_claim_template_name is None:
        raise NotReadyError(f'pod "{pod.key}", spec.resourceClaim "{entry.name}": unsupported')
    for status in pod.status.resource_claim_statuses:
        if status.name == entry.name:
            return status.resource_claim_name
    raise NotReadyError(f'pod "{pod.key}": ResourceClaim not created yet')


def identity(claim: ResourceClaim) -> str:
    """Return what tells a claim from all others: its uid, in a file without uids its name."""
    return claim.metadata.uid or claim.key


def is_for(pod: Pod, claim: ResourceClaim) -> bool:
    """Whether a claim was made for a pod."""
    meta = pod.metadata
    return claim.metadata.namespace == meta.namespace and any(
        owner.controller and owner.uid == meta.uid for owner in claim.metadata.owner_references
    )


def is_extended_claim_of(pod: Pod, claim: ResourceClaim) -> bool:
    """Whether a claim was made for a pod's extended resources."""
    return claim.metadata.annotations.get(EXTENDED_RESOURCE_CLAIM) == "true" and any(
        owner.controller and owner.uid == pod.metadata.uid and owner.name == pod.metadata.name
        for owner in claim.metadata.owner_references
    )


def is_reserved_for(pod: Pod, claim: ResourceClaim) -> bool:
    """Whether a pod is among those that may use a claim."""
    return any(one.uid == pod.metadata.uid for one in claim.status.reserved_for)


def extended_for(claim: ResourceClaim) -> list[str]:
    """Return the pods (at most one) for whose extended resources a claim was made."""
    if claim.metadata.annotations.get(EXTENDED_RESOURCE_CLAIM) != "true":
        return []
    return [owner.uid for owner in claim.metadata.owner_references if owner.controller]
