"""`keep_figures`: polls a source for the risk plugins and passes its responses to the scheduler.

A response is processed like a watched object, so it is in the decision log and a decision uses one
state. If a source fails, its last response stays valid until it expires; then it is deleted, and
the plugins work without figures.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack

import structlog

from operators.api import Api
from operators.metricproviders.http import HttpSource
from operators.metricproviders.lastgood import LastGood
from operators.metricproviders.provider import Fetch, ProviderError
from operators.metricproviders.watcher import (
    Capacities,
    LoadWatcher,
    MetricsServerWatcher,
    PrometheusWatcher,
    ProviderFigures,
)
from operators.settings import FiguresSettings
from scheduler.base.clock import Clock
from scheduler.base.errors import ApiError, ObjectError
from scheduler.objects.quantity import milli_quantity, quantity
from scheduler.objects.reports.watchermetrics import WatcherMetrics
from scheduler.state.view import ClusterView

_log = structlog.get_logger("operators.figures")

# "MODIFIED" or "DELETED", and the object.
Put = Callable[[str, WatcherMetrics], None]
Reported = Callable[[str, float | None, str], None]
Watcher = LoadWatcher | PrometheusWatcher | MetricsServerWatcher


class FigureFeed:
    """One source of figures, and the last ones that the scheduler received."""

    def __init__(self, kept: LastGood[ProviderFigures], put: Put, reported: Reported) -> None:
        self._kept = kept
        self._put = put
        self._reported = reported
        self._shown: ProviderFigures | None = None
        self._error = ""

    async def round(self) -> None:
        """Fetch once and publish new figures; errors of the source do not end the feed."""
        error = await self._kept.refresh()
        if error != self._error:
            self._error = error
            if error:
                _log.warning("no new figures", error=error)
        record = self._kept.statistics()
        current = self._kept.current()
        self._reported(record.name, None if current is None else record.measured_at, error)
        if current is self._shown:
            return
        if current is not None:
            self._put("MODIFIED", current.metrics)
        elif self._shown is not None:
            self._put("DELETED", self._shown.metrics)
            _log.warning("the figures have expired", source=record.name)
        self._shown = current


async def keep_figures(
    settings: FiguresSettings,
    view: ClusterView,
    api: Api,
    put: Put,
    clock: Clock,
    reported: Reported,
) -> None:
    """Poll until cancelled."""
    async with AsyncExitStack() as stack:
        if settings.source == MetricsServerWatcher.name:
            source: Watcher = MetricsServerWatcher(_fetch_of(api), clock, capacities(view))
        else:
            fetch = await stack.enter_async_context(HttpSource(settings.http))
            is_watcher = settings.source == LoadWatcher.name
            source = LoadWatcher(fetch, clock) if is_watcher else PrometheusWatcher(fetch, clock)
        feed = FigureFeed(LastGood(source, clock, settings.expires_s), put, reported)
        while True:
            await feed.round()
            await asyncio.sleep(settings.every_s)


def capacities(view: ClusterView) -> Capacities:
    """Return the function that returns the cores and bytes of all nodes; invalid amounts are left
    out.
    """

    def known() -> dict[str, tuple[float, float]]:
        found = {}
        for node in view.nodes():
            amounts = node.status.allocatable
            try:
                cores = milli_quantity(amounts.get("cpu", 0)) / 1000
                found[node.metadata.name] = cores, float(quantity(amounts.get("memory", 0)))
            except ObjectError:
                continue
        return found

    return known


def _fetch_of(api: Api) -> Fetch:
    async def fetch(path: str, query: dict[str, str]) -> bytes:
        del query
        try:
            return await api.send("GET", path)
        except ApiError as error:
            raise ProviderError(str(error)) from error

    return fetch
