"""The routes of the page: files, live events and questions.

`ui.py` (a page for one user on loopback) and `app.py` (the daemon's `/ui`) mount these routes; each
passes an `Entry` that returns the objects which the caller of a request may see. Times (`at`) are
seconds since the epoch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from importlib.resources import files
from typing import Any, NamedTuple

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler

from scheduler.base.errors import InputError, TrellisError
from scheduler.serve.answers import LARGEST_PAGE_BYTES, status_page
from scheduler.serve.feed import PageFeed

LARGEST_MANIFEST_BYTES = 1 << 20
LARGEST_QUESTION_BYTES = 2 * LARGEST_MANIFEST_BYTES
MOST_READERS = 16
BEAT_S = 15.0

_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class TrialChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A change to try: objects to add or replace, a configuration, and nodes.

    `added` are COUNT=NODE, `removed` nodes, `racks` are removed with their nodes, `drained` are
    LABEL=VALUE.
    """

    manifests: str = ""
    config: str = ""
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    racks: tuple[str, ...] = ()
    drained: tuple[str, ...] = ()


class Answers(NamedTuple):
    """The answers to the page's questions: JSON records, or TrellisError with a reason.

    `at` is a time in the past, None for now. `moments` lists the times of stored decisions,
    `snapshot` is the document at such a time.
    """

    plan: Callable[[float | None], Awaitable[object]]
    explain: Callable[[str, float | None], Awaitable[object]]
    change: Callable[[TrialChange, float | None], Awaitable[object]]
    moments: Callable[[], Awaitable[object]]
    snapshot: Callable[[float], Awaitable[object]]
    node: Callable[[str, float | None], Awaitable[object]]


class PageView(NamedTuple):
    """The objects that one caller may see. `expires` ends streams, so that revoked rights apply to
    them.
    """

    feed: PageFeed
    answers: Answers
    expires: Callable[[], Awaitable[None]] | None = None


# Returns the objects that the caller of a request may see; raises web.HTTPException for a caller
# without access.
Entry = Callable[[web.Request], Awaitable[PageView]]


