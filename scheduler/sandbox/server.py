"""The sandbox's API server: a store spoken to over HTTPS, as kube-apiserver would answer.

    store = new_store(RealClock())
    async with ApiServer(store) as server:
        server.kubeconfig(Path("kubeconfig"))         # for kubectl, helm, the daemon
        server.url, server.token, server.authority    # https://127.0.0.1:PORT, admin token, CA in PEM
        server.add_user(token, User("alice", ("devs",)))

It runs on the caller's loop, next to whatever else lives there; a request is answered without an await between
reading the store and writing it, so there are no locks. Always HTTPS, with a certificate authority of its own. In-process
clients use the store directly and are seen by every watcher at once.
"""

import asyncio
import logging
import random
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import msgspec
from aiohttp import web

from scheduler.sandbox import access, reading, subresources, watching, writing
from scheduler.sandbox.access import REVIEWS, Access, User
from scheduler.sandbox.certificates import make_certificates
from scheduler.sandbox.collector import Collector
from scheduler.sandbox.decoding import read_body
from scheduler.sandbox.discovery import VERSION, Discovery
from scheduler.sandbox.kinds import BINDINGS, Kinds
from scheduler.sandbox.kubeconfig import write_kubeconfig
from scheduler.sandbox.openapi import OpenApi
from scheduler.sandbox.request import Call, PathNotFoundError, not_allowed, parse
from scheduler.sandbox.start import new_token
from scheduler.sandbox.status import StatusError, failure
from scheduler.sandbox.store import Store
from scheduler.sandbox.writing import Answer

_log = logging.getLogger("trellis.sandbox")
_encode = msgspec.json.Encoder().encode
_JSON: Final = "application/json"
_OPEN_PATHS: Final = frozenset({"/healthz", "/livez", "/readyz", "/version"})
_HEALTH: Final = ("/healthz", "/livez", "/readyz")
_BOOKMARK_S: Final = 60.0
_WATCH_LIMIT_S: Final = (1800.0, 3600.0)
_BODY_LIMIT_BYTES: Final = 3 * 1024 * 1024
_ADMIN: Final = User("admin")


