"""Evicting a victim of preemption: mark it, then delete it with its own grace period."""

import msgspec

from scheduler.base.clock import Clock, rfc3339
from scheduler.engine.effects import Evict
from scheduler.kube.api import JSON, STRATEGIC, Response
from scheduler.kube.bodies import deletion, disruption_patch, pod_path
from scheduler.kube.sender import Request, Sender
from scheduler.objects.pod import Pod

MAX_TRIES = 6
_pods = msgspec.json.Decoder(Pod)


class Evictor:
    """Carries out `Evict` effects; every step may be repeated without harm."""

    def __init__(self, sender: Sender, clock: Clock) -> None:
        self._sender = sender
        self._clock = clock

    async def evict(self, effect: Evict) -> Response:
        """Mark and delete a pod; return the answer that decided it, 404 when it is gone already."""
        path = pod_path(effect.namespace, effect.name)
        found = await self._send("GET", path)
        if not found.ok:
            return found
        pod = _pods.decode(found.body)
        if pod.metadata.uid != effect.uid:
            return Response(404, reason="NotFound", message="another pod has this name now")
        mark = pod.condition("DisruptionTarget")
        if mark is None or mark.status != "True":
            now = rfc3339(self._clock.now())
            body = disruption_patch(effect.uid, effect.message, pod.metadata.generation, now)
            marked = await self._send("PATCH", f"{path}/status", body, STRATEGIC)
            if not marked.ok:
                return marked
        return await self._send("DELETE", path, deletion(effect.uid))

    async def _send(
        self, method: str, path: str, body: bytes = b"", content_type: str = JSON
    ) -> Response:
        request = Request("Evict", method, path, body, content_type)
        return await self._sender.repeatedly(request, MAX_TRIES)
