"""The HTTP protocol: requests in any split, malformed ones, streams."""

import asyncio
from typing import Any

import pytest

from scheduler.sandbox.api.http import HttpConnection, HttpRequest, HttpServer, answer


class Wire(asyncio.Transport):
    """The written bytes of a connection, and whether it closed."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = b""
        self.closed = False

    def write(self, data: Any) -> None:
        self.sent += data

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True

    def set_write_buffer_limits(self, high: Any = None, low: Any = None) -> None:
        """Do nothing: there is no buffer."""


def echo(request: HttpRequest, _connection: HttpConnection) -> bytes:
    return answer(200, f"{request.method} {request.path} {request.query} ".encode() + request.body)


def connect(handler: Any = echo, limit: int = 1000) -> tuple[HttpConnection, Wire]:
    connection, wire = HttpConnection(HttpServer(handler, body_limit_bytes=limit)), Wire()
    connection.connection_made(wire)
    return connection, wire


POST = b"POST /a?b=c HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = (
    b"PUT /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\n\r\n"
)


def test_a_request_is_answered():
    """Path, query and body arrive, the answer has a length."""
    connection, wire = connect()
    connection.data_received(POST)

    assert wire.sent.startswith(b"HTTP/1.1 200 OK\r\n")
    assert wire.sent.endswith(b"\r\n\r\nPOST /a b=c hello")
    assert b"Content-Length: 17\r\n" in wire.sent
    assert not wire.closed


@pytest.mark.parametrize("data", [POST, CHUNKED])
def test_any_cut_gives_the_same_answer(data: bytes):
    """TCP may deliver byte by byte."""
    connection, wire = connect()
    connection.data_received(data)
    other, slow = connect()
    for position in range(len(data)):
        other.data_received(data[position : position + 1])

    assert wire.sent == slow.sent
    assert slow.sent.endswith(b"hello")


def test_pipelined_requests_are_answered_in_order():
    """Two requests in one packet get two responses in order."""
    connection, wire = connect()
    connection.data_received(b"GET /1 HTTP/1.1\r\n\r\nGET /2 HTTP/1.1\r\n\r\n")

    assert wire.sent.index(b"GET /1") < wire.sent.index(b"GET /2")


def test_connection_close_closes():
    """The connection is closed after the response."""
    connection, wire = connect()
    connection.data_received(b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n")

    assert wire.closed
    assert b"200 OK" in wire.sent


def test_expected_bodies_are_asked_for():
    """curl waits for 100 Continue before a large body."""
    connection, wire = connect()
    head, _, body = POST.partition(b"hello")
    connection.data_received(head.replace(b"Host: x", b"Expect: 100-continue"))

    assert wire.sent == b"HTTP/1.1 100 Continue\r\n\r\n"
    connection.data_received(b"hello" + body)
    assert wire.sent.endswith(b"hello")


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nBad : x\r\n\r\n", b"400"),
        (b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", b"400"),
        (b"POST / HTTP/1.1\r\nContent-Length: 1001\r\n\r\n", b"413"),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n", b"501"),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", b"400"),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nfff\r\n", b"413"),
        (b"GET / HTTP/1.1\r\nA: " + b"x" * 70_000, b"431"),
    ],
)
def test_malformed_requests_end_the_connection(data: bytes, code: bytes):
    """The client gets the reason, and no byte after it is read."""
    connection, wire = connect()
    connection.data_received(data)

    assert wire.sent.startswith(b"HTTP/1.1 " + code)
    assert wire.closed


async def test_a_stream_holds_back_the_next_request():
    """Chunks while it runs; the next request is answered after its end."""
    kept: list[HttpConnection] = []

    def handler(request: HttpRequest, connection: HttpConnection) -> bytes | None:
        if request.path != "/watch":
            return echo(request, connection)
        connection.begin_stream()
        kept.append(connection)
        return None

    connection, wire = connect(handler)
    connection.data_received(b"GET /watch HTTP/1.1\r\n\r\nGET /next HTTP/1.1\r\n\r\n")
    kept[0].send_chunk(b"one")
    kept[0].send_chunk(b"")
    before = wire.sent
    kept[0].end_stream()
    await asyncio.sleep(0)

    assert before.endswith(b"\r\n\r\n3\r\none\r\n")
    assert wire.sent.removeprefix(before).startswith(b"0\r\n\r\nHTTP/1.1 200")
    assert wire.sent.endswith(b"GET /next  ")


def test_a_streaming_handler_is_notified_of_the_end():
    """The handler is notified of a lost connection and of a slow client."""
    events: list[str] = []
    connection, _ = connect()
    connection.on_lost = lambda: events.append("lost")
    connection.on_writable = lambda: events.append("writable")
    connection.pause_writing()
    paused = connection.is_paused
    connection.resume_writing()
    connection.connection_lost(None)

    assert paused
    assert ["writable", "lost"] == events
