"""The client of a measurement: one probe or one stream, in blocking calls on its own thread.

Times are taken directly around the system calls, so that a round trip is what an application on
these two nodes would measure.
"""

import contextlib
import secrets
import socket
from collections.abc import Iterator
from typing import NamedTuple

from operators.agents.netperf import protocol
from operators.agents.netperf.keys import Keys
from scheduler.base.clock import perf_s
from scheduler.base.errors import TrellisError

WARM_UP = 3  # round trips that are not counted: caches, sleeping CPUs, the first window
SILENCE_S = 5.0
CHUNK = bytes(64 * 1024)
REASONS = {
    protocol.KeyVerdict.BUSY: "busy",
    protocol.KeyVerdict.OTHER_NODE: "other_node",
    protocol.KeyVerdict.TOO_MUCH: "refused",
}


class ProbeError(TrellisError):
    """A measurement failed; `reason` is the label value of a metric."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Target(NamedTuple):
    """The address to probe, the asking node, and the expected node ("" for any)."""

    address: tuple[str, int]
    origin: str
    destination: str


class ArrivedBytes(NamedTuple):
    """The bytes that arrived, by the responder's count."""

    bytes: int
    seconds: float

    @property
    def bits_per_s(self) -> float:
        """Return the throughput."""
        return self.bytes * 8 / self.seconds if self.seconds > 0 else 0.0


def round_trips(target: Target, keys: Keys, count: int, limit_s: float) -> list[float]:
    """Return the microseconds of up to `count` round trips, fewer at the time limit.

    The wait for the first one ends at the timeout of the peer. Raises ProbeError.
    """
    hello = _hello(protocol.ProbeMode.LATENCY, target, count + WARM_UP)
    found: list[float] = []
    with _session(target, keys, hello) as connection:
        message = bytearray(secrets.token_bytes(protocol.MESSAGE_BYTES))
        echo = bytearray(protocol.MESSAGE_BYTES)
        until = perf_s() + limit_s
        for number in range(count + WARM_UP):
            began = perf_s()
            connection.sendall(message)
            got = connection.recv_into(echo)
            ended = perf_s()
            while 0 < got < protocol.MESSAGE_BYTES:
                more = connection.recv_into(memoryview(echo)[got:])
                got, ended = got + more if more else 0, perf_s()
            if not got or echo != message:
                raise ProbeError("failed", "the other side ended in the middle")
            if number >= WARM_UP:
                found.append((ended - began) * 1e6)
            if ended > until:
                # A link that is slower than all warming up has its first round trips counted.
                found = found or [(ended - began) * 1e6]
                break
    return found


def stream(target: Target, keys: Keys, most_bytes: int, most_s: float) -> ArrivedBytes:
    """Send bytes at full speed until one of the limits; return the number that arrived."""
    hello = _hello(protocol.ProbeMode.THROUGHPUT, target, most_bytes, round(most_s * 1000))
    with _session(target, keys, hello) as connection:
        left, until = most_bytes, perf_s() + most_s
        # The responder stops reading at its own limit; bytes in flight at that time do not count.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            while left > 0 and perf_s() < until:
                left -= connection.send(CHUNK[: min(left, len(CHUNK))])
            connection.shutdown(socket.SHUT_WR)
        total, nanoseconds = protocol.STREAM_RESULT.unpack(
            _exactly(connection, protocol.STREAM_RESULT.size)
        )
    return ArrivedBytes(total, nanoseconds / 1e9)


def _hello(
    mode: protocol.ProbeMode, target: Target, amount: int, limit_ms: int = 0
) -> protocol.Hello:
    nonce = secrets.token_bytes(protocol.NONCE_BYTES)
    return protocol.Hello(mode, amount, limit_ms, nonce, target.origin, target.destination)


@contextlib.contextmanager
def _session(target: Target, keys: Keys, hello: protocol.Hello) -> Iterator[socket.socket]:
    """Connect and authenticate mutually; every failure is a ProbeError."""
    try:
        with socket.create_connection(target.address, timeout=protocol.HANDSHAKE_S) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            keys.refresh()
            challenge = _exactly(connection, protocol.CHALLENGE_BYTES)
            connection.sendall(protocol.signed(hello, challenge, keys))
            verdict = protocol.read_answer(
                _exactly(connection, protocol.ANSWER_BYTES), hello, challenge, keys
            )
            if verdict is not protocol.KeyVerdict.YES:
                raise ProbeError(REASONS[verdict], f"{target.destination} answers {verdict.name}")
            connection.settimeout(SILENCE_S)
            yield connection
    except TimeoutError as error:
        raise ProbeError("timeout", f"no answer from {target.address[0]}") from error
    except OSError as error:
        raise ProbeError("unreachable", str(error)) from error
    except protocol.NetperfProtocolError as error:
        raise ProbeError("unproved", str(error)) from error


def _exactly(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = connection.recv(count - len(data))
        if not piece:
            raise protocol.NetperfProtocolError(
                "the other side closed the connection: is the key the same?"
            )
        data += piece
    return data
