"""Evicting victims of preemption: mark each, then delete it with its own grace period.

Victims of one unit wait for one another between the two steps: if one cannot be marked, evicting
the others would not free enough for the preemptor, and a group would have lost its work in vain.
The mark also states, for the next leader, that the eviction of a group has begun.
"""

import asyncio

from scheduler.base.clock import Clock, rfc3339
from scheduler.engine.effects import Evict, longest_eviction_s
from scheduler.kube.api import JSON, STRATEGIC, Response
from scheduler.kube.writing.bodies import deletion, disruption_patch, pod_path
from scheduler.kube.writing.outcome import was_replaced
from scheduler.kube.writing.sender import EffectRequest, Sender
from scheduler.kube.writing.writequeue import aside

MAX_TRIES = 6
# No victim is marked any more this long before the engine considers a preemption failed: none may
# be deleted after that.
MARGIN_S = 15.0


class _Unit:
    """Victims that are evicted together: how many are not marked yet, how many are not finished."""

    def __init__(self, size: int) -> None:
        self.unmarked = self.left = size
        self.longest_s = longest_eviction_s(size) - MARGIN_S
        self.refusal: Response | None = None
        self.is_decided = asyncio.Event()

    def note(self, response: Response) -> None:
        """Record the result of a mark; a deleted pod counts as marked."""
        self.unmarked -= 1
        if not response.ok and response.code != 404:
            self.refusal = self.refusal or response
        if self.refusal or not self.unmarked:
            self.is_decided.set()


class PodEvictor:
    """Carries out `Evict` effects; every step may be repeated without harm."""

    def __init__(self, sender: Sender, clock: Clock) -> None:
        self._sender = sender
        self._clock = clock
        self._units: dict[int, _Unit] = {}

    async def evict(self, effect: Evict) -> Response:
        """Mark and delete a pod; return the deciding response, 404 if the pod no longer exists."""
        if not effect.unit:
            marked = await self._mark(effect)
            return await self._delete(effect) if marked.ok else marked
        unit = self._units.get(effect.unit)
        if unit is None:
            unit = self._units[effect.unit] = _Unit(effect.unit_size)
        try:
            marked = await self._mark(effect)
            unit.note(marked)
            refusal = await self._decided(unit)
            if not marked.ok or refusal is not None:
                return refusal or marked
            return await self._delete(effect)
        finally:
            unit.left -= 1
            if not unit.left:
                # A fenced process has dropped all units, while some of their victims are still
                # being processed.
                self._units.pop(effect.unit, None)

    def forget(self) -> None:
        """Drop all units, because a fence dropped some of their evictions."""
        self._units.clear()

    async def _decided(self, unit: _Unit) -> Response | None:
        """Wait for the other members of a unit; return why none of them is evicted, or None."""
        if not unit.is_decided.is_set():
            try:
                async with aside(), asyncio.timeout(unit.longest_s):
                    await unit.is_decided.wait()
            except TimeoutError:
                unit.note(Response(504, reason="Timeout", message="others could not be marked"))
        return unit.refusal

    async def _mark(self, effect: Evict) -> Response:
        """Write the condition DisruptionTarget on a pod that has none; return 404 for a deleted
        pod.
        """
        if effect.is_marked:
            return Response(200)
        path = f"{pod_path(effect.namespace, effect.name)}/status"
        now = rfc3339(self._clock.now())
        body = disruption_patch(effect.uid, effect.message, effect.generation, now)
        marked = await self._send("PATCH", path, body, STRATEGIC)
        if was_replaced(marked):
            return Response(404, reason="NotFound", message="another pod has this name now")
        return marked

    async def _delete(self, effect: Evict) -> Response:
        path = pod_path(effect.namespace, effect.name)
        return await self._send("DELETE", path, deletion(effect.uid))

    async def _send(
        self, method: str, path: str, body: bytes = b"", content_type: str = JSON
    ) -> Response:
        request = EffectRequest("Evict", method, path, body, content_type)
        return await self._sender.repeatedly(request, MAX_TRIES)
