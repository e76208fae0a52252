"""A small HTTP/1.1 server for synchronous handlers: one call per request, one write per response.

`server.py` passes a handler that returns the finished response, or None after it has taken over the
connection for a stream. Because no task, coroutine or stream object is made per request, a request
costs little more than its TLS and its system calls; so one process can run API server, kubelets and
scheduler. Only what Kubernetes clients use: keep-alive, pipelining, Content-Length and chunked
bodies, 100-continue.
"""

import asyncio
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

_HEAD_LIMIT_BYTES: Final = 64 * 1024
_JSON: Final = "application/json"
_PHRASES: Final = {status.value: status.phrase for status in HTTPStatus}


@dataclass(slots=True)
class HttpRequest:
    """One request; header names are in lower case."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes = b""


class MalformedError(Exception):
    """Bytes that are not HTTP; the connection is closed with a 400, or with `code`."""

    def __init__(self, message: str, code: int = 400) -> None:
        super().__init__(message)
        self.code = code


Handler = Callable[[HttpRequest, "HttpConnection"], bytes | None]


def answer(
    code: int,
    body: bytes,
    content_type: str = _JSON,
    headers: Mapping[str, str] | None = None,
) -> bytes:
    """Return the bytes of a whole answer."""
    extra = "".join(f"{name}: {value}\r\n" for name, value in headers.items()) if headers else ""
    head = (
        f"HTTP/1.1 {code} {_PHRASES.get(code, '')}\r\nContent-Type: {content_type}\r\n"
        f"Cache-Control: no-cache, private\r\nContent-Length: {len(body)}\r\n{extra}\r\n"
    )
    return head.encode("latin-1", "replace") + body


class HttpConnection(asyncio.Protocol):
    """One client's connection."""

    def __init__(self, server: "HttpServer") -> None:
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._request: HttpRequest | None = None
        self._wanted = 0
        self._chunks: bytearray | None = None
        self._streaming = False
        self._closing = False
        self._is_paused = False
        self.on_lost: Callable[[], None] | None = None
        self.on_writable: Callable[[], None] | None = None

    @property
    def is_paused(self) -> bool:
        """Return whether the write buffer is full; `on_writable` reports the end of that."""
        return self._is_paused

    # Methods that a handler uses to stream

    def begin_stream(self) -> None:
        """Start a chunked answer; the handler then returns None."""
        self._streaming = True
        self._write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
            b"Cache-Control: no-cache, private\r\nTransfer-Encoding: chunked\r\n\r\n"
        )

    def send_chunk(self, data: bytes) -> None:
        """Send a chunk of a stream; empty data sends nothing."""
        if data:
            self._write(b"%x\r\n%b\r\n" % (len(data), data))

    def end_stream(self) -> None:
        """Finish the stream and serve the next request."""
        self._write(b"0\r\n\r\n")
        self._streaming = False
        self.on_lost = self.on_writable = None
        self._after_answer()
        asyncio.get_running_loop().call_soon(self._advance)

    def close(self) -> None:
        """Drop the connection now."""
        if self._transport is not None:
            self._transport.abort()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the connection of a new client."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101  the transport of a TCP server
        self._transport = transport
        transport.set_write_buffer_limits(high=1 << 20)
        self._server.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle the end of the client's connection."""
        del exc
        self._transport = None
        self._server.leave(self)
        if self.on_lost is not None:
            self.on_lost()

    def pause_writing(self) -> None:
        """Stop writing until the slow client has read."""
        self._is_paused = True

    def resume_writing(self) -> None:
        """The client has caught up."""
        self._is_paused = False
        if self.on_writable is not None:
            self.on_writable()

    def data_received(self, data: bytes) -> None:
        """Bytes have arrived."""
        self._buffer += data
        self._advance()

    def _advance(self) -> None:
        try:
            while not self._streaming and not self._closing and self._read_one():
                pass
        except MalformedError as fault:
            self._write(answer(fault.code, str(fault).encode(), "text/plain"))
            self._close_gently()

    def _read_one(self) -> bool:
        """Answer one whole request from the buffer; return False when there is none."""
        request = self._request or self._read_head()
        if request is None:
            return False
        if self._chunks is not None:
            if not self._read_chunks(self._chunks):
                return False
            request.body = bytes(self._chunks)
        elif self._wanted:
            if len(self._buffer) < self._wanted:
                return False
            request.body = bytes(self._buffer[: self._wanted])
            del self._buffer[: self._wanted]
        self._request, self._wanted, self._chunks = None, 0, None
        self._closing = request.headers.get("connection", "").lower() == "close"
        data = self._server.handler(request, self)
        if data is not None:
            self._write(data)
            self._after_answer()
        return True

    def _after_answer(self) -> None:
        if self._closing:
            self._close_gently()

    def _read_head(self) -> HttpRequest | None:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self._buffer) > _HEAD_LIMIT_BYTES:
                raise MalformedError("request header too large", 431)
            return None
        first, *lines = self._buffer[:end].decode("latin-1").split("\r\n")
        del self._buffer[: end + 4]
        parts = first.split(" ")
        if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
            raise MalformedError("malformed request line")
        headers: dict[str, str] = {}
        for line in lines:
            name, colon, value = line.partition(":")
            if not colon or not name or name[-1] in " \t":
                raise MalformedError("malformed header")
            name, value = name.lower(), value.strip()
            # These may occur several times, one per group; a value cannot contain line breaks.
            is_more = name in headers and name.startswith("impersonate-")
            headers[name] = f"{headers[name]}\n{value}" if is_more else value
        path, _, query = parts[1].partition("?")
        request = HttpRequest(parts[0], path, query, headers)
        self._expect_body(request)
        self._request = request
        return request

    def _expect_body(self, request: HttpRequest) -> None:
        headers = request.headers
        coding = headers.get("transfer-encoding", "").lower()
        length = headers.get("content-length")
        if coding:
            if coding != "chunked" or length is not None:
                raise MalformedError("unsupported transfer encoding", 501)
            self._chunks = bytearray()
        elif length is not None:
            if not length.isdigit():
                raise MalformedError("malformed content length")
            self._wanted = int(length)
            if self._wanted > self._server.body_limit_bytes:
                raise MalformedError("request entity too large", 413)
        if headers.get("expect", "").lower() == "100-continue":
            self._write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _read_chunks(self, body: bytearray) -> bool:
        """Move whole chunks from the buffer to `body`; True after the last one."""
        while True:
            end = self._buffer.find(b"\r\n")
            if end < 0:
                return False
            try:
                size = int(bytes(self._buffer[:end]).partition(b";")[0], 16)
            except ValueError:
                raise MalformedError("malformed chunk") from None
            if size < 0 or len(body) + size > self._server.body_limit_bytes:
                raise MalformedError("request entity too large", 413)
            if len(self._buffer) < end + 2 + size + 2:
                return False
            body += self._buffer[end + 2 : end + 2 + size]
            del self._buffer[: end + 2 + size + 2]
            if not size:
                return True

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def _close_gently(self) -> None:
        self._closing = True
        if self._transport is not None:
            self._transport.close()


class HttpServer:
    """Listens with TLS and passes every request to one handler."""

    def __init__(self, handler: Handler, *, body_limit_bytes: int) -> None:
        self.handler = handler
        self.body_limit_bytes = body_limit_bytes
        self.connections: set[HttpConnection] = set()
        self._server: asyncio.Server | None = None
        self._emptied = asyncio.Event()

    async def start(self, host: str, port: int, context: ssl.SSLContext) -> int:
        """Listen; returns the port, which port 0 leaves to the system."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: HttpConnection(self), host, port, ssl=context, backlog=1024
        )
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Stop listening and drop every connection."""
        if self._server is None:
            return
        self._server.close()
        self._emptied.clear()
        for connection in list(self.connections):
            connection.close()
        if self.connections:
            await self._emptied.wait()
        await self._server.wait_closed()

    def leave(self, connection: HttpConnection) -> None:
        """Called by a connection that has ended."""
        self.connections.discard(connection)
        if not self.connections:
            self._emptied.set()
