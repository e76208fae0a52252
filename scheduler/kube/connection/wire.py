"""Keep-alive HTTP/1.1 connections for many small requests to one server.

The client sends binds, patches and events over it: a general HTTP library costs five times the CPU
per request, more than the decision about the pod. It owns the sockets, their number, and their time
limits; the client interprets requests and answers. A request is never sent twice: if no answer
arrives, the caller learns whether anything was sent.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import Callable

from scheduler.kube.connection.http1 import AnswerReader, HttpAnswer, HttpProtocolError

CONNECT_TIMEOUT_S = 10.0
# One check of all connections instead of one timer per request: timers were a tenth of the cost.
CHECK_EVERY_S = 0.25


class NotSentError(ConnectionError):
    """No connection was available: the request was not sent and may be retried."""


class Wire:
    """A bounded pool of connections to one address; `server_hostname` is what TLS checks."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        tls: ssl.SSLContext | None = None,
        server_hostname: str | None = None,
        limit: int = 256,
    ) -> None:
        self.host, self.port = host, port
        self.tls = tls
        self._server_hostname = server_hostname
        self._limit = limit
        # The connection used last is used first, so that a short burst does not keep all of them
        # open.
        self._idle: list[_Connection] = []
        self._open: set[_Connection] = set()
        self._connecting = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_closed = False
        self._check: asyncio.TimerHandle | None = None

    async def exchange(
        self, request: bytes, timeout_s: float, guard: Callable[[], None] | None = None
    ) -> HttpAnswer:
        """Send a request (head and body) and return its response.

        The time limit is precise to a quarter of a second. Raises NotSentError or TimeoutError, or
        another ConnectionError when it is unknown whether the server processed the request. `guard`
        is called directly before the first byte is sent; its exceptions propagate. Cancelling
        closes the connection.
        """
        while True:
            connection = await self._acquire()
            # A connection that the server closed while it was idle is detected here, before
            # anything is sent.
            if connection.is_usable:
                break
        if self._check is None:
            self._check_later()
        try:
            if guard is not None:
                guard()
            answer = await connection.exchange(request, timeout_s)
        except BaseException:  # cancellation too: half a response would be read by the next request
            connection.abort()
            raise
        if answer.closes or self._is_closed:
            connection.close()
        else:
            self._idle.append(connection)
            self._wake()
        return answer

    def retire(self, tls: ssl.SSLContext | None) -> None:
        """Use `tls` for new connections; close the idle ones, which use older credentials."""
        self.tls = tls
        for connection in list(self._idle):
            connection.abort()

    def close(self) -> None:
        """Drop all connections; pending requests raise ConnectionError."""
        self._is_closed = True
        if self._check is not None:
            self._check.cancel()
        for connection in list(self._open):
            connection.abort()
        self._idle.clear()
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_exception(NotSentError("the client is closed"))

    async def wait_closed(self) -> None:
        """Wait until the loop has closed all connections."""
        for connection in list(self._open):
            await connection.lost.wait()

    async def _acquire(self) -> "_Connection":
        while True:
            if self._is_closed:
                raise NotSentError("the client is closed")
            if self._idle:
                return self._idle.pop()
            if len(self._open) + self._connecting < self._limit:
                return await self._connect()
            waiter = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            try:
                await waiter
            except BaseException:
                # A woken task that was cancelled passes the place on; it would stay unused
                # otherwise.
                if waiter.done() and not waiter.cancelled():
                    self._wake()
                raise

    async def _connect(self) -> "_Connection":
        self._connecting += 1
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: _Connection(self._lost),
                    self.host,
                    self.port,
                    ssl=self.tls,
                    server_hostname=self._server_hostname if self.tls else None,
                )
        except (OSError, TimeoutError) as error:
            self._wake()
            raise NotSentError(str(error) or type(error).__name__) from error
        finally:
            self._connecting -= 1
        self._open.add(connection)
        if not connection.is_usable:
            self._lost(connection)
        return connection

    def _check_later(self) -> None:
        self._check = asyncio.get_running_loop().call_later(CHECK_EVERY_S, self._expire)

    def _expire(self) -> None:
        """Time out exchanges, and schedule the next check while any exchange is in progress."""
        self._check = None
        now = asyncio.get_running_loop().time()
        for connection in list(self._open):
            connection.expire(now)
        if len(self._open) > len(self._idle):
            self._check_later()

    def _lost(self, connection: "_Connection") -> None:
        self._open.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        self._wake()

    def _wake(self) -> None:
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return


class _Connection(asyncio.Protocol):
    """One connection: idle, or with one request in progress."""

    def __init__(self, on_lost: "Callable[[_Connection], None]") -> None:
        self._on_lost = on_lost
        self._reader = AnswerReader()
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[HttpAnswer] | None = None
        self._deadline = 0.0
        self.lost = asyncio.Event()

    @property
    def is_usable(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    async def exchange(self, request: bytes, timeout_s: float) -> HttpAnswer:
        assert self._transport is not None  # noqa: S101 - an acquired connection is connected
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        self._deadline = loop.time() + timeout_s
        try:
            self._transport.write(request)
            return await self._waiter
        finally:
            self._waiter = None

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - by create_connection
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if self._waiter is None or self._waiter.done():
            # Bytes without a request: a closing message of the server, or invalid data.
            self.abort()
            return
        try:
            answer = self._reader.feed(data)
        except HttpProtocolError as error:
            self._waiter.set_exception(error)
            self.abort()
            return
        if answer is not None:
            self._waiter.set_result(answer)

    def eof_received(self) -> bool:
        answer = self._reader.end()
        if answer is not None and self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(answer)
        return False

    def connection_lost(self, error: Exception | None) -> None:
        if self._waiter is not None and not self._waiter.done():
            reason = str(error) if error else "the server closed the connection"
            self._waiter.set_exception(ConnectionResetError(reason))
        self.lost.set()
        self._on_lost(self)

    def expire(self, now: float) -> None:
        """End the exchange in progress if its deadline has passed, in the loop's time."""
        if self._waiter is not None and not self._waiter.done() and now >= self._deadline:
            self._waiter.set_exception(TimeoutError("no answer in time"))
