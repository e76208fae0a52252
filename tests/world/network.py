"""The network between one replica and the API server: it delays, loses, cuts, and stops at a partition.

A request that has left arrives even when nobody waits for its answer any more, as it does in a real
network: it may be carried out long after its sender gave it up, or died. `Wiring.late_s` bounds that.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar, copy_context
from math import inf
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from scheduler.kube.api import JSON, REQUEST_TIMEOUT_S, Response
from scheduler.sandbox.store.store import Store
from tests.unit.kube.memoryapi import LOST, UNSENT, Accident, MemoryApi
from tests.world.audit import Audit, Sent
from tests.world.turns import PROCESS

# Whoever uses this module runs on a loop whose time jumps: its delays cost nothing.
pytestmark = pytest.mark.looptime

ALL_PODS = "/api/v1/pods"
# Without these nothing may be decided.
REQUIRED = (ALL_PODS, "/api/v1/nodes")
Guard = Callable[[], None]
# The request that is being served: when it was sent, and up to when its sender had been told of everything
# at that moment, both in seconds since the epoch.
SENT: ContextVar[Sent] = ContextVar("SENT")


class Wiring(MemoryApi):
    """A replica's client; `trouble` is the share of requests that meet with an accident."""

    def __init__(self, store: Store, random: Random) -> None:
        super().__init__(store)
        self._random = random
        self.trouble = 0.0
        self.late_s = 3.0
        # How long requests take to arrive, by their method or the end of their path.
        self.late: dict[str, float] = {}
        # How long a request may have to wait for a connection before it leaves.
        self.busy_s = 0.0
        self.is_cut_off = False
        self.namespace = "default"
        self.credentials = SimpleNamespace(problem=None)
        self.under_way: set[asyncio.Task[Response]] = set()
        # The auditor at the server's door, and by which number it knows this process.
        self.audit: Audit | None = None
        self.process = 0
        # How often the network carries a request twice.
        self.twice = 0.0
        # After so many more writes nothing comes through any more; 0 is no limit.
        self.writes_left = 0
        self._pods_listed_at = -inf
        self._listing_since: dict[str, float] = {}

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
        """Send a request; with bad luck it is never sent, or its answer never comes."""
        sent_at = self.clock.now()
        if method == "GET":
            self._note_list(path, None)
        response = await self._request(method, path, body, content_type, timeout_s, guard)
        if method == "GET":
            self._note_list(path, response)
        if self.audit is not None and not response.ok:
            self.audit.failed(self.process, path, body)
        elif self.audit is not None and method != "GET":
            self.audit.heard(self.process, path, body, sent_at)
        return response

    async def _request(
        self,
        method: str,
        path: str,
        body: bytes,
        content_type: str,
        timeout_s: float,
        guard: Guard | None,
    ) -> Response:
        chance = self._random.random() if self.trouble else 1.0
        if self.is_cut_off or chance < self.trouble / 4:
            await asyncio.sleep(0.01)
            return UNSENT
        if self.busy_s:
            await asyncio.sleep(self._random.random() * self.busy_s)
        if guard is not None:
            guard()
        if self.audit is not None:
            self.audit.sends(self.process, method, path, body, self.clock.now())
        network = copy_context()
        network.run(PROCESS.set, 0)  # it goes on when the sender stands still
        travel = self._travel(method, path, body, content_type)
        sent = asyncio.create_task(travel, context=network)
        self.under_way.add(sent)
        sent.add_done_callback(self.under_way.discard)
        if self.writes_left and method != "GET":
            self.writes_left -= 1
            if not self.writes_left:
                self.cut_off()
        if chance < self.trouble:
            # The connection breaks while the request is on its way.
            await asyncio.sleep(self._random.random() * 0.2)
            return LOST
        try:
            async with asyncio.timeout(timeout_s):
                response = await asyncio.shield(sent)
        except TimeoutError:
            return Response(0, reason="Timeout", message="no answer in time")
        return self._received(response)

    def _received(self, response: Response) -> Response:
        return LOST if self.is_cut_off else response

    async def _travel(self, method: str, path: str, body: bytes, content_type: str) -> Response:
        if self.audit is not None:
            told_until = self.audit.told_until(self.process)
            blind_since = min(self._listing_since.values(), default=inf)
            pods_until = self._pods_until()
            now = self.clock.now()
            SENT.set(Sent(self.process, now, told_until, pods_until, blind_since))
        late = next((s for end, s in self.late.items() if f"{method} {path}".endswith(end)), 0.0)
        late = max(late, self.late.get(method, 0.0))
        slow = self.trouble and self._random.random() < self.trouble
        await asyncio.sleep(late + self._random.random() * (self.late_s if slow else 0.004))
        response = await self._answer(method, path, body, content_type)
        if self.twice and self._random.random() < self.twice:
            known = list(self.audit.needless) if self.audit is not None else []
            await self._answer(method, path, body, content_type)
            if self.audit is not None:
                self.audit.needless = known  # it was sent once
        self.seen.clear()
        await asyncio.sleep(self._random.random() * 0.004)
        return response

    def _note_list(self, path: str, response: Response | None) -> None:
        """Take note that a kind is being listed, or has been: what was known before does not count any more."""
        kind, _, query = path.partition("?")
        if kind not in REQUIRED or query.startswith("limit=1&") or query == "limit=1":
            return
        if response is None:
            self._listing_since.setdefault(kind, self.clock.now())
        elif response.ok:
            self._listing_since.pop(kind, None)

    def _pods_until(self) -> float:
        """Return up to when this process has been told of all pods."""
        now, known = self.clock.now(), self._pods_listed_at
        for flow in self.flows:
            if flow.path.startswith(ALL_PODS):
                known = max(known, flow.died_at if flow.is_dead else now)
        return known

    def _serve(self, method: str, path: str, body: bytes, content_type: str) -> Response:
        if method == "GET" and path.startswith(ALL_PODS):
            self._pods_listed_at = self.clock.now()

        def serve() -> Response:
            return super(Wiring, self)._serve(method, path, body, content_type)

        if self.audit is None:
            return serve()
        return self.audit.served(SENT.get(), method, path, body, serve)

    @asynccontextmanager
    async def stream(self, path: str, *, silence_s: float) -> AsyncIterator[Any]:
        """Open a watch; a partition lets none be opened."""
        if self.is_cut_off:
            before, self.accident = self.accident, lambda _, __: Accident(LOST)
            try:
                async with super().stream(path, silence_s=silence_s) as refused:
                    yield refused
            finally:
                self.accident = before
            return
        async with super().stream(path, silence_s=silence_s) as opened:
            try:
                yield opened
            finally:
                self._pods_listed_at = self._pods_until()

    def cut_off(self) -> None:
        """Begin a partition: nothing comes through any more, in either direction."""
        self.is_cut_off = True
        for flow in self.flows:
            flow.die()

    def join(self) -> None:
        """End the partition; what was open before stays dead."""
        self.is_cut_off = False

    async def close(self) -> None:
        """Let go, as the daemon asks its client to."""
