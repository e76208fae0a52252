"""`ApiClient`: requests to one API server over the network.

It adds credentials, counts, limits the rate if so configured, and turns every outcome into a
`Response`. Small requests and list pages go over `wire.py`; watches, and everything when a proxy is
in between, go over aiohttp. It never retries, except once with new credentials after a 401.
"""

import asyncio
import email.utils
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from scheduler.base.clock import Clock, perf_s
from scheduler.base.meters import Meters
from scheduler.kube.api import JSON, PROTOBUF, REQUEST_TIMEOUT_S, Response, ResponseStream, failure
from scheduler.kube.connection.access import Access
from scheduler.kube.connection.credentials import Credentials
from scheduler.kube.connection.http1 import header
from scheduler.kube.connection.limits import RateLimit
from scheduler.kube.connection.wire import NotSentError, Wire

CONNECTIONS = 256
CONNECT_TIMEOUT_S = 10.0
# The size of one read of a watch: small enough to decode within a few milliseconds.
READ_BYTES = 128 * 1024

Guard = Callable[[], None]


class _Request(NamedTuple):
    """The arguments of `ApiClient.request`."""

    method: str
    path: str
    body: bytes
    content_type: str
    timeout_s: float
    guard: Guard | None


class ApiClient:
    """A client of one API server; make it with `connect`, end it with `close`."""

    def __init__(
        self,
        credentials: Credentials,
        *,
        clock: Clock,
        meters: Meters,
        user_agent: str = "trellis",
        rate_limit: RateLimit | None = None,
        connections: int = CONNECTIONS,
    ) -> None:
        self._credentials = credentials
        self._clock = clock
        self._rate_limit = rate_limit
        self._refreshing: asyncio.Task[bool] | None = None
        self._user_agent = user_agent
        access = credentials.access
        parts = urlsplit(access.server)
        self.server = access.server
        # A server may live below a path (a proxy in front of several clusters).
        self._base_path = parts.path.rstrip("/")
        default_port = 443 if parts.scheme == "https" else 80
        self._host = parts.netloc.rpartition("@")[2]
        self._wire = Wire(
            parts.hostname or "",
            parts.port or default_port,
            tls=access.tls,
            server_hostname=access.server_hostname or parts.hostname,
            limit=connections,
        )
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=60),
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=READ_BYTES,
        )
        self._requests = meters.rest_client_requests
        self._durations = meters.rest_client_request_duration
        self._fixed_head = ""
        self._set_access(access)

    @classmethod
    async def connect(
        cls,
        kubeconfig: str = "",
        context: str = "",
        *,
        clock: Clock,
        meters: Meters,
        user_agent: str = "trellis",
        qps: float = 0.0,
        burst: int = 0,
    ) -> "ApiClient":
        """Read the credentials and return a client; raise ConfigError. `qps` 0 means no limit."""
        credentials = await Credentials.load(clock, kubeconfig, context)
        limit = RateLimit(clock, qps, max(burst, 1)) if qps > 0 else None
        return cls(credentials, clock=clock, meters=meters, user_agent=user_agent, rate_limit=limit)

    @property
    def credentials(self) -> Credentials:
        """Return the credentials in use, for other clients of the same server."""
        return self._credentials

    @property
    def namespace(self) -> str:
        """Return the namespace of the kubeconfig's context, or of the pod that this process runs
        in.
        """
        return self._credentials.access.namespace

    async def close(self) -> None:
        """Close all connections; requests in progress end with code 0."""
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.gather(self._refreshing, return_exceptions=True)
        await self._credentials.close()
        self._wire.close()
        await self._wire.wait_closed()
        await self._session.close()
        await asyncio.sleep(0)  # in which the loop closes abandoned watches

    async def request(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        content_type: str = JSON,
        timeout_s: float = REQUEST_TIMEOUT_S,
        guard: Guard | None = None,
    ) -> Response:
        """Send one request and return its outcome; `path` begins with `/` and is percent-encoded.

        `guard` may raise to prevent the request; it is called once a connection is available.
        """
        if not path.isascii() or " " in path or not path.isprintable():
            raise ValueError(f"not a percent-encoded path: {path!r}")
        if self._rate_limit is not None:
            await self._rate_limit.wait()
        if self._credentials.is_due:
            self._refresh_soon()
        request = _Request(method, path, body, content_type, timeout_s, guard)
        response = await self._send(request)
        if response.code == 401 and await self._refresh(force=True):
            return await self._send(request)
        return response

    @asynccontextmanager
    async def stream(self, path: str, *, silence_s: float) -> AsyncGenerator[ResponseStream, None]:
        """Open a streamed response; reading it raises TimeoutError after `silence_s` without a
        byte.
        """
        if self._credentials.is_due:
            self._refresh_soon()
        access = self._credentials.access
        try:
            opened = await self._open(access, path, silence_s)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            self._count("GET", 0)
            yield _Stream(Response(0, reason="ConnectionFailed", message=_words(error)), None)
            return
        try:
            self._count("GET", opened.status)
            yield await _stream(opened)
        finally:
            _give_up(opened)
        if opened.status == 401:
            await self._refresh(force=True)

    async def _send(self, request: _Request) -> Response:
        started = perf_s()
        try:
            if self._credentials.access.proxy is None:
                response = await self._over_wire(request)
            else:
                if request.guard is not None:
                    request.guard()
                response = await self._over_session(request)
        except NotSentError as error:
            response = Response(0, reason="NotSent", message=str(error), was_sent=False)
        except TimeoutError:
            response = Response(
                0, reason="Timeout", message=f"no answer in {request.timeout_s:g} s"
            )
        except (OSError, aiohttp.ClientError) as error:
            response = Response(0, reason="ConnectionFailed", message=_words(error))
        self._count(request.method, response.code)
        self._durations.labels(request.method, self._host).observe(perf_s() - started)
        return response

    async def _over_wire(self, request: _Request) -> Response:
        method, path, body, content_type, timeout_s, guard = request
        if body:
            entity = f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
        else:
            entity = "\r\n" if method == "GET" else "Content-Length: 0\r\n\r\n"
        fixed = self._fixed_head
        if method == "GET" and content_type == PROTOBUF:
            fixed = fixed.replace(f"Accept: {JSON}", f"Accept: {PROTOBUF}", 1)
        head = f"{method} {self._base_path}{path} HTTP/1.1\r\n{fixed}{entity}"
        answer = await self._wire.exchange(head.encode("latin-1") + body, timeout_s, guard)
        if 200 <= answer.code < 300:
            return Response(answer.code, answer.body)
        after = header(answer.head, b"retry-after")
        return failure(answer.code, answer.body, self._delay(after.decode() if after else None))

    async def _over_session(self, request: _Request) -> Response:
        method, path, body, content_type, timeout_s, _ = request
        access = self._credentials.access
        headers = self._headers(access)
        if method == "GET" and content_type == PROTOBUF:
            headers["Accept"] = PROTOBUF
        if body:
            headers["Content-Type"] = content_type
        limits = aiohttp.ClientTimeout(total=timeout_s, sock_connect=CONNECT_TIMEOUT_S)
        try:
            async with self._session.request(
                method,
                self._url(path),
                data=body or None,
                headers=headers,
                ssl=access.tls if access.tls is not None else True,
                server_hostname=access.server_hostname,
                proxy=access.proxy,
                timeout=limits,
                allow_redirects=False,
            ) as opened:
                content = await opened.read()
                if opened.ok:
                    return Response(opened.status, content)
                after = self._delay(opened.headers.get("Retry-After"))
                return failure(opened.status, content, after)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise NotSentError(_words(error)) from error

    async def _open(self, access: Access, path: str, silence_s: float) -> aiohttp.ClientResponse:
        return await self._session.get(
            self._url(path),
            headers=self._headers(access),
            ssl=access.tls if access.tls is not None else True,
            server_hostname=access.server_hostname,
            proxy=access.proxy,
            timeout=aiohttp.ClientTimeout(
                total=None, sock_connect=CONNECT_TIMEOUT_S, sock_read=silence_s
            ),
            allow_redirects=False,
        )

    def _url(self, path: str) -> URL:
        return URL(self.server + path, encoded=True)

    def _headers(self, access: Access) -> dict[str, str]:
        headers = {"Accept": JSON, "Accept-Encoding": "identity", "User-Agent": self._user_agent}
        if access.authorization:
            headers["Authorization"] = access.authorization
        return headers

    def _set_access(self, access: Access) -> None:
        self._in_use = access
        headers = {"Host": self._host, **self._headers(access)}
        self._fixed_head = "".join(f"{k}: {v}\r\n" for k, v in headers.items())
        if access.tls is not self._wire.tls:
            self._wire.retire(access.tls)

    def _refresh_soon(self) -> None:
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.create_task(self._refresh(force=False))

    async def _refresh(self, *, force: bool) -> bool:
        """Reload the credentials; return whether they differ from those in use."""
        await self._credentials.refresh(force=force)
        # Not the result of `refresh`: another client with the same credentials may have refreshed
        # them.
        before, now = self._in_use, self._credentials.access
        self._set_access(now)
        return now.authorization != before.authorization or now.tls is not before.tls

    def _delay(self, text: str | None) -> float | None:
        """Read a Retry-After header: seconds, or a date."""
        if not text:
            return None
        if text.isdigit():
            return float(text)
        try:
            return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - self._clock.now())
        except ValueError:
            return None

    def _count(self, method: str, code: int) -> None:
        self._requests.labels(str(code) if code else "<error>", method, self._host).inc()


