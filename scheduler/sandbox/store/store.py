"""The sandbox's store: every object, one version counter, synchronous and without I/O.

The HTTP server and the in-process clients (simulated kubelets, controllers) use the same methods:

    store.create(PODS, {...}, "default") -> Stored      store.get(PODS, "default", "p") -> Stored
    store.update(PODS, {...}) -> Stored                 store.list(PODS, "default") -> [Stored]
    store.delete(PODS, "default", "p", Deletion(...))   watch.changes() -> [Change]
    store.watch(PODS, wake=event.set) -> Watch
    store.change(PODS, "default", "p", edit) -> Stored

A stored dict is never changed in place: to change an object build a new dict (sharing the unchanged
parts) and write it. `create` and `update` copy their argument, so parts shared with stored objects
are allowed; a status write (`subresource="status"`) is not copied and belongs to the store
afterwards. Every rejection is a `StatusError`. Kind-specific rules come in as `Rules`.
"""

import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from scheduler.base.clock import Clock, rfc3339
from scheduler.sandbox.api.status import Cause, Object, already_exists, forbidden, not_found
from scheduler.sandbox.kinds.kinds import EVENTS, NAMESPACES, Kinds, Resource
from scheduler.sandbox.kinds.rules import NoRules, Rules
from scheduler.sandbox.store import metadata
from scheduler.sandbox.store.collection import (
    ADDED,
    DELETED,
    MODIFIED,
    StoreChange,
    Stored,
    StoredCollection,
    Watch,
)

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"


@dataclass(frozen=True, slots=True)
class Deletion:
    """The options of a delete: grace period in seconds (None: the kind's own), preconditions,
    propagation.
    """

    grace_period_s: int | None = None
    uid: str = ""
    resource_version: str = ""
    propagation: str = ""
    dry_run: bool = False


