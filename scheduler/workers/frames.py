"""The protocol between daemon and helper process: a JSON header and a body, both with length
prefix.

Both ends use it, the daemon on asyncio streams, the process on blocking files.
"""

import struct
from typing import BinaryIO

import msgspec

LENGTHS = struct.Struct(">IQQ")


class JobRequest(msgspec.Struct, frozen=True):
    """The header of a job; its payload follows as JSON."""

    id: int
    kind: str


class Reply(msgspec.Struct, frozen=True):
    """The end of a job, or with id 0 that the process is warm; body and blob follow."""

    id: int
    code: str = "done"
    message: str = ""
    seconds: float = 0.0


def pack(header: msgspec.Struct, body: bytes = b"", blob: bytes = b"") -> bytes:
    """Return a frame."""
    head = msgspec.json.encode(header)
    return LENGTHS.pack(len(head), len(body), len(blob)) + head + body + blob


def read(source: BinaryIO) -> tuple[bytes, bytes, bytes] | None:
    """Read a frame from a blocking file; None at its end."""
    start = _exactly(source, LENGTHS.size)
    if start is None:
        return None
    parts = [_exactly(source, length) for length in LENGTHS.unpack(start)]
    head, body, blob = parts
    if head is None or body is None or blob is None:
        return None
    return head, body, blob


def _exactly(source: BinaryIO, length: int) -> bytes | None:
    found = source.read(length)
    return found if len(found) == length else None
