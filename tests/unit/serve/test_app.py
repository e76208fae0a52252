"""The server as a whole: start and stop, odd requests, counters."""

import asyncio
import contextlib
import random
import socket
import ssl
import string

import pytest

from scheduler.base.errors import InputError
from scheduler.serve import Address, RequestAuthorizer, Server
from scheduler.serve.access import ReviewedUser
from scheduler.serve.feed import PageFeed
from scheduler.serve.pageroutes import Answers, PageView
from tests.unit.serve.conftest import PAGES, ServerRig

OPEN = {"/healthz", "/livez", "/readyz"}
PIECES = [
    *PAGES, *OPEN, "/", "//", "/..", "/.", "%2e%2e", "%2f", "%00", "%", "%zz", "%6detrics", ";",
    "?", "#",
    "verbose", "exclude=", "&", "=", "\\", "é", "%c3%28", "http://other/metrics", ":443", "*",
    "a" * 300,
]  # fmt: skip
HEADERS = [
    "Authorization: Bearer", "Authorization: Basic AAAA", "Authorization: \t", "Accept: */*;q=x",
    "Accept: application/openmetrics-text;version=", "X-Remote-User: root",
    "X-Remote-Group: system:masters", "X-Forwarded-For: 127.0.0.1", "Content-Length: 0",
    "Transfer-Encoding: chunked", "Content-Length: -1", "Host: a, b", "Expect: 100-continue",
    "Connection: upgrade", "Upgrade: websocket", "X-HTTP-Method-Override: PUT",
    "Cookie: " + "c" * 900,
    "Range: bytes=0-1", "bad header", "A" * 9000 + ": b",
]  # fmt: skip


def server(rig: ServerRig, address: Address) -> Server:
    access = RequestAuthorizer(rig.reviewer, rig.clock, rig.meters)
    return Server(rig.sources, rig.health, access, rig.certificate(), address)


async def test_port_0_is_off(rig: ServerRig):
    """With port 0 no socket listens, and a stop succeeds."""
    off = server(rig, Address("127.0.0.1", 0))
    await off.start()
    await off.stop()

    assert 0 == rig.meters.certificate_expiry.value


async def test_taken_port_is_an_input_error_with_the_address(rig: ServerRig):
    """The error names the address that cannot be used; a second stop has no effect."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = server(rig, Address("127.0.0.1", port))
        with pytest.raises(InputError, match=f"127.0.0.1:{port}: cannot listen"):
            await refused.start()
        await refused.stop()
        await refused.stop()


async def test_plain_http_is_not_spoken(rig: ServerRig):
    """A request without TLS gets no page."""
    async with rig.serving() as visitor:
        with pytest.raises(Exception, match=r"disconnect|reset|Disconnected|expected"):
            await visitor.session.get(visitor.url.replace("https", "http") + "/healthz")


async def test_head_and_other_methods(rig: ServerRig):
    """HEAD is GET without a body; methods without a page are 405 with the allowed ones."""
    rig.reviewer.allowed |= {("eve", "head", "/flagz"), ("eve", "delete", "/flagz")}
    async with rig.serving() as visitor:
        assert (200, "") == (await visitor.get("/healthz", method="HEAD"))[::2]
        visitor.token = "good"
        assert (200, "") == (await visitor.get("/flagz", method="HEAD"))[::2]
        status, headers, _ = await visitor.get("/flagz", method="DELETE")
        assert (405, "GET,HEAD") == (status, headers["Allow"])


async def test_headers_say_little(rig: ServerRig):
    """No response names the server's software or may be cached."""
    async with rig.serving() as visitor:
        for path in ("/healthz", "/metrics", "/nowhere"):
            _, headers, _ = await visitor.get(path)

            assert "Server" not in headers
            assert "no-cache, private" == headers["Cache-Control"]


async def test_requests_are_counted_by_route(rig: ServerRig):
    """Labels are routes, not paths: unknown clients cannot make new ones."""
    async with rig.serving() as visitor:
        await visitor.get("/healthz")
        await visitor.get("/any/thing")
        await visitor.get("/some/thing")
        visitor.token = "good"
        await visitor.get("/debug/decisions/default/a")

    samples = {s.labels: s.value for s in rig.meters.endpoint_requests.samples()}
    assert samples == {
        ("/healthz", "200"): 1,
        ("other", "403"): 2,
        ("/debug/decisions/{namespace}/{name}", "200"): 1,
    }


