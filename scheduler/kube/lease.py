"""Leader election on a Lease, with a fence for the leader's writes.

The daemon runs an `Election`, acts between `on_lead` and `on_lost`, and releases the lease at the
end. `on_lead` receives whether another process may have led before: this one did not create the
Lease. A leader that could not renew stops before another one may start: the fence closes
`renew_deadline_s` after the last renewal was SENT, others wait `lease_s` after they SAW it. Clocks
of different machines are never compared. (kubernetes-asyncio's election cancels a task on loss;
requests in progress would still be sent, so it cannot fence.)
"""

import asyncio
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import msgspec
import structlog

from scheduler.base.clock import Clock
from scheduler.base.meters import Meters
from scheduler.base.reasons import LEADER_ELECTION
from scheduler.kube.api import Api, Response
from scheduler.kube.leaserecord import LeaseRecord, LeaseSettings
from scheduler.kube.writing.fence import Fence, FencedError

# A standby reads slightly less often than the holder renews, so that several standbys do not
# synchronise.
JITTER = 0.2
HEALTH_GRACE_S = 20.0
_log = structlog.get_logger()
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class Election:
    """Takes part in the election on one Lease."""

    def __init__(
        self,
        api: Api,
        fence: Fence,
        settings: LeaseSettings,
        *,
        clock: Clock,
        random: Random,
        meters: Meters,
        on_lead: Callable[[bool], None],
        on_lost: Callable[[], None],
    ) -> None:
        self._api = api
        self._fence = fence
        self._settings = settings
        self._clock = clock
        self._random = random
        self._on_lead = on_lead
        self._on_lost = on_lost
        self._root = f"/apis/coordination.k8s.io/v1/namespaces/{settings.namespace}/leases"
        self._path = f"{self._root}/{settings.name}"
        self._record = LeaseRecord(settings)
        self._renewed_at: float | None = None
        self._has_predecessor = False
        self._is_leaving = asyncio.Event()
        self._awaited = ""
        self._event_writes: set[asyncio.Task[Response]] = set()
        self._status = meters.leader_election_master_status.labels(settings.name)
        self._status.set(0)
        self._won = meters.lease_transitions.labels(settings.name)
        self.is_leader = False

    def is_healthy(self, now: float) -> bool:
        """Return whether this process is no leader, or a leader that renewed recently."""
        if not self.is_leader or self._renewed_at is None:
            return True
        return now - self._renewed_at < self._settings.lease_s + HEALTH_GRACE_S

    def publish(self, annotations: Callable[[], Mapping[str, str]]) -> None:
        """Write these annotations with each renewal while we lead; called before `run`."""
        self._record.published = annotations

    async def run(self) -> None:
        """Wait for the lease, lead until it is lost or `leave` is called, then return."""
        try:
            if not await self._acquire():
                return
            self._begin()
            if await self._hold():
                self.record_event(LEADER_ELECTION, "stopped leading")
                await asyncio.gather(*self._event_writes, return_exceptions=True)
                self._end()
                if self._fence.may_be_late:
                    _log.warning("the lease runs out: a write that was sent may still be executed")
                else:
                    await self._release()
        finally:
            if self.is_leader:
                self._end()
            for task in self._event_writes:
                task.cancel()
            await asyncio.gather(*self._event_writes, return_exceptions=True)

    def leave(self) -> None:
        """Release the lease for an immediate take-over; `run` then returns.

        If a request that was sent may still be executed, the lease is not released and expires: the
        next leader must not decide before that.
        """
        self._is_leaving.set()

    async def _acquire(self) -> bool:
        """Retry until this process has the lease; return False if `leave` is called before."""
        retry_s = self._settings.retry_s
        while not await self._try():
            self._log_holder()
            delay = retry_s * (1 + JITTER * self._random.random())
            expires_in = self._record.expires_in_s(self._clock.now())
            if expires_in > 0:
                # To wait longer than the holder's claim is valid would only cost time.
                delay = min(delay, expires_in + retry_s / 10 * self._random.random())
            if await self._pause(delay):
                return False
        return True

    def _log_holder(self) -> None:
        """Log the current holder, once for each holder."""
        holder = self._record.holder
        if holder and holder != self._awaited:
            self._awaited = holder
            _log.info("standing by", lease=self._settings.name, leader=holder)

    async def _hold(self) -> bool:
        """Renew until the lease is lost (False) or `leave` is called (True)."""
        while True:
            if await self._pause(min(self._settings.retry_s, max(self._left_s(), 0))):
                return True
            try:
                async with asyncio.timeout(self._left_s()):
                    await self._try()
            except (TimeoutError, FencedError):
                # A process that was stopped finds its deadline passed: it does not even send a
                # renewal.
                pass
            if self._left_s() <= 0 or not self._record.is_ours:
                _log.error(
                    "the lease is lost", lease=self._settings.name, holder=self._record.holder
                )
                return False

    async def _try(self) -> bool:
        """Take or renew the lease once; return whether this process has it."""
        if self.is_leader and self._record.is_current:
            # The usual renewal is one request: other candidates do not write to a valid lease.
            if await self._write("PUT", self._record.claimed(self._clock.now())):
                return True
            if self._record.is_current:
                return False
        found = await self._send("GET", self._path)
        if found.code == 404:
            self._has_predecessor = False
            return await self._write("POST", self._record.new(self._clock.now()))
        if not found.ok:
            self._complain("read", found)
            return False
        now = self._clock.now()
        self._has_predecessor = True
        self._record.see(_decode(found.body), now)
        is_taken = bool(self._record.holder) and not self._record.is_ours
        if is_taken and (self.is_leader or self._record.expires_in_s(now) > 0):
            return False
        return await self._write("PUT", self._record.claimed(now))

    async def _write(self, method: str, lease: dict[str, Any]) -> bool:
        sent_at = self._clock.now()
        path = self._root if method == "POST" else self._path
        guard = self._fence.check if self.is_leader else None
        response = await self._send(method, path, lease, guard)
        if response.ok:
            self._record.see(_decode(response.body), self._clock.now())
            self._renewed_at = sent_at
            self._fence.open_until(sent_at + self._settings.renew_deadline_s)
            return True
        if response.code in (404, 409):
            self._record.doubt()
        else:
            self._complain("write", response)
        return False

    async def _release(self) -> None:
        response = await self._send("PUT", self._path, self._record.released(self._clock.now()))
        if not response.ok:
            self._complain("release", response)

    async def _send(
        self, method: str, path: str, body: Any = None, guard: Callable[[], None] | None = None
    ) -> Response:
        timeout_s = self._settings.renew_deadline_s / 2
        encoded = b"" if body is None else _encode(body)
        return await self._api.request(method, path, encoded, timeout_s=timeout_s, guard=guard)

    def _begin(self) -> None:
        self.is_leader = True
        self._won.inc()
        self._status.set(1)
        _log.info("became leader", lease=self._settings.name, identity=self._settings.identity)
        self._on_lead(self._has_predecessor)
        self.record_event(LEADER_ELECTION, "became leader")

    def _end(self) -> None:
        self.is_leader = False
        self._status.set(0)
        self._fence.close()
        self._on_lost()

    def _left_s(self) -> float:
        """How long we may still act without a renewal."""
        since = self._clock.now() - (self._renewed_at or 0.0)
        return self._settings.renew_deadline_s - since

    async def _pause(self, delay_s: float) -> bool:
        """Wait; return True as soon as `leave` is called."""
        try:
            async with asyncio.timeout(delay_s):
                await self._is_leaving.wait()
        except TimeoutError:
            return False
        return True

    def record_event(self, reason: str, what: str, *, is_warning: bool = False) -> None:
        """Write an event about the lease and this process, without waiting for it."""
        event = self._record.event(reason, what, self._clock.now(), is_warning=is_warning)
        path = f"/api/v1/namespaces/{self._settings.namespace}/events"
        task = asyncio.create_task(self._send("POST", path, event))
        self._event_writes.add(task)
        task.add_done_callback(self._event_writes.discard)

    def _complain(self, action: str, response: Response) -> None:
        _log.warning(
            f"cannot {action} the lease",
            lease=self._settings.name,
            code=response.code,
            reason=response.reason,
            message=response.message,
        )
