"""The claims of a pod and the state of their objects, for all volume plugins.

Looks objects up and compares fields; has no state and decides nothing about nodes.
"""

from collections.abc import Iterator, Mapping

import msgspec

from scheduler.framework import Placed, Pod
from scheduler.objects.pod import Volume
from scheduler.objects.storage import (
    BETA_CLASS,
    BIND_COMPLETED,
    PersistentVolume,
    PersistentVolumeClaim,
)

CLAIM, VOLUME, CLASS = "PersistentVolumeClaim", "PersistentVolume", "StorageClass"

Claims = Mapping[str, PersistentVolumeClaim]


class ClaimUse(msgspec.Struct, frozen=True):
    """A volume of a pod that uses a claim; the claim of an ephemeral one is made for the pod."""

    name: str
    key: str
    is_ephemeral: bool = False


def claim_uses(pod: Pod) -> Iterator[ClaimUse]:
    """Yield the claims that a pod uses, in the order of its volumes."""
    namespace = pod.metadata.namespace
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            name = volume.persistent_volume_claim.claim_name
            yield ClaimUse(name, f"{namespace}/{name}")
        elif volume.ephemeral is not None:
            name = f"{pod.metadata.name}-{volume.name}"
            yield ClaimUse(name, f"{namespace}/{name}", is_ephemeral=True)


def has_claims(pod: Pod) -> bool:
    """Return whether a pod uses claims at all."""
    return any(
        v.persistent_volume_claim is not None or v.ephemeral is not None for v in pod.spec.volumes
    )


def has_storage(pod: Pod) -> bool:
    """Return whether a volume plugin reads any of the pod's volumes; most pods have tokens and
    files only.
    """
    return any(
        volume != Volume(name=volume.name, image=volume.image) for volume in pod.spec.volumes
    )


def keeps_volumes(before: Placed | None, after: Placed | None) -> bool:
    """Return whether a change leaves the pod on the same node with the same volumes."""
    return (
        before is not None
        and after is not None
        and before.node == after.node
        and before.shape is after.shape
    )


def not_found(claim: str) -> str:
    """Return the message for a claim that does not exist."""
    return f'persistentvolumeclaim "{claim}" not found'


def is_for_pod(claim: PersistentVolumeClaim, pod: Pod) -> bool:
    """Return whether the claim was made for an ephemeral volume of this very pod."""
    return claim.metadata.namespace == pod.metadata.namespace and any(
        owner.controller and owner.uid == pod.metadata.uid
        for owner in claim.metadata.owner_references
    )


def not_for_pod(claim: PersistentVolumeClaim, pod: Pod) -> str:
    """Return the message for an ephemeral volume whose claim name is used by another claim."""
    return f"PVC {claim.key} was not created for pod {pod.key} (pod is not owner)"


def class_of(obj: PersistentVolumeClaim | PersistentVolume) -> str:
    """Return the storage class of a claim or volume, empty for none."""
    beta = obj.metadata.annotations.get(BETA_CLASS)
    return beta if beta is not None else obj.spec.storage_class_name or ""


def is_bound(claim: PersistentVolumeClaim) -> bool:
    """Return whether claim and volume refer to each other."""
    return bool(claim.spec.volume_name) and BIND_COMPLETED in claim.metadata.annotations


def is_reserved_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Return whether the volume is bound to the claim, or set aside for one of that name."""
    ref = volume.spec.claim_ref
    return (
        ref is not None
        and (ref.namespace, ref.name) == (claim.metadata.namespace, claim.metadata.name)
        and ref.uid in ("", claim.metadata.uid)
    )
