"""The risk plugins' figures: read from real HTTP servers, kept while a source fails, dropped when
too old.
"""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from operators.figures import FigureFeed
from operators.health import MetricSources
from operators.metricproviders import HttpSettings, HttpSource, LastGood, ProviderError
from operators.metricproviders.watcher import (
    LoadWatcher,
    MetricsServerWatcher,
    PrometheusWatcher,
    ProviderFigures,
)
from scheduler.base.clock import ManualClock, rfc3339
from scheduler.base.meters import Meters
from scheduler.cli.verbs.start.run import figures_settings
from scheduler.config import load
from scheduler.engine.effects import Watched
from scheduler.framework.registry import Registry
from scheduler.intree import IN_TREE
from scheduler.objects.reports.watchermetrics import WatcherMetrics
from scheduler.testing import evaluate, node, pod

NOW = 1_700_000_000.0
Answer = Callable[[web.Request], object]


@asynccontextmanager
async def served(answer: Answer) -> AsyncIterator[HttpSource]:
    """Serve JSON from a function on its own port, and return a source for it."""

    async def handle(request: web.Request) -> web.Response:
        found = answer(request)
        if isinstance(found, int):
            return web.Response(status=found)
        return web.Response(text=found if isinstance(found, str) else json.dumps(found))

    app = web.Application()
    app.router.add_get("/{path:.*}", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        async with HttpSource(HttpSettings(f"http://127.0.0.1:{runner.addresses[0][1]}")) as source:
            yield source
    finally:
        await runner.cleanup()


def metric(kind: str, operator: str, value: float, name: str = "") -> dict[str, Any]:
    return {"type": kind, "operator": operator, "value": value, "name": name, "rollup": "15m"}


def reports(end: float = NOW, **nodes: list[dict[str, Any]]) -> dict[str, Any]:
    """Return load-watcher's answer."""
    return {
        "timestamp": int(NOW),
        "window": {"duration": "15m", "start": int(end) - 900, "end": int(end)},
        "source": "Prometheus",
        "data": {"NodeMetricsMap": {name: {"metrics": figures} for name, figures in nodes.items()}},
    }


BUSY, IDLE = [metric("CPU", "AVG", 80)], [metric("CPU", "AVG", 10), metric("CPU", "STD", 4)]


async def test_load_watchers_json_is_taken_as_it_is():
    """Requested at its path; its window states its age."""
    asked = []

    def answer(request: web.Request) -> object:
        asked.append(request.path)
        return reports(NOW - 40, a=BUSY, b=IDLE)

    async with served(answer) as source:
        got = await LoadWatcher(source, ManualClock(NOW)).fetch()

    assert ["/watcher"] == asked
    assert (NOW, NOW - 40) == (got.taken_at, got.newest)
    assert "load-watcher" == got.metrics.metadata.name
    assert 80 == got.metrics.data.node_metrics_map["a"].metrics[0].value


@pytest.mark.parametrize(
    ("answer", "expected_text"),
    [
        (500, "500"),
        ("no JSON", "does not answer with metrics"),
        ({"data": {"NodeMetricsMap": {"a": 5}}}, "does not answer with metrics"),
        ({"timestamp": "now", "data": {}}, "does not answer with metrics"),
        (reports(), "knows no node"),
    ],
)
async def test_an_answer_of_another_form_is_a_failure(answer: object, expected_text: str):
    """It is reported as one, with the source's name or address."""
    async with served(lambda _request: answer) as source:
        with pytest.raises(ProviderError, match=expected_text):
            await LoadWatcher(source, ManualClock(NOW)).fetch()


@pytest.mark.parametrize("end", [0, NOW * 1000, NOW + 500])
async def test_odd_times_are_no_age_below_zero(end: float):
    """A report in milliseconds, of a clock that runs ahead, or without a time counts as new."""
    async with served(lambda _request: reports(end, a=BUSY) | {"timestamp": 0}) as source:
        assert NOW == (await LoadWatcher(source, ManualClock(NOW)).fetch()).newest


def vector(request: web.Request) -> object:
    """Answer Prometheus' queries: CPU of two nodes, nothing else; samples are 20 s old."""
    query, result = request.query["query"], []
    if query.startswith("max(timestamp(") and "cpu" in query:
        result = [{"metric": {}, "value": [NOW, str(NOW - 20)]}]
    elif "instance:node_cpu:ratio" in query:
        value = "0.25" if query.startswith("avg") else "0.05"
        result = [{"metric": {"instance": name}, "value": [NOW, value]} for name in ("a:9100", "b")]
    return {"status": "success", "data": {"resultType": "vector", "result": result}}


async def test_prometheus_stands_in_with_the_same_rules():
    """Averages and deviations are in percent by node, as old as the samples behind them."""
    async with served(vector) as source:
        got = await PrometheusWatcher(source, ManualClock(NOW)).fetch()

    assert NOW - 20 == got.newest
    assert {"a", "b"} == set(got.metrics.data.node_metrics_map)
    assert [("CPU", "AVG", 25.0), ("CPU", "STD", 5.0)] == [
        (one.type, one.operator, one.value)
        for one in got.metrics.data.node_metrics_map["a"].metrics
    ]


async def test_prometheus_without_the_rules_is_a_failure_that_names_them():
    """Without the recording rules the provider fails and names them; otherwise every node would
    look unmeasured without a reason.
    """
    empty = {"status": "success", "data": {"resultType": "vector", "result": []}}
    async with served(lambda _request: empty) as source:
        with pytest.raises(ProviderError, match="instance:node_cpu:ratio"):
            await PrometheusWatcher(source, ManualClock(NOW)).fetch()


async def test_the_metrics_server_stands_in_with_the_latest_use():
    """The use is a share of the nodes' capacity; unknown nodes are left out."""

    def answer(request: web.Request) -> object:
        if not request.path.endswith("/nodes"):
            return {"items": []}
        usage = {"cpu": "500m", "memory": "1Gi"}
        stamp = rfc3339(NOW - 9)
        return {
            "items": [
                {"metadata": {"name": name}, "timestamp": stamp, "window": "30s", "usage": usage}
                for name in ("a", "gone")
            ]
        }

    async with served(answer) as source:
        amounts = {"a": (2.0, 4.0 * 2**30)}
        got = await MetricsServerWatcher(source, ManualClock(NOW), lambda: amounts).fetch()

    (figures,) = got.metrics.data.node_metrics_map.values()
    assert [("CPU", "Latest", 25.0), ("Memory", "Latest", 25.0)] == [
        (one.type, one.operator, one.value) for one in figures.metrics
    ]
    assert NOW - 9 == got.newest


class Store:
    """The events that the scheduler received."""

    def __init__(self) -> None:
        self.events: list[tuple[str, WatcherMetrics]] = []

    def put(self, verb: str, metrics: WatcherMetrics) -> None:
        self.events.append((verb, metrics))


async def test_figures_stay_while_a_source_fails_and_go_when_they_are_too_old():
    """Each answer arrives once; a failure shows in the metrics, the expiry as a deletion. Then the
    source recovers.
    """
    answers: list[object] = [reports(a=BUSY), 503, 503, reports(NOW + 400, a=IDLE)]
    clock, store, meters = ManualClock(NOW), Store(), Meters()
    sources = MetricSources(meters, clock)

    def shown() -> dict[str, float]:
        return {
            spec.name: float(str(samples[0].value))
            for spec, samples in meters.collect()
            if spec.name.startswith("trellis_metric_source")
        }

    async with served(lambda _request: answers.pop(0)) as source:
        kept: LastGood[ProviderFigures] = LastGood(LoadWatcher(source, clock), clock, 300)
        feed = FigureFeed(kept, store.put, sources.reported)
        await feed.round()
        clock.advance(200)
        await feed.round()
        failing = shown()
        clock.advance(100)
        await feed.round()
        gone = shown()
        clock.advance(100)
        await feed.round()

    age, failures = "trellis_metric_source_age_seconds", "trellis_metric_source_failures_total"
    assert ["MODIFIED", "DELETED", "MODIFIED"] == [verb for verb, _ in store.events]
    assert {age: 200, failures: 1} == failing
    assert {failures: 2} == gone
    assert {age: 0, failures: 2} == shown()
    # The answer is an event of the engine, and the plugin decides by it.
    assert Watched("WatcherMetrics", *store.events[2]).object.metadata.name == "load-watcher"


def test_a_decision_goes_by_the_answer():
    """LoadVariationRiskBalancing prefers the idle node of load-watcher's unchanged answer."""
    head = {
        "apiVersion": "trellis.dev/v1alpha1",
        "kind": "WatcherMetrics",
        "metadata": {"name": "w"},
    }
    got = evaluate(
        "LoadVariationRiskBalancing",
        nodes=[node(name, allocatable={"cpu": "4", "memory": "8Gi"}) for name in "ab"],
        objects=[head | reports(a=BUSY, b=IDLE)],
        pod=pod("p"),
    )

    assert {"a": 60, "b": 93} == got.raw


FILE = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {multiPoint: {enabled: [{name: LoadVariationRiskBalancing}]}}
  pluginConfig: [{name: LoadVariationRiskBalancing, args: %s}]
"""


@pytest.mark.parametrize(
    ("args", "source", "address"),
    [
        ("{}", "metrics.k8s.io", ""),
        ("{watcherAddress: 'http://w:2020'}", "load-watcher", "http://w:2020"),
        ("{metricProvider: {type: KubernetesMetricsServer}}", "metrics.k8s.io", ""),
        (
            "{metricProvider: {type: Prometheus, address: 'http://p', tokenFile: t}}",
            "Prometheus",
            "http://p",
        ),
    ],
)
def test_the_arguments_say_who_is_asked(args: str, source: str, address: str):
    """The source is load-watcher's address, else a provider, else the metrics server, as in
    scheduler-plugins.
    """
    found = figures_settings(load(FILE % args, file="x", registry=Registry(IN_TREE)))

    assert found is not None
    assert (source, address) == (found.source, found.http.address)


def test_no_source_is_queried_if_no_profile_needs_figures():
    """A scheduler without the risk plugins polls nothing."""
    plain = FILE.replace("LoadVariationRiskBalancing", "NodeName")
    assert None is figures_settings(load(plain % "{}", file="x", registry=Registry(IN_TREE)))


@pytest.mark.parametrize(
    ("provider", "expected_text"),
    [
        ("{type: SignalFx}", "metricProvider.type"),
        ("{type: Prometheus}", "metricProvider.address"),
    ],
)
def test_a_provider_that_cannot_be_asked_is_refused_by_field(provider: str, expected_text: str):
    """The refusal precedes the start."""
    with pytest.raises(Exception, match=expected_text):
        load(FILE % f"{{metricProvider: {provider}}}", file="x", registry=Registry(IN_TREE))
