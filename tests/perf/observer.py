"""`Observer`: records when pods become bound, with as little effect on the measurement as possible.

It watches only pods that have a node (one event per pod) and reads just their names. It requests
the encoding that the scheduler under test uses, JSON or protobuf: the API server encodes an object
once per encoding, so the observer causes no second encoding. An API server short of CPU closes
watches that it finds slow, the observer's as well as a scheduler's; the observer then continues
where it was.
"""

import ssl
from collections.abc import Callable, Iterator
from time import monotonic

import aiohttp
import msgspec

from tests.apiserver.realcluster import ADMIN_TOKEN, RealCluster
from tests.real.api import ApiError
from tests.real.schedulers import Encoding

ACCEPT = {
    "json": "application/json",
    "protobuf": "application/vnd.kubernetes.protobuf;stream=watch",
}
MAGIC = b"k8s\x00"


class _Meta(msgspec.Struct, rename="camel"):
    name: str
    namespace: str
    resource_version: str


class _Pod(msgspec.Struct):
    metadata: _Meta


class _Event(msgspec.Struct):
    type: str
    object: _Pod


_json_event = msgspec.json.Decoder(_Event)


class Observer:
    """The time when each pod was first seen bound, by namespace/name, in monotonic seconds.

    `on_first` is called at the first one.
    """

    def __init__(
        self,
        cluster: RealCluster,
        encoding: Encoding,
        on_first: Callable[[], None] = lambda: None,
    ) -> None:
        self._cluster = cluster
        self._encoding = encoding
        self._on_first = on_first
        self._version = ""
        self.bound: dict[str, float] = {}
        self.restarts = -1

    async def watch(self, resource_version: str) -> None:
        """Watch until cancelled; raise ApiError if the API server ends the watch for good."""
        self._version = resource_version
        tls = ssl.create_default_context(cafile=str(self._cluster.ca_file))
        headers = {
            "Authorization": f"Bearer {ADMIN_TOKEN}",
            "Accept": ACCEPT[self._encoding],
            "User-Agent": "trellis-bench-observer",
        }
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(
            headers=headers,
            timeout=timeout,
            read_bufsize=1 << 20,
            connector=aiohttp.TCPConnector(ssl=tls),
        ) as session:
            while True:
                self.restarts += 1
                await self._watch_once(session)

    async def _watch_once(self, session: aiohttp.ClientSession) -> None:
        url = (
            f"{self._cluster.url}/api/v1/pods?watch=1&allowWatchBookmarks=false"
            f"&resourceVersion={self._version}&fieldSelector=spec.nodeName!%3D"
        )
        split = _json_pods if self._encoding == "json" else _protobuf_pods
        async with session.get(url) as answer:
            if answer.status != 200:
                raise ApiError(f"watch pods: {answer.status} {await answer.text()}")
            rest = bytearray()
            async for piece in answer.content.iter_any():
                now = monotonic()
                rest += piece
                is_first = not self.bound
                for pod in split(rest):
                    self.bound.setdefault(f"{pod.namespace}/{pod.name}", now)
                    self._version = pod.resource_version
                if is_first and self.bound:
                    self._on_first()


def _json_pods(buffer: bytearray) -> Iterator[_Meta]:
    """Take whole lines off the buffer and yield the pods in them."""
    end = buffer.rfind(b"\n") + 1
    lines = bytes(buffer[:end]).split(b"\n")
    del buffer[:end]
    for line in lines:
        if line:
            yield _json_event.decode(line).object.metadata


def _protobuf_pods(buffer: bytearray) -> Iterator[_Meta]:
    """Remove whole frames from the buffer and yield the pods in them.

    A frame is a length and a WatchEvent {1 type, 2 {1 raw}}, where raw is the magic and Unknown {2
    raw}, and that a Pod {1 metadata {1 name, 3 namespace, 6 resourceVersion}}.
    """
    while len(buffer) >= 4:
        end = 4 + int.from_bytes(buffer[:4], "big")
        if len(buffer) < end:
            return
        event = bytes(buffer[4:end])
        del buffer[:end]
        if _part(event, 1) != b"ADDED":
            raise ApiError(f"watch pods: {event!r}")
        unknown = _part(_part(event, 2), 1).removeprefix(MAGIC)
        meta = _part(_part(unknown, 2), 1)
        name, namespace, version = (_part(meta, field).decode() for field in (1, 3, 6))
        yield _Meta(name, namespace, version)


def _part(message: bytes, wanted: int) -> bytes:
    """Return the first length-delimited field of that number; only such fields come before it."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        if key & 7 != 2:
            raise ApiError(f"field {key >> 3} of wire type {key & 7}: not as expected")
        length, at = _varint(message, at)
        if key >> 3 == wanted:
            return message[at : at + length]
        at += length
    raise ApiError(f"no field {wanted}")


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
