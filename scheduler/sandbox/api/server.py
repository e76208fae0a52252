"""The sandbox's API server: a store served over HTTPS, with kube-apiserver's responses.

    store = new_store(RealClock())
    async with ApiServer(store) as server:
        server.kubeconfig(Path("kubeconfig"))         # for kubectl, helm, the daemon
        server.url, server.token, server.authority    # https://127.0.0.1:PORT, admin token, PEM
        server.access.add(token, User("alice", ("devs",)))

It runs on the caller's loop, beside other tasks; a request is answered without an await between
reading the store and writing it, so there are no locks. Always HTTPS, with a certificate authority
of its own. In-process clients use the store directly, and every watcher receives their writes at
once.
"""

import asyncio
import logging
import random
from pathlib import Path
from typing import Final, Self

import msgspec

from scheduler.sandbox.access import access
from scheduler.sandbox.access.access import REVIEWS, AccessControl, KnownUser, new_token
from scheduler.sandbox.access.certificates import Certificates, make_certificates
from scheduler.sandbox.access.kubeconfig import write_kubeconfig
from scheduler.sandbox.api import reading, subresources, writing
from scheduler.sandbox.api.decoding import read_body
from scheduler.sandbox.api.http import HttpConnection, HttpRequest, HttpServer, answer
from scheduler.sandbox.api.request import PathNotFoundError, ResourceRequest, not_allowed, parse
from scheduler.sandbox.api.schema.discovery import Discovery, version
from scheduler.sandbox.api.schema.openapi import OpenApi
from scheduler.sandbox.api.status import StatusError, failure
from scheduler.sandbox.api.watching import WatchStream
from scheduler.sandbox.api.writing import ApiAnswer
from scheduler.sandbox.controllers.collector import Collector
from scheduler.sandbox.kinds.kinds import BINDINGS, RESOURCECLAIMS, Kinds
from scheduler.sandbox.store.store import ObjectStore

_log = logging.getLogger("trellis.sandbox")
_encode = msgspec.json.Encoder().encode
_HEALTH: Final = ("/healthz", "/livez", "/readyz")
_BOOKMARK_S: Final = 60.0
_BODY_LIMIT_BYTES: Final = 3 * 1024 * 1024
_ADMIN: Final = KnownUser("admin")
_LIMIT_S: Final = (1800.0, 3600.0)
# Spreads the ends of long watches, so that clients do not reconnect all at once.
_spread: Final = random.Random()  # noqa: S311


