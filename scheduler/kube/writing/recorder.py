"""Writing events (events.k8s.io/v1) about pods, as kube-scheduler does.

The executor passes `Record` effects. The first event of a series is created at once, its first
repeat turns it into a series, later repeats are counted here and written when the series ends or
every half hour. Nothing is dropped: when writing is slower than scheduling, the queue fills and the
daemon waits until it is shorter. Events that the server refuses permanently are counted as errors.

FailedScheduling events are treated differently, because a tenant may create a hundred thousand
infeasible pods: they are written round robin by namespace, no faster than `pace`, and scheduling
does not wait for them. Where thousands of a namespace are queued, further ones are dropped and
counted; the pod's condition contains the same message.
"""

import asyncio
from collections import OrderedDict
from typing import TypeAlias

import structlog

from scheduler.base import reasons
from scheduler.base.meters import Meters
from scheduler.engine.effects import Record
from scheduler.kube.api import JSON, STRATEGIC, Response
from scheduler.kube.connection.limits import RateLimit
from scheduler.kube.writing.eventbody import EventBodies, event_path
from scheduler.kube.writing.sender import EffectRequest, Sender
from scheduler.kube.writing.writequeue import WriteQueue

FINISH_S = 6 * 60.0
REFRESH_S = 30 * 60.0
NAME_BYTES = 253
# A broken webhook must not stop scheduling; a server that is away for minutes is waited for.
TRIES = 30
TRIES_REFUSED = 5
# The event of an eviction is written before the eviction, and retried for some seconds even if the
# server refuses it: roles and namespaces may be wrong for a moment. Then the pod is evicted with
# its DisruptionTarget condition, and the event is retried for ten minutes, since a deleted pod
# shows no condition.
EVICTION_REASONS = frozenset((reasons.PREEMPTED, reasons.GROUP_RELEASED))
TRIES_EVICTION = 9
TRIES_LATE = 70
MAX_SERIES = 16_384
MOST_REFUSALS = 5_000
_log = structlog.get_logger()
Key: TypeAlias = tuple[object, ...]


class _Entry:
    """One event on the server, and the occurrences since its last write."""

    __slots__ = (
        "count",
        "is_awaited",
        "is_busy",
        "is_created",
        "is_due",
        "last_s",
        "name",
        "record",
        "written",
    )

    def __init__(self, record: Record, name: str) -> None:
        self.record = record
        self.name = name
        self.count = 1
        self.written = 0
        self.last_s = record.now
        self.is_created = False
        self.is_busy = False
        self.is_due = True
        self.is_awaited = False


class _UnderWay:
    """How many events about one object are being written; `is_over` is set when none is."""

    __slots__ = ("is_over", "number")

    def __init__(self) -> None:
        self.number = 0
        self.is_over = asyncio.Event()