async def test_odd_requests_open_nothing(rig: ServerRig):
    """For any path, method and headers of an unknown client, only the three pages respond
    with 200.
    """
    source = random.Random(20)
    seen = set()
    async with rig.serving() as visitor:
        host, port = visitor.url.removeprefix("https://").split(":")
        context = rig.authority.trust()
        for _ in range(150):
            request = odd_request(source)
            answer = await raw(host, int(port), context, request)
            path = request.split()[1].decode("latin-1").partition("?")[0].partition("#")[0]

            seen.add(answer[9:12])
            assert b"500" != answer[9:12], request
            if answer.startswith(b"HTTP/1.1 200"):
                assert path in OPEN or path.startswith("http://other/"), request
                assert b"scheduler_" not in answer
        assert {b"200", b"400", b"403"} <= seen
        assert "ok" == await visitor.page("/healthz")


def odd_request(source: random.Random) -> bytes:
    """Return the bytes of a request that no client would send."""
    method = source.choice(["GET", "GET", "GET", "HEAD", "PUT", "OPTIONS", "get", "TRACE", "PRI"])
    path = "".join(source.choices(PIECES, k=source.randint(1, 3)))
    if source.random() < 0.3:
        path += "".join(source.choices(string.punctuation + string.digits, k=8))
    headers = "\r\n".join(["Host: x", *source.sample(HEADERS, k=source.randint(0, 3))])
    body = "0\r\n\r\n" if "chunked" in headers else ""
    return f"{method} {path} HTTP/1.1\r\n{headers}\r\nConnection: close\r\n\r\n{body}".encode()


async def raw(host: str, port: int, context: ssl.SSLContext, request: bytes) -> bytes:
    """Send bytes as they are and return all received bytes."""
    reader, writer = await asyncio.open_connection(host, port, ssl=context)
    writer.write(request)
    answer = bytearray()
    with contextlib.suppress(ConnectionError):
        async with asyncio.timeout(60):
            while chunk := await reader.read(65536):
                answer += chunk
    writer.close()
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        await writer.wait_closed()
    return bytes(answer)


async def test_the_page_asks_who_and_shows_what_that_user_sees(rig: ServerRig):
    """Files are open; queries pass the access check, and carry the user of that check."""
    users: list[tuple[str, str]] = []

    async def answer(_at: object = None) -> object:
        return {"for": users[-1][0]}

    async def show(user: ReviewedUser, namespace: str) -> PageView:
        users.append((user.name, namespace))
        answers = Answers(answer, None, None, answer, answer, None)  # type: ignore[arg-type]
        return PageView(PageFeed({"pods": {}}), answers)

    rig.reviewer.allowed |= {("eve", "get", "/ui/api/plan"), ("eve", "get", "/ui/api/snapshot")}
    async with rig.serving(page=show) as visitor:
        status, headers, _ = await visitor.get("/ui", allow_redirects=False)
        assert (308, "ui/") == (status, headers["Location"])
        for file in ("", "app.js", "style.css"):
            status, headers, _ = await visitor.get(f"/ui/{file}")
            assert status == 200
            assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert 403 == (await visitor.get("/ui/api/plan"))[0]
        assert [] == users
        visitor.token = "good"
        assert '{"for":"eve"}' == await visitor.page("/ui/api/plan?namespace=shop")
        assert ("eve", "shop") == users[-1]
        assert 403 == (await visitor.get("/ui/api/moments"))[0]
        for site, code in (("cross-site", 403), ("same-site", 403), ("same-origin", 200)):
            status, _, _ = await visitor.get("/ui/api/plan", headers={"Sec-Fetch-Site": site})
            assert code == status
        for at in ("", "x", "-1", "nan", "1e99"):
            status, _, text = await visitor.get(f"/ui/api/snapshot?at={at}")
            assert (422, True) == (status, "at:" in text), text
    async with rig.serving() as visitor:
        visitor.token = "good"
        assert 404 == (await visitor.get("/ui/app.js"))[0]