class ObjectStore:
    """All objects of one sandbox; times come from `clock`."""

    def __init__(
        self,
        clock: Clock,
        rules: "Rules[ObjectStore] | None" = None,
        kinds: Kinds | None = None,
        *,
        seed: int | None = None,
        history: int = 16_384,
    ) -> None:
        self.clock = clock
        self.kinds = kinds or Kinds()
        self.rules: Rules[ObjectStore] = rules or NoRules()
        self.version = 1
        self.dependents: dict[str, set[tuple[str, str]]] = defaultdict(set)
        self._random = random.Random(seed)  # noqa: S311  names and uids, no secrets
        self._history = history
        self._collections: dict[str, StoredCollection] = {}
        self._second = (0, "")
        self._listeners: list[Callable[[Resource, StoreChange], None]] = []

    # Reading

    def collection(self, resource: Resource) -> StoredCollection:
        """Return the collection behind a resource; made on first use."""
        found = self._collections.get(resource.storage)
        if found is None:
            found = StoredCollection(self._history, self.version)
            self._collections[resource.storage] = found
        return found

    def find(self, resource: Resource, namespace: str, name: str) -> Stored | None:
        """Return the current version, or None."""
        return self.collection(resource).items.get(_key(resource, namespace, name))

    def get(self, resource: Resource, namespace: str, name: str) -> Stored:
        """Return the current version; 404 if there is none."""
        found = self.find(resource, namespace, name)
        if found is None:
            raise not_found(resource, name)
        return found

    def list(self, resource: Resource, namespace: str = "") -> Sequence[Stored]:
        """Return the current objects, sorted by namespace and name; O(objects)."""
        return self.collection(resource).range(_prefix(resource, namespace))

    def list_at(self, resource: Resource, namespace: str, version: int) -> Sequence[Stored]:
        """The objects as they were at `version`; 410 when that is no longer kept."""
        return self.collection(resource).range_at(_prefix(resource, namespace), version)

    def watch(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        since: int | None = None,
        wake: Callable[[], None],
    ) -> Watch:
        """Return a watch of a resource from after version `since` (None: from now); 410 when too
        old.
        """
        return self.collection(resource).watch(since, _prefix(resource, namespace), wake)

    def listen(self, listener: Callable[[Resource, StoreChange], None]) -> None:
        """Call `listener` inside every write of any kind; it must not write."""
        self._listeners.append(listener)

    def now(self) -> str:
        """Return the current time as Kubernetes writes it."""
        second = int(self.clock.now())
        if second != self._second[0]:
            self._second = (second, rfc3339(second))
        return self._second[1]

    # Writing

    def create(
        self,
        resource: Resource,
        obj: Object,
        namespace: str = "",
        *,
        dry_run: bool = False,
        owned: bool = False,
    ) -> Stored:
        """Store a new object; 409 when the name is in use, 404 when the namespace does not exist.

        `owned` states that `obj` shares no data with other owners, which saves a copy.
        """
        new = obj if owned else _copy(obj)
        new["metadata"] = dict(new.get("metadata") or {})
        metadata.check_namespace(resource, new, namespace)
        self._name_new(resource, new)
        new.setdefault("apiVersion", resource.api_version)
        new.setdefault("kind", resource.kind)
        self._check_lifecycle(resource, new)
        self.rules.prepare_create(self, resource, new)
        metadata.check_name(resource, new)
        meta = new["metadata"]
        key = _key(resource, meta.get("namespace", ""), meta["name"])
        if key in self.collection(resource).items:
            raise already_exists(resource, meta["name"])
        return self._commit(resource, ADDED, key, new, None, dry_run=dry_run)

    def update(
        self,
        resource: Resource,
        obj: Object,
        *,
        subresource: str = "",
        dry_run: bool = False,
        owned: bool = False,
    ) -> Stored:
        """Replace an object, or the part of a subresource.

        409 when `metadata.resourceVersion` or `metadata.uid` is given and differs. An update
        without changes is not a write. Removing the last finalizer of a terminating object deletes
        it.
        """
        meta = obj["metadata"]
        old = self.get(resource, meta.get("namespace", ""), meta["name"])
        # A status write shares all other fields with the old version, and no rule changes fields
        # inside a status.
        new = {**obj} if owned or subresource == "status" else _copy(obj)
        new["metadata"] = dict(meta)
        metadata.check_identity(resource, new, old.obj)
        metadata.keep_system_fields(new, old.obj)
        metadata.check_finalizers(resource, new, old.obj, self.kinds.release)
        _split_status(resource, new, old.obj, subresource)
        self.rules.prepare_update(self, resource, new, old.obj, subresource)
        return self._replace(resource, old, new, dry_run=dry_run)

    def change(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        edit: Callable[[Object], Object],
    ) -> Stored:
        """Write the result of `edit` for the current object; `edit` must return a new dict."""
        return self.update(resource, edit(self.get(resource, namespace, name).obj))

    def replace(self, resource: Resource, old: Stored, new: Object) -> Stored:
        """Write a successor of `old` without the rules: for bindings, finalization and the like.

        `old` must be the current version; `new` must have its identity.
        """
        return self._replace(resource, old, {**new, "metadata": dict(new["metadata"])}, bump=False)

    def delete(
        self, resource: Resource, namespace: str, name: str, options: Deletion | None = None
    ) -> Stored:
        """Delete, or start to: the returned object has a `deletionTimestamp` while it has
        finalizers or a grace period.

        409 when a precondition fails. A second call with a shorter grace period shortens it.
        """
        options = options or Deletion()
        old = self.get(resource, namespace, name)
        meta = dict(old.obj["metadata"])
        metadata.check_deletion(resource, meta, options.uid, options.resource_version)
        _set_propagation(meta, options.propagation)
        grace_s = self.rules.grace_period_s(resource, old.obj, options.grace_period_s)
        new = {**old.obj, "metadata": meta}
        self.rules.mark_deleted(resource, new)
        current = bool(meta.get("finalizers")) or bool(_spec_finalizers(resource, new))
        if grace_s is not None or current:
            self._mark(resource, meta, grace_s or 0)
        if not grace_s and not current:
            return self._commit(resource, DELETED, old.key, new, old, dry_run=options.dry_run)
        return self._replace(resource, old, new, dry_run=options.dry_run, bump=False)

    def _mark(self, resource: Resource, meta: Object, grace_s: int) -> None:
        if "deletionTimestamp" in meta:
            grace_s = min(grace_s, meta.get("deletionGracePeriodSeconds") or 0)
        elif "generation" in meta:
            meta["generation"] += 1
        meta["deletionTimestamp"] = rfc3339(self.clock.now() + grace_s)
        if resource.storage != NAMESPACES.storage:
            meta["deletionGracePeriodSeconds"] = grace_s

    def wake(self, storage: str) -> None:
        """Wake the watches of a storage without a write."""
        if (collection := self._collections.get(storage)) is not None:
            for watch in list(collection.watches):
                watch.notify()

    def forget_history(self) -> None:
        """Make every version up to now too old to watch from."""
        self.version += 1
        for collection in self._collections.values():
            collection.forget_history(self.version)

    def _replace(
        self,
        resource: Resource,
        old: Stored,
        new: Object,
        *,
        dry_run: bool = False,
        bump: bool = True,
    ) -> Stored:
        if new == old.obj:
            return old
        meta = new["metadata"]
        if bump and "generation" in meta and metadata.spec_changed(new, old.obj):
            meta["generation"] += 1
        if (
            "deletionTimestamp" in meta
            and not meta.get("deletionGracePeriodSeconds")
            and not meta.get("finalizers")
            and not _spec_finalizers(resource, new)
        ):
            return self._commit(resource, DELETED, old.key, new, old, dry_run=dry_run)
        return self._commit(resource, MODIFIED, old.key, new, old, dry_run=dry_run)

    def _commit(
        self,
        resource: Resource,
        type_: str,
        key: str,
        obj: Object,
        previous: Stored | None,
        *,
        dry_run: bool,
    ) -> Stored:
        version = self.version if dry_run else self.version + 1
        meta = dict(obj["metadata"])
        if not dry_run or previous is not None:
            meta["resourceVersion"] = str(version)
        stored = Stored(key, version, {**obj, "metadata": meta})
        if dry_run:
            return stored
        self.version = version
        self._index_owners(resource, key, None if type_ == DELETED else meta, previous)
        change = StoreChange(type_, stored, previous)
        self.collection(resource).commit(change)
        for listener in self._listeners:
            listener(resource, change)
        return stored

    def _index_owners(
        self, resource: Resource, key: str, meta: Object | None, previous: Stored | None
    ) -> None:
        before = previous.obj["metadata"].get("ownerReferences") if previous else None
        after = meta.get("ownerReferences") if meta else None
        if before is after or before == after:
            return
        entry = (resource.storage, key)
        for owner in before or ():
            current = self.dependents.get(owner["uid"])
            if current is not None:
                current.discard(entry)
                if not current:
                    del self.dependents[owner["uid"]]
        for owner in after or ():
            self.dependents[owner["uid"]].add(entry)

    def _name_new(self, resource: Resource, obj: Object) -> None:
        meta = obj["metadata"]
        generated = not meta.get("name")
        metadata.fill_new(obj, self.now(), self._random)
        for _ in range(8):
            if not generated or not self.find(resource, meta.get("namespace", ""), meta["name"]):
                return
            del meta["name"]
            metadata.fill_new(obj, self.now(), self._random)

    def _check_lifecycle(self, resource: Resource, obj: Object) -> None:
        if not resource.namespaced:
            return
        name = obj["metadata"]["namespace"]
        found = self.find(NAMESPACES, "", name)
        if found is None:
            raise not_found(NAMESPACES, name)
        # Events may still be written while a namespace terminates, since they explain why it hangs.
        if "deletionTimestamp" in found.obj["metadata"] and resource.storage != EVENTS.storage:
            raise forbidden(
                resource,
                obj["metadata"].get("name", ""),
                f"unable to create new content in namespace {name} because it is being terminated",
                Cause(
                    "NamespaceTerminating",
                    "metadata.namespace",
                    f"namespace {name} is being terminated",
                ),
            )


