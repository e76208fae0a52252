"""Adoption and release: a controller adopts orphans that its selector matches, and releases others.

ReplicaSets claim pods, Deployments claim ReplicaSets. Claims are evaluated only after a relevant
change (a new owner, new labels, a removed owner reference), because selectors are expensive on big
sets.
"""

from scheduler.controlplane.objects import controller_of
from scheduler.sandbox.api.status import Object
from scheduler.sandbox.controllers.ownership import is_deleted, reference_to, sorted_dependents
from scheduler.sandbox.controllers.pods import is_active
from scheduler.sandbox.controllers.workqueue import Interest, WorkQueue
from scheduler.sandbox.kinds.kinds import Resource
from scheduler.sandbox.kinds.objectchecks import selects
from scheduler.sandbox.store.collection import ADDED, DELETED, StoreChange, Stored
from scheduler.sandbox.store.store import ObjectStore


class ControllerRefs:
    """The claims of one kind of owner on one kind of objects."""

    def __init__(
        self, store: ObjectStore, work_queue: WorkQueue, owners: Resource, owned: Resource
    ) -> None:
        self._store = store
        self._agenda = work_queue
        self._owners = owners
        self._owned = owned
        self._orphans: dict[str, set[str]] = {}
        self._open: set[str] = set()

    def interests(self) -> list[Interest]:
        """Return both kinds."""
        return [(self._owners, self._observe_owner), (self._owned, self._observe_owned)]

    def settle(self, key: str, owner: Object) -> None:
        """Adopt and release for one owner after a relevant change."""
        if key not in self._open:
            return
        self._open.discard(key)
        if is_deleted(owner):
            return
        selector = owner["spec"].get("selector") or {}
        for stored in sorted_dependents(self._store, owner, self._owned):
            if not selects(selector, stored.obj["metadata"].get("labels") or {}):
                self._write(stored, None, owner)
        items = self._store.collection(self._owned).items
        for orphan in sorted(self._orphans.get(owner["metadata"]["namespace"], ())):
            found = items.get(orphan)
            if found is not None and self._may_adopt(found, selector):
                self._write(found, reference_to(self._owners, owner), owner)

    def _observe_owner(self, change: StoreChange) -> None:
        if change.type == ADDED:
            self._open.add(change.stored.key)

    def _observe_owned(self, change: StoreChange) -> None:
        obj, key, namespace = change.stored.obj, change.stored.key, change.stored.namespace
        orphans = self._orphans.setdefault(namespace, set())
        owner = controller_of(obj)
        if change.type == DELETED or owner is not None:
            orphans.discard(key)
            if owner is not None and owner["kind"] == self._owners.kind and _relabelled(change):
                self._reopen(f"{namespace}/{owner['name']}")
            return
        is_new = key not in orphans
        orphans.add(key)
        if is_new or _relabelled(change):
            labels = obj["metadata"].get("labels") or {}
            for stored in self._store.list(self._owners, namespace):
                if selects(stored.obj["spec"].get("selector") or {}, labels):
                    self._reopen(stored.key)

    def _reopen(self, key: str) -> None:
        self._open.add(key)
        self._agenda.add(key)

    def _may_adopt(self, stored: Stored, selector: Object) -> bool:
        obj = stored.obj
        labels = obj["metadata"].get("labels") or {}
        return is_active(obj) and selects(selector, labels)

    def _write(self, stored: Stored, reference: Object | None, owner: Object) -> None:
        meta = stored.obj["metadata"]
        uid = owner["metadata"]["uid"]
        kept = [current for current in meta.get("ownerReferences") or () if current["uid"] != uid]
        if reference is not None:
            kept.append(reference)
        meta = {**meta, "ownerReferences": kept}
        if not kept:
            del meta["ownerReferences"]
        self._store.update(self._owned, {**stored.obj, "metadata": meta})


def _relabelled(change: StoreChange) -> bool:
    if change.previous is None:
        return False
    before = change.previous.obj["metadata"]
    return bool(before.get("labels") != change.stored.obj["metadata"].get("labels"))
