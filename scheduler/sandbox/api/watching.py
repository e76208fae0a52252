"""watch: the stream of changes of a kind, from any stored version, filtered, with bookmarks.

`server.py` opens a `WatchStream` per watch request and sends what `first` and `next` return. Each
version is encoded once for all watchers; changes between two sends go out in one write. Nothing
here awaits: the server waits for `WatchStream.wake` and for the time limit.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from scheduler.sandbox.api import tables
from scheduler.sandbox.api.conversion import tail_of
from scheduler.sandbox.api.reading import metadata_of, parse_version
from scheduler.sandbox.api.request import ResourceRequest
from scheduler.sandbox.api.selectors import Matcher, matcher
from scheduler.sandbox.api.status import Object, StatusError, bad_options, forbidden_field
from scheduler.sandbox.kinds.kinds import Resource
from scheduler.sandbox.store.collection import ADDED, DELETED, MODIFIED, StoreChange, Stored, Watch
from scheduler.sandbox.store.store import ObjectStore

_encode = msgspec.json.Encoder().encode
BOOKMARK: Final = "BOOKMARK"
_HEADS: Final = {
    type_: f'{{"type":"{type_}","object":'.encode() for type_ in (ADDED, MODIFIED, DELETED)
}
_INITIAL_END: Final = "k8s.io/initial-events-end"


class WatchStream:
    """One client's watch; `wake` is called when `next` has changes."""

    def __init__(self, store: ObjectStore, call: ResourceRequest, wake: Callable[[], None]) -> None:
        self._store = store
        self._resource: Resource = call.resource
        self._namespace = call.namespace
        self._accepts = _narrowed(
            matcher(call.resource, call.option("labelSelector"), call.option("fieldSelector")),
            call.name,
        )
        self._bookmarks = call.flag("allowWatchBookmarks")
        self._form = tables.form_of(call.accept)
        self._include = call.option("includeObject")
        self._columns_sent = False
        self._ends_initial = False
        self._failed: StatusError | None = None
        self._watch: Watch | None = None
        self._ahead = 0
        self._initial = self._begin(call, wake)

    def _begin(self, call: ResourceRequest, wake: Callable[[], None]) -> list[Stored] | None:
        """Open the watch; return the objects to send first, None for none."""
        text = call.option("resourceVersion")
        send_initial = call.option("sendInitialEvents")
        check_options(call)
        since = parse_version(text) if text not in ("", "0") else None
        if since is not None and since > self._store.version:
            # kube-apiserver: it sends nothing until a write is newer than the requested version.
            self._ahead, since = since, self._store.version
        replay = send_initial == "true" or (not send_initial and since is None)
        try:
            start = None if replay or since is None else since
            self._watch = self._store.watch(self._resource, self._namespace, since=start, wake=wake)
        except StatusError as fault:
            # kube-apiserver: a version too old to watch from is reported inside the stream.
            self._failed = fault
            return None
        if not replay:
            return None
        self._ends_initial = send_initial == "true"
        return list(self._store.list(self._resource, self._namespace))

    def first(self) -> bytes:
        """Return the first data: the initial objects, or the rejection."""
        if self._failed is not None:
            return self.error(self._failed)
        lines = [
            self._line(ADDED, stored)
            for stored in self._initial or ()
            if self._accepts is None or self._accepts(stored.obj)
        ]
        if self._initial is not None and self._ends_initial:
            lines.append(self.bookmark(initial_end=True))
        lines.extend(self._changes())
        self._initial = None
        return b"".join(lines)

    def next(self) -> bytes:
        """Return all changes since the last call; empty when none concern this client."""
        return b"".join(self._changes())

    @property
    def ended(self) -> bool:
        """Return whether the stream ends: it has failed, or its kind is no longer served."""
        row, kinds = self._resource, self._store.kinds
        is_served = not row.custom or kinds.find(row.group, row.version, row.plural) is not None
        return self._failed is not None or not is_served

    @property
    def wants_bookmarks(self) -> bool:
        """Return whether the client requested bookmarks."""
        return self._bookmarks

    def bookmark(self, *, initial_end: bool = False) -> bytes:
        """Return a line with the current version of the stream."""
        meta: Object = {"resourceVersion": str(self._store.version)}
        if initial_end:
            meta["annotations"] = {_INITIAL_END: "true"}
        obj = {
            "kind": self._resource.kind,
            "apiVersion": self._resource.api_version,
            "metadata": meta,
        }
        return _encode({"type": BOOKMARK, "object": obj}) + b"\n"

    def error(self, fault: StatusError) -> bytes:
        """Return the last line of a failed stream."""
        return _encode({"type": "ERROR", "object": fault.status}) + b"\n"

    def close(self) -> None:
        """Stop following the store."""
        if self._watch is not None:
            self._watch.close()

    def _changes(self) -> list[bytes]:
        if self._watch is None:
            return []
        try:
            changes = self._watch.changes()
        except StatusError as fault:
            self._failed = fault
            return [self.error(fault)]
        if self._ahead:
            changes = [change for change in changes if change.version > self._ahead]
        if self._accepts is None:
            return [self._line(change.type, change.stored) for change in changes]
        return [line for change in changes if (line := self._filtered(change, self._accepts))]

    def _filtered(self, change: StoreChange, accepts: Matcher) -> bytes | None:
        """Return a change as filtered by a selector: objects may enter and leave the selection."""
        now = change.type != DELETED and accepts(change.stored.obj)
        before = change.previous is not None and accepts(change.previous.obj)
        if now and before:
            return self._line(MODIFIED, change.stored)
        if now:
            return self._line(ADDED, change.stored)
        if before and change.previous is not None:
            if change.type == DELETED:
                return self._line(DELETED, change.stored)
            return self._line(DELETED, _restamped(change.previous, change.version))
        return None

    def _line(self, type_: str, stored: Stored) -> bytes:
        if self._form == tables.TABLE:
            return self._table_line(type_, stored)
        if self._form == tables.METADATA:
            return b'{"type":"' + type_.encode() + b'","object":' + metadata_of(stored) + b"}\n"
        return b"".join(
            (_HEADS[type_], self._resource.head, tail_of(self._resource, stored), b"}\n")
        )

    def _table_line(self, type_: str, stored: Stored) -> bytes:
        columns = tables.columns_of(self._store, self._resource)
        row = tables.row(self._resource, columns, stored, self._store.clock.now(), self._include)
        definitions: list[Object] | None = None
        if not self._columns_sent:
            definitions = [column.definition() for column in columns]
            self._columns_sent = True
        body = {
            "kind": "Table",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": {"resourceVersion": str(stored.version)},
            "columnDefinitions": definitions,
            "rows": [row],
        }
        return _encode({"type": type_, "object": body}) + b"\n"


def check_options(call: ResourceRequest) -> None:
    """Reject combinations that the API server rejects; 422."""
    if not call.option("sendInitialEvents"):
        if call.option("resourceVersionMatch"):
            raise _refused(
                "resourceVersionMatch",
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            )
        return
    if call.option("resourceVersionMatch") != "NotOlderThan":
        raise _refused(
            "resourceVersionMatch",
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        )


def _refused(field: str, text: str) -> StatusError:
    return bad_options("ListOptions", forbidden_field(field, text))


def _restamped(stored: Stored, version: int) -> Stored:
    """Return the old state of an object that left the selection, under the version at which it
    left.
    """
    meta = {**stored.obj["metadata"], "resourceVersion": str(version)}
    return Stored(stored.key, version, {**stored.obj, "metadata": meta})


def _narrowed(accepts: Matcher | None, name: str) -> Matcher | None:
    if not name:
        return accepts

    def named(obj: Object) -> bool:
        return obj["metadata"]["name"] == name and (accepts is None or accepts(obj))

    return named
