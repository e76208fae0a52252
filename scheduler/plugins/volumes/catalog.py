"""`VolumeCatalog`: the volumes available to claims, and decisions that are not written yet.

Fed by every change of a volume or claim; VolumeBinding reads it and records its assumptions. An
assumption refers to the version of the object it was made from and ends as soon as the API server
shows another. It does not follow from the cluster: a copy, or a rebuilt catalog, has none.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from scheduler.base.errors import ObjectError
from scheduler.framework import Change
from scheduler.objects.quantity import quantity
from scheduler.objects.storage import STORAGE, PersistentVolume, PersistentVolumeClaim
from scheduler.plugins.volumes.claims import CLAIM, VOLUME, class_of, is_reserved_for

if TYPE_CHECKING:
    from scheduler.state.cluster import Cluster

AVAILABLE = "Available"


class VolumeCatalog:
    """Free volumes by class and size, volumes with a claimRef by claim, and assumptions."""

    kinds: tuple[str, ...] = (VOLUME, CLAIM)

    follows = frozenset((VOLUME, CLAIM))

    def __init__(self) -> None:
        self._cluster: Cluster | None = None
        self._clear()

    def _clear(self) -> None:
        self._free: dict[str, list[tuple[int, str]]] = {}  # class → (bytes, name), sorted
        self._reserved: dict[str, tuple[str, ...]] = {}  # claim → names of volumes
        self._assumed_volumes: dict[str, tuple[PersistentVolume, PersistentVolume]] = {}
        self._assumed_for: dict[str, dict[str, None]] = {}  # claim → names of assumed volumes
        self._assumed_claims: dict[str, tuple[PersistentVolumeClaim, PersistentVolumeClaim]] = {}

    def rebuild(self, cluster: "Cluster") -> None:
        """Rebuild all state from `cluster`, without any assumption."""
        self._clear()
        self._cluster = cluster
        for volume in cluster.store.of(VOLUME).values():
            self._enter(volume)

    def apply(self, change: Change) -> None:
        """Apply one change."""
        if change.kind == VOLUME:
            name = (change.new or change.old).metadata.name
            if change.old is not None:
                self._leave(change.old)
            if change.new is not None:
                self._enter(change.new)
            assumed = self._assumed_volumes.get(name)
            if assumed is not None and assumed[0] != change.new:
                self._forget(assumed[1])
        elif change.kind == CLAIM:
            key = (change.new or change.old).key
            expected = self._assumed_claims.get(key)
            if expected is not None and expected[0] != change.new:
                del self._assumed_claims[key]

    def columns(self) -> Mapping[str, Any]:
        """Return the free volumes of each class, and the volumes of each claim."""
        found: dict[str, Any] = {
            f"free {name}": [f"{size} {volume}" for size, volume in free]
            for name, free in self._free.items()
        }
        found.update({f"for {claim}": sorted(names) for claim, names in self._reserved.items()})
        return found

    # Queries: an assumption counts as written.

    def volume(self, name: str) -> PersistentVolume | None:
        """Return a volume by name."""
        assumed = self._assumed_volumes.get(name)
        return assumed[1] if assumed is not None else self._stored(VOLUME, name)

    def claim(self, key: str) -> PersistentVolumeClaim | None:
        """Return a claim by `namespace/name`."""
        assumed = self._assumed_claims.get(key)
        return assumed[1] if assumed is not None else self._stored(CLAIM, key)

    def reserved_for(self, claim: PersistentVolumeClaim) -> list[PersistentVolume]:
        """Return the volumes that are bound to a claim or name it in their claimRef, by name."""
        names = {*self._reserved.get(claim.key, ()), *self._assumed_for.get(claim.key, ())}
        volumes = (self.volume(name) for name in sorted(names))
        return [volume for volume in volumes if volume and is_reserved_for(volume, claim)]

    def free(self, class_name: str, least_bytes: int) -> Iterator[PersistentVolume]:
        """Yield the free volumes of a class with that capacity, the smallest first, then by
        name.
        """
        free = self._free.get(class_name, [])
        for place in range(bisect_left(free, (least_bytes, "")), len(free)):
            name = free[place][1]
            if name not in self._assumed_volumes:
                volume = self._stored(VOLUME, name)
                if volume is not None:
                    yield volume

    # Assumptions.

    def assume_volume(self, old: PersistentVolume, new: PersistentVolume) -> None:
        """Use `new` in place of `old` until the API server reports another version."""
        self._assumed_volumes[old.metadata.name] = (old, new)
        self._assumed_for.setdefault(_owner(new), {})[old.metadata.name] = None

    def assume_claim(self, old: PersistentVolumeClaim, new: PersistentVolumeClaim) -> None:
        """Use `new` in place of `old` until the API server reports another version."""
        self._assumed_claims[old.key] = (old, new)

    def forget_volume(self, new: PersistentVolume) -> None:
        """Remove the assumption of `new`, if it is still in force."""
        assumed = self._assumed_volumes.get(new.metadata.name)
        if assumed is not None and assumed[1] is new:
            self._forget(new)

    def forget_claim(self, new: PersistentVolumeClaim) -> None:
        """Remove the assumption of `new`, if it is still in force."""
        assumed = self._assumed_claims.get(new.key)
        if assumed is not None and assumed[1] is new:
            del self._assumed_claims[new.key]

    def _forget(self, new: PersistentVolume) -> None:
        name, owner = new.metadata.name, _owner(new)
        del self._assumed_volumes[name]
        del self._assumed_for[owner][name]
        if not self._assumed_for[owner]:
            del self._assumed_for[owner]

    def _stored(self, kind: str, key: str) -> Any:
        return self._cluster.store.of(kind).get(key) if self._cluster is not None else None

    def _enter(self, volume: PersistentVolume) -> None:
        if volume.spec.claim_ref is not None:
            key = _owner(volume)
            self._reserved[key] = (*self._reserved.get(key, ()), volume.metadata.name)
        else:
            entry = _entry(volume)
            if entry is not None:
                insort(self._free.setdefault(class_of(volume), []), entry)

    def _leave(self, volume: PersistentVolume) -> None:
        if volume.spec.claim_ref is not None:
            key, name = _owner(volume), volume.metadata.name
            left = tuple(other for other in self._reserved[key] if other != name)
            if left:
                self._reserved[key] = left
            else:
                del self._reserved[key]
            return
        entry = _entry(volume)
        if entry is not None:
            free = self._free[class_of(volume)]
            del free[bisect_left(free, entry)]
            if not free:
                del self._free[class_of(volume)]


def _owner(volume: PersistentVolume) -> str:
    """Return the claim, as `namespace/name`, that a volume's claimRef names."""
    ref = volume.spec.claim_ref
    return f"{ref.namespace}/{ref.name}" if ref is not None else ""


def _entry(volume: PersistentVolume) -> tuple[int, str] | None:
    """Return the position of a volume among the free ones of its class, None for a volume that is
    not free.
    """
    if volume.status.phase != AVAILABLE or volume.metadata.deletion_timestamp is not None:
        return None
    try:
        return quantity(volume.spec.capacity.get(STORAGE, 0)), volume.metadata.name
    except ObjectError:
        return None  # it is unknown whether a claim would fit
