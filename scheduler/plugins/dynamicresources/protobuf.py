"""A finalizer added to an object in Kubernetes' protobuf form, with every other byte left as it is.

Parameters of drivers are opaque bytes that the API server stores as they were sent. In JSON they come
back in another spelling, and writing that back counts as a change of the claim's spec, which never
changes; so where a patch is refused for that, the object itself goes back and forth. (Format: Kubernetes
API concepts, "Protobuf encoding"; the field numbers are those of runtime.Unknown and ObjectMeta.)
"""

from __future__ import annotations

from collections.abc import Iterator

PROTOBUF = "application/vnd.kubernetes.protobuf"

_MAGIC = b"k8s\x00"
_RAW, _METADATA, _FINALIZERS = 2, 1, 14
_VARINT, _FIXED_64, _BYTES, _FIXED_32 = 0, 1, 2, 5


def with_finalizer(data: bytes, name: str) -> bytes:
    """Return an object with one more finalizer; ValueError if `data` is none."""
    if not data.startswith(_MAGIC):
        raise ValueError("not an object in protobuf form")
    more = _field(_FINALIZERS, name.encode())
    return _MAGIC + _appended(data[len(_MAGIC) :], (_RAW, _METADATA), more)


def _appended(data: bytes, path: tuple[int, ...], more: bytes) -> bytes:
    """Return a message with `more` at the end of the message at `path` of field numbers."""
    if not path:
        return data + more
    written, is_found = [], False
    for number, whole, content in _fields(data):
        if number == path[0] and content is not None:
            is_found = True
            written.append(_field(number, _appended(content, path[1:], more)))
        else:
            written.append(whole)
    if not is_found:
        raise ValueError(f"the object has no field {path[0]}")
    return b"".join(written)


def _fields(data: bytes) -> Iterator[tuple[int, bytes, bytes | None]]:
    """Yield number, bytes and, of a field that holds bytes, content of each field."""
    place = 0
    while place < len(data):
        start = place
        tag, place = _varint(data, place)
        kind, content = tag & 7, None
        if kind == _VARINT:
            _, place = _varint(data, place)
        elif kind == _BYTES:
            size, place = _varint(data, place)
            content = data[place : place + size]
            place += size
        elif kind in (_FIXED_32, _FIXED_64):
            place += 4 if kind == _FIXED_32 else 8
        else:
            raise ValueError(f"unknown kind of field {kind}")
        if place > len(data):
            raise ValueError("the object ends too early")
        yield tag >> 3, data[start:place], content


def _field(number: int, content: bytes) -> bytes:
    return _as_varint(number << 3 | _BYTES) + _as_varint(len(content)) + content


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while place < len(data) and shift < 64:
        byte = data[place]
        value |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128:
            return value, place
    raise ValueError("the object ends too early")


def _as_varint(value: int) -> bytes:
    written = bytearray()
    while value > 127:
        written.append(value & 127 | 128)
        value >>= 7
    written.append(value)
    return bytes(written)
