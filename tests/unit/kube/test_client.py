"""Every outcome of a request is a value that determines the next step."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email.utils import formatdate

import pytest

from scheduler.base.clock import ManualClock, RealClock
from scheduler.base.meters import Meters
from scheduler.kube.api import PROTOBUF, ResponseStream
from scheduler.kube.connection.access import Access
from scheduler.kube.connection.client import ApiClient
from scheduler.kube.connection.credentials import Credentials
from scheduler.kube.connection.limits import RateLimit
from tests.unit.kube.memoryapi import LoopClock
from tests.unit.kube.scripted import Asked, Conversation, Script, ScriptedServer, scripted

STATUS = {
    "kind": "Status",
    "apiVersion": "v1",
    "status": "Failure",
    "message": "pods is being looked at",
    "reason": "Conflict",
    "details": {"retryAfterSeconds": 3},
    "code": 409,
}


class Source:
    """Returns one access after another."""

    def __init__(self, *accesses: Access) -> None:
        self.accesses = list(accesses)
        self.loads = 0

    def load(self, *, force: bool) -> Access:
        del force
        self.loads += 1
        return self.accesses.pop(0) if len(self.accesses) > 1 else self.accesses[0]


@asynccontextmanager
async def responding(
    script: Script, *, path: str = "", tokens: tuple[str, ...] = ("t1",), proxy: str | None = None
) -> AsyncIterator[tuple[ApiClient, ScriptedServer]]:
    """Run a client against a script."""
    async with scripted(script) as server:
        url = (proxy and "http://server.example") or server.url
        accesses = [
            Access(url + path, authorization=f"Bearer {token}", proxy=proxy and server.url)
            for token in tokens
        ]
        clock = RealClock()
        credentials = Credentials(Source(*accesses[1:] or accesses), clock, accesses[0])
        client = ApiClient(credentials, clock=clock, meters=Meters(), user_agent="trellis/1")
        try:
            yield client, server
        finally:
            await client.close()


async def ok(_: Asked, to: Conversation) -> None:
    await to.answer(200, {"a": 1})


@pytest.mark.parametrize("proxy", [None, "yes"])
async def test_a_request_carries_what_a_server_needs(proxy: str | None):
    """A request has method, path, body, credentials and user agent, with and without a proxy in
    between.
    """
    async with responding(ok, path="/below", proxy=proxy) as (client, server):
        response = await client.request("PATCH", "/api?x=1", b"{}", content_type="a/b")
        await client.request("DELETE", "/api")
        await client.request("GET", "/api", content_type=PROTOBUF)
        await client.request("POST", "/api", b"k8s", content_type=PROTOBUF)

    asked, deleted, *encoded = server.asked
    front = "http://server.example" if proxy else ""
    assert (200, b'{"a":1}', True) == (response.code, response.body, response.ok)
    assert ("PATCH", f"{front}/below/api?x=1", b"{}") == (asked.method, asked.path, asked.body)
    assert ("Bearer t1", "a/b", "trellis/1", "application/json") == tuple(
        asked.headers[name] for name in ("authorization", "content-type", "user-agent", "accept")
    )
    assert ("DELETE", b"") == (deleted.method, deleted.body)
    # Only what is read may be in protobuf; the response to a write is decoded as JSON.
    assert [PROTOBUF, "application/json"] == [one.headers["accept"] for one in encoded]
    assert PROTOBUF == encoded[1].headers["content-type"]


@pytest.mark.parametrize("proxy", [None, "yes"])
async def test_a_failure_is_a_value(proxy: str | None):
    """The Kubernetes Status of a failure is returned as reason, message and delay."""

    async def fail(_: Asked, to: Conversation) -> None:
        await to.answer(409, STATUS)

    async with responding(fail, proxy=proxy) as (client, _):
        response = await client.request("GET", "/api")

    assert (409, "Conflict", "pods is being looked at", 3.0) == (
        response.code,
        response.reason,
        response.message,
        response.retry_after_s,
    )
    assert not response.ok
    assert not response.is_transient


@pytest.mark.parametrize("value", ["7", formatdate(1_700_000_007, usegmt=True), "soon"])
async def test_what_the_server_asks_for_is_understood(value: str):
    """Retry-After is in seconds or a date; a body that is no Status is reported unchanged."""

    async def busy(_: Asked, to: Conversation) -> None:
        await to.answer(429, b"<html>busy", {"Retry-After": value})

    async with scripted(busy) as server:
        clock = ManualClock(1_700_000_000.0)
        credentials = Credentials(Source(), clock, Access(server.url))
        client = ApiClient(credentials, clock=clock, meters=Meters())
        response = await client.request("GET", "/api")
        await client.close()

    assert response.retry_after_s == (None if value == "soon" else 7.0)
    assert ("<html>busy", True) == (response.message, response.is_transient)


async def test_no_answer_is_code_0():
    """A reset, a silence and a missing server are distinguished, and raise nothing."""

    async def respond(asked: Asked, to: Conversation) -> None:
        if asked.path == "/reset":
            to.reset()
        await to.until_gone()

    async with responding(respond) as (client, _):
        reset = await client.request("GET", "/reset")
        silent = await client.request("GET", "/silent", timeout_s=0.05)
    async with scripted(ok) as server:
        pass
    gone = ApiClient(
        Credentials(Source(), RealClock(), Access(server.url)), clock=RealClock(), meters=Meters()
    )
    unreachable = await gone.request("GET", "/api")
    await gone.close()

    assert [(0, True, "ConnectionFailed"), (0, True, "Timeout"), (0, False, "NotSent")] == [
        (r.code, r.was_sent, r.reason) for r in (reset, silent, unreachable)
    ]


async def test_a_refused_token_is_renewed_once():
    """After a 401 the credentials are loaded again and the request repeated; never in a circle."""

    async def check(asked: Asked, to: Conversation) -> None:
        is_known = asked.headers["authorization"] == "Bearer t2"
        await to.answer(200 if is_known else 401, {"reason": "Unauthorized"})

    async with responding(check, tokens=("t1", "t2")) as (client, server):
        renewed = await client.request("GET", "/api")
    async with responding(check, tokens=("t1", "t1")) as (client, again):
        refused = await client.request("GET", "/api")

    assert (200, 2) == (renewed.code, len(server.asked))
    assert (401, 1) == (refused.code, len(again.asked))


async def test_paths_are_checked():
    """A path that would break out of its line is a programming error, and never reaches a
    socket.
    """
    async with responding(ok) as (client, server):
        for path in ("/a b", "/a\r\nX: y", "/ä"):
            with pytest.raises(ValueError, match="path"):
                await client.request("GET", path)

    assert [] == server.asked


async def test_a_stream_is_read_as_it_comes():
    """Pieces of a watch arrive when they are sent, and the end is empty."""
    more = asyncio.Event()

    async def stream(_: Asked, to: Conversation) -> None:
        await to.raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
        await more.wait()
        await to.raw(b"3\r\ntwo\r\n0\r\n\r\n")

    async with responding(stream) as (client, server), client.stream("/w", silence_s=5) as watch:
        pieces = [await watch.read()]
        more.set()
        pieces += [await watch.read(), await watch.read()]

    assert 200 == watch.head.code
    assert [b"one", b"two", b""] == pieces
    assert "Bearer t1" == server.asked[0].headers["authorization"]


async def read_all(watch: ResponseStream) -> bytes:
    pieces = []
    while piece := await watch.read():
        pieces.append(piece)
    return b"".join(pieces)


async def test_a_stream_that_breaks_or_falls_silent_says_so():
    """A reset is a ConnectionError, silence a TimeoutError."""

    async def respond(asked: Asked, to: Conversation) -> None:
        await to.raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
        if asked.path == "/cut":
            await to.raw(b"5\r\nha")
            to.writer.close()
        await to.until_gone()

    async with responding(respond) as (client, _):
        async with client.stream("/cut", silence_s=5) as watch:
            with pytest.raises(ConnectionError):
                await read_all(watch)
        async with client.stream("/silent", silence_s=0.05) as watch:
            with pytest.raises(TimeoutError):
                await read_all(watch)


async def test_a_refused_stream_is_a_value():
    """A failure to open a watch, or to reach the server, is reported like that of a request."""

    async def fail(_: Asked, to: Conversation) -> None:
        await to.answer(429, STATUS, {"Retry-After": "5"})

    async with responding(fail) as (client, _), client.stream("/w", silence_s=5) as watch:
        refused = watch.head
        rest = await watch.read()
    async with scripted(ok) as server:
        pass
    gone = ApiClient(
        Credentials(Source(), RealClock(), Access(server.url)), clock=RealClock(), meters=Meters()
    )
    async with gone.stream("/w", silence_s=5) as watch:
        unreachable = watch.head
    await gone.close()

    assert (429, "Conflict", 5.0, b"") == (
        refused.code,
        refused.reason,
        refused.retry_after_s,
        rest,
    )
    assert (0, "ConnectionFailed") == (unreachable.code, unreachable.reason)


async def test_requests_are_counted_by_outcome():
    """The labels are code, method and server, as dashboards for Kubernetes components expect."""
    async with responding(ok) as (client, server):
        await client.request("GET", "/api")
        await client.request("POST", "/api", b"{}")
        meters = client._requests
        durations = client._durations

    host = server.url.removeprefix("http://")
    assert [("200", "GET", host), ("200", "POST", host)] == [s.labels for s in meters.samples()]
    assert 1 == durations.labels("POST", host).count


@pytest.mark.looptime
async def test_a_rate_limit_spaces_requests():
    """With `qps` 10 and `burst` 5: five at once, then one every tenth of a second."""
    clock = LoopClock()
    limit = RateLimit(clock, 10, 5)
    started = clock.now()
    times = []
    for _ in range(15):
        await limit.wait()
        times.append(round(clock.now() - started, 2))

    assert [0.0] * 5 + [round(0.1 * n, 2) for n in range(1, 11)] == times


async def test_closing_ends_requests_in_progress():
    """Requests in progress end with code 0 when the client is closed."""
    arrived = asyncio.Event()

    async def silent(_: Asked, to: Conversation) -> None:
        arrived.set()
        await to.until_gone()

    async with responding(silent) as (client, _):
        task = asyncio.create_task(client.request("GET", "/api"))
        await arrived.wait()
        await client.close()
        response = await task

    assert 0 == response.code


async def test_due_credentials_are_renewed_on_the_side():
    """Every minute the source is checked, without delaying a request."""
    clock = ManualClock()
    async with scripted(ok) as server:
        source = Source(Access(server.url, authorization="Bearer t2"))
        credentials = Credentials(source, clock, Access(server.url, authorization="Bearer t1"))
        client = ApiClient(credentials, clock=clock, meters=Meters())
        await client.request("GET", "/1")
        clock.advance(61)
        await client.request("GET", "/2")
        with contextlib.suppress(asyncio.CancelledError):
            assert client._refreshing is not None
            await client._refreshing
        await client.request("GET", "/3")
        await client.close()

    assert ["Bearer t1", "Bearer t1", "Bearer t2"] == [
        asked.headers["authorization"] for asked in server.asked
    ]
    assert 1 == source.loads
