"""Protocol buffers on the wire: a field is its number and form, then a number, or bytes and their
length.

For the few messages that are written or read here without the definitions that the protobuf package
wants (docs/designs/009). What the numbers mean is the callers' business.
"""

from collections.abc import Iterator
from typing import NamedTuple

# Forms: a number of as many bytes as it needs, eight bytes, a length with bytes, four bytes.
_VARINT, _FIXED_64, _BYTES, _FIXED_32 = 0, 1, 2, 5


class ProtobufField(NamedTuple):
    """A field that was read: its `value` is an int or bytes, `whole` all that it takes up."""

    number: int
    value: int | bytes
    whole: bytes
    has_length: bool


def varint(value: int) -> bytes:
    """Write a number that is not negative."""
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)


def number(field: int, value: int) -> bytes:
    """Write a field that holds a number."""
    return varint(field << 3 | _VARINT) + varint(value)


def content(field: int, value: bytes) -> bytes:
    """Write a field that holds bytes, a text or a message."""
    return varint(field << 3 | _BYTES) + varint(len(value)) + value


def fields(data: bytes) -> Iterator[ProtobufField]:
    """Read the fields of a message; ValueError if `data` is no message."""
    place = 0
    while place < len(data):
        start = place
        tag, place = _read_varint(data, place)
        form = tag & 7
        if form == _VARINT:
            found, place = _read_varint(data, place)
            yield ProtobufField(tag >> 3, found, data[start:place], has_length=False)
            continue
        if form == _BYTES:
            size, place = _read_varint(data, place)
        elif form in (_FIXED_32, _FIXED_64):
            size = 4 if form == _FIXED_32 else 8
        else:
            raise ValueError(f"unsupported wire type {form}")
        value, place = data[place : place + size], place + size
        if place > len(data):
            raise ValueError("the message ends too early")
        yield ProtobufField(tag >> 3, value, data[start:place], has_length=form == _BYTES)


def _read_varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 64:
        if place >= len(data):
            raise ValueError("the message ends too early")
        byte = data[place]
        value |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte < 0x80:
            return value, place
    raise ValueError("varint is too long")
