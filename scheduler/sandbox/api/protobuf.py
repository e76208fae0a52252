"""Kubernetes' protobuf bodies to raw objects: `kubectl create` and kube-scheduler send them.

`decoding.read_body` calls `read_protobuf`. Field numbers and types come from the field table;
answers are always JSON, which every client accepts. Unknown fields are skipped, as protobuf
requires.
"""

import base64
import struct
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from scheduler.base.protobuf import fields
from scheduler.sandbox.api.status import Object, StatusError, bad_request
from scheduler.sandbox.kinds.typetable import TypeShape, WireField, type_table

MEDIA_TYPE: Final = "application/vnd.kubernetes.protobuf"
_MAGIC: Final = b"k8s\x00"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def read_protobuf(body: bytes) -> Object:
    """Return the object in an enveloped protobuf body; 400 when it cannot be read."""
    if not body.startswith(_MAGIC):
        raise bad_request("the provided data does not appear to be a protobuf message")
    try:
        api_version, kind, raw = _envelope(body[len(_MAGIC) :])
        group, _, version = api_version.rpartition("/")
        shape = type_table().of_kind(group, version, kind)
        if shape is None:
            raise bad_request(f'no kind "{kind}" is registered for version "{api_version}"')
        obj = _message(raw, shape)
    except (ValueError, UnicodeDecodeError, struct.error) as fault:
        raise _unreadable(fault) from fault
    obj["apiVersion"], obj["kind"] = api_version, kind
    return obj


def _unreadable(fault: Exception) -> StatusError:
    return bad_request(f"unable to decode protobuf: {fault}")


def _envelope(data: bytes) -> tuple[str, str, bytes]:
    api_version = kind = ""
    raw = b""
    for number, value in _fields(data):
        if number == 1:
            parts = dict(_fields(value))
            api_version, kind = parts.get(1, b"").decode(), parts.get(2, b"").decode()
        elif number == 2:
            raw = value
    return api_version, kind, raw


def _message(data: bytes, shape: TypeShape) -> Object:
    obj: Object = {}
    _into(obj, data, shape.name, shape)
    return obj


def _into(obj: Object, data: bytes, wire_name: str, shape: TypeShape) -> None:
    """Read the fields of one message into `obj`; inlined structs land in the same dict."""
    known = type_table().wire(wire_name)
    for number, value in _fields(data):
        field = known.get(number)
        if field is None:
            continue
        if field.inlined:
            _into(obj, value, field.inlined, shape)
            continue
        inner = (shape.fields or {}).get(field.name)
        if inner is not None:
            _put(obj, field, inner.shape, value)


def _put(obj: Object, field: WireField, shape: TypeShape, value: Any) -> None:
    if shape.is_list and shape.inner is not None:
        obj.setdefault(field.name, []).append(_value(value, shape.inner))
    elif shape.inner is not None:
        entry = dict(_fields(value))
        key = entry.get(1, b"").decode()
        obj.setdefault(field.name, {})[key] = _value(entry.get(2, b""), shape.inner)
    else:
        found = _value(value, shape)
        # Go writes the zero of every field that is no pointer; JSON leaves those out.
        if field.keeps_zero or (found not in ("", 0, False) and found is not None):
            obj[field.name] = found


def _value(value: Any, shape: TypeShape) -> Any:
    if shape.fields is not None:
        return _message(value, shape)
    name = shape.name
    if name == "string":
        return value.decode()
    if name in ("int32", "int64"):
        return value - (1 << 64) if value >> 63 else value
    if name == "bool":
        return bool(value)
    if name == "number":
        return struct.unpack("<d", value)[0]
    if name == "bytes":
        return base64.b64encode(value).decode()
    if name == "quantity":
        return dict(_fields(value)).get(1, b"0").decode() or "0"
    if name == "intstr":
        parts = dict(_fields(value))
        return parts.get(3, b"").decode() if parts.get(1) else _value(parts.get(2, 0), _INT)
    if name in ("time", "microtime"):
        return _time(value, micro=name == "microtime")
    raw = dict(_fields(value)).get(1, b"")
    return msgspec.json.decode(raw) if raw else {}


def _time(value: bytes, *, micro: bool) -> str | None:
    parts = dict(_fields(value))
    if not parts:
        return None
    seconds, nanos = _value(parts.get(1, 0), _INT), parts.get(2, 0)
    moment = _EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ" if micro else "%Y-%m-%dT%H:%M:%SZ")


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Number and raw value of each field: an int, or bytes."""
    return ((field.number, field.value) for field in fields(data))


_INT: Final = TypeShape("int64")
