"""ControllerRevisions: the past templates of StatefulSets and DaemonSets, for updates and `rollout
undo`.

One revision per distinct template; returning to an old template gives its revision the newest
number again.
"""

from collections.abc import Collection
from dataclasses import dataclass

from scheduler.controlplane.templates import CONTROLLER_REVISION, template_hash
from scheduler.sandbox.api.status import Object
from scheduler.sandbox.controllers.ownership import reference_to, sorted_dependents
from scheduler.sandbox.kinds.kinds import CONTROLLERREVISIONS, Resource
from scheduler.sandbox.store.collection import Stored
from scheduler.sandbox.store.store import Deletion, ObjectStore


@dataclass(frozen=True, slots=True)
class Revision:
    """One template that an owner has or had: object name, hash and the template itself."""

    name: str
    hash: str
    template: Object


def newest(store: ObjectStore, resource: Resource, owner: Object) -> Revision:
    """Return the revision of the owner's present template, created if it is new."""
    meta, template = owner["metadata"], owner["spec"]["template"]
    current = sorted_dependents(store, owner, CONTROLLERREVISIONS)
    top = max((int(found.obj["revision"]) for found in current), default=0)
    for found in current:
        if _template(found.obj) == template:
            if found.obj["revision"] != top:
                store.update(CONTROLLERREVISIONS, {**found.obj, "revision": top + 1})
            return _revision(found)
    collisions = 0
    while True:
        label = template_hash(template, collisions)
        name = f"{meta['name']}-{label}"
        if store.find(CONTROLLERREVISIONS, meta["namespace"], name) is None:
            break
        collisions += 1
    made = {
        "metadata": {
            "name": name,
            "labels": {
                **((template.get("metadata") or {}).get("labels") or {}),
                CONTROLLER_REVISION: label,
            },
            "ownerReferences": [reference_to(resource, owner)],
        },
        "data": {"spec": {"template": {**template, "$patch": "replace"}}},
        "revision": top + 1,
    }
    return _revision(store.create(CONTROLLERREVISIONS, made, meta["namespace"]))


def named(store: ObjectStore, owner: Object, name: str) -> Revision | None:
    """Return the revision whose ControllerRevision has this name, None if it was deleted."""
    found = store.find(CONTROLLERREVISIONS, owner["metadata"]["namespace"], name)
    return _revision(found) if found is not None else None


def prune(store: ObjectStore, owner: Object, in_use: Collection[str]) -> None:
    """Delete the oldest revisions beyond the history limit, never one in use (names or hashes)."""
    limit = owner["spec"].get("revisionHistoryLimit", 10)
    unused = [
        found
        for found in sorted_dependents(store, owner, CONTROLLERREVISIONS)
        if found.name not in in_use and _revision(found).hash not in in_use
    ]
    unused.sort(key=lambda found: int(found.obj["revision"]))
    for found in unused[: max(0, len(unused) - limit)]:
        store.delete(CONTROLLERREVISIONS, found.namespace, found.name, Deletion(uid=found.uid))


def _revision(stored: Stored) -> Revision:
    label = (stored.obj["metadata"].get("labels") or {}).get(CONTROLLER_REVISION, "")
    return Revision(stored.name, label, _template(stored.obj))


def _template(revision: Object) -> Object:
    current = revision["data"]["spec"]["template"]
    return {key: part for key, part in current.items() if key != "$patch"}
