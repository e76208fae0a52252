"""From bytes of the API server to structs, one `Decoder` per kind.

The ordinary case is one msgspec call per watch line or list page. An object that does not fit the
struct is decoded again, alone and without its nulls. If that fails too it becomes a `DecodeFault`:
the object is left out, all others are decoded. Only bytes that are no JSON raise. No I/O.
"""

from collections.abc import Callable, Hashable
from functools import cache
from typing import Any, TypeAlias, cast

import msgspec

from scheduler.engine.effects import Watched
from scheduler.kube.api import Response, failure
from scheduler.objects.kinds import Kind

ADDED, MODIFIED, DELETED = "ADDED", "MODIFIED", "DELETED"
VERBS = frozenset((ADDED, MODIFIED, DELETED))


class GarbageError(ValueError):
    """Bytes that an API server never sends, such as half of a line."""


class DecodeFault(msgspec.Struct, frozen=True):
    """An object that could not be decoded: its name, the location and the cause."""

    kind: str
    key: str
    message: str


class DecodedPage(msgspec.Struct, frozen=True):
    """One page of a list; `continue_token` is empty on the last one."""

    objects: list[Any]
    resource_version: str
    continue_token: str


class Bookmark(msgspec.Struct, frozen=True):
    """A watch bookmark: nothing changed up to this version. Also replaces an object that was left
    out.
    """

    resource_version: str


Line: TypeAlias = Watched | Bookmark | Response


class _ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str | None = ""
    continue_: str | None = msgspec.field(name="continue", default="")


class _Identity(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Named(msgspec.Struct, frozen=True):
    metadata: _Identity = _Identity()


class _RawItems(msgspec.Struct, frozen=True):
    metadata: _ListMeta = _ListMeta()
    items: list[msgspec.Raw] | None = None


class _RawLine(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


class _BookmarkLine(msgspec.Struct, frozen=True):
    object: _Named


_raw_items = msgspec.json.Decoder(_RawItems)
_raw_line = msgspec.json.Decoder(_RawLine)
_bookmarks = msgspec.json.Decoder(_BookmarkLine)
_named = msgspec.json.Decoder(_Named)
_anything = msgspec.json.Decoder(Any)


@cache
def _decoders(struct: Any) -> tuple[msgspec.json.Decoder[Any], ...]:
    """Return the decoders of a kind: for one object, a line of its watch, and a page of its list.

    They have no state: all readers of a kind share them.
    """
    line = msgspec.defstruct("Line", [("type", str), ("object", struct)], frozen=True)
    page = msgspec.defstruct(
        "Page", [("metadata", _ListMeta), ("items", list[struct])], frozen=True
    )
    return tuple(msgspec.json.Decoder(one) for one in (struct, line, page))


class Decoder:
    """Decodes list pages and watch lines of one kind; calls `report` for every fault.

    `keep` gets the bytes of each object that exists (not of a deleted one).
    """

    def __init__(
        self,
        kind: Kind,
        report: Callable[[DecodeFault], None],
        keep: Callable[[bytes], None] | None = None,
    ) -> None:
        self._kind = kind
        self._report = report
        self._keep = keep
        self._object, self._line, self._page = _decoders(cast(Hashable, kind.struct))

    def page(self, data: bytes) -> DecodedPage:
        """Read one page of a list; raise GarbageError for anything else."""
        try:
            page = self._page.decode(data)
            objects = page.items
        except msgspec.MsgspecError:
            page, objects = self._page_one_by_one(data)
        meta = page.metadata
        if self._keep is not None:
            for item in _raw_items.decode(data).items or ():
                self._keep(bytes(item))
        return DecodedPage(objects, meta.resource_version or "", meta.continue_ or "")

    def line(self, data: bytes) -> Line:
        """Read one line of a watch; a Response is the failure with which the server ends it."""
        if data.startswith(b'{"type":"BOOKMARK"'):
            return _bookmark(data)
        try:
            line = self._line.decode(data)
        except msgspec.MsgspecError:
            return self._other_line(data)
        if line.type in VERBS:
            if self._keep is not None and line.type != DELETED:
                self._keep(bytes(_raw_line.decode(data).object))
            return Watched(self._kind.kind, line.type, line.object)
        return self._other_line(data)

    def _page_one_by_one(self, data: bytes) -> tuple[_RawItems, list[Any]]:
        try:
            page = _raw_items.decode(data)
        except msgspec.MsgspecError as error:
            raise GarbageError(f"not a list of {self._kind.kind}: {error}") from error
        found = (self._one(bytes(item)) for item in page.items or ())
        return page, [obj for obj in found if obj is not None]

    def _other_line(self, data: bytes) -> Line:
        try:
            line = _raw_line.decode(data)
        except msgspec.MsgspecError as error:
            raise GarbageError(f"not a line of a watch: {error}") from error
        raw = bytes(line.object)
        if line.type == "BOOKMARK":
            return _bookmark(data)
        if line.type == "ERROR":
            return failure(0, raw)
        if line.type not in VERBS:
            raise GarbageError(f"a watch knows no {line.type!r}")
        obj = self._one(raw)
        if self._keep is not None and obj is not None and line.type != DELETED:
            self._keep(raw)
        if obj is None:
            identity = _identity(raw)
            if line.type != DELETED:
                return Bookmark(identity.resource_version)
            # For a deletion the name is enough: the object must not stay forever.
            obj = msgspec.convert({"metadata": msgspec.to_builtins(identity)}, self._kind.struct)
        return Watched(self._kind.kind, line.type, obj)

    def _one(self, raw: bytes) -> Any:
        """Decode one object leniently; if that fails, report it and return None."""
        try:
            return self._object.decode(raw)
        except msgspec.ValidationError:
            pass
        except msgspec.DecodeError as error:
            return self._fault(raw, error)
        try:
            return msgspec.convert(without_nulls(_anything.decode(raw)), self._kind.struct)
        except (msgspec.MsgspecError, RecursionError) as error:
            return self._fault(raw, error)

    def _fault(self, raw: bytes, error: Exception) -> None:
        identity = _identity(raw)
        key = f"{identity.namespace}/{identity.name}" if identity.namespace else identity.name
        self._report(DecodeFault(self._kind.kind, key or "(no name)", str(error)))


def without_nulls(value: Any) -> Any:
    """Return plain data without nulls: in Kubernetes null means the default."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value if item is not None]
    return value


def _bookmark(data: bytes) -> Bookmark:
    try:
        return Bookmark(_bookmarks.decode(data).object.metadata.resource_version)
    except msgspec.MsgspecError as error:
        raise GarbageError(f"not a bookmark: {error}") from error


def _identity(raw: bytes) -> _Identity:
    """Return the readable part of an object's name, for a report."""
    try:
        return _named.decode(raw).metadata
    except msgspec.MsgspecError:
        pass
    try:
        found = _anything.decode(raw)
    except (msgspec.MsgspecError, RecursionError):
        return _Identity()
    meta = found.get("metadata") if isinstance(found, dict) else None
    if not isinstance(meta, dict):
        return _Identity()
    texts = (meta.get(key) for key in ("name", "namespace", "uid", "resourceVersion"))
    return _Identity(*(text if isinstance(text, str) else "" for text in texts))
