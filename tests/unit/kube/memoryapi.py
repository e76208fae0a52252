"""The sandbox as an `Api` in memory, with injected faults of requests.

The answers come from the sandbox's own code, which the cases of tests/apiserver compare with a real
API server; only the connection is replaced. With `looptime` hours pass in milliseconds.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from math import inf
from typing import Any

import msgspec
import pytest

from scheduler.kube.api import JSON, MERGE, REQUEST_TIMEOUT_S, STRATEGIC, Response, failure
from scheduler.sandbox.api import reading, subresources, watching, writing
from scheduler.sandbox.api.request import PathNotFoundError, ResourceRequest, parse
from scheduler.sandbox.api.schema.discovery import Discovery
from scheduler.sandbox.api.status import StatusError
from scheduler.sandbox.kinds.typetable import type_table
from scheduler.sandbox.start import new_store
from scheduler.sandbox.store.store import ObjectStore

# Tests with this module run on a loop whose time jumps: its delays cost nothing.
pytestmark = pytest.mark.looptime

type_table()  # reads a file, which is forbidden while a loop runs
START = 1_700_000_000.0
LOST = Response(0, reason="ConnectionFailed", message="the connection broke")
UNSENT = Response(0, reason="NotSent", message="connection refused", was_sent=False)


class LoopClock:
    """The time of the running loop, as seconds since the epoch.

    `offset_s` models a skewed clock.
    """

    def __init__(self, offset_s: float = 0.0) -> None:
        self._start = START + offset_s

    def now(self) -> float:
        """Return seconds since the epoch."""
        try:
            return self._start + asyncio.get_running_loop().time()
        except RuntimeError:
            return self._start


@dataclass
class Accident:
    """The fault of a request: `is_applied` states whether the server still carries it out."""

    response: Response
    is_applied: bool = False
    delay_s: float = 0.0


@dataclass(frozen=True)
class Seen:
    """One request that reached the server."""

    at: float
    method: str
    path: str
    body: Any


@dataclass
class Flow:
    """An open watch, with a test's control over it."""

    silence_s: float
    chunk_bytes: float = inf
    is_cut: bool = False
    is_dead: bool = False
    extra: bytes = b""
    woken: asyncio.Event = field(default_factory=asyncio.Event)
    path: str = ""
    died_at: float = inf
    bookmark_s: float = inf

    def cut(self) -> None:
        """Break the connection."""
        self.is_cut = True
        self.woken.set()

    def die(self) -> None:
        """Deliver no more bytes, without breaking: a vanished peer."""
        if not self.is_dead:
            self.died_at = LoopClock().now()
        self.is_dead = True
        self.woken.set()

    def recover(self) -> None:
        """Deliver the bytes withheld since `die`, and continue."""
        self.is_dead = False
        self.woken.set()

    def inject(self, data: bytes) -> None:
        """Make the next read of the watch return these bytes, which the server did not send."""
        self.extra += data
        self.woken.set()


