"""Writes pods' statuses: one patch at a time per pod, the newest state last.

The executor passes its `SetStatus` effects and calls `settle` before it binds a pod, because a
patch that arrives after the binding would declare a running pod unschedulable. Updates for a pod
whose patch is in flight wait and are merged.

Most patches only report why a pod is not scheduled, and a tenant may create a hundred thousand
infeasible pods: these are written round robin by namespace, no faster than `pace`, and scheduling
does not wait for them.
"""

import asyncio
import contextlib

import msgspec
import structlog

from scheduler.base.meters import Meters
from scheduler.engine.effects import SetStatus
from scheduler.kube.api import STRATEGIC, Response
from scheduler.kube.connection.limits import RateLimit
from scheduler.kube.writing.bodies import pod_path, status_patch
from scheduler.kube.writing.outcome import result_of, was_replaced
from scheduler.kube.writing.sender import EffectRequest, Sender
from scheduler.kube.writing.writequeue import WriteQueue, aside

MAX_TRIES = 20
# At most this many pods of a namespace wait for the write of their condition; further ones are
# written after a later attempt.
MOST_REFUSALS = 100_000
_log = structlog.get_logger()


class _UnderWay:
    """A patch that is being sent; `is_superseded` ends its retries."""

    def __init__(self) -> None:
        self.is_superseded = asyncio.Event()
        self.is_over = asyncio.Event()


class StatusWriter:
    """Patches pod statuses; a queued patch is merged with newer ones, or dropped for a binding."""

    def __init__(
        self,
        sender: Sender,
        meters: Meters,
        *,
        limit: int,
        capacity: int,
        pace: RateLimit | None = None,
    ) -> None:
        self._sender = sender
        self._meters = meters
        self._waiting: dict[str, SetStatus] = {}
        self._under_way: dict[str, _UnderWay] = {}
        self.write_queue: WriteQueue[str] = WriteQueue(
            "SetStatus", self._write, limit=limit, capacity=capacity
        )
        self.refusals: WriteQueue[str] = WriteQueue(
            "SetStatus of refusals", self._write, limit=limit, capacity=None, pace=pace
        )

    def put(self, effect: SetStatus) -> None:
        """Queue a patch, merged with one for the same pod that has not been sent."""
        before = self._waiting.get(effect.uid)
        if before is not None:
            self._waiting[effect.uid] = merge(before, effect)
            if _is_refusal(effect) or not _is_refusal(before):
                return
        elif _is_refusal(effect) and self.refusals.queued_of(effect.namespace) >= MOST_REFUSALS:
            self._meters.refusals_untold.labels("SetStatus").inc()
            return
        else:
            self._waiting[effect.uid] = effect
        if effect.uid not in self._under_way:
            self._queue(self._waiting[effect.uid])

    async def settle(self, uid: str) -> None:
        """Wait until no patch of this pod is in progress; drop a queued one."""
        self._waiting.pop(uid, None)
        under_way = self._under_way.get(uid)
        if under_way is not None:
            under_way.is_superseded.set()
            await under_way.is_over.wait()

    def stop(self) -> int:
        """Abandon all patches; return how many were left undone."""
        behind = sum(uid in self._under_way for uid in self._waiting)
        self._waiting.clear()
        return behind + self.write_queue.stop() + self.refusals.stop()

    def _queue(self, effect: SetStatus) -> None:
        """Enqueue a pod's patch; a pod in both write queues is finished by the first."""
        if _is_refusal(effect):
            self.refusals.put(effect.uid, effect.namespace)
        else:
            self.write_queue.put(effect.uid)

    async def _write(self, uid: str) -> None:
        if uid in self._under_way:
            return  # the running write checks for a newer status when it ends
        effect = self._waiting.pop(uid, None)
        if effect is None:
            return
        under_way = self._under_way[uid] = _UnderWay()
        try:
            await self._patch(effect, under_way)
        finally:
            del self._under_way[uid]
            under_way.is_over.set()
            if uid in self._waiting:
                self._queue(self._waiting[uid])

    async def _patch(self, effect: SetStatus, under_way: _UnderWay) -> None:
        backoff = self._sender.backoff()
        path = pod_path(effect.namespace, effect.name) + "/status"
        while True:
            body = status_patch(effect)
            request = EffectRequest("SetStatus", "PATCH", path, body, STRATEGIC)
            response = await self._sender.once(request)
            is_retryable = response.is_transient or response.code == 409
            if not is_retryable or was_replaced(response) or backoff.failures >= MAX_TRIES:
                break
            self._sender.count_retry("SetStatus", response)
            async with aside():
                await _wait(under_way.is_superseded, backoff.next_s(response.retry_after_s))
            if under_way.is_superseded.is_set():
                return
            newer = self._waiting.pop(effect.uid, None)
            if newer is not None:
                effect = merge(effect, newer)
        self._note(effect, response)

    def _note(self, effect: SetStatus, response: Response) -> None:
        result = result_of(response)
        self._meters.effects.labels("SetStatus", result).inc()
        if result in ("rejected", "error"):
            _log.error(
                "a pod's status cannot be written",
                pod=f"{effect.namespace}/{effect.name}",
                code=response.code,
                message=response.message,
            )


def _is_refusal(effect: SetStatus) -> bool:
    """Return whether a patch only reports why a pod waits, without a nomination."""
    return effect.nominated_node is None


async def _wait(happened: asyncio.Event, longest_s: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(longest_s):
            await happened.wait()


def merge(older: SetStatus, newer: SetStatus) -> SetStatus:
    """Return one patch that has the effect of both in order."""
    condition, nominated = newer.condition, newer.nominated_node
    return msgspec.structs.replace(
        newer,
        condition=older.condition if condition is None else condition,
        nominated_node=older.nominated_node if nominated is None else nominated,
    )
