"""Files and plain objects → `Item`s: one Kubernetes object each, with its location.

Lists are opened, JSON stays undecoded until its kind is known. Reads no files: the caller passes
bytes. Called by `snapshot`.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import msgspec

from scheduler.base.errors import InputError
from scheduler.base.nesting import is_too_deep
from scheduler.snapshot import yamltext

MAX_OBJECTS: Final = 2_000_000
MAX_JSON_BYTES: Final = 2 << 30
# On a List: the version of the API server that the objects were read from.
RELEASE_ANNOTATION: Final = "trellis.dev/kubernetes-version"
# On a List: workloads of that server as a JSON list. They are no items, because `kubectl apply`
# would create them, and their controllers more pods.
WORKLOADS_ANNOTATION: Final = "trellis.dev/workloads"


class SourceFile(NamedTuple):
    """A file: its name for messages, and its content."""

    name: str
    data: bytes


class Head(msgspec.Struct, frozen=True, rename="camel"):
    """The fields that determine how the rest of an object is read."""

    kind: str | None = None
    api_version: str | None = None


class _ListMeta(msgspec.Struct, frozen=True):
    annotations: dict[str, str] | None = None


class _List(msgspec.Struct, frozen=True):
    metadata: _ListMeta | None = None
    items: list[msgspec.Raw] | None = None


class Item(NamedTuple):
    """One object: `raw` is undecoded JSON or plain data.

    `release` is that of its list, if stated. `is_live`: an API server listed it, so its pods are
    created there.
    """

    where: str
    head: Head
    raw: Any
    release: str = ""
    is_live: bool = False


_head = msgspec.json.Decoder(Head)
_list = msgspec.json.Decoder(_List)
_raw_list = msgspec.json.Decoder(list[msgspec.Raw])


def items_of(source: SourceFile) -> Iterator[Item]:
    """Yield the objects of a YAML or JSON file; InputError names file and line or item."""
    data = source.data.removeprefix(b"\xef\xbb\xbf")
    if data.lstrip()[:1] not in (b"{", b"["):
        yield from _yaml_items(source.name, data)
        return
    if len(data) > MAX_JSON_BYTES:
        raise InputError(f"{len(data)} bytes; the most is {MAX_JSON_BYTES}", where=source.name)
    try:
        items = list(_json_items(source.name, data))
    except msgspec.DecodeError as error:
        if isinstance(error, msgspec.ValidationError):
            raise InputError(_words(error), where=source.name) from error
        # Several documents, comments, unquoted keys: a text that begins like JSON may still be
        # YAML.
        if len(data) > yamltext.MAX_BYTES:
            raise InputError(_words(error), where=source.name) from error
        yield from _yaml_items(source.name, data)
    except UnicodeError as error:
        raise InputError("not UTF-8 text", where=source.name) from error
    else:
        yield from items


def items_of_objects(objects: Iterable[Any], name: str) -> Iterator[Item]:
    """Yield objects given as plain data or undecoded JSON; `name` is their list in messages."""
    for index, raw in enumerate(objects):
        where = f"{name}[{index}]"
        try:
            if isinstance(raw, msgspec.Raw):
                yield from _opened_json(where, bytes(raw))
            else:
                yield from _opened(where, raw, ())
        except msgspec.DecodeError as error:
            raise InputError(_words(error), where=where) from error
        except UnicodeError as error:
            raise InputError("not UTF-8 text", where=where) from error
        except RecursionError:
            raise _too_deep(where) from None


def _json_items(name: str, data: bytes) -> Iterator[Item]:
    begin = data.lstrip()[:1]
    if begin in (b"{", b"[") and is_too_deep(data):
        raise _too_deep(name)
    try:
        if begin == b"{":
            yield from _opened_json(name, data)
            return
        for index, raw in enumerate(_raw_list.decode(data)):
            yield from _opened_json(f"{name}: [{index}]", bytes(raw))
    except RecursionError:
        raise _too_deep(name) from None


def _opened_json(where: str, data: bytes) -> Iterator[Item]:
    head = _head.decode(data)
    if not _is_list(head):
        yield Item(where, head, data)
        return
    found = _list.decode(data)
    items = found.items or ()
    annotations = (found.metadata.annotations if found.metadata else None) or {}
    release = annotations.get(RELEASE_ANNOTATION, "")
    _check_count(len(items), where)
    for index, raw in enumerate(items):
        inner = bytes(raw)
        place = f"{where}: items[{index}]"
        yield Item(place, _inner_head(head, _head.decode(inner)), inner, release)
    yield from _workloads(where, annotations)


def _workloads(where: str, annotations: dict[str, Any]) -> Iterator[Item]:
    """Yield the workloads that a list states beside its items."""
    text = annotations.get(WORKLOADS_ANNOTATION)
    if not isinstance(text, str):
        return
    for index, raw in enumerate(_raw_list.decode(text.encode())):
        inner = bytes(raw)
        place = f"{where}: {WORKLOADS_ANNOTATION}[{index}]"
        yield Item(place, _head.decode(inner), inner, is_live=True)


def _yaml_items(name: str, data: bytes) -> Iterator[Item]:
    for document in yamltext.parse(data, name):
        if document.value is None:
            continue
        if isinstance(document.value, list):
            for index, raw in enumerate(document.value):
                yield from _opened(f"{name}:{document.line}: [{index}]", raw, ())
            continue
        lines = tuple(f"{name}:{line}" for line in document.item_lines)
        yield from _opened(f"{name}:{document.line}", document.value, lines)


def _opened(where: str, raw: Any, item_places: tuple[str, ...]) -> Iterator[Item]:
    head = _head_of(where, raw)
    if not _is_list(head):
        yield Item(where, head, raw)
        return
    items = raw.get("items") or ()
    if not isinstance(items, list | tuple):
        raise InputError(f"items: expected a list, got {_type(items)}", where=where)
    _check_count(len(items), where)
    annotations = _annotations_of(raw)
    stated = annotations.get(RELEASE_ANNOTATION, "")
    release = stated if isinstance(stated, str) else ""
    places = item_places if len(item_places) == len(items) else ()
    for index, inner in enumerate(items):
        place = places[index] if places else f"{where}: items[{index}]"
        yield Item(place, _inner_head(head, _head_of(place, inner)), inner, release)
    yield from _workloads(where, annotations)


def _annotations_of(raw: Any) -> dict[str, Any]:
    """Return the annotations of a list; none if they are no mapping."""
    annotations = (raw.get("metadata") or {}).get("annotations") or {}
    return annotations if isinstance(annotations, dict) else {}


def _head_of(where: str, raw: Any) -> Head:
    if not isinstance(raw, dict):
        raise InputError(f"expected a Kubernetes object, got {_type(raw)}", where=where)
    kind, version = raw.get("kind"), raw.get("apiVersion")
    for field, value in (("kind", kind), ("apiVersion", version)):
        if value is not None and not isinstance(value, str):
            raise InputError(f"{field}: expected text, got {_type(value)}", where=where)
    return Head(kind, version)


def _is_list(head: Head) -> bool:
    return head.kind is not None and head.kind.endswith("List")


def _inner_head(outer: Head, inner: Head) -> Head:
    """Return the head of a list's item: the API server omits fields that the list has."""
    if inner.kind is None and outer.kind not in (None, "List"):
        return Head((outer.kind or "").removesuffix("List"), outer.api_version)
    return inner


def _check_count(count: int, where: str) -> None:
    if count > MAX_OBJECTS:
        raise InputError(f"{count} objects; the most is {MAX_OBJECTS}", where=where)


def _too_deep(where: str) -> InputError:
    return InputError("nested too deeply", where=where)


def _type(value: Any) -> str:
    """Return JSON's name for the type of a value."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "text"
    return "an object" if isinstance(value, dict) else "a list"


def _words(error: Exception) -> str:
    return str(error)[:300]
