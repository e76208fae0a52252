"""`NetperfResponder`: the server side of a measurement.

Proofs are checked on the loop, round trips are echoed by threads: a blocking thread echoes within
25 microseconds where the loop takes 80, and does not wait for other work of the loop. A client
without the key occupies one entry of a bounded list for two seconds at most. At most eight sessions
run at a time, one of them a stream; further clients get BUSY.
"""

import asyncio
import contextlib
import secrets
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Self

import structlog

from operators.agents.netperf import protocol
from operators.agents.netperf.keys import Keys
from operators.agents.netperf.links import SimulatedLinks
from scheduler.base.clock import perf_s

SESSIONS = 8
MOST_UNVERIFIED = 64  # connections whose proof has not come yet
SILENCE_S = 5.0
GRACE_S = 2.0
SESSION_S = 60.0
CHUNK_BYTES = 64 * 1024

_log = structlog.get_logger("agent.netperf")


class NetperfResponder:
    """A listening agent; use as `async with`. `port` is the one that it listens on."""

    def __init__(self, node: str, keys: Keys, links: SimulatedLinks | None = None) -> None:
        self._node = node
        self._keys = keys
        self._links = links
        self._listener: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._unverified: set[asyncio.Task[None]] = set()
        self._sessions: set[socket.socket] = set()
        self._streams = 0
        self._threads = ThreadPoolExecutor(SESSIONS, thread_name_prefix="netperf")
        self.listening = asyncio.Event()
        self.port = 0
        self.refused = 0

    async def listen(self, host: str, port: int) -> None:
        """Accept connections, on all addresses if `host` is empty; OSError for a port that is
        taken.
        """
        both = not host and socket.has_dualstack_ipv6()
        self._listener = socket.create_server(
            (host, port),
            family=socket.AF_INET6 if both or ":" in host else socket.AF_INET,
            backlog=128,
            dualstack_ipv6=both,
        )
        self._listener.setblocking(False)
        self.port = self._listener.getsockname()[1]
        self._accepting = asyncio.create_task(self._accept(self._listener), name="accepting")
        self.listening.set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        tasks = [task for task in (self._accepting, *self._unverified) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._listener is not None:
            self._listener.close()
        for one in list(self._sessions):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        await asyncio.to_thread(self._threads.shutdown)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(listener)
            except OSError as error:
                # Usually out of file descriptors, which other connections free within seconds.
                _log.warning("cannot accept", because=str(error))
                await asyncio.sleep(1.0)
                continue
            if len(self._unverified) >= MOST_UNVERIFIED:
                connection.close()
                continue
            task = asyncio.create_task(self._greet(connection))
            self._unverified.add(task)
            task.add_done_callback(self._unverified.discard)

    async def _greet(self, connection: socket.socket) -> None:
        """Authenticate a connection; pass it to a thread, or close it."""
        try:
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            async with asyncio.timeout(protocol.HANDSHAKE_S):
                verdict, hello = await self._shake_hands(connection)
        except (protocol.NetperfProtocolError, OSError, TimeoutError, EOFError):
            self.refused += 1
            connection.close()
            return
        except asyncio.CancelledError:
            connection.close()
            raise
        if verdict is not protocol.KeyVerdict.YES:
            connection.close()
            return
        self._sessions.add(connection)
        self._streams += hello.mode is protocol.ProbeMode.THROUGHPUT
        serving = asyncio.get_running_loop().run_in_executor(
            self._threads, self._serve, connection, hello
        )
        serving.add_done_callback(lambda _: self._end(connection, hello))

    async def _shake_hands(
        self, connection: socket.socket
    ) -> tuple[protocol.KeyVerdict, protocol.Hello]:
        loop = asyncio.get_running_loop()
        challenge = secrets.token_bytes(protocol.CHALLENGE_BYTES)
        await loop.sock_sendall(connection, challenge)
        head = await _exactly(connection, protocol.HEAD_BYTES)
        rest = await _exactly(connection, protocol.rest_of(head))
        await asyncio.to_thread(self._keys.refresh)
        hello, key = protocol.read_hello(head + rest, challenge, self._keys)
        verdict = self._verify(hello)
        await loop.sock_sendall(
            connection, protocol.answer(verdict, hello, challenge, self._keys, key)
        )
        return verdict, hello

    def _verify(self, hello: protocol.Hello) -> protocol.KeyVerdict:
        if hello.destination not in ("", self._node):
            return protocol.KeyVerdict.OTHER_NODE
        if hello.is_too_much:
            return protocol.KeyVerdict.TOO_MUCH
        is_second_stream = hello.mode is protocol.ProbeMode.THROUGHPUT and self._streams > 0
        return (
            protocol.KeyVerdict.BUSY
            if is_second_stream or len(self._sessions) >= SESSIONS
            else protocol.KeyVerdict.YES
        )

    def _serve(self, connection: socket.socket, hello: protocol.Hello) -> None:
        connection.settimeout(SILENCE_S)
        with contextlib.suppress(OSError):
            if hello.mode is protocol.ProbeMode.LATENCY:
                self._return_messages(connection, hello)
            else:
                _take_stream(connection, hello)

    def _return_messages(self, connection: socket.socket, hello: protocol.Hello) -> None:
        link = self._links.between(hello.origin, self._node) if self._links is not None else None
        message = bytearray(protocol.MESSAGE_BYTES)
        until = perf_s() + SESSION_S
        for _ in range(hello.amount):
            got = connection.recv_into(message)
            arrived = perf_s()
            if arrived > until:
                return
            while 0 < got < protocol.MESSAGE_BYTES:
                more = connection.recv_into(memoryview(message)[got:])
                got = got + more if more else 0
            if not got:
                return
            if link is not None and self._links is not None:
                self._links.wait(link, arrived)
            connection.sendall(message)

    def _end(self, connection: socket.socket, hello: protocol.Hello) -> None:
        self._sessions.discard(connection)
        self._streams -= hello.mode is protocol.ProbeMode.THROUGHPUT
        connection.close()


def _take_stream(connection: socket.socket, hello: protocol.Hello) -> None:
    """Read at most the agreed amount; report its size and duration."""
    buffer = bytearray(CHUNK_BYTES)
    total, began = 0, perf_s()
    ended = began
    # The asker keeps the time; bytes that it has sent by then are still in flight.
    until = began + hello.limit_ms / 1e3 + GRACE_S
    while total < hello.amount and ended < until:
        got = connection.recv_into(buffer, min(CHUNK_BYTES, hello.amount - total))
        if not got:
            break
        total, ended = total + got, perf_s()
    connection.sendall(protocol.STREAM_RESULT.pack(total, int((ended - began) * 1e9)))


async def _exactly(connection: socket.socket, count: int) -> bytes:
    """Read exactly `count` bytes; EOFError if the peer closes before."""
    loop = asyncio.get_running_loop()
    data = b""
    while len(data) < count:
        piece = await loop.sock_recv(connection, count - len(data))
        if not piece:
            raise EOFError
        data += piece
    return data