class ApiServer:
    """One API server; `async with` starts and stops it."""

    def __init__(
        self,
        store: Store,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        token: str = "",
        bookmark_s: float = _BOOKMARK_S,
    ) -> None:
        self.store = store
        self.token = token or new_token()
        self.access = Access()
        self.access.add(self.token, _ADMIN)
        self._host = host
        self._port = port
        self._bookmark_s = bookmark_s
        self._discovery = Discovery(store.kinds)
        self._openapi = OpenApi(store)
        names = dict.fromkeys((host, "127.0.0.1", "localhost", "kubernetes.default.svc"))
        self._certificates = make_certificates(store.clock.now(), list(names))
        self._runner: web.ServerRunner | None = None
        self._collecting: asyncio.Task[None] | None = None
        self._woken = asyncio.Event()
        self._collector = Collector(store, self._woken.set)
        self._spread = random.Random()  # noqa: S311  only spreads the ends of watches

    @property
    def kinds(self) -> Kinds:
        """What is served now."""
        return self.store.kinds

    @property
    def url(self) -> str:
        """`https://host:port`, once started."""
        return f"https://{self._host}:{self._port}"

    @property
    def authority(self) -> bytes:
        """The certificate that clients must trust, in PEM."""
        return self._certificates.authority

    def kubeconfig(self, path: Path, token: str = "") -> Path:
        """Write a kubeconfig for the admin, or for another token; writes a file, so it blocks."""
        return write_kubeconfig(path, self.url, self.authority, token or self.token)

    def add_user(self, token: str, user: User) -> None:
        """Let a further token in."""
        self.access.add(token, user)

    async def start(self) -> None:
        """Listen; port 0 picks a free one."""
        server = web.Server(self._handle, access_log=None, handler_cancellation=True)
        self._runner = web.ServerRunner(server, shutdown_timeout=0.2)
        await self._runner.setup()
        context = await asyncio.to_thread(self._certificates.context)
        site = web.TCPSite(self._runner, self._host, self._port, ssl_context=context)
        await site.start()
        self._port = self._runner.addresses[0][1]
        self._collecting = asyncio.create_task(self._collect())

    async def stop(self) -> None:
        """Close every connection, also those of watchers."""
        if self._collecting is not None:
            self._collecting.cancel()
            await asyncio.gather(self._collecting, return_exceptions=True)
        if self._runner is not None:
            await self._runner.cleanup()

    async def __aenter__(self) -> Self:
        """Start."""
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop."""
        await self.stop()

    async def _collect(self) -> None:
        while True:
            await self._woken.wait()
            self._woken.clear()
            if self._collector.step():
                self._woken.set()
            await asyncio.sleep(0)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            return await self._respond(request)
        except StatusError as fault:
            return _failed(fault)
        except PathNotFoundError:
            return web.Response(text="404 page not found\n", status=404)
        except (KeyError, TypeError, AttributeError, ValueError) as fault:
            # A malformed object that no check has caught: the client is told, the log keeps where.
            _log.exception("request_failed", extra={"path": request.path, "method": request.method})
            return _failed(failure(500, "InternalError", f"Internal error occurred: {fault!r}"))

    async def _respond(self, request: web.BaseRequest) -> web.StreamResponse:
        path, method = request.path, request.method
        headers = request.headers
        user = self.access.user_of(headers.get("Authorization", ""))
        if not path.startswith(("/api/", "/apis/")) or path.count("/") < 3:
            return self._plain(path, method, headers.get("Accept", ""), user)
        found = self._discovery.answer(path, headers.get("Accept", ""))
        if found is not None:
            if user is None:
                raise access.refused_path(path)
            return _reply(found[0], content_type=found[1])
        call = parse(self.kinds, method, path, request.query_string)
        if user is None:
            raise access.refused(call)
        call.accept = headers.get("Accept", "")
        call.content_type = headers.get("Content-Type", "")
        if method == "GET":
            if call.is_watch and not call.subresource:
                return await self._watch(request, call)
            return _reply(self._read(call))
        if request.can_read_body:
            call.body = await request.read()
            if len(call.body) > _BODY_LIMIT_BYTES:
                raise _too_large()
        return _answered(self._write(call, user))

    def _plain(self, path: str, method: str, accept: str, user: User | None) -> web.Response:
        if method != "GET":
            raise not_allowed()
        if path.startswith(_HEALTH):
            return web.Response(text="ok")
        if path == "/version":
            return _reply(_encode(VERSION))
        if user is None:
            raise access.refused_path(path)
        found = self._discovery.answer(path, accept)
        if found is not None:
            return _reply(found[0], content_type=found[1])
        if path.startswith("/openapi/"):
            body = self._openapi.answer(path)
            if body is not None:
                return _reply(body)
        raise PathNotFoundError

    def _read(self, call: Call) -> bytes:
        if call.subresource and call.subresource != "status":
            return subresources.handle(self.store, call).body
        if call.name:
            return reading.get(self.store, call)
        if "list" not in call.resource.verbs:
            raise not_allowed()
        return reading.list_objects(self.store, call)

    def _write(self, call: Call, user: User) -> Answer:
        store, method = self.store, call.method
        if call.subresource and call.subresource != "status":
            return subresources.handle(store, call)
        if method == "POST" and not call.name:
            if call.resource.storage in REVIEWS:
                body = read_body(call.body, call.content_type)
                return Answer(201, _encode(self.access.review(call.resource, body, user)))
            if call.resource is BINDINGS:
                return subresources.bind_by_collection(store, call)
            return writing.create(store, call)
        if method == "PUT" and call.name:
            return writing.update(store, call)
        if method == "PATCH" and call.name:
            return writing.patch(store, call)
        if method == "DELETE":
            if call.name:
                return writing.delete(store, call)
            if "deletecollection" in call.resource.verbs:
                return writing.delete_collection(store, call)
        raise not_allowed()

    async def _watch(self, request: web.BaseRequest, call: Call) -> web.StreamResponse:
        loop = asyncio.get_running_loop()
        woken = asyncio.Event()
        stream = watching.Stream(self.store, call, woken.set)
        limit_s = call.number("timeoutSeconds") or self._spread.uniform(*_WATCH_LIMIT_S)
        response = web.StreamResponse(headers={"Content-Type": _JSON, "Cache-Control": "no-cache"})
        response.enable_chunked_encoding()
        try:
            await response.prepare(request)
            end = loop.time() + limit_s
            await _send(response, stream.first())
            next_mark = loop.time() + self._bookmark_s
            while not stream.ended:
                now = loop.time()
                if now >= end:
                    break
                await _wait(woken, min(end, next_mark if stream.wants_bookmarks else end) - now)
                woken.clear()
                await _send(response, stream.next())
                if stream.wants_bookmarks and loop.time() >= next_mark:
                    await _send(response, stream.bookmark())
                    next_mark = loop.time() + self._bookmark_s
            await response.write_eof()
        except ConnectionError:
            pass  # the watcher went away; nothing is owed to it
        finally:
            stream.close()
        return response


async def _wait(woken: asyncio.Event, limit_s: float) -> None:
    if woken.is_set():
        return
    handle = asyncio.get_running_loop().call_later(max(limit_s, 0.0), woken.set)
    try:
        await woken.wait()
    finally:
        handle.cancel()


async def _send(response: web.StreamResponse, data: bytes) -> None:
    if data:
        await response.write(data)


def _reply(body: bytes, code: int = 200, content_type: str = _JSON) -> web.Response:
    return web.Response(
        body=body,
        status=code,
        headers={"Content-Type": content_type, "Cache-Control": "no-cache, private"},
    )


def _answered(answer: Answer) -> web.Response:
    response = _reply(answer.body, answer.code)
    for warning in answer.warnings:
        escaped = warning.replace("\\", "\\\\").replace('"', '\\"')
        response.headers.add("Warning", f'299 - "{escaped}"')
    return response


def _failed(fault: StatusError) -> web.Response:
    response = _reply(_encode(fault.status), fault.code)
    seconds = (fault.status.get("details") or {}).get("retryAfterSeconds")
    if seconds:
        response.headers["Retry-After"] = str(seconds)
    return response


def _too_large() -> StatusError:
    return failure(
        413,
        "RequestEntityTooLarge",
        f"Request entity too large: limit is {_BODY_LIMIT_BYTES}",
        {},
    )