class ApiServer:
    """One API server; `async with` starts and stops it."""

    def __init__(
        self,
        store: ObjectStore,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        token: str = "",
        certificates: Certificates | None = None,
        bookmark_s: float = _BOOKMARK_S,
    ) -> None:
        self.store = store
        self.token = token or new_token()
        self.access = AccessControl(store)
        self.access.add(self.token, _ADMIN)
        self._host = host
        self._port = port
        self._bookmark_s = bookmark_s
        self._discovery = Discovery(store.kinds)
        self._openapi = OpenApi(store)
        names = dict.fromkeys((host, "127.0.0.1", "localhost", "kubernetes.default.svc"))
        self._certificates = certificates or make_certificates(store.clock.now(), list(names))
        self._http = HttpServer(self._handle, body_limit_bytes=_BODY_LIMIT_BYTES)
        self._collecting: asyncio.Task[None] | None = None
        self._woken = asyncio.Event()
        self._collector = Collector(store, self._woken.set)

    @property
    def kinds(self) -> Kinds:
        """Return the served kinds."""
        return self.store.kinds

    @property
    def url(self) -> str:
        """`https://host:port`, once started."""
        return f"https://{self._host}:{self._port}"

    @property
    def authority(self) -> bytes:
        """Return the certificate that clients must trust, in PEM."""
        return self._certificates.authority

    def kubeconfig(self, path: Path, token: str = "") -> Path:
        """Write a kubeconfig for the admin, or for another token; writes a file, so it blocks."""
        return write_kubeconfig(path, self.url, self.authority, token or self.token)

    async def start(self) -> None:
        """Listen; port 0 picks a free one."""
        context = await asyncio.to_thread(self._certificates.context)
        self._port = await self._http.start(self._host, self._port, context)
        self._collecting = asyncio.create_task(self._collect())

    async def stop(self) -> None:
        """Close every connection, including watches."""
        if self._collecting is not None:
            self._collecting.cancel()
            await asyncio.gather(self._collecting, return_exceptions=True)
        await self._http.stop()

    async def __aenter__(self) -> Self:
        """Start."""
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop."""
        await self.stop()

    async def _collect(self) -> None:
        while True:
            await self._woken.wait()
            self._woken.clear()
            if self._collector.step():
                self._woken.set()
            await asyncio.sleep(0)

    def _handle(self, request: HttpRequest, connection: HttpConnection) -> bytes | None:
        """Answer one request; return None if it has become a watch."""
        try:
            return self._respond(request, connection)
        except StatusError as fault:
            return _failed(fault)
        except PathNotFoundError:
            return answer(404, b"404 page not found\n", "text/plain; charset=utf-8")
        except (KeyError, TypeError, AttributeError, ValueError) as fault:
            # A malformed object that no check has caught: the client gets an error, the log has the
            # location.
            _log.exception("request_failed", extra={"path": request.path, "method": request.method})
            return _failed(failure(500, "InternalError", f"Internal error occurred: {fault!r}"))

    def _respond(self, request: HttpRequest, connection: HttpConnection) -> bytes | None:
        path, method, headers = request.path, request.method, request.headers
        user = self.access.user_of(headers)
        accept = headers.get("accept", "")
        if not path.startswith(("/api/", "/apis/")) or path.count("/") < 3:
            return self._plain(path, method, accept, user)
        found = self._discovery.answer(path, accept) if method == "GET" else None
        if found is not None:
            if user is None:
                raise access.refused_path(path)
            return answer(200, found[0], found[1])
        call = parse(self.kinds, method, path, request.query)
        user = self.access.check(user, call)
        if call.resource is RESOURCECLAIMS and call.subresource == "status":
            call.may_not_bind = self.access.binding_refusal(user, call)
        call.accept = accept
        if method == "GET":
            if call.is_watch and not call.subresource:
                Watcher(self.store, call, connection, self._bookmark_s).start()
                return None
            return answer(200, self._read(call))
        call.content_type = headers.get("content-type", "")
        call.agent = headers.get("user-agent", "")
        call.body = request.body
        return _answered(self._write(call, user))

    def _plain(self, path: str, method: str, accept: str, user: KnownUser | None) -> bytes:
        if method != "GET":
            raise not_allowed()
        if path.startswith(_HEALTH):
            return answer(200, b"ok", "text/plain; charset=utf-8")
        if path == "/version":
            return answer(200, _encode(version(self.store.kinds.release)))
        if user is None:
            raise access.refused_path(path)
        found = self._discovery.answer(path, accept)
        if found is not None:
            return answer(200, found[0], found[1])
        if path.startswith("/openapi/"):
            document = self._openapi.answer(path, accept)
            if document is not None:
                return answer(200, document[0], document[1])
        raise PathNotFoundError

    def _read(self, call: ResourceRequest) -> bytes:
        if call.subresource and call.subresource != "status":
            return subresources.handle(self.store, call).body
        if call.name:
            return reading.get(self.store, call)
        if "list" not in call.resource.verbs:
            raise not_allowed()
        return reading.list_objects(self.store, call)

    def _write(self, call: ResourceRequest, user: KnownUser) -> ApiAnswer:
        store, method = self.store, call.method
        if call.subresource == "token" and method == "POST":
            return subresources.issue_token(store, self.access, call)
        if call.subresource and call.subresource != "status":
            return subresources.handle(store, call)
        if method == "POST" and not call.name:
            if call.resource.storage in REVIEWS:
                body = read_body(call.body, call.content_type)
                return ApiAnswer(201, _encode(self.access.review(call.resource, body, user)))
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


def _answered(result: ApiAnswer) -> bytes:
    if not result.warnings:
        return answer(result.code, result.body)
    warnings = ", ".join(f'299 - "{_escaped(text)}"' for text in result.warnings)
    return answer(result.code, result.body, headers={"Warning": warnings})


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _failed(fault: StatusError) -> bytes:
    seconds = (fault.status.get("details") or {}).get("retryAfterSeconds")
    headers = {"Retry-After": str(seconds)} if seconds else None
    return answer(fault.code, _encode(fault.status), headers=headers)


class Watcher:
    """Send one watch over its connection: when to send, bookmarks, the time limit.

    A change wakes the watcher once; it sends in the loop's next turn, so that all writes of this
    turn are sent together. While a client reads too slowly nothing is sent, and one that falls
    behind the stored history gets a 410 in its stream.
    """

    def __init__(
        self,
        store: ObjectStore,
        call: ResourceRequest,
        connection: HttpConnection,
        bookmark_s: float,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._connection = connection
        self._bookmark_s = bookmark_s
        self._limit_s = call.number("timeoutSeconds") or _spread.uniform(*_LIMIT_S)
        self._stream = WatchStream(store, call, self._wake)
        self._is_woken = False
        self._is_over = False
        self._timers: list[asyncio.TimerHandle] = []

    def start(self) -> None:
        """Send the initial objects and follow the changes."""
        connection = self._connection
        connection.on_lost = self._release
        connection.on_writable = self._wake
        connection.begin_stream()
        connection.send_chunk(self._stream.first())
        if self._stream.ended:
            self._end()
            return
        self._timers = [self._loop.call_later(self._limit_s, self._end)]
        if self._stream.wants_bookmarks:
            self._timers.append(self._loop.call_later(self._bookmark_s, self._mark))

    def _wake(self) -> None:
        if not self._is_woken:
            self._is_woken = True
            self._loop.call_soon(self._send)

    def _send(self) -> None:
        self._is_woken = False
        if self._is_over or self._connection.is_paused:
            return
        self._connection.send_chunk(self._stream.next())
        if self._stream.ended:
            self._end()

    def _mark(self) -> None:
        if not self._connection.is_paused:
            self._connection.send_chunk(self._stream.next() + self._stream.bookmark())
        self._timers[1] = self._loop.call_later(self._bookmark_s, self._mark)

    def _end(self) -> None:
        if not self._is_over:
            self._release()
            self._connection.end_stream()

    def _release(self) -> None:
        self._is_over = True
        for timer in self._timers:
            timer.cancel()
        self._stream.close()
