"""The page: its files, its live events and its questions, for one user on the loopback interface.

`trellis ui` and the demo make a `Page`; it answers nobody else: only requests to its own address (a
foreign page that resolves a name to us is refused), and data only to who knows the key in the fragment
of the printed address, which browsers send nowhere. What can be seen is decided by who fills the feed.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
from collections.abc import Awaitable, Callable
from importlib.resources import files
from typing import NamedTuple

import msgspec
import structlog
from aiohttp import web
from aiohttp.typedefs import Handler

from scheduler.base.errors import InputError, TrellisError
from scheduler.serve.answers import LARGEST_PAGE_BYTES, status_page
from scheduler.serve.feed import Feed

LARGEST_MANIFEST_BYTES = 1 << 20
MOST_READERS = 16
BEAT_S = 15.0

_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}

_log = structlog.get_logger()


class Change(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to try: objects to add or to put in place of those of their name, a configuration."""

    manifests: str = ""
    config: str = ""


class Answers(NamedTuple):
    """What the page may ask; each returns a record for JSON and raises TrellisError with a reason."""

    plan: Callable[[], Awaitable[object]]
    explain: Callable[[str], Awaitable[object]]
    change: Callable[[Change], Awaitable[object]]


class Page:
    """The server of the page."""

    def __init__(self, feed: Feed, answers: Answers) -> None:
        self._feed = feed
        self._answers = answers
        self._key = secrets.token_urlsafe(24)
        self._hosts: frozenset[str] = frozenset()
        self._files: dict[str, bytes] = {}
        self._stopping = asyncio.Event()
        app = web.Application(middlewares=[self._door], client_max_size=2 * LARGEST_MANIFEST_BYTES)
        app.on_response_prepare.append(_add_headers)
        app.add_routes(
            [
                web.get("/api/events", self._events),
                web.get("/api/plan", self._plan),
                web.get("/api/explain", self._explain),
                web.post("/api/whatif", self._whatif),
                web.get("/{name:[a-z]*(?:\\.[a-z]+)?}", self._file),
            ]
        )
        self._runner = web.AppRunner(
            app,
            access_log=None,
            logger=logging.Logger("page", logging.CRITICAL),  # noqa: LOG001 - as in app.py
            handle_signals=False,
            shutdown_timeout=1.0,
        )

    async def start(self, port: int = 0) -> str:
        """Listen on 127.0.0.1 (port 0: any free one) and return the address with its key."""
        self._files = await asyncio.to_thread(_page_files)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", port)
        try:
            await site.start()
        except OSError as error:
            await self._runner.cleanup()
            where = f"127.0.0.1:{port}"
            raise InputError(f"cannot listen: {error.strerror or error}", where=where) from error
        taken = self._runner.addresses[0][1]
        self._hosts = frozenset({f"127.0.0.1:{taken}", f"localhost:{taken}"})
        return f"http://127.0.0.1:{taken}/#key={self._key}"

    async def stop(self) -> None:
        """End all streams and close the listener."""
        self._stopping.set()
        await self._runner.cleanup()

    @web.middleware
    async def _door(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.headers.get("Host", "") not in self._hosts:
            return status_page(
                421, "MisdirectedRequest", "this page is served under its own address"
            )
        if request.path.startswith("/api/"):
            _, _, key = request.headers.get("Authorization", "").partition(" ")
            if not hmac.compare_digest(key.encode(errors="replace"), self._key.encode()):
                return status_page(401, "Unauthorized", "open the address that was printed")
        try:
            return await handler(request)
        except web.HTTPException as error:
            return status_page(error.status, error.reason, error.reason)
        except TrellisError as error:
            return status_page(422, "Invalid", str(error))
        except Exception as error:  # noqa: BLE001 - a fault of one answer ends no page
            _log.error("an answer to the page failed", exc_info=error)
            return status_page(500, "InternalError", "the answer failed; see the log")

    async def _file(self, request: web.Request) -> web.Response:
        name = request.match_info["name"] or "index.html"
        body = self._files.get(name)
        if body is None:
            raise web.HTTPNotFound
        kind = _TYPES[name.rpartition(".")[2]]
        return web.Response(body=body, content_type=kind, charset="utf-8")

    async def _events(self, request: web.Request) -> web.StreamResponse:
        if self._feed.readers >= MOST_READERS:
            message = f"{MOST_READERS} pages are open already"
            return status_page(429, "TooManyRequests", message, {"Retry-After": "5"})
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            with self._feed.reader() as reader:
                while not stopping.done():
                    news = asyncio.create_task(reader.next())
                    done, _ = await asyncio.wait(
                        {news, stopping}, timeout=BEAT_S, return_when=asyncio.FIRST_COMPLETED
                    )
                    if news not in done:
                        news.cancel()
                        await asyncio.wait({news})
                    # A comment keeps the connection, and finds out when the reader has gone.
                    await response.write(news.result() if news in done else b": here\n\n")
        except ConnectionError:
            pass  # the reader has gone
        finally:
            stopping.cancel()
            await asyncio.wait({stopping})
        return response

    async def _plan(self, _request: web.Request) -> web.Response:
        return _json(await self._answers.plan())

    async def _explain(self, request: web.Request) -> web.Response:
        return _json(await self._answers.explain(request.query.get("pod", "")))

    async def _whatif(self, request: web.Request) -> web.Response:
        try:
            change = msgspec.json.decode(await request.read(), type=Change)
        except msgspec.DecodeError as error:
            raise InputError(str(error), where="the request") from error
        if len(change.manifests) + len(change.config) > LARGEST_MANIFEST_BYTES:
            raise InputError(f"more than {LARGEST_MANIFEST_BYTES} bytes", where="the request")
        return _json(await self._answers.change(change))


def _json(record: object) -> web.Response:
    body = msgspec.json.encode(record)
    if len(body) > LARGEST_PAGE_BYTES:
        raise InputError(f"the answer has {len(body)} bytes; the most is {LARGEST_PAGE_BYTES}")
    return web.Response(body=body, content_type="application/json")


def _page_files() -> dict[str, bytes]:
    """Return the files of the page by name; they are few and small."""
    folder = files("scheduler.serve") / "page"
    return {one.name: one.read_bytes() for one in folder.iterdir() if one.is_file()}


async def _add_headers(_request: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(_HEADERS)
