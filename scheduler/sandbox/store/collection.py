"""One stored kind: its current objects, its bounded history, and its watches.

The store owns one `StoredCollection` per storage and is the only writer. A `Stored` is one version
of one object; neither the record nor its dict changes after the commit, so lists and watches return
them without copying, and each version is encoded once. Old versions of a list are rebuilt by
undoing the history.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from scheduler.sandbox.api.status import Object, expired

ADDED: Final = "ADDED"
MODIFIED: Final = "MODIFIED"
DELETED: Final = "DELETED"

_TYPE_META: Final = ("kind", "apiVersion")

_encode = msgspec.json.Encoder().encode


class Stored:
    """One committed version of one object."""

    __slots__ = ("_converted", "_tail", "key", "obj", "version")

    def __init__(self, key: str, version: int, obj: Object) -> None:
        self.key = key
        self.version = version
        self.obj = obj
        self._tail: bytes | None = None
        self._converted: dict[str, bytes] | None = None

    def tail(self) -> bytes:
        """Return the JSON bytes after kind and apiVersion, closing brace included; cached.

        `resource.head + tail` is the object, and `b"{" + tail` an item of a typed list: the same
        bytes serve every API version and every answer.
        """
        tail = self._tail
        if tail is None:
            rest = {name: part for name, part in self.obj.items() if name not in _TYPE_META}
            tail = self._tail = _encode(rest)[1:]
        return tail

    def converted_tail(self, form: str, convert: Callable[[Object], Object]) -> bytes:
        """Return the tail of the object converted by `convert`; cached per `form`."""
        if self._converted is None:
            self._converted = {}
        tail = self._converted.get(form)
        if tail is None:
            rest = {
                name: part for name, part in convert(self.obj).items() if name not in _TYPE_META
            }
            tail = self._converted[form] = _encode(rest)[1:]
        return tail

    def forget_encoded(self) -> None:
        """Drop the encoded bytes; they are encoded again on demand."""
        self._tail = self._converted = None

    @property
    def name(self) -> str:
        """`metadata.name`."""
        return str(self.obj["metadata"]["name"])

    @property
    def namespace(self) -> str:
        """`metadata.namespace`, empty for objects of the cluster."""
        return str(self.obj["metadata"].get("namespace", ""))

    @property
    def uid(self) -> str:
        """`metadata.uid`."""
        return str(self.obj["metadata"]["uid"])


class StoreChange:
    """One write: its type, the new version and the one before it (None for ADDED).

    For DELETED `stored` is the last state under the deletion's own version.
    """

    __slots__ = ("previous", "stored", "type")

    def __init__(self, type_: str, stored: Stored, previous: Stored | None) -> None:
        self.type = type_
        self.stored = stored
        self.previous = previous

    @property
    def version(self) -> int:
        """Return the resource version of the write."""
        return self.stored.version


class Watch:
    """A position in a collection's history; `wake` is called once after new changes.

    `wake` runs inside the write: it may set an event or schedule a call, and it may read
    `changes()`, but it must not write to the store.
    """

    def __init__(
        self, collection: "StoredCollection", position: int, prefix: str, wake: Callable[[], None]
    ) -> None:
        self._collection = collection
        self._position = position
        self._prefix = prefix
        self._wake = wake
        self._is_signalled = False
        self._closed = False

    def changes(self) -> list[StoreChange]:
        """Return all changes since the last call, in order.

        410 `Expired` when the reader was too slow.
        """
        self._is_signalled = False
        found = self._collection.since(self._position)
        self._position += len(found)
        if not self._prefix:
            return found
        return [change for change in found if change.stored.key.startswith(self._prefix)]

    def close(self) -> None:
        """End the watch; repeated calls have no effect."""
        self._closed = True
        self._collection.watches.pop(self, None)

    def notify(self) -> None:
        """Called by the collection after a write."""
        if not self._is_signalled and not self._closed:
            self._is_signalled = True
            self._wake()


class StoredCollection:
    """The objects of one storage by key (`namespace/name`, or `name`), sorted, with history."""

    def __init__(self, capacity: int, version: int) -> None:
        self.items: dict[str, Stored] = {}
        self.keys: list[str] = []
        # In the order of their creation: the order of notifications must be the same in every run.
        self.watches: dict[Watch, None] = {}
        self.version = version
        self._capacity = capacity
        self._log: list[StoreChange] = []
        self._dropped = 0
        self._oldest = version

    @property
    def end(self) -> int:
        """Return the position after the newest change."""
        return self._dropped + len(self._log)

    def commit(self, change: StoreChange) -> None:
        """Commit one write to the current state and the history, then wake the watches."""
        stored = change.stored
        if change.previous is not None:
            change.previous.forget_encoded()
        if change.type == DELETED:
            del self.items[stored.key]
            del self.keys[bisect_left(self.keys, stored.key)]
        else:
            if change.previous is None:
                insort(self.keys, stored.key)
            self.items[stored.key] = stored
        self.version = stored.version
        self._log.append(change)
        if len(self._log) > 2 * self._capacity:
            self._oldest = self._log[-self._capacity - 1].version
            self._dropped += len(self._log) - self._capacity
            del self._log[: -self._capacity]
        for watch in list(self.watches):
            watch.notify()

    def forget_history(self, version: int) -> None:
        """Reject watches that start before `version`, and free their history."""
        self._dropped += len(self._log)
        self._log.clear()
        self._oldest = max(self._oldest, version)

    def since(self, position: int) -> list[StoreChange]:
        """Return the changes from `position` on; 410 if some of them are no longer stored."""
        start = position - self._dropped
        if start < 0:
            raise expired("too old resource version: the watch fell behind the kept history")
        return self._log[start:] if start else list(self._log)

    def watch(self, version: int | None, prefix: str, wake: Callable[[], None]) -> Watch:
        """Return a watch of changes after `version` (None: from now on); 410 if that is too old."""
        position = self.end if version is None else self._position_after(version)
        watch = Watch(self, position, prefix, wake)
        self.watches[watch] = None
        return watch

    def range(self, prefix: str) -> list[Stored]:
        """Return the current objects whose key starts with `prefix`, sorted by key."""
        items = self.items
        if not prefix:
            return [items[key] for key in self.keys]
        low, high = _bounds(self.keys, prefix)
        return [items[key] for key in self.keys[low:high]]

    def range_at(self, prefix: str, version: int) -> list[Stored]:
        """Return `range` at `version`; O(objects + changes since); 410 if too old."""
        if version >= self.version:
            return self.range(prefix)
        undone: dict[str, Stored | None] = {}
        for change in reversed(self._log[self._position_after(version) - self._dropped :]):
            undone[change.stored.key] = change.previous
        state: dict[str, Stored] = {stored.key: stored for stored in self.range(prefix)}
        for key, previous in undone.items():
            if previous is None:
                state.pop(key, None)
            elif key.startswith(prefix):
                state[key] = previous
        return [state[key] for key in sorted(state)]

    def _position_after(self, version: int) -> int:
        if version < self._oldest:
            raise expired(f"too old resource version: {version} ({self._oldest})")
        return self._dropped + bisect_right(self._log, version, key=_version_of)


def _version_of(change: StoreChange) -> int:
    return change.stored.version


def _bounds(keys: Sequence[str], prefix: str) -> tuple[int, int]:
    low = bisect_left(keys, prefix)
    return low, bisect_left(keys, prefix + "\U0010ffff", low)


def field(obj: Any, *path: str) -> Any:
    """Return the value at `path` in nested dicts, or None if the path ends early."""
    for name in path:
        if not isinstance(obj, dict):
            return None
        obj = obj.get(name)
    return obj
