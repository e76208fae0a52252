"""Step 5 of a pod's path: carry out the engine's effects and return the answers as events.

The daemon submits the engine's effects. Each enters the write queue of its kind, which limits
concurrent requests. An ambiguous response returns as code 0 and the engine looks the object up:
this module makes no decision. After `fence` nothing is sent any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from random import Random
from typing import Any, NamedTuple

import msgspec
import structlog

from scheduler.base.clock import Clock
from scheduler.base.meters import Meters
from scheduler.engine.effects import (
    OUTDATED,
    Answer,
    Bind,
    Call,
    Effect,
    Event,
    Evict,
    Look,
    Record,
    Seen,
    SetStatus,
)
from scheduler.kube.api import PROTOBUF, Api, Response
from scheduler.kube.connection.backoff import RetryBackoff
from scheduler.kube.connection.limits import RateLimit
from scheduler.kube.writing.bodies import binding, pod_path
from scheduler.kube.writing.eviction import PodEvictor
from scheduler.kube.writing.fence import Fence, FencedError, NotSentError
from scheduler.kube.writing.outcome import answer, result_of, was_replaced
from scheduler.kube.writing.podstatus import StatusWriter
from scheduler.kube.writing.recorder import Recorder
from scheduler.kube.writing.sender import EffectRequest, Sender
from scheduler.kube.writing.writequeue import WriteQueue, aside
from scheduler.objects.pod import Pod

# The engine counts a bind as lost after a minute and looks it up; none may be sent after that.
BIND_PATIENCE_S = 45.0
BIND_TIMEOUT_S = 30.0
CALL_TRIES = 5
_log = structlog.get_logger()
_pods = msgspec.json.Decoder(Pod)
_anything = msgspec.json.Decoder(Any)
_encode = msgspec.json.Encoder().encode


class EffectLimits(msgspec.Struct, frozen=True):
    """How many effects may be in flight, and how many may queue before `wait_capacity` waits.

    Limits per second the patches that report why pods are pending (and as many events), after
    `refusals_at_once`.
    """

    # Fewer leave an API server idle while its store writes: with 64 an eighth less is bound.
    binds: int = 128
    writes: int = 32
    capacity: int = 2000
    refusals_per_s: float = 250.0
    refusals_at_once: int = 2000

    def within(self, qps: float | None) -> EffectLimits:
        """Return the limits for a client that sends `qps` requests a second: half are left to
        binds.
        """
        if qps is None:
            return self
        return msgspec.structs.replace(self, refusals_per_s=min(self.refusals_per_s, qps / 4))

    def pace(self, clock: Clock) -> RateLimit:
        """Return the rate limit of writes that report refused pods."""
        return RateLimit(clock, self.refusals_per_s, self.refusals_at_once)


class _Task(NamedTuple):
    """An effect that needs an answer, and the time of its submission."""

    effect: Any
    submitted_at: float


class OutdatedError(NotSentError):
    """A bind that was not sent, because its decision is outdated."""


# Carries out an effect, given the time of its submission; returns the answer, and its outcome for
# metrics.
Carry = Callable[[Any, float], Awaitable[tuple[Answer, Response]]]


class Executor:
    """Carries effects out against one API server."""

    def __init__(
        self,
        api: Api,
        emit: Callable[[Event], None],
        recorder: Recorder,
        *,
        fence: Fence,
        clock: Clock,
        random: Random,
        meters: Meters,
        limits: EffectLimits | None = None,
        objection: Callable[[Bind], str] = lambda _: "",
        others: Mapping[type[Effect], Carry] | None = None,
    ) -> None:
        """Create the executor.

        `emit` receives answers; `others` carry out effects without an API request. `objection` is
        called directly before each bind is sent and returns why the bind is outdated, or ''.
        """
        limits = limits or EffectLimits()
        self._emit = emit
        self._recorder = recorder
        self._fence = fence
        self._objection = objection
        self._clock = clock
        self._meters = meters
        self._sender = Sender(api, fence, random, meters)
        # By path: a plugin's last request that changes the object there, until it is answered.
        self._changing: dict[str, asyncio.Event] = {}
        self._evictor = PodEvictor(self._sender, clock)
        capacity = limits.capacity
        self._statuses = StatusWriter(
            self._sender, meters, limit=limits.writes, capacity=capacity, pace=limits.pace(clock)
        )
        self._queues: dict[type[Effect], WriteQueue[_Task]] = {
            Bind: WriteQueue(
                "Bind", self._carried(self._bind), limit=limits.binds, capacity=capacity
            ),
            Look: WriteQueue(
                "Look", self._carried(self._look), limit=limits.binds, capacity=capacity
            ),
            Evict: WriteQueue(
                "Evict", self._carried(self._evict), limit=limits.writes, capacity=capacity
            ),
            Call: WriteQueue(
                "Call", self._carried(self._call), limit=limits.writes, capacity=capacity
            ),
        }
        for kind, carry in (others or {}).items():
            write_queue = WriteQueue(
                kind.__name__, self._carried(carry), limit=limits.binds, capacity=capacity
            )
            self._queues[kind] = write_queue
        self._all: list[WriteQueue[Any]] = [
            *self._queues.values(),
            self._statuses.write_queue,
            recorder.write_queue,
        ]
        self._all += [self._statuses.refusals, recorder.refusals]
        meters.effects_queued.read_from(
            lambda: {write_queue.name: write_queue.queued for write_queue in self._all}
        )
        meters.effects_in_flight.read_from(lambda: {x.name: x.in_flight for x in self._all})
        meters.effects_waiting.read_from(
            lambda: {write_queue.name: write_queue.aside for write_queue in self._all}
        )

    def submit(self, effects: Iterable[Effect]) -> None:
        """Take effects in the engine's order; returns at once."""
        now = self._clock.now()
        for effect in effects:
            if isinstance(effect, Record):
                self._recorder.put(effect)
            elif isinstance(effect, SetStatus):
                self._statuses.put(effect)
            else:
                self._queues[type(effect)].put(_Task(effect, now))

    async def wait_capacity(self) -> None:
        """Wait until no queue is full; the caller makes no new decision before."""
        for write_queue in self._all:
            await write_queue.wait_capacity()

    def fence(self) -> int:
        """Stop sending and cancel requests in flight; return the number of unfinished effects."""
        self._fence.close()
        left = sum(write_queue.stop() for write_queue in self._queues.values())
        left += self._statuses.stop() + self._recorder.stop()
        self._evictor.forget()
        if left:
            _log.warning("effects dropped: this process may not write any more", effects=left)
        return left

    def resume(self) -> None:
        """Resume work after `fence`; the election opens the fence itself."""
        for write_queue in self._all:
            write_queue.start()

    async def drain(self, timeout_s: float) -> int:
        """Wait until all work is done, `timeout_s` at most; drop the rest and return its number.

        The caller keeps receiving answers and submitting the effects that follow.
        """
        try:
            async with asyncio.timeout(timeout_s):
                while not all(write_queue.is_idle for write_queue in self._all):
                    for write_queue in self._all:
                        await write_queue.wait_idle()
        except TimeoutError:
            pass
        return self.fence()

    async def close(self) -> None:
        """Drop the queued effects and wait until all tasks have ended."""
        self.fence()
        for write_queue in self._all:
            await write_queue.wait_stopped()

    def _carried(self, carry: Carry) -> Callable[[_Task], Any]:
        """Wrap a function that carries out an effect: count it, measure it, and always answer."""

        async def work(task: _Task) -> None:
            effect, submitted_at = task
            try:
                reply, response = await carry(effect, submitted_at)
            except FencedError:
                raise
            except Exception as error:  # noqa: BLE001 - the engine must get an answer
                _log.exception("an effect failed", effect=type(effect).__name__)
                response = Response(0, reason="InternalError", message=str(error))
                reply = answer(effect.id, response)
            self._note(type(effect).__name__, response, submitted_at)
            self._emit(reply)

        return work

    def _note(self, name: str, response: Response, submitted_at: float) -> None:
        self._meters.effects.labels(name, result_of(response)).inc()
        self._meters.effect_duration.labels(name).observe(self._clock.now() - submitted_at)

    async def _bind(self, effect: Bind, submitted_at: float) -> tuple[Answer, Response]:
        """Send a bind; retry only if it was certainly not executed (401, 429, no connection).

        It may have waited for its turn, or for a server that was busy, while its node became
        another.
        """

        def check() -> None:
            self._fence.check()
            if why := self._objection(effect):
                raise OutdatedError(why)

        await self._statuses.settle(effect.uid)
        path = pod_path(effect.namespace, effect.name) + "/binding"
        request = EffectRequest("Bind", "POST", path, binding(effect))
        backoff: RetryBackoff | None = None
        give_up_at = submitted_at + BIND_PATIENCE_S
        response = Response(0, reason="Timeout", message="not sent in time", was_sent=False)
        while (left := give_up_at - self._clock.now()) > 0:
            try:
                response = await self._sender.once(request, min(BIND_TIMEOUT_S, left), check)
            except OutdatedError as why:
                response = Response(0, reason=OUTDATED, message=str(why), was_sent=False)
                break
            if response.was_sent and response.code not in (401, 429):
                break
            backoff = backoff or self._sender.backoff()
            await self._sender.pause("Bind", response, backoff)
        if not response.ok:
            self._count_conflict(response)
        return answer(effect.id, response), response

    def _count_conflict(self, response: Response) -> None:
        if response.reason == OUTDATED:
            self._meters.bind_conflicts.labels("outdated").inc()
        elif response.code == 404:
            self._meters.bind_conflicts.labels("gone").inc()
        elif response.code == 409:
            reason = "replaced" if was_replaced(response) else "bound"
            self._meters.bind_conflicts.labels(reason).inc()

    async def _look(self, effect: Look, _submitted_at: float) -> tuple[Answer, Response]:
        path = pod_path(effect.namespace, effect.name)
        response = await self._sender.repeatedly(EffectRequest("Look", "GET", path))
        if not response.ok:
            return answer(effect.id, response), response
        pod = _pods.decode(response.body)
        seen = Seen(pod.metadata.uid, pod.spec.node_name)
        return answer(effect.id, response, seen), response

    async def _evict(self, effect: Evict, _submitted_at: float) -> tuple[Answer, Response]:
        # No victim is deleted before the event that names its preemptor is written.
        await self._recorder.settle(effect.uid)
        response = await self._evictor.evict(effect)
        return answer(effect.id, response), response

    async def _call(self, effect: Call, _submitted_at: float) -> tuple[Answer, Response]:
        """Send a plugin's request, after earlier ones for the same object.

        Otherwise a retried request could overwrite a later one.
        """
        if effect.method not in ("PATCH", "PUT"):
            return await self._sent(effect)
        before, done = self._changing.get(effect.path), asyncio.Event()
        self._changing[effect.path] = done
        try:
            if before is not None:
                async with aside():  # requests for other objects do not wait for this one
                    await before.wait()
            return await self._sent(effect)
        finally:
            done.set()
            if self._changing[effect.path] is done:
                del self._changing[effect.path]

    async def _sent(self, effect: Call) -> tuple[Answer, Response]:
        """Send a plugin's request; retry only if it was certainly not executed."""
        if isinstance(effect.body, bytes):
            body = effect.body
        else:
            body = b"" if effect.body is None else _encode(effect.body)
        request = EffectRequest("Call", effect.method, effect.path, body, effect.content_type)
        backoff = self._sender.backoff()
        while True:
            response = await self._sender.once(request)
            if response.was_sent and response.code != 429:
                break
            if backoff.failures + 1 >= CALL_TRIES:
                break
            await self._sender.pause("Call", response, backoff)
        content = None
        if response.ok and response.body:
            is_json = effect.method != "GET" or effect.content_type != PROTOBUF
            content = _anything.decode(response.body) if is_json else response.body
        return answer(effect.id, response, content), response
