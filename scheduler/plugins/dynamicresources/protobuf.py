"""Add a finalizer to an object in Kubernetes' protobuf format, with all other bytes unchanged.

Parameters of drivers are opaque bytes that the API server stores as they were sent. In JSON they
come back in another spelling, and writing that back counts as a change of the claim's immutable
spec. If a patch is rejected for that reason, the object itself is read and written. (Format:
Kubernetes API concepts, "Protobuf encoding"; the field numbers are those of runtime.Unknown and
ObjectMeta.)
"""

from scheduler.base.protobuf import content, fields

PROTOBUF = "application/vnd.kubernetes.protobuf"

_MAGIC = b"k8s\x00"
_RAW, _METADATA, _FINALIZERS = 2, 1, 14


def with_finalizer(data: bytes, name: str) -> bytes:
    """Return an object with one more finalizer; ValueError if `data` is no object."""
    if not data.startswith(_MAGIC):
        raise ValueError("not an object in protobuf form")
    more = content(_FINALIZERS, name.encode())
    return _MAGIC + _appended(data[len(_MAGIC) :], (_RAW, _METADATA), more)


def _appended(data: bytes, path: tuple[int, ...], more: bytes) -> bytes:
    """Return a message with `more` at the end of the message at `path` of field numbers."""
    if not path:
        return data + more
    written, is_found = [], False
    for field in fields(data):
        if field.number == path[0] and field.has_length:
            is_found = True
            written.append(content(field.number, _appended(bytes(field.value), path[1:], more)))
        else:
            written.append(field.whole)
    if not is_found:
        raise ValueError(f"the object has no field {path[0]}")
    return b"".join(written)
