"""`Sender`: the only sender of effects and events; checks the fence and retries on request.

A request goes out only while the fence is open. Only idempotent requests are repeated; the caller
states how often.
"""

import asyncio
from collections.abc import Callable
from math import inf
from random import Random

import msgspec

from scheduler.base.meters import Meters
from scheduler.kube.api import JSON, REQUEST_TIMEOUT_S, Api, Response
from scheduler.kube.connection.backoff import RetryBackoff
from scheduler.kube.writing.fence import Fence
from scheduler.kube.writing.outcome import is_unsettled
from scheduler.kube.writing.writequeue import aside


class EffectRequest(msgspec.Struct, frozen=True, gc=False):
    """A request to send; `effect` names it in metrics."""

    effect: str
    method: str
    path: str
    body: bytes = b""
    content_type: str = JSON


class Sender:
    """Sends requests through an `Api` while `fence` is open; raises FencedError otherwise."""

    def __init__(self, api: Api, fence: Fence, random: Random, meters: Meters) -> None:
        self._api = api
        self._fence = fence
        self._random = random
        self._retries = meters.effect_retries

    async def once(
        self,
        request: EffectRequest,
        timeout_s: float = REQUEST_TIMEOUT_S,
        check: Callable[[], None] | None = None,
    ) -> Response:
        """Send a request once, unless `check` (or without it the fence) raises.

        The fence is checked again once a connection is available: a stopped process may have waited
        for one past its deadline.
        """
        check = check or self._fence.check
        check()
        answer = self._api.request(
            request.method,
            request.path,
            request.body,
            content_type=request.content_type,
            timeout_s=timeout_s,
            guard=check,
        )
        # The next leader does not decide by events: a late one harms nothing.
        is_harmless = request.method == "GET" or request.effect == "Record"
        return await (answer if is_harmless else self._fence.watched(answer, is_unsettled))

    async def repeatedly(self, request: EffectRequest, tries: float = inf) -> Response:
        """Send a request until its response is definite, at most `tries` times, with waits in
        between.
        """
        backoff = self.backoff()
        while True:
            response = await self.once(request)
            if not response.is_transient or backoff.failures + 1 >= tries:
                return response
            await self.pause(request.effect, response, backoff)

    async def pause(self, effect: str, response: Response, backoff: RetryBackoff) -> None:
        """Wait before the next try, and count it."""
        self.count_retry(effect, response)
        async with aside():
            await asyncio.sleep(backoff.next_s(response.retry_after_s))

    def count_retry(self, effect: str, response: Response) -> None:
        """Count that a request is sent once more."""
        self._retries.labels(effect, response.reason or str(response.code)).inc()

    def backoff(self) -> RetryBackoff:
        """Return delays for one request: from a twentieth of a second to ten seconds."""
        return RetryBackoff(self._random, first_s=0.05, longest_s=10.0)