class PageRoutes:
    """The handlers of one page; `stop` ends its streams."""

    def __init__(self, entry: Entry) -> None:
        self._entry = entry
        self._files: dict[str, bytes] = {}
        self._readers = 0
        self._stopping = asyncio.Event()

    def routes(self, prefix: str = "") -> list[web.RouteDef]:
        """Return the routes below `prefix`."""
        return [
            web.get(f"{prefix}/api/events", _with_faults(self._events)),
            web.get(f"{prefix}/api/plan", _with_faults(self._plan)),
            web.get(f"{prefix}/api/explain", _with_faults(self._explain)),
            web.get(f"{prefix}/api/node", _with_faults(self._node)),
            web.post(f"{prefix}/api/whatif", _with_faults(self._whatif)),
            web.get(f"{prefix}/api/moments", _with_faults(self._moments)),
            web.get(f"{prefix}/api/snapshot", _with_faults(self._snapshot)),
            web.get(prefix + "/{name:[a-z]*(?:\\.[a-z]+)?}", self._file),
        ]

    async def load(self) -> None:
        """Read the page's files, once."""
        self._files = self._files or await asyncio.to_thread(page_files)

    def stop(self) -> None:
        """End all streams."""
        self._stopping.set()

    async def _file(self, request: web.Request) -> web.Response:
        await self.load()
        name = request.match_info["name"] or "index.html"
        body = self._files.get(name)
        if body is None:
            raise web.HTTPNotFound
        kind = _TYPES[name.rpartition(".")[2]]
        return web.Response(body=body, content_type=kind, charset="utf-8", headers=HEADERS)

    async def _events(self, request: web.Request) -> web.StreamResponse:
        shown = await self._entry(request)
        if self._readers >= MOST_READERS:
            message = f"{MOST_READERS} pages are open already"
            return status_page(429, "TooManyRequests", message, {"Retry-After": "5"})
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", **HEADERS})
        ending: list[asyncio.Future[Any]] = [asyncio.create_task(self._stopping.wait())]
        if shown.expires is not None:
            ending.append(asyncio.ensure_future(shown.expires()))
        self._readers += 1
        try:
            await response.prepare(request)
            await _hand_on(shown.feed, response, ending)
        except ConnectionError:
            pass  # the reader has disconnected
        finally:
            self._readers -= 1
            for task in ending:
                task.cancel()
            await asyncio.wait(ending)
        return response

    async def _plan(self, request: web.Request) -> web.Response:
        shown = await self._entry(request)
        return _json(await shown.answers.plan(_moment(request)))

    async def _explain(self, request: web.Request) -> web.Response:
        shown = await self._entry(request)
        pod = request.query.get("pod", "")
        return _json(await shown.answers.explain(pod, _moment(request)))

    async def _node(self, request: web.Request) -> web.Response:
        shown = await self._entry(request)
        name = request.query.get("name", "")
        return _json(await shown.answers.node(name, _moment(request)))

    async def _whatif(self, request: web.Request) -> web.Response:
        shown = await self._entry(request)
        body = await request.clone(client_max_size=LARGEST_QUESTION_BYTES).read()
        try:
            change = msgspec.json.decode(body, type=TrialChange)
        except msgspec.DecodeError as error:
            raise InputError(str(error), where="the request") from error
        if len(change.manifests) + len(change.config) > LARGEST_MANIFEST_BYTES:
            raise InputError(f"more than {LARGEST_MANIFEST_BYTES} bytes", where="the request")
        return _json(await shown.answers.change(change, _moment(request)))

    async def _moments(self, request: web.Request) -> web.Response:
        shown = await self._entry(request)
        return _json(await shown.answers.moments())

    async def _snapshot(self, request: web.Request) -> web.Response:
        shown = await self._entry(request)
        at = _moment(request)
        if at is None:
            raise InputError("name a moment", where="at")
        return _json(await shown.answers.snapshot(at))


def _with_faults(handler: Handler) -> Handler:
    """Return the handler with its errors turned into a 422 response with their message."""

    async def answer(request: web.Request) -> web.StreamResponse:
        try:
            return await handler(request)
        except TrellisError as error:
            return status_page(422, "Invalid", str(error))

    return answer


async def _hand_on(
    feed: PageFeed, response: web.StreamResponse, ending: list[asyncio.Future[Any]]
) -> None:
    """Write the messages of a stream until one of `ending` is done."""
    with feed.reader() as reader:
        while not any(task.done() for task in ending):
            event = asyncio.create_task(reader.next())
            done, _ = await asyncio.wait(
                {event, *ending}, timeout=BEAT_S, return_when=asyncio.FIRST_COMPLETED
            )
            if event not in done:
                event.cancel()
                await asyncio.wait({event})
            # A comment keeps the connection open, and detects a disconnected reader.
            await response.write(event.result() if event in done else b": here\n\n")


def _moment(request: web.Request) -> float | None:
    text = request.query.get("at", "")
    if not text:
        return None
    try:
        at = float(text)
    except ValueError:
        at = -1.0
    if not 0.0 <= at < 1e11:
        raise InputError("is no time in seconds since the epoch", where="at")
    return at


def _json(record: object) -> web.Response:
    # Another process has written some answers already.
    body = record if isinstance(record, bytes) else msgspec.json.encode(record)
    if len(body) > LARGEST_PAGE_BYTES:
        raise InputError(f"the answer has {len(body)} bytes; the most is {LARGEST_PAGE_BYTES}")
    return web.Response(body=body, content_type="application/json", headers=HEADERS)


def page_files() -> dict[str, bytes]:
    """Return the files of the page by name; they are few and small."""
    folder = files("scheduler.serve") / "page"
    return {one.name: one.read_bytes() for one in folder.iterdir() if one.is_file()}