class MemoryApi:
    """An `Api` around a store; `accident` is called before each request and each watch."""

    def __init__(self, store: ObjectStore | None = None, *, history: int = 16_384) -> None:
        self.server = "https://in-memory.invalid"
        self.clock = LoopClock()
        self.store = store or new_store(self.clock, seed=1, with_crds=False, history=history)
        self.discovery = Discovery(self.store.kinds)
        self.accident: Callable[[str, str], Accident | None] = lambda _method, _path: None
        self.seen: list[Seen] = []
        self.flows: list[Flow] = []
        self.chunk_bytes: float = inf
        # The interval of bookmarks; a real server sends about one a minute.
        self.bookmark_s: float = inf
        self.running = 0
        self.most_running = 0

    async def request(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        content_type: str = JSON,
        timeout_s: float = REQUEST_TIMEOUT_S,
        guard: Callable[[], None] | None = None,
    ) -> Response:
        """Answer as the sandbox would, unless a fault is injected."""
        if guard is not None:
            guard()
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            async with asyncio.timeout(timeout_s):
                return await self._answer(method, path, body, content_type)
        except TimeoutError:
            return Response(0, reason="Timeout", message="no answer in time")
        finally:
            self.running -= 1

    async def _answer(self, method: str, path: str, body: bytes, content_type: str) -> Response:
        accident = self.accident(method, path)
        if accident is None:
            await asyncio.sleep(0)
            return self._serve(method, path, body, content_type)
        if accident.is_applied:
            self._serve(method, path, body, content_type)
        await asyncio.sleep(accident.delay_s)
        if accident.response.code == 200:
            return self._serve(method, path, body, content_type)
        return accident.response

    def _serve(self, method: str, path: str, body: bytes, content_type: str) -> Response:
        self.seen.append(
            Seen(self.clock.now(), method, path, msgspec.json.decode(body) if body else None)
        )
        return self.carry_out(method, path, body, content_type)

    def carry_out(self, method: str, path: str, body: bytes, content_type: str) -> Response:
        """Carry out the request, and answer."""
        if method == "GET" and (found := self.discovery.answer(path, "")) is not None:
            return Response(200, found[0])
        try:
            call = self._call(method, path)
            call.body, call.content_type = body, content_type
            return _dispatch(self.store, call)
        except StatusError as fault:
            return failure(fault.code, msgspec.json.encode(fault.status))
        except PathNotFoundError:
            return failure(404, b"404 page not found")

    def _call(self, method: str, path: str) -> ResourceRequest:
        plain, _, query = path.partition("?")
        return parse(self.store.kinds, method, plain, query)

    @asynccontextmanager
    async def stream(self, path: str, *, silence_s: float) -> AsyncIterator["_Stream"]:
        """Open a watch of the sandbox."""
        accident = self.accident("WATCH", path)
        if accident is not None:
            await asyncio.sleep(accident.delay_s)
            yield _Stream(accident.response)
            return
        flow = Flow(silence_s, self.chunk_bytes, path=path, bookmark_s=self.bookmark_s)
        try:
            call = self._call("GET", path)
            source = watching.WatchStream(self.store, call, flow.woken.set)
        except StatusError as fault:
            yield _Stream(failure(fault.code, msgspec.json.encode(fault.status)))
            return
        except PathNotFoundError:
            yield _Stream(failure(404, b"404 page not found"))
            return
        self.flows.append(flow)
        try:
            yield _Stream(Response(200), source, flow, call.number("timeoutSeconds"))
        finally:
            self.flows.remove(flow)
            source.close()

    def get(self, path: str) -> Any:
        """Return an object as it is now."""
        response = self.carry_out("GET", path, b"", JSON)
        return msgspec.json.decode(response.body) if response.ok else None

    def put(self, path: str, obj: Any) -> Any:
        """Create an object; the test's own doing is not recorded."""
        response = self.carry_out("POST", path, msgspec.json.encode(obj), JSON)
        assert response.ok, response
        return msgspec.json.decode(response.body)

    def change(self, path: str, patch: Any) -> Any:
        """Merge a patch into an object, as another client; not recorded."""
        response = self.carry_out("PATCH", path, msgspec.json.encode(patch), MERGE)
        assert response.ok, response
        return msgspec.json.decode(response.body)

    def merge(self, path: str, patch: Any) -> bool:
        """Merge a patch strategically, as another client; return whether it was accepted; not
        recorded.
        """
        response = self.carry_out("PATCH", path, msgspec.json.encode(patch), STRATEGIC)
        return response.ok

    def remove(self, path: str) -> None:
        """Delete an object at once, as another client; not recorded."""
        options = b'{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":0}'
        response = self.carry_out("DELETE", path, options, JSON)
        assert response.ok, response

    def requests(self, method: str = "") -> list[str]:
        """Return the paths of requests so far, of one method or with the method in front."""
        if method:
            return [seen.path for seen in self.seen if seen.method == method]
        return [f"{seen.method} {seen.path}" for seen in self.seen]


class _Stream:
    def __init__(
        self,
        head: Response,
        source: watching.WatchStream | None = None,
        flow: Flow | None = None,
        limit_s: float = 0.0,
    ) -> None:
        self.head = head
        self._source = source
        self._flow = flow
        self._ends_at = asyncio.get_running_loop().time() + limit_s
        self._buffer = source.first() if source is not None else b""
        sends_bookmarks = flow is not None and source is not None and source.wants_bookmarks
        bookmark_s = flow.bookmark_s if flow is not None and sends_bookmarks else inf
        self._marks_at = asyncio.get_running_loop().time() + bookmark_s

    async def read(self) -> bytes:
        """Return the next bytes of the sandbox."""
        if self._source is None or self._flow is None:
            return b""
        flow, loop = self._flow, asyncio.get_running_loop()
        silent_at = loop.time() + flow.silence_s
        while not self._buffer:
            if flow.is_cut:
                raise ConnectionResetError("cut")
            # The loop's time is rounded: a timer may run a little before its moment.
            now = loop.time() + 1e-3
            if self._source.ended or now >= self._ends_at:
                return b""
            if now >= silent_at:
                raise TimeoutError
            if now >= self._marks_at:
                self._marks_at += flow.bookmark_s
                if not flow.is_dead:
                    self._buffer = self._source.next() + self._source.bookmark()
                    continue
            due = loop.call_at(min(silent_at, self._ends_at, self._marks_at), flow.woken.set)
            try:
                await flow.woken.wait()
            finally:
                due.cancel()
            flow.woken.clear()
            if not flow.is_dead:
                self._buffer, flow.extra = flow.extra + self._source.next(), b""
        if flow.is_cut:
            # Bytes in flight arrive in part.
            self._buffer = self._buffer[: len(self._buffer) // 2]
        size = int(min(len(self._buffer), flow.chunk_bytes))
        data, self._buffer = self._buffer[:size], self._buffer[size:]
        if not data:
            raise ConnectionResetError("cut")
        return data


def _dispatch(store: ObjectStore, call: ResourceRequest) -> Response:
    if call.subresource and call.subresource != "status":
        answer = subresources.handle(store, call)
    elif call.method == "GET":
        body = reading.get(store, call) if call.name else reading.list_objects(store, call)
        return Response(200, body)
    else:
        act = {
            "POST": writing.create,
            "PUT": writing.update,
            "PATCH": writing.patch,
            "DELETE": writing.delete,
        }[call.method]
        answer = act(store, call)
    return Response(answer.code, answer.body)
