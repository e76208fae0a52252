"""Objects of the kinds that have no columns: services, claims, classes, custom resources."""

from typing import Any


def object_key(obj: Any) -> str:
    """Return `namespace/name`, or the name alone for a kind without namespaces."""
    meta = obj.metadata
    return f"{meta.namespace}/{meta.name}" if meta.namespace else str(meta.name)


class Objects(dict[str, Any]):
    """The objects of one kind by key, in order of arrival; `version` moves with each change.

    `is_denied`: this process may not list the kind, so its objects are unknown.
    """

    __slots__ = ("is_denied", "version")

    def __init__(self) -> None:
        super().__init__()
        self.version = 0
        self.is_denied = False


class Store:
    """kind → key → object; `Cluster` is the only writer."""

    def __init__(self) -> None:
        self._kinds: dict[str, Objects] = {}

    def of(self, kind: str) -> Objects:
        """Return the objects of a kind by `namespace/name` or `name`: always the same mapping."""
        objects = self._kinds.get(kind)
        if objects is None:
            objects = self._kinds[kind] = Objects()
        return objects

    def sizes(self) -> dict[str, int]:
        """Return the number of objects of each kind."""
        return {kind: len(objects) for kind, objects in self._kinds.items() if objects.version}

    def put(self, kind: str, obj: Any) -> Any:
        """Add or replace an object; return the one it replaces, or None."""
        objects = self.of(kind)
        key = object_key(obj)
        before = objects.get(key)
        objects[key] = obj
        objects.version += 1
        return before

    def drop(self, kind: str, key: str) -> Any:
        """Remove an object and return it, or None if it was not there."""
        objects = self.of(kind)
        before = objects.pop(key, None)
        objects.version += before is not None
        return before
