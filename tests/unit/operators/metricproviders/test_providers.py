"""Metric providers parse their sources' answers, keep good ones and know their age."""

import json
from collections.abc import Callable

import pytest

from operators.metricproviders import (
    CPU,
    MEMORY,
    Figure,
    FigureName,
    FigureSnapshot,
    LastGood,
    MetricsServer,
    Prometheus,
    ProviderError,
    Query,
)
from scheduler.base.clock import ManualClock, parse_rfc3339

TIME = "2026-03-01T10:00:00Z"
MOMENT = parse_rfc3339(TIME) or 0.0
Answer = Callable[[str, dict[str, str]], object]


class Source:
    """Answers requests from a function and notes them."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.asked: list[tuple[str, dict[str, str]]] = []

    async def __call__(self, path: str, query: dict[str, str]) -> bytes:
        self.asked.append((path, query))
        return json.dumps(self._answer(path, query)).encode()


def metrics(path: str, _query: dict[str, str]) -> object:
    """Answer like metrics.k8s.io."""
    usage = {"cpu": "1500m", "memory": "2Gi"}
    items: list[dict[str, object]]
    if path.endswith("/nodes"):
        items = [
            {"metadata": {"name": "a"}, "timestamp": TIME, "window": "30s", "usage": usage},
            {"metadata": {"name": "odd"}, "timestamp": "late", "usage": usage},
            {"metadata": {"name": "bad"}, "timestamp": TIME, "usage": {"cpu": "x"}},
        ]
    else:
        meta = {"namespace": "default", "name": "p"}
        both = [{"name": "c", "usage": usage}, {"name": "d", "usage": usage}]
        items = [{"metadata": meta, "timestamp": TIME, "window": "30s", "containers": both}]
    return {"kind": "List", "items": items}


async def test_the_metrics_server_reports_nodes_and_pods():
    """Containers are summed; an unreadable amount is absent, not zero."""
    got = await MetricsServer(Source(metrics), ManualClock(5.0)).fetch()

    assert set(got.nodes) == {"a"}
    assert got.nodes["a"][FigureName(CPU)] == Figure(1.5, MOMENT, 30.0)
    assert got.pods["default/p"][FigureName(MEMORY)].value == 2 * 2 * 2**30
    assert (got.source, got.taken_at, got.newest) == ("metrics.k8s.io", 5.0, MOMENT)
    assert got.age_s("a", MOMENT + 7) == 7
    assert got.age_s("odd", MOMENT) is None


@pytest.mark.parametrize("answer", [[], {"items": [{"metadata": 5}]}, "no"])
async def test_an_answer_of_another_form_is_a_failure(answer):
    """It is reported as one, and does not look like an empty cluster."""
    with pytest.raises(ProviderError):
        await MetricsServer(Source(lambda _p, _q: answer), ManualClock()).fetch()


def vector(*samples: tuple[dict[str, str], float, str]) -> object:
    """Return an answer of Prometheus' HTTP API."""
    result = [{"metric": metric, "value": [moment, value]} for metric, moment, value in samples]
    return {"status": "success", "data": {"resultType": "vector", "result": result}}


QUERY = Query(FigureName(CPU), "rate", labels=("instance",), times="times", window_s=120)


async def test_prometheus_figures_are_as_old_as_their_samples():
    """The time is that of the second query; a series missing there is left out."""
    answers = {
        "rate": vector(
            ({"instance": "a:9100"}, 500, "1.5"),
            ({"instance": "b:9100"}, 500, "NaN"),
            ({"instance": "c:9100"}, 500, "2"),
            ({}, 500, "7"),
        ),
        "times": vector(({"instance": "a:9100"}, 500, "440"), ({"instance": "b:9100"}, 500, "440")),
    }
    source = Source(lambda _path, query: answers[query["query"]])
    got = await Prometheus(source, ManualClock(501.0), (QUERY,)).fetch()

    assert got.nodes == {"a": {FigureName(CPU): Figure(1.5, 440.0, 120)}}
    assert {path for path, _ in source.asked} == {"/api/v1/query"}


async def test_figures_whose_samples_are_too_old_are_left_out():
    """A rate over a range with too few samples is dropped; it would make a busy node look idle."""
    query = Query(FigureName(CPU), "rate", times="times", window_s=120, fresh_s=30)
    answers = {
        "rate": vector(({"node": "a"}, 500, "1"), ({"node": "b"}, 500, "1")),
        "times": vector(({"node": "a"}, 500, "470"), ({"node": "b"}, 500, "469")),
    }
    source = Source(lambda _path, query: answers[query["query"]])
    got = await Prometheus(source, ManualClock(501.0), (query,)).fetch()

    assert set(got.nodes) == {"a"}


@pytest.mark.parametrize(
    "answer",
    [
        {"status": "error", "error": "parse error"},
        {"status": "success", "data": {"resultType": "matrix", "result": []}},
        {"status": "success"},
        {"data": 1},
    ],
)
async def test_a_refused_query_fails_the_whole_answer(answer):
    """An incomplete result is rejected."""
    source = Source(lambda _path, _query: answer)
    with pytest.raises(ProviderError):
        await Prometheus(source, ManualClock(), (QUERY,)).fetch()


class Flaky:
    """A provider that answers or fails on request."""

    name = "flaky"

    def __init__(self) -> None:
        self.answer: FigureSnapshot | None = None

    async def fetch(self) -> FigureSnapshot:
        if self.answer is None:
            raise ProviderError("out of order")
        return self.answer


async def test_the_last_good_answer_holds_until_its_figures_expire():
    """Failures keep it and are reported; old figures do not become younger by repetition."""
    clock, provider = ManualClock(1000.0), Flaky()
    kept = LastGood(provider, clock, expires_s=60)
    assert await kept.refresh() == "out of order"
    assert kept.current() is None

    provider.answer = FigureSnapshot("flaky", 1000.0, {"a": {FigureName(CPU): Figure(1, 990.0)}})
    assert await kept.refresh() == ""
    good = kept.current()
    assert good is provider.answer
    provider.answer = None
    clock.advance(40)
    await kept.refresh()
    await kept.refresh()
    assert kept.current() is good
    record = kept.statistics()
    assert (record.failures, record.error) == (2, "out of order")
    assert (record.measured_at, record.succeeded_at) == (990.0, 1000.0)
    clock.advance(10)
    provider.answer = good
    await kept.refresh()
    assert kept.current() is None
    assert kept.statistics().failures == 0
