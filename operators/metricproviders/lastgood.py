"""`LastGood`: a provider whose last good response is valid until it expires.

A failure is reported, and the last response stays. Expiry counts from the time of measurement, so a
source that repeats old figures expires as well.
"""

from typing import Generic, Protocol, TypeVar

import msgspec

from operators.metricproviders.provider import ProviderError
from scheduler.base.clock import Clock


class ProviderAnswer(Protocol):
    """A provider's response: its time, and the newest measurement in it."""

    @property
    def taken_at(self) -> float: ...
    @property
    def newest(self) -> float: ...


AnswerT = TypeVar("AnswerT", bound=ProviderAnswer)
AnswerT_co = TypeVar("AnswerT_co", bound=ProviderAnswer, covariant=True)


class Provider(Protocol[AnswerT_co]):
    """A source of figures."""

    @property
    def name(self) -> str: ...

    async def fetch(self) -> AnswerT_co:
        """Query the source once; ProviderError without a usable response."""


class ProviderRecord(msgspec.Struct, frozen=True):
    """The state of a provider: times in seconds since the epoch, None for never."""

    name: str
    succeeded_at: float | None
    measured_at: float | None
    failures: int
    error: str


class LastGood(Generic[AnswerT]):
    """Queries a provider and keeps its last good response for `expires_s` seconds."""

    def __init__(self, provider: Provider[AnswerT], clock: Clock, expires_s: float) -> None:
        self._provider = provider
        self._clock = clock
        self._expires_s = expires_s
        self._last: AnswerT | None = None
        self._failures = 0
        self._error = ""

    async def refresh(self) -> str:
        """Query the source once; return the error, '' for none."""
        try:
            self._last = await self._provider.fetch()
        except ProviderError as error:
            self._failures += 1
            self._error = str(error)
        else:
            self._failures, self._error = 0, ""
        return self._error

    def current(self) -> AnswerT | None:
        """Return the last good response; None without one, or if all of it has expired."""
        last = self._last
        if last is None or self._clock.now() - last.newest >= self._expires_s:
            return None
        return last

    def statistics(self) -> ProviderRecord:
        """Return how the provider does."""
        last = self._last
        measured = last.newest if last is not None else float("-inf")
        return ProviderRecord(
            name=self._provider.name,
            succeeded_at=None if last is None else last.taken_at,
            measured_at=None if measured == float("-inf") else measured,
            failures=self._failures,
            error=self._error,
        )
