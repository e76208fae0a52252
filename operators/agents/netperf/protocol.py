"""The messages between two agents as bytes, without sockets.

    responder   challenge: 32 random bytes, the same for all connections
    asker       hello: what it wants, who asks whom, 32 random bytes, proof
    responder   answer: verdict, proof

A proof is an HMAC with the shared key over the challenge and the hello, so that neither side can be
replayed or impersonated. An asker without the key gets the challenge and then a closed connection.
After an accepted proof the measurement starts: `MESSAGE_BYTES` there and back, or a stream in one
direction. Every length is bounded before anything is read.
"""

import struct
from enum import IntEnum

import msgspec

from operators.agents.netperf.keys import PROOF_BYTES, Keys
from scheduler.base.errors import TrellisError

VERSION = 1
CHALLENGE_BYTES = NONCE_BYTES = 32
MESSAGE_BYTES = 64
MOST_ROUND_TRIPS = 1000
MOST_STREAM_BYTES = 1 << 30
MOST_STREAM_S = 10.0
HANDSHAKE_S = 2.0

_HEAD = struct.Struct(f">BBQI{NONCE_BYTES}sBB")
_CLAIM = b"trellis netperf hello"
_REPLY = b"trellis netperf answer"
STREAM_RESULT = struct.Struct(">QQ")  # bytes and nanoseconds of a stream
HEAD_BYTES = _HEAD.size
ANSWER_BYTES = 1 + PROOF_BYTES


class NetperfProtocolError(TrellisError):
    """The peer violated the protocol, or has no key."""


class ProbeMode(IntEnum):
    """The kind of a measurement."""

    LATENCY = 0
    THROUGHPUT = 1


class KeyVerdict(IntEnum):
    """The responder's verdict on an asker that has a key."""

    YES = 0
    BUSY = 1
    OTHER_NODE = 2
    TOO_MUCH = 3


class Hello(msgspec.Struct, frozen=True):
    """A request: `amount` is round trips or bytes, `limit_ms` the longest time for a stream.

    `destination` is the node that the client addresses, "" for any node.
    """

    mode: ProbeMode
    amount: int
    limit_ms: int
    nonce: bytes
    origin: str
    destination: str

    def encoded(self) -> bytes:
        """Return the request without its proof."""
        origin, destination = self.origin.encode(), self.destination.encode()
        head = _HEAD.pack(
            VERSION,
            self.mode,
            self.amount,
            self.limit_ms,
            self.nonce,
            len(origin),
            len(destination),
        )
        return head + origin + destination

    @property
    def is_too_much(self) -> bool:
        """Return whether the request exceeds the limit of its mode."""
        if self.mode is ProbeMode.LATENCY:
            return not 0 < self.amount <= MOST_ROUND_TRIPS
        return not (
            0 < self.amount <= MOST_STREAM_BYTES and 0 < self.limit_ms <= MOST_STREAM_S * 1000
        )


def rest_of(head: bytes) -> int:
    """Return how many bytes follow the head of a hello, proof included: at most 542."""
    *_, origin, destination = _HEAD.unpack(head)
    return int(origin) + int(destination) + PROOF_BYTES


def signed(hello: Hello, challenge: bytes, keys: Keys) -> bytes:
    """Return the whole hello."""
    text = hello.encoded()
    return text + keys.prove(_CLAIM + challenge + text)


def read_hello(data: bytes, challenge: bytes, keys: Keys) -> tuple[Hello, bytes]:
    """Return a hello and the key behind it; ProtocolError if there is none."""
    text, proof = data[:-PROOF_BYTES], data[-PROOF_BYTES:]
    key = keys.which(_CLAIM + challenge + text, proof)
    if key is None:
        raise NetperfProtocolError("no proof of the key")
    version, mode, amount, limit_ms, nonce, origin, _ = _HEAD.unpack_from(text)
    if version != VERSION or mode not in tuple(ProbeMode):
        raise NetperfProtocolError(f"version {version}, mode {mode} is not known here")
    try:
        names = text[HEAD_BYTES:]
        hello = Hello(
            ProbeMode(mode),
            amount,
            limit_ms,
            nonce,
            names[:origin].decode(),
            names[origin:].decode(),
        )
    except UnicodeDecodeError as error:
        raise NetperfProtocolError("a name is not text") from error
    return hello, key


def answer(verdict: KeyVerdict, hello: Hello, challenge: bytes, keys: Keys, key: bytes) -> bytes:
    """Return the responder's message, with a proof by the key that the asker used."""
    reply = bytes([verdict])
    return reply + keys.prove(_REPLY + challenge + hello.encoded() + reply, key)


def read_answer(data: bytes, hello: Hello, challenge: bytes, keys: Keys) -> KeyVerdict:
    """Return the verdict; ProtocolError if no key proves the message."""
    reply, proof = data[:1], data[1:]
    if keys.which(_REPLY + challenge + hello.encoded() + reply, proof) is None:
        raise NetperfProtocolError("the other side has another key")
    try:
        return KeyVerdict(reply[0])
    except ValueError as error:
        raise NetperfProtocolError(f"verdict {reply[0]} is not known here") from error
