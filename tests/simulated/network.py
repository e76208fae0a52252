"""The network between one replica and the API server: delays, losses, interruptions, and
partitions.

A request that was sent arrives even if its sender no longer waits, as in a real network: it may be
carried out long after its sender timed out, or died. `Wiring.late_s` bounds that.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import copy_context
from dataclasses import dataclass, field
from math import inf
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from scheduler.kube.api import JSON, REQUEST_TIMEOUT_S, Response
from scheduler.sandbox.store.store import ObjectStore
from tests.simulated.audit import LEASES, Audit, Sent
from tests.simulated.turns import PROCESS
from tests.unit.kube.memoryapi import LOST, UNSENT, Accident, MemoryApi

# This module runs on a loop with virtual time: its delays cost nothing.
pytestmark = pytest.mark.looptime

ALL_PODS = "/api/v1/pods"
# Kinds that are required for any decision.
REQUIRED = (ALL_PODS, "/api/v1/nodes")
Guard = Callable[[], None]
# The longest delay of a network without faults.
NEAR_S = 0.004
# How often arrivals are checked: for as long as the longest may take.
WAITS = 1000
# The interval of an API server's bookmarks.
BOOKMARK_S = 60.0


@dataclass(eq=False)
class _Call:
    """A request in flight; `sent` has its time, and the sender's knowledge at that time."""

    method: str
    path: str
    body: bytes
    content_type: str
    sent: Sent = field(init=False)


def _answer(answer: asyncio.Future[Response], response: Response) -> None:
    """Deliver an answer to a sender that still waits."""
    if not answer.done():
        answer.set_result(response)


