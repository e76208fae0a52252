"""Ownership: controller references, and the objects of an owner.

All controllers find their objects through `dependents`, which the store indexes by the owner's uid.
Nothing here writes.
"""

from scheduler.controlplane.objects import controller_of, controller_reference
from scheduler.sandbox.api.status import Object
from scheduler.sandbox.controllers.workqueue import ChangeHandler, WorkQueue
from scheduler.sandbox.kinds.kinds import Resource
from scheduler.sandbox.store.collection import DELETED, StoreChange, Stored
from scheduler.sandbox.store.store import ObjectStore


def reference_to(resource: Resource, owner: Object) -> Object:
    """Return the owner reference that makes `owner` the controller of an object."""
    return controller_reference(resource.api_version, resource.kind, owner)


def dependents(store: ObjectStore, owner: Object, resource: Resource) -> list[Stored]:
    """Return the owner's objects of one kind, unordered; O(its dependents)."""
    items = store.collection(resource).items
    uid = owner["metadata"]["uid"]
    found = []
    for storage, key in store.dependents.get(uid, ()):
        if storage != resource.storage:
            continue
        stored = items[key]
        owners = stored.obj["metadata"].get("ownerReferences") or ()
        if any(current["uid"] == uid and current.get("controller") for current in owners):
            found.append(stored)
    return found


def sorted_dependents(store: ObjectStore, owner: Object, resource: Resource) -> list[Stored]:
    """Return the dependents sorted by name, where the order matters."""
    return sorted(dependents(store, owner, resource), key=lambda stored: stored.key)


def is_deleted(obj: Object) -> bool:
    """Return whether the deletion of an object has begun."""
    return "deletionTimestamp" in obj["metadata"]


def enqueue_self(work_queue: WorkQueue) -> ChangeHandler:
    """Enqueue every changed object, unless only its status changed."""

    def observe(change: StoreChange) -> None:
        if change.previous is None or change.type == DELETED or _changes_more_than_status(change):
            work_queue.add(change.stored.key)

    return observe


def enqueue_owner(work_queue: WorkQueue, kind: str) -> ChangeHandler:
    """Enqueue the controller of every changed object, if it is of this kind."""

    def observe(change: StoreChange) -> None:
        for obj in (change.stored.obj, change.previous.obj if change.previous else None):
            owner = controller_of(obj) if obj is not None else None
            if owner is not None and owner["kind"] == kind:
                work_queue.add(f"{change.stored.namespace}/{owner['name']}")
                return

    return observe


def _changes_more_than_status(change: StoreChange) -> bool:
    if change.previous is None:
        return True
    new, old = change.stored.obj, change.previous.obj
    if new.get("spec") is not old.get("spec") and new.get("spec") != old.get("spec"):
        return True
    before = old["metadata"]
    return any(
        before.get(name) != found
        for name, found in new["metadata"].items()
        if name not in ("resourceVersion", "managedFields")
    )
