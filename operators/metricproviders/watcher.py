"""Sources of `WatcherMetrics`, the figures of the risk plugins: load-watcher and its substitutes.

load-watcher's own JSON is read unchanged. Without load-watcher, Prometheus is queried for the same
recording rules, or the metrics server for the latest use. One response is one frozen object with
the time of its measurements, so that a decision uses one state of figures.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from operators.cooperative import in_turns
from operators.metricproviders.metricsserver import MetricsServer
from operators.metricproviders.prometheus import Prometheus
from operators.metricproviders.provider import Fetch, ProviderError
from operators.metricproviders.snapshot import CPU, MEMORY, FigureName
from scheduler.base.clock import Clock
from scheduler.objects.meta import ObjectMeta
from scheduler.objects.reports.watchermetrics import (
    WATCHER_METRICS_NAME,
    WatcherData,
    WatcherMetric,
    WatcherMetrics,
    WatcherNode,
    WatcherWindow,
)

PATH: Final = "/watcher"
WINDOW: Final = "15m"
PERCENT: Final = 100.0
_MILLISECONDS: Final = 10**11  # a time above this is no number of seconds
_AVG, _STD, _LATEST = "AVG", "STD", "Latest"
RULES: Final = (
    ("CPU", "instance:node_cpu:ratio"),
    ("Memory", "instance:node_memory_utilisation:ratio"),
    ("Bandwidth", "instance:node_network_transmit_bytes:rate:sum"),
    ("Bandwidth", "instance:node_network_receive_bytes:rate:sum"),
)

# Cores and bytes that nodes have, by name.
Capacities = Callable[[], Mapping[str, tuple[float, float]]]


class ProviderFigures(msgspec.Struct, frozen=True):
    """One response: its arrival time, and the time of its measurements."""

    taken_at: float
    newest: float
    metrics: WatcherMetrics


class LoadWatcher:
    """load-watcher as a service: one GET for all nodes."""

    name = "load-watcher"

    def __init__(self, fetch: Fetch, clock: Clock) -> None:
        self._fetch = fetch
        self._clock = clock

    async def fetch(self) -> ProviderFigures:
        """Query load-watcher once; ProviderError if the response has another format."""
        body = await self._fetch(PATH, {})
        try:
            found = msgspec.json.decode(body, type=WatcherMetrics)
        except msgspec.MsgspecError as error:
            raise ProviderError(f"{self.name} does not answer with metrics: {error}") from error
        if not found.data.node_metrics_map:
            raise ProviderError(f"{self.name} knows no node")
        now = self._clock.now()
        measured = _seconds(found.window.end or found.timestamp)
        return ProviderFigures(now, min(measured, now) if measured else now, _named(found))


class PrometheusWatcher:
    """The recording rules of load-watcher, queried from Prometheus."""

    name = "Prometheus"

    def __init__(self, fetch: Fetch, clock: Clock) -> None:
        self._client = Prometheus(fetch, clock, ())
        self._clock = clock

    async def fetch(self) -> ProviderFigures:
        """Return averages and deviations of all rules; rules without samples are absent."""
        nodes: dict[str, list[WatcherMetric]] = defaultdict(list)
        newest = float("-inf")
        for kind, rule in RULES:
            for operator, over in ((_AVG, "avg_over_time"), (_STD, "stddev_over_time")):
                found = await self._client.instant(f"{over}({rule}[{WINDOW}])", ("instance",))
                async for handful in in_turns(found.items()):
                    for node, (_, value) in handful:
                        figure = WatcherMetric(kind, rule, operator, WINDOW, PERCENT * value)
                        nodes[node].append(figure)
            times = await self._client.instant(f"max(timestamp({rule}))", ())
            newest = max([newest, *(value for _, value in times.values())])
        if not nodes:
            rules = ", ".join(rule for _, rule in RULES)
            raise ProviderError(f"{self.name} has none of the recording rules {rules}")
        return _answer(nodes, self._clock.now(), newest)


class MetricsServerWatcher:
    """The latest CPU and memory of metrics.k8s.io, as shares of a node's capacity."""

    name = MetricsServer.name

    def __init__(self, fetch: Fetch, clock: Clock, capacities: Capacities) -> None:
        self._server = MetricsServer(fetch, clock)
        self._capacities = capacities

    async def fetch(self) -> ProviderFigures:
        """Query the metrics server once; nodes without a known capacity are left out."""
        snapshot = await self._server.fetch()
        nodes: dict[str, list[WatcherMetric]] = {}
        known = self._capacities()
        for name in snapshot.nodes.keys() & known.keys():
            figures = snapshot.nodes[name]
            nodes[name] = [
                WatcherMetric(kind, "", _LATEST, "", PERCENT * figures[measure].value / whole)
                for kind, measure, whole in zip(
                    ("CPU", "Memory"),
                    (FigureName(CPU), FigureName(MEMORY)),
                    known[name],
                    strict=True,
                )
                if whole > 0
            ]
        if not nodes:
            raise ProviderError(f"{self.name} knows no node of this cluster")
        return _answer(nodes, snapshot.taken_at, snapshot.newest)


def _answer(nodes: Mapping[str, list[WatcherMetric]], now: float, newest: float) -> ProviderFigures:
    newest = now if newest == float("-inf") else min(newest, now)
    listed = {name: WatcherNode(tuple(metrics)) for name, metrics in sorted(nodes.items())}
    window = WatcherWindow(WINDOW, end=int(newest))
    found = WatcherMetrics(timestamp=int(now), window=window, data=WatcherData(listed))
    return ProviderFigures(now, newest, _named(found))


def _named(found: WatcherMetrics) -> WatcherMetrics:
    return msgspec.structs.replace(found, metadata=ObjectMeta(name=WATCHER_METRICS_NAME))


def _seconds(time: int) -> float:
    return time / 1000 if time > _MILLISECONDS else float(time)