class Recorder:
    """Writes events through `sender`; `host` ends the name of the reporting instance."""

    def __init__(
        self,
        sender: Sender,
        host: str,
        *,
        meters: Meters,
        limit: int = 32,
        capacity: int = 10_000,
        pace: RateLimit | None = None,
    ) -> None:
        self._sender = sender
        self._bodies = EventBodies(host)
        self._writes = {
            result: meters.event_writes.labels(result) for result in ("created", "series", "error")
        }
        self._dropped = meters.events_dropped
        self._entries: OrderedDict[Key, _Entry] = OrderedDict()
        self._under_way: dict[str, _UnderWay] = {}
        self._last_ns = 0
        self._refreshed_at: float | None = None
        self._unreported = meters.refusals_untold.labels("Record")
        self.write_queue: WriteQueue[_Entry] = WriteQueue(
            "Record", self._write, limit=limit, capacity=capacity
        )
        self.refusals: WriteQueue[_Entry] = WriteQueue(
            "Record of refusals", self._write, limit=limit, capacity=None, pace=pace
        )
        both = self.write_queue, self.refusals
        meters.events_queued.read_from(lambda: sum(one.queued + one.in_flight for one in both))

    def put(self, record: Record) -> None:
        """Queue an event, or count it on the one it repeats."""
        if record.reason == reasons.SCHEDULED:
            # A pod is bound once: keeping each of these events for minutes would only cost memory.
            self.write_queue.put(self._entry(record))
            return
        key = _key(record)
        entry = self._entries.get(key)
        if entry is None:
            if _is_refusal(record) and self.refusals.queued_of(record.namespace) >= MOST_REFUSALS:
                self._unreported.inc()
                return
            entry = self._entries[key] = self._entry(record)
            self._begin(entry)
            if len(self._entries) > MAX_SERIES:
                self._finish(next(iter(self._entries)))
            return
        self._entries.move_to_end(key)
        entry.count += 1
        entry.last_s = record.now
        if entry.count == 2:
            self._queue(entry)

    async def settle(self, uid: str) -> None:
        """Return when all events of an object except rejections are written, or have failed for
        long enough.
        """
        under_way = self._under_way.get(uid)
        if under_way is not None:
            await under_way.is_over.wait()

    def tick(self, now: float) -> None:
        """End series that have been quiet for six minutes; write all every half hour."""
        # The oldest observation is first.
        while self._entries:
            key, entry = next(iter(self._entries.items()))
            if entry.last_s > now - FINISH_S:
                break
            self._finish(key)
        if self._refreshed_at is None:
            self._refreshed_at = now
        elif now - self._refreshed_at >= REFRESH_S:
            self._refreshed_at = now
            for entry in self._entries.values():
                if entry.count > entry.written:
                    self._queue(entry)

    def finish(self) -> None:
        """End all series: for the end of the process."""
        for key in list(self._entries):
            self._finish(key)

    def stop(self) -> int:
        """Stop writing; return how many writes were not done."""
        left = self.write_queue.stop() + self.refusals.stop()
        self._dropped.inc(left)
        self._entries.clear()
        while self._under_way:
            self._under_way.popitem()[1].is_over.set()
        return left

    def _entry(self, record: Record) -> _Entry:
        # Two events of one pod within one turn of the engine carry the same time.
        self._last_ns = max(int(record.now * 1e9), self._last_ns + 1)
        ending = f".{self._last_ns:x}"
        name = record.name[: NAME_BYTES - len(ending)].rstrip("-.")
        return _Entry(record, name + ending)

    def _finish(self, key: Key) -> None:
        entry = self._entries.pop(key)
        if entry.count > 1 and entry.count > entry.written:
            self._queue(entry)

    def _queue(self, entry: _Entry) -> None:
        if not entry.is_due:
            entry.is_due = True
            if not entry.is_busy:
                self._begin(entry)

    def _begin(self, entry: _Entry) -> None:
        """Start the write of an event, and register it for `settle` unless it reports a
        rejection.
        """
        if _is_refusal(entry.record):
            self.refusals.put(entry, entry.record.namespace)
        elif self.write_queue.put(entry):
            entry.is_awaited = True
            self._under_way.setdefault(entry.record.uid, _UnderWay()).number += 1

    def _ended(self, entry: _Entry) -> None:
        """Release the tasks that wait for an event."""
        uid, is_awaited, entry.is_awaited = entry.record.uid, entry.is_awaited, False
        under_way = self._under_way.get(uid)
        if under_way is not None and is_awaited:
            under_way.number -= 1
            if not under_way.number:
                del self._under_way[uid]
                under_way.is_over.set()

    async def _write(self, entry: _Entry) -> None:
        entry.is_busy = True
        try:
            while entry.is_due:
                entry.is_due = False
                count = entry.count
                if await self._send(entry):
                    entry.written = count
        finally:
            entry.is_busy = False
            self._ended(entry)

    async def _send(self, entry: _Entry) -> bool:
        result = "created"
        if entry.is_created:
            result = "series"
            path = f"{event_path(entry.record.namespace)}/{entry.name}"
            response = await self._deliver(
                "PATCH", path, self._bodies.series_patch(entry.count, entry.last_s)
            )
            if response.code == 404:
                # Events expire after an hour; a series may outlive its first event.
                response = await self._create(entry)
        else:
            response = await self._create(entry)
        if response.ok:
            entry.is_created = True
            self._writes[result].inc()
            return True
        self._writes["error"].inc()
        if not _is_namespace_ending(response):
            _log.warning(
                "an event cannot be written",
                pod=f"{entry.record.namespace}/{entry.record.name}",
                reason=entry.record.reason,
                code=response.code,
                message=response.message,
            )
        return False

    async def _create(self, entry: _Entry) -> Response:
        path = event_path(entry.record.namespace)
        body = self._bodies.event(entry.record, entry.name, entry.count, entry.last_s)
        eviction = entry if entry.record.reason in EVICTION_REASONS else None
        response = await self._deliver("POST", path, body, eviction)
        if response.code == 409 and response.reason == "AlreadyExists":
            # The name is ours alone: an earlier try arrived, only its answer did not.
            return Response(200)
        return response

    async def _deliver(
        self, method: str, path: str, body: bytes, eviction: _Entry | None = None
    ) -> Response:
        content_type = STRATEGIC if method == "PATCH" else JSON
        request = EffectRequest("Record", method, path, body, content_type)
        response = await self._sender.once(request)
        backoff, is_eviction = self._sender.backoff(), eviction is not None
        while True:
            tries = backoff.failures + 1
            if eviction is not None and tries >= _most(response, is_eviction=True):
                self._ended(eviction)
                is_eviction = is_eviction and tries < TRIES_LATE
            if _is_final(response, tries, is_eviction=is_eviction):
                return response
            await self._sender.pause("Record", response, backoff)
            response = await self._sender.once(request)


def _is_refusal(record: Record) -> bool:
    """Return whether an event reports a failed placement, which the pod's condition reports as
    well.
    """
    return record.reason == reasons.FAILED_SCHEDULING


def _key(record: Record) -> Key:
    """Return the identity of an event for a series: everything except note and time."""
    return (
        record.namespace,
        record.name,
        record.uid,
        record.resource_version,
        record.type,
        record.reason,
        record.action,
        record.scheduler_name,
        record.related,
    )


def _most(response: Response, *, is_eviction: bool) -> int:
    """Return the retry limit for this response while a task waits for the event."""
    if response.is_transient and response.code in (0, 401, 429, 503):
        return TRIES
    return TRIES_EVICTION if is_eviction else TRIES_REFUSED


def _is_final(response: Response, tries: int, *, is_eviction: bool) -> bool:
    """Return whether a response is final after `tries`; eviction events are always retried."""
    if response.ok or (response.code == 409 and response.reason == "AlreadyExists"):
        return True
    if is_eviction:
        return False
    return not response.is_transient or tries >= _most(response, is_eviction=False)


def _is_namespace_ending(response: Response) -> bool:
    """Return whether the pod's namespace is deleted or terminating, so that events are
    pointless.
    """
    return response.code == 404 or (response.code == 403 and "terminated" in response.message)
