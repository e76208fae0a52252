"""The queueing hints of VolumeBinding.

Narrower than kube-scheduler's where a change concerns other classes, claims or volumes than the
pod's, and wider where kube-scheduler overlooks a change that can help.
"""

from scheduler.framework import Change, Pod
from scheduler.objects.quantity import quantity
from scheduler.objects.storage import (
    MIGRATED_PLUGINS,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
)
from scheduler.plugins.volumes.claims import (
    CLAIM,
    CLASS,
    VOLUME,
    claim_uses,
    class_of,
    is_reserved_for,
)
from scheduler.plugins.volumes.handles import Objects
from scheduler.plugins.volumes.matching import CAPACITY, DRIVER


class BindingHints:
    """Answers from the objects in memory."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def helps(self, change: Change, pod: Pod) -> bool:
        """Return whether the pod should be retried after the change."""
        if change.kind == "Node":
            return True
        if change.kind == CLAIM:
            key = (change.new or change.old).key
            return change.verb != "delete" and any(use.key == key for use in claim_uses(pod))
        claims = self._claims(pod)
        if change.kind == VOLUME:
            return _volume_helps(change, claims)
        if change.kind == DRIVER:
            return self._driver_helps(change, claims)
        if change.verb == "delete":
            return False
        classes = {class_of(claim) for claim in claims}
        new, old = change.new, change.old
        if change.kind == CLASS:
            return new.metadata.name in classes and (
                old is None or old.allowed_topologies != new.allowed_topologies
            )
        if change.kind == CAPACITY:
            return new.storage_class_name in classes and (old is None or _limit(new) > _limit(old))
        # A CSINode: the relevant part is the list of migrated in-tree plugins.
        return old is None or _migrated(old) != _migrated(new)

    def _driver_helps(self, change: Change, claims: list[PersistentVolumeClaim]) -> bool:
        """Return whether a driver that one of the claims waits for no longer publishes its
        capacity.
        """
        old, new = change.old, change.new
        if old is None or not old.spec.storage_capacity:
            return False
        if new is not None and new.spec.storage_capacity:
            return False
        classes = self._objects(CLASS)
        found = (classes.get(class_of(claim)) for claim in claims)
        return any(one.provisioner == old.metadata.name for one in found if one is not None)

    def _claims(self, pod: Pod) -> list[PersistentVolumeClaim]:
        claims = self._objects(CLAIM)
        found = (claims.get(use.key) for use in claim_uses(pod))
        return [claim for claim in found if claim is not None]


def _volume_helps(change: Change, claims: list[PersistentVolumeClaim]) -> bool:
    """Return whether a volume belongs to the claims, could be bound to one, or did belong to one
    and conflicted.
    """
    if change.new is None:
        return any(is_reserved_for(change.old, claim) for claim in claims)
    return any(
        _concerns(version, claim)
        for version in (change.old, change.new)
        if version is not None
        for claim in claims
    )


def _concerns(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    if claim.spec.volume_name:
        return claim.spec.volume_name == volume.metadata.name
    return is_reserved_for(volume, claim) or class_of(volume) == class_of(claim)


def _limit(capacity: CSIStorageCapacity) -> int:
    return -1 if capacity.limit is None else quantity(capacity.limit)


def _migrated(csi_node: object) -> str:
    annotations: dict[str, str] = csi_node.metadata.annotations  # type: ignore[attr-defined]
    return annotations.get(MIGRATED_PLUGINS, "")
