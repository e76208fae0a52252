"""A parser of HTTP/1.1 responses without I/O.

`AnswerReader` takes bytes as they arrive and reports when a response is complete; `wire.py` owns
the sockets. It supports the responses of API servers and proxies over keep-alive: a length, chunks,
or a body that ends with the connection. It does not interpret bodies and accepts one response at a
time.
"""

from typing import NamedTuple

MAX_HEAD_BYTES = 256 * 1024
MAX_BODY_BYTES = 512 * 1024 * 1024


class HttpProtocolError(ConnectionError):
    """The peer's bytes are not a supported HTTP/1.1 response."""


class HttpAnswer(NamedTuple):
    """A complete response; `head` is in lower case, `closes` means that the connection must be
    closed.
    """

    code: int
    head: bytes
    body: bytes
    closes: bool


class AnswerReader:
    """Parses the consecutive responses of one connection."""

    __slots__ = ("_chunks", "_code", "_head", "_need", "_parts", "_pending", "_until_close")

    def __init__(self) -> None:
        self._pending = b""
        self._code = 0
        self._head = b""
        self._need = 0
        self._parts: list[bytes] = []
        self._chunks: _Chunks | None = None
        self._until_close = False

    def feed(self, data: bytes) -> HttpAnswer | None:
        """Add bytes; return the response once it is complete. Raise HttpProtocolError for invalid
        bytes.
        """
        if self._code == 0:
            if not self._pending and (answer := _whole(data)) is not None:
                return answer
            rest = self._read_head(self._pending + data if self._pending else data)
            if rest is None:
                return None
            data = rest
        if self._chunks is not None:
            body = self._chunks.feed(data)
            return None if body is None else self._finish(body, self._chunks.rest)
        if self._until_close:
            self._collect(data)
            return None
        missing = self._need - len(data)
        if missing > 0:
            self._collect(data)
            self._need = missing
            return None
        self._parts.append(data[: self._need] if missing else data)
        rest = data[self._need :] if missing else b""
        return self._finish(b"".join(self._parts), rest)

    def end(self) -> HttpAnswer | None:
        """Record the end of the connection; return the response that ends with it, if any."""
        if self._until_close:
            return self._finish(b"".join(self._parts), b"", closes=True)
        return None

    def _begin(self) -> None:
        self._code, self._head, self._need = 0, b"", 0
        self._parts, self._chunks, self._until_close = [], None, False

    def _read_head(self, data: bytes) -> bytes | None:
        """Parse the head; return the bytes after it, or None while it is incomplete."""
        while True:
            end = data.find(b"\r\n\r\n")
            if end < 0:
                if len(data) > MAX_HEAD_BYTES:
                    raise HttpProtocolError("the head of an answer is too long")
                if data[:5] != b"HTTP/"[: len(data)]:
                    raise HttpProtocolError("an answer does not begin with HTTP/")
                self._pending = data
                return None
            head = data[: end + 2].lower()
            code = _status(head)
            data = data[end + 4 :]
            if code >= 200:
                break
        self._pending = b""
        self._code, self._head = code, head
        if code in (204, 304):
            return data
        if b"\r\ntransfer-encoding:" in head:
            if header(head, b"transfer-encoding") != b"chunked":
                raise HttpProtocolError("an answer is encoded in a way that was not asked for")
            self._chunks = _Chunks()
        elif (length := header(head, b"content-length")) is not None:
            if not length.isdigit() or int(length) > MAX_BODY_BYTES:
                raise HttpProtocolError("an answer has an impossible length")
            self._need = int(length)
        else:
            self._until_close = True
        return data

    def _collect(self, data: bytes) -> None:
        self._parts.append(data)

    def _finish(self, body: bytes, rest: bytes, *, closes: bool = False) -> HttpAnswer:
        head = self._head
        # One request at a time is sent: bytes after its answer belong to no request.
        closes = closes or bool(rest) or not head.startswith(b"http/1.1")
        closes = closes or header(head, b"connection") == b"close"
        answer = HttpAnswer(self._code, head, body, closes)
        self._begin()
        return answer


class _Chunks:
    """Reads a chunked body, in time linear in its size."""

    __slots__ = ("_buffer", "_in_trailer", "_need", "_parts", "_size", "rest")

    def __init__(self) -> None:
        self._buffer = b""
        self._parts: list[bytes] = []
        self._need = 0  # bytes of the current chunk that have not arrived, including its line end
        self._size = 0
        self._in_trailer = False
        self.rest = b""

    def feed(self, data: bytes) -> bytes | None:
        data = self._buffer + data if self._buffer else data
        self._buffer = b""
        at = 0
        while True:
            if self._need:
                at = self._take(data, at)
                if self._need:
                    return None
            end = data.find(b"\r\n", at)
            if end < 0:
                if len(data) - at > MAX_HEAD_BYTES:
                    raise HttpProtocolError("a chunk has no size")
                self._buffer = data[at:]
                return None
            line = data[at:end]
            at = end + 2
            if self._in_trailer:
                if line:
                    continue
                self.rest = data[at:]
                return b"".join(self._parts)
            self._open(line)

    def _take(self, data: bytes, at: int) -> int:
        piece = data[at : at + self._need]
        self._need -= len(piece)
        # The last two bytes of a chunk are its line end.
        if self._need >= 2:
            self._parts.append(piece)
        elif len(piece) > 2 - self._need:
            self._parts.append(piece[: len(piece) - (2 - self._need)])
        return at + len(piece)

    def _open(self, line: bytes) -> None:
        try:
            size = int(line.partition(b";")[0], 16)
        except ValueError:
            raise HttpProtocolError("a chunk has no size") from None
        self._size += size
        if size < 0 or self._size > MAX_BODY_BYTES:
            raise HttpProtocolError("an answer has an impossible length")
        if size:
            self._need = size + 2
        else:
            self._in_trailer = True


def _whole(data: bytes) -> HttpAnswer | None:
    """Parse a complete response with a plain length, the usual case; return None for any other."""
    end = data.find(b"\r\n\r\n")
    head = data[: end + 2].lower()
    at = head.find(b"\r\ncontent-length: ")
    if at < 0 or head[:10] != b"http/1.1 2" or b"\r\nconnection:" in head:
        return None
    length = head[at + 18 : head.index(b"\r\n", at + 18)]
    if not length.isdigit() or len(data) != end + 4 + int(length) or head[9:12] == b"204":
        return None
    if b"\r\ntransfer-encoding:" in head or not head[9:12].isdigit():
        return None
    return HttpAnswer(int(head[9:12]), head, data[end + 4 :], closes=False)


def header(head: bytes, name: bytes) -> bytes | None:
    """Return a header's value from a lower-case head, or None."""
    at = head.find(b"\r\n" + name + b":")
    if at < 0:
        return None
    at += len(name) + 3
    return head[at : head.index(b"\r\n", at)].strip()


def _status(head: bytes) -> int:
    if head[:7] != b"http/1." or not head[9:12].isdigit():
        raise HttpProtocolError("an answer has no status")
    return int(head[9:12])
