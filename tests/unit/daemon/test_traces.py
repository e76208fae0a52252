"""Spans of decisions: their content, sampling, and that they are an extra."""

import sys
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from scheduler.base.clock import ManualClock
from scheduler.base.errors import ConfigError
from scheduler.base.meters import Meters
from scheduler.config.trellis import Tracing
from scheduler.daemon.records.decisions import DecisionHistory
from scheduler.daemon.records.traces import Traces
from scheduler.engine.decision import Decision
from scheduler.engine.effects import Answer, Bind, Leading, Watched
from scheduler.engine.engine import Engine
from scheduler.engine.queue.pod import QueuedPod
from tests.property.engines import PROFILES, REGISTRY
from tests.property.making import make_node, make_pod

NOW = 1_767_225_600.0


def spans(sampler: str = "ALWAYS_ON", meters: Meters | None = None, answer: int = 201) -> list[Any]:
    """Return the spans of a pod whose bind is answered so, and of one that fits nowhere."""
    sdk = pytest.importorskip("opentelemetry.sdk.trace")
    sending = pytest.importorskip("opentelemetry.sdk.trace.export")
    memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    sampling = pytest.importorskip("opentelemetry.sdk.trace.sampling")
    exporter = memory.InMemorySpanExporter()
    provider = sdk.TracerProvider(sampler=getattr(sampling, sampler), shutdown_on_exit=False)
    provider.add_span_processor(sending.SimpleSpanProcessor(exporter))
    clock = ManualClock(NOW)
    engine = Engine(PROFILES, REGISTRY, meters=meters)
    DecisionHistory(engine, Traces(provider, "1", clock))
    for event in (
        Leading(active=True),
        Watched("Node", "ADDED", make_node("n0")),
        Watched("Pod", "ADDED", make_pod("fits")),
        Watched("Pod", "ADDED", make_pod("giant", cpu=99)),
    ):
        engine.handle(event, NOW)
    clock.advance(2)
    for effect in engine.run(NOW + 1, 10):
        if isinstance(effect, Bind):
            clock.advance(1)
            engine.handle(Answer(effect.id, answer), NOW + 3)
    return list(exporter.get_finished_spans())


def test_a_span_covers_a_decision_from_the_attempt_to_its_end():
    """The span has the pod, the attempt, the number of nodes, the result, and its start and end."""
    found = {span.attributes["k8s.pod.name"]: span for span in spans()}
    fits, giant = found["fits"], found["giant"]

    assert ("scheduled", "n0") == (
        fits.attributes["trellis.result"],
        fits.attributes["k8s.node.name"],
    )
    assert (1, 1, 1) == tuple(
        fits.attributes[f"trellis.{name}"] for name in ("attempt", "nodes.all", "nodes.feasible")
    )
    assert (NOW + 1, NOW + 3) == (fits.start_time / 1e9, fits.end_time / 1e9)
    assert ["decided"] == [event.name for event in fits.events]
    assert "unschedulable" == giant.attributes["trellis.result"]
    assert ("NodeResourcesFit",) == giant.attributes["trellis.rejected_by"]
    assert "Insufficient cpu" in giant.attributes["trellis.message"]


@pytest.mark.parametrize("answer", [201, 403])
def test_the_status_of_a_span_is_an_error_only_if_the_attempt_failed(answer: int):
    """A pod that fits nowhere is no error; a bind that the API server refuses is one."""
    states = {
        span.attributes["trellis.result"]: (span.status.is_ok, span.status.description)
        for span in spans(answer=answer)
    }

    assert {"scheduled" if answer == 201 else "error", "unschedulable"} == states.keys()
    assert (True, None) == states.pop("unschedulable")
    ((is_ok, text),) = states.values()
    assert is_ok == (answer == 201)
    assert bool(text) == (answer == 403)


def test_durations_name_the_trace_of_the_attempt():
    """The bucket that an attempt was counted in leads to its span; both kinds of ends do."""
    meters = Meters()
    found = {span.attributes["k8s.pod.name"]: span for span in spans(meters=meters)}

    attempts = meters.scheduling_attempt_duration
    for pod, result, family, labels in (
        ("fits", "scheduled", attempts, ("scheduled", "trellis")),
        ("fits", "scheduled", meters.pod_scheduling_sli_duration, ("1",)),
        ("giant", "unschedulable", attempts, ("unschedulable", "trellis")),
    ):
        ((value, trace),) = family.labels(*labels).exemplars.values()
        assert result == found[pod].attributes["trellis.result"]
        assert f"{found[pod].context.trace_id:032x}" == trace.id
        assert found[pod].end_time / 1e9 == trace.at
        assert value == family.labels(*labels).sum


def test_what_is_sampled_away_leaves_nothing():
    """No span, no trace beside a duration, no stored data."""
    meters = Meters()
    assert [] == spans("ALWAYS_OFF", meters)
    durations = meters.pod_scheduling_sli_duration.labels("1")
    assert (1, {}) == (durations.count, durations.exemplars)


def test_traces_are_off_without_an_endpoint(monkeypatch: pytest.MonkeyPatch):
    """Without an endpoint, no tracing module is imported. If the extra is missing, the message
    names it.
    """
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    assert Traces.wanted(Tracing(), "1", ManualClock(NOW)) is None

    with pytest.raises(ConfigError, match=r"trellis-scheduler\[otel\]"):
        Traces.wanted(Tracing("http://traces:4318/v1/traces"), "1", ManualClock(NOW))


@pytest.mark.allow_blocking(
    "the library looks at the machine when it is built, before the daemon runs"
)
async def test_a_collector_receives_what_is_sampled():
    """Spans are sent by OTLP over HTTP, when the daemon ends at the latest."""
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    received = []

    async def collect(request: web.Request) -> web.Response:
        received.append(await request.read())
        return web.Response()

    app = web.Application()
    app.router.add_post("/v1/traces", collect)
    async with TestServer(app) as server:
        clock = ManualClock(NOW)
        traces = Traces.wanted(Tracing(str(server.make_url("/v1/traces")), 1_000_000), "1", clock)
        assert traces is not None
        queued = QueuedPod(make_pod("fits"), 1, NOW)
        traces.decided(queued, Decision(node="n0"))
        traces.ended(queued, "error", "the binding failed")
        await traces.close()

    (body,) = received
    for text in (b"schedule pod", b"service.name", b"uid-fits", b"the binding failed"):
        assert text in body
