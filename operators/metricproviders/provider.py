"""`FigureProvider`: the one method that a source of measured load has."""

from typing import Protocol

from operators.metricproviders.snapshot import FigureSnapshot
from scheduler.base.errors import TrellisError


class ProviderError(TrellisError):
    """A source did not respond, or its response is unusable."""


class FigureProvider(Protocol):
    """A source of figures; `name` is its name in objects and metrics."""

    @property
    def name(self) -> str:
        """Return the source's name, as it is recorded with the figures."""

    async def fetch(self) -> FigureSnapshot:
        """Query the source once; ProviderError without a usable response."""


class Fetch(Protocol):
    """A GET request below the source's address."""

    async def __call__(self, path: str, query: dict[str, str]) -> bytes:
        """Return the body of a successful response; ProviderError otherwise."""
