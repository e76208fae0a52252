"""Whether this process may still write: until a deadline that only the election moves.

Every writer checks it before each request. It is a deadline, not a flag: a process that was stopped
or starved past it finds the fence closed before any timer has fired. It also knows whether a write
that was sent may still be carried out: the lease is not released before that is ruled out.
"""

from collections.abc import Awaitable, Callable
from math import inf
from typing import TypeVar

from scheduler.base.clock import Clock
from scheduler.engine.effects import LATE_S
from scheduler.kube.api import JSON, REQUEST_TIMEOUT_S, Api, Response
from scheduler.kube.writing.outcome import is_unsettled

T = TypeVar("T")


class NotSentError(Exception):
    """A request that was not sent, because a check before its sending failed."""


class FencedError(NotSentError):
    """This process may not write any more."""


class Fence:
    """Open until `clock` reaches the time set last; always open without an election."""

    def __init__(self, clock: Clock, until: float = inf) -> None:
        self._clock = clock
        self._until = until
        self._in_flight = 0
        self._lost_at = -inf

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

    @property
    def may_be_late(self) -> bool:
        """Return whether a write that was sent may still be executed."""
        return self._in_flight > 0 or self._clock.now() - self._lost_at < LATE_S

    async def watched(self, answer: Awaitable[T], is_unsettled: Callable[[T], bool]) -> T:
        """Return the answer to a write; remember the time of one whose outcome is unknown.

        It is if no answer arrives, or if `is_unsettled` says so of the answer.
        """
        self._in_flight += 1
        is_lost = True
        try:
            found = await answer
            is_lost = is_unsettled(found)
        except NotSentError:
            is_lost = False
            raise
        finally:
            self._in_flight -= 1
            if is_lost:
                self._lost_at = self._clock.now()
        return found


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
        answer = self._api.request(
            method, path, body, content_type=content_type, timeout_s=timeout_s, guard=guard
        )
        try:
            return await (answer if guard is None else self._fence.watched(answer, is_unsettled))
        except FencedError:
            message = "this process does not lead any more"
            return Response(0, reason="NotSent", message=message, was_sent=False)
