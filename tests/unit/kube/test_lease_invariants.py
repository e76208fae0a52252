"""Invariants of the leader election under random delays, failures and foreign holders.

The monitor derives the expected state from the requests and responses of each candidate alone, and
checks it every 100 ms of loop time:

1. A fence is open only within `renew_deadline_s` of the SENDING of the last acknowledged write.
2. A leader whose response names another holder stops before its next request.
3. At most one fence is open.
"""

import asyncio
from collections.abc import Callable
from math import inf
from random import Random

import msgspec
import pytest

from scheduler.base.clock import Clock
from scheduler.kube.api import JSON, REQUEST_TIMEOUT_S, Response
from scheduler.kube.leaserecord import LeaseSettings
from tests.unit.kube.memoryapi import LOST, Accident, MemoryApi
from tests.unit.kube.test_lease import LEASE, Candidate

pytestmark = pytest.mark.looptime

STEP_S = 0.1
SECONDS = 300
DEADLINE_S = LeaseSettings("n", "l", "i").renew_deadline_s
# The request that reads the other holder, and the turn of the loop that ends the term.
NOTICE_S = 0.15


class Monitor:
    """Records the writes of one candidate, and delays its responses after they were applied."""

    def __init__(self, candidate: Candidate, random: Random) -> None:
        self.candidate = candidate
        self.acknowledged_at = -inf
        self.replaced_at = inf
        self._random = random
        api = candidate.election._api
        self._request = api.request
        api.request = self.request  # type: ignore[method-assign]

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
        """Send a request; return its response up to four seconds after the server applied it."""
        clock: Clock = self.candidate.clock
        sent_at = clock.now()
        response = await self._request(
            method, path, body, content_type=content_type, timeout_s=timeout_s, guard=guard
        )
        await asyncio.sleep(self._random.choice((0.0, 0.0, 0.5, 2.0, 4.0)))
        if "/leases" in path and response.ok:
            holder = msgspec.json.decode(response.body)["spec"]["holderIdentity"]
            if holder != self.candidate.name and self.candidate.election.is_leader:
                self.replaced_at = min(self.replaced_at, clock.now())
            if method != "GET":
                self.acknowledged_at = sent_at
        return response

    def check(self) -> None:
        """Assert the invariants of this candidate."""
        now = self.candidate.clock.now()
        if self.candidate.fence.is_open:
            assert now < self.acknowledged_at + DEADLINE_S
            assert now < self.replaced_at + NOTICE_S


def some_accident(random: Random) -> Accident | None:
    """Return the fault of one request: usually none, else a loss, a conflict or a delay."""
    match random.randrange(12):
        case 0:
            return Accident(LOST, delay_s=random.choice((0.0, 3.0)))
        case 1:
            return Accident(LOST, is_applied=True)
        case 2:
            return Accident(Response(409, reason="Conflict"))
        case 3 | 4:
            return Accident(Response(200), delay_s=random.choice((0.5, 2.0, 4.0)))
    return None


@pytest.mark.parametrize("seed", range(3))
async def test_a_fence_is_open_only_by_an_acknowledged_write(seed: int):
    """Five minutes of three candidates on a bad network; a foreign holder appears now and then."""
    random, api = Random(seed), MemoryApi()
    candidates = [Candidate(name, api, seed=seed) for name in ("first", "second", "third")]
    monitors = [Monitor(candidate, random) for candidate in candidates]
    for candidate in candidates:
        candidate.link = lambda _method, _path: some_accident(random)
    led = 0
    for step in range(int(SECONDS / STEP_S)):
        await asyncio.sleep(STEP_S)
        for monitor in monitors:
            monitor.check()
        are_open = [candidate.name for candidate in candidates if candidate.fence.is_open]
        assert len(are_open) <= 1
        led += len(are_open)
        if step % 400 == 399 and api.get(LEASE):
            api.change(LEASE, {"spec": {"holderIdentity": "foreign"}})
        for monitor in monitors:
            if monitor.candidate.task.done():
                # A process that lost the lease restarts.
                monitor.candidate.election._is_leaving.clear()
                monitor.replaced_at = inf
                monitor.candidate.task = asyncio.create_task(monitor.candidate.election.run())
    for candidate in candidates:
        await candidate.stop()

    assert led * STEP_S > SECONDS / 6