class _Stream:
    """A streamed response of aiohttp, or the failure to open it."""

    def __init__(self, head: Response, opened: aiohttp.ClientResponse | None) -> None:
        self.head = head
        self._opened = opened

    async def read(self) -> bytes:
        """Return the next bytes, empty at the end; raise ConnectionError or TimeoutError."""
        if self._opened is None:
            return b""
        try:
            return await self._opened.content.readany()
        except TimeoutError:
            raise
        except (aiohttp.ClientError, OSError) as error:
            raise ConnectionResetError(_words(error)) from error


async def _stream(opened: aiohttp.ClientResponse) -> _Stream:
    if opened.ok:
        return _Stream(Response(opened.status), opened)
    try:
        content = await opened.read()
    except (aiohttp.ClientError, OSError, TimeoutError):
        content = b""
    after = opened.headers.get("Retry-After", "")
    delay = float(after) if after.isdigit() else None
    return _Stream(failure(opened.status, content, delay), None)


def _give_up(opened: aiohttp.ClientResponse) -> None:
    """Abort the connection of a response whose rest will not be read.

    A TLS shutdown would wait for the peer's, which may arrive after the loop has ended.
    """
    connection = opened.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()
    opened.close()


def _words(error: BaseException) -> str:
    """Return the cause of a failure without aiohttp's Python representation of the TLS context."""
    return re.sub(r" ssl:(<[^>]*>|\S+)", "", str(error)) or type(error).__name__
