"""Objects of the kinds that have no columns: services, claims, classes, custom resources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_NONE: Mapping[str, Any] = {}


def object_key(obj: Any) -> str:
    """Return `namespace/name`, or the name alone for a kind without namespaces."""
    meta = obj.metadata
    return f"{meta.namespace}/{meta.name}" if meta.namespace else str(meta.name)


class Store:
    """kind → key → object; `Cluster` is the only writer."""

    def __init__(self) -> None:
        self._kinds: dict[str, dict[str, Any]] = {}

    def of(self, kind: str) -> Mapping[str, Any]:
        """Return the objects of a kind by `namespace/name` or `name`, in order of arrival."""
        return self._kinds.get(kind, _NONE)

    def sizes(self) -> dict[str, int]:
        """Return how many objects there are of each kind."""
        return {kind: len(objects) for kind, objects in self._kinds.items()}

    def put(self, kind: str, obj: Any) -> Any:
        """Add or replace an object; return the one it replaces, or None."""
        objects = self._kinds.setdefault(kind, {})
        key = object_key(obj)
        before = objects.get(key)
        objects[key] = obj
        return before

    def drop(self, kind: str, key: str) -> Any:
        """Remove an object and return it, or None if it was not there."""
        return self._kinds.get(kind, {}).pop(key, None)
