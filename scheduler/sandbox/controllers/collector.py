"""Background deletion: dependents of deleted owners, contents of deleted namespaces, objects of
deleted CRDs.

In process, on the store alone. `wake` reports that there may be work, and `step` does it; the
server's loop calls it, tests call it directly. It follows every built-in kind that can own objects
and every CRD.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from scheduler.sandbox.api.status import Object, StatusError
from scheduler.sandbox.controllers.pods import is_ended
from scheduler.sandbox.kinds import kinds
from scheduler.sandbox.kinds.crd import CLEANUP
from scheduler.sandbox.store.collection import DELETED, StoreChange, Stored
from scheduler.sandbox.store.store import FOREGROUND, ORPHAN, Deletion

if TYPE_CHECKING:
    from scheduler.sandbox.store.store import ObjectStore


_EMPTIED: Final = frozenset({kinds.NAMESPACES.storage, kinds.CUSTOMRESOURCEDEFINITIONS.storage})
_VOLUME_PROTECTION: Final = "kubernetes.io/pv-protection"
_CLAIM_PROTECTION: Final = "kubernetes.io/pvc-protection"
_GROUP_PROTECTION: Final = "scheduling.k8s.io/podgroup-protection"
_OURS: Final = frozenset(
    {FOREGROUND, ORPHAN, _VOLUME_PROTECTION, _CLAIM_PROTECTION, _GROUP_PROTECTION}
)


class Collector:
    """The garbage collector and the namespace controller of one store."""

    def __init__(self, store: "ObjectStore", wake: Callable[[], None]) -> None:
        self._store = store
        self._wake = wake
        store.listen(self._see)
        self._gone: list[str] = []
        self._owned: list[tuple[kinds.Resource, str]] = []
        self._terminating: dict[tuple[str, str], None] = {}

    def step(self) -> bool:
        """Do the work that is due; return True if it changed an object."""
        before = self._store.version
        gone, self._gone = self._gone, []
        for uid in gone:
            self._collect(uid)
        owned, self._owned = self._owned, []
        for resource, key in owned:
            self._check_owners(resource, key)
        for storage, key in list(self._terminating):
            self._finish(storage, key)
        return self._store.version != before

    def _see(self, resource: kinds.Resource, change: StoreChange) -> None:
        meta = change.stored.obj["metadata"]
        if change.type == DELETED:
            uid = meta["uid"]
            self._terminating.pop((resource.storage, change.stored.key), None)
            if uid in self._store.dependents:
                self._gone.append(uid)
                self._wake()
            if self._terminating:
                self._wake()
            return
        if change.previous is None and "ownerReferences" in meta:
            self._owned.append((resource, change.stored.key))
            self._wake()
        if "deletionTimestamp" not in meta:
            return
        existing = meta.get("finalizers") or ()
        if resource.storage in _EMPTIED or _OURS.intersection(existing):
            self._terminating[resource.storage, change.stored.key] = None
            self._wake()

    def _collect(self, owner_uid: str) -> None:
        """Delete the dependents of only this uid, and remove the reference elsewhere."""
        for resource, stored in self._dependents(owner_uid):
            references = stored.obj["metadata"].get("ownerReferences") or []
            others = [ref for ref in references if ref["uid"] != owner_uid]
            if any(self._exists(stored.namespace, ref) for ref in others):
                self._rewrite(resource, stored, "ownerReferences", others)
            else:
                self._delete(resource, stored)

    def _check_owners(self, resource: kinds.Resource, key: str) -> None:
        """Delete a new object if none of its owners exists."""
        stored = self._store.collection(resource).items.get(key)
        references = stored.obj["metadata"].get("ownerReferences") if stored else None
        if stored is None or not references:
            return
        if not any(self._exists(stored.namespace, reference) for reference in references):
            self._delete(resource, stored)

    def _dependents(self, uid: str) -> list[tuple[kinds.Resource, Stored]]:
        found = []
        for storage, key in sorted(self._store.dependents.get(uid, ())):
            resource = self._store.kinds.of_storage(storage)
            if resource is None:
                continue
            stored = self._store.collection(resource).items.get(key)
            if stored is not None:
                found.append((resource, stored))
        return found

    def _exists(self, namespace: str, reference: Object) -> bool:
        resource = self._store.kinds.of_kind(reference["apiVersion"], reference["kind"])
        if resource is None:
            return False
        owner = self._store.find(resource, namespace, reference["name"])
        return owner is not None and owner.uid == reference["uid"]

    def _finish(self, storage: str, key: str) -> None:
        resource = self._store.kinds.of_storage(storage)
        stored = self._store.collection(resource).items.get(key) if resource else None
        if resource is None or stored is None:
            self._terminating.pop((storage, key), None)
            return
        if resource.storage == kinds.NAMESPACES.storage:
            self._empty_namespace(stored)
        elif resource.storage == kinds.CUSTOMRESOURCEDEFINITIONS.storage:
            self._empty_definition(stored)
        current = self._store.collection(resource).items.get(key)
        if current is not None:
            self._release(resource, current)

    def _empty_namespace(self, namespace: Stored) -> None:
        left = False
        for resource in self._distinct():
            for stored in self._store.list(resource, namespace.name):
                if self._delete(resource, stored):
                    left = True
        if not left and self._store.find(kinds.NAMESPACES, "", namespace.name) is namespace:
            spec = {**(namespace.obj.get("spec") or {}), "finalizers": []}
            self._store.replace(kinds.NAMESPACES, namespace, {**namespace.obj, "spec": spec})

    def _empty_definition(self, definition: Stored) -> None:
        resource = self._store.kinds.of_storage(definition.name)
        left = False
        for stored in self._store.list(resource) if resource else ():
            if resource is not None and self._delete(resource, stored):
                left = True
        if not left:
            self._drop_finalizer(kinds.CUSTOMRESOURCEDEFINITIONS, definition, CLEANUP)

    def _release(self, resource: kinds.Resource, owner: Stored) -> None:
        """Carry out `orphan` and `foregroundDeletion` of a deleted owner."""
        existing = owner.obj["metadata"].get("finalizers") or ()
        if ORPHAN in existing:
            for kind, stored in self._dependents(owner.uid):
                references = stored.obj["metadata"].get("ownerReferences") or []
                others = [ref for ref in references if ref["uid"] != owner.uid]
                self._rewrite(kind, stored, "ownerReferences", others)
            self._drop_finalizer(resource, owner, ORPHAN)
        elif FOREGROUND in existing:
            blocking = 0
            for kind, stored in self._dependents(owner.uid):
                # kube-controller-manager: an owner of other objects is deleted in the foreground
                # too.
                way = "Foreground" if stored.uid in self._store.dependents else "Background"
                if self._delete(kind, stored, way) and _blocks(stored, owner.uid):
                    blocking += 1
            if not blocking:
                self._drop_finalizer(resource, owner, FOREGROUND)
        elif _CLAIM_PROTECTION in existing and not self._is_claim_used(owner):
            self._drop_finalizer(resource, owner, _CLAIM_PROTECTION)
        elif _VOLUME_PROTECTION in existing and owner.obj.get("status", {}).get("phase") != "Bound":
            self._drop_finalizer(resource, owner, _VOLUME_PROTECTION)
        elif _GROUP_PROTECTION in existing and not self._has_members(resource, owner):
            self._drop_finalizer(resource, owner, _GROUP_PROTECTION)

    def _has_members(self, resource: kinds.Resource, group: Stored) -> bool:
        """Return whether a pod that has not ended names the PodGroup, or a group names the
        composite one.
        """
        if resource.storage == kinds.COMPOSITE_POD_GROUPS.storage:
            return any(
                stored.obj["spec"].get("parentCompositePodGroupName") == group.name
                for kind in (kinds.POD_GROUPS_1_37, kinds.COMPOSITE_POD_GROUPS)
                for stored in self._store.list(kind, group.namespace)
            )
        return any(
            (stored.obj["spec"].get("schedulingGroup") or {}).get("podGroupName") == group.name
            for stored in self._store.list(kinds.PODS, group.namespace)
            if not is_ended(stored.obj)
        )

    def _is_claim_used(self, claim: Stored) -> bool:
        """Return whether a pod that has not ended mounts the claim."""
        return any(
            (volume.get("persistentVolumeClaim") or {}).get("claimName") == claim.name
            for stored in self._store.list(kinds.PODS, claim.namespace)
            if not is_ended(stored.obj)
            for volume in stored.obj["spec"].get("volumes") or ()
        )

    def _delete(self, resource: kinds.Resource, stored: Stored, way: str = "Background") -> bool:
        """Delete, by default in the background; return True while the object still exists."""
        if "deletionTimestamp" not in stored.obj["metadata"]:
            options = Deletion(uid=stored.uid, propagation=way)
            try:
                self._store.delete(resource, stored.namespace, stored.name, options)
            except StatusError:
                return False
        return self._store.collection(resource).items.get(stored.key) is not None

    def _drop_finalizer(self, resource: kinds.Resource, stored: Stored, name: str) -> None:
        current = self._store.collection(resource).items.get(stored.key)
        if current is None:
            return
        existing = [
            entry for entry in current.obj["metadata"].get("finalizers") or () if entry != name
        ]
        self._rewrite(resource, current, "finalizers", existing)

    def _rewrite(self, resource: kinds.Resource, stored: Stored, field: str, value: object) -> None:
        meta = dict(stored.obj["metadata"])
        if value:
            meta[field] = value
        else:
            meta.pop(field, None)
        self._store.replace(resource, stored, {**stored.obj, "metadata": meta})

    def _distinct(self) -> list[kinds.Resource]:
        """Yield one namespaced resource per storage with objects."""
        found = {row.storage: row for row in self._store.kinds if row.namespaced}
        return [row for row in found.values() if "list" in row.verbs]


def _blocks(stored: Stored, owner_uid: str) -> bool:
    return any(
        reference["uid"] == owner_uid and reference.get("blockOwnerDeletion")
        for reference in stored.obj["metadata"].get("ownerReferences") or ()
    )
