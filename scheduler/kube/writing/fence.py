"""Whether this process may still write: until a deadline that only the election moves.

Every writer checks it before each request. It is a deadline, not a flag: a process that was stopped
or starved past it finds the fence closed before any timer has fired.
"""

from math import inf

from scheduler.base.clock import Clock
from scheduler.kube.api import JSON, REQUEST_TIMEOUT_S, Api, Response


class FencedError(Exception):
    """A request that was not sent, because this process may not write any more."""


class Fence:
    """Open until `clock` reaches the time set last; always open without an election."""

    def __init__(self, clock: Clock, until: float = inf) -> None:
        self._clock = clock
        self._until = until

    @property
    def is_open(self) -> bool:
        """Return whether a request may be sent now."""
        return self._clock.now() < self._until

    def open_until(self, moment: float) -> None:
        """Allow requests until `moment`, in seconds since the epoch."""
        self._until = moment

    def close(self) -> None:
        """Permit no further write."""
        self._until = -inf

    def check(self) -> None:
        """Raise FencedError if no request may be sent any more."""
        if not self.is_open:
            raise FencedError


class FencedApi:
    """Requests through `api`; writes are sent only while `fence` is open.

    The operators use it in place of the client, so that the fence applies to their writes as it
    does to the engine's effects.
    """

    def __init__(self, api: Api, fence: Fence) -> None:
        self._api = api
        self._fence = fence

    async def request(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        content_type: str = JSON,
        timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> Response:
        """Send one request and return its outcome; NotSent if the fence is closed."""
        guard = None if method == "GET" else self._fence.check
        try:
            return await self._api.request(
                method, path, body, content_type=content_type, timeout_s=timeout_s, guard=guard
            )
        except FencedError:
            message = "this process does not lead any more"
            return Response(0, reason="NotSent", message=message, was_sent=False)