def _key(resource: Resource, namespace: str, name: str) -> str:
    return f"{namespace}/{name}" if resource.namespaced else name


def _prefix(resource: Resource, namespace: str) -> str:
    return f"{namespace}/" if namespace and resource.namespaced else ""


def _copy(value: Any) -> Any:
    """Return a deep copy of a JSON value; several times faster than `copy.deepcopy`."""
    if value.__class__ is dict:
        return {name: _copy(part) for name, part in value.items()}
    if value.__class__ is list:
        return [_copy(part) for part in value]
    return value


def _split_status(resource: Resource, new: Object, old: Object, subresource: str) -> None:
    """Restrict a status write to the status, and an ordinary write to the rest."""
    if subresource == "status":
        for key in set(new) | set(old):
            if key in ("metadata", "status"):
                continue
            if key in old:
                new[key] = old[key]
            else:
                del new[key]
    elif resource.has_status:
        if "status" in old:
            new["status"] = old["status"]
        else:
            new.pop("status", None)


def _set_propagation(meta: Object, propagation: str) -> None:
    if not propagation:
        return
    current = [name for name in meta.get("finalizers") or () if name not in (ORPHAN, FOREGROUND)]
    wanted = {"Orphan": ORPHAN, "Foreground": FOREGROUND}.get(propagation)
    if wanted:
        current.append(wanted)
    if current:
        meta["finalizers"] = current
    else:
        meta.pop("finalizers", None)


def _spec_finalizers(resource: Resource, obj: Object) -> Sequence[str]:
    if resource.storage != NAMESPACES.storage:
        return []
    return (obj.get("spec") or {}).get("finalizers") or []