class Wiring(MemoryApi):
    """A replica's client; `fault_share` is the share of requests with a fault."""

    def __init__(self, store: ObjectStore, random: Random) -> None:
        super().__init__(store)
        self._random = random
        self.bookmark_s = BOOKMARK_S
        self.fault_share = 0.0
        self.late_s = 3.0
        # The delay of requests, by their method or the end of their path.
        self.late: dict[str, float] = {}
        # The answers that senders of such requests receive, and the delay of the execution, by the
        # end of their path.
        self.unheard: dict[str, tuple[Response, float]] = {}
        # The longest wait of a request for a connection.
        self.busy_s = 0.0
        self.is_cut_off = False
        self.namespace = "default"
        self.credentials = SimpleNamespace(problem=None)
        # Requests in flight.
        self.in_flight: set[_Call] = set()
        self._network = copy_context()
        self._network.run(PROCESS.set, 0)  # it continues while the sender is stopped
        # The auditor of the server, and this process's number.
        self.audit: Audit | None = None
        self.process = 0
        # How often the network duplicates a request.
        self.twice = 0.0
        # The number of writes after which the connection breaks; 0 is no limit.
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
        """Send a request; with a fault it is never sent, or its answer is lost."""
        sent_at = self.clock.now()
        if method == "GET":
            self._note_list(path, None)
        response = await self._request(method, path, body, content_type, timeout_s, guard)
        if method == "GET":
            self._note_list(path, response)
        if self.audit is not None and not response.ok:
            self.audit.failed(self.process, path, body)
        elif self.audit is not None and method != "GET":
            self.audit.confirmed(self.process, path, body, sent_at)
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
        chance = self._random.random() if self.fault_share else 1.0
        if self.is_cut_off or chance < self.fault_share / 4:
            await asyncio.sleep(0.01)
            return UNSENT
        if self.busy_s:
            await asyncio.sleep(self._random.random() * self.busy_s)
        if guard is not None:
            guard()
        if self.audit is not None:
            self.audit.sends(self.process, method, path, body, self.clock.now())
        unheard = next((one for end, one in self.unheard.items() if path.endswith(end)), None)
        call = _Call(method, path, body, content_type)
        answer = self._depart(call, timeout_s, 0.0 if unheard is None else unheard[1])
        if self.writes_left and method != "GET":
            self.writes_left -= 1
            if not self.writes_left:
                self.cut_off()
        if unheard is not None:
            await asyncio.sleep(NEAR_S)
            return unheard[0]
        if chance < self.fault_share:
            # The connection breaks during the request.
            await asyncio.sleep(self._random.random() * 0.2)
            return LOST
        return self._received(await answer)

    def _received(self, response: Response) -> Response:
        return LOST if self.is_cut_off else response

    def _depart(self, call: "_Call", timeout_s: float, late: float) -> asyncio.Future[Response]:
        """Send a request, which continues if its sender is stopped or dies."""
        loop = asyncio.get_running_loop()
        method, path = call.method, call.path
        if self.audit is not None and method != "GET" and not path.startswith(LEASES):
            informed_until = self.audit.informed_until(self.process)
            blind_since = min(self._listing_since.values(), default=inf)
            pods_until = self._pods_until()
            now = self.clock.now()
            call.sent = Sent(self.process, now, informed_until, pods_until, blind_since)
        else:
            call.sent = Sent(self.process, self.clock.now(), inf)
        late = max(late, self.late.get(method, 0.0))
        for end, seconds in self.late.items():
            if f"{method} {path}".endswith(end):
                late = max(late, seconds)
                break
        slow = self.fault_share and self._random.random() < self.fault_share
        travel_s = late + self._random.random() * (self.late_s if slow else NEAR_S)
        answer: asyncio.Future[Response] = loop.create_future()
        self.in_flight.add(call)
        loop.call_later(travel_s, self._arrive, call, answer, context=self._network)
        if travel_s + NEAR_S >= timeout_s:
            late_answer = Response(0, reason="Timeout", message="no answer in time")
            loop.call_later(timeout_s, _answer, answer, late_answer, context=self._network)
        return answer

    def _arrive(self, call: "_Call", answer: asyncio.Future[Response]) -> None:
        """Carry out the request at the server, and send its answer."""
        self.in_flight.discard(call)
        response = self._meet(call)
        if self.twice and self._random.random() < self.twice:
            known = list(self.audit.needless) if self.audit is not None else []
            self._meet(call)
            if self.audit is not None:
                self.audit.needless = known  # it was sent once
        back_s = self._random.random() * NEAR_S
        loop = asyncio.get_running_loop()
        loop.call_later(back_s, _answer, answer, response, context=self._network)

    def _meet(self, call: "_Call") -> Response:
        """Return the server's answer, or the planned fault."""
        accident = self.accident(call.method, call.path)
        if accident is None:
            return self._audited(call)
        if accident.is_applied:
            self._audited(call)
        return accident.response

    def _audited(self, call: "_Call") -> Response:
        """Carry out a request under the auditor's checks."""
        method, path, body = call.method, call.path, call.body
        if method == "GET" and path.startswith(ALL_PODS):
            self._pods_listed_at = self.clock.now()
        if self.audit is None or method == "GET":
            return self.carry_out(method, path, body, call.content_type)
        return self.audit.served(
            call.sent, method, path, body,
            lambda: self.carry_out(method, path, body, call.content_type),
        )  # fmt: skip

    async def arrived(self) -> None:
        """Wait until no request is in flight to the server."""
        for _ in range(WAITS):
            if not self.in_flight:
                return
            await asyncio.sleep(0.1)

    def _note_list(self, path: str, response: Response | None) -> None:
        """Record that a kind is being listed, or was: earlier knowledge is replaced."""
        kind, _, query = path.partition("?")
        if kind not in REQUIRED or query.startswith("limit=1&") or query == "limit=1":
            return
        if response is None:
            self._listing_since.setdefault(kind, self.clock.now())
        elif response.ok:
            self._listing_since.pop(kind, None)

    def _pods_until(self) -> float:
        """Return the time up to which this process has received all pods."""
        now, known = self.clock.now(), self._pods_listed_at
        for flow in self.flows:
            if flow.path.startswith(ALL_PODS):
                known = max(known, flow.died_at if flow.is_dead else now)
        return known

    @asynccontextmanager
    async def stream(self, path: str, *, silence_s: float) -> AsyncIterator[Any]:
        """Open a watch; fails during a partition."""
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
        """Start a partition: nothing passes any more, in either direction."""
        self.is_cut_off = True
        for flow in self.flows:
            flow.die()

    def join(self) -> None:
        """End the partition; earlier connections stay dead."""
        self.is_cut_off = False

    async def close(self) -> None:
        """Close, as the daemon closes its client."""
