"""Measured costs: when a source is queried, the use of its answer, and the effect of a failure."""

import base64
import json
from typing import Any

import msgspec
import pytest
from aiohttp import web

from operators.client import Client
from operators.networktopology.measured import MeasuredNode, calculated, samples
from operators.networktopology.measuring import Measuring, source_of
from operators.networktopology.readings import Reading
from operators.networktopology.status import MEASURED, ObservedTopology, merge_patch, status_of
from scheduler.base.clock import ManualClock
from scheduler.objects.kinds import BY_KIND
from scheduler.objects.network import (
    REGION_LABEL,
    ZONE_LABEL,
    NetworkTopology,
    NetworkTopologyStatus,
)
from scheduler.objects.plain import read_as

KEY = ("default", "nt")
START = 1_700_000_000.0
MAP = {
    "netperf.p90.latency.milliseconds.origin.n1.destination.n2": "20",
    "netperf.p90.latency.milliseconds.origin.n1.destination.n3": "5",
    "netperf.p90.latency.milliseconds.origin.n2.destination.n3": "soon",
}
NODES = (
    MeasuredNode("n1", {REGION_LABEL: "r1", ZONE_LABEL: "z1"}),
    MeasuredNode("n2", {REGION_LABEL: "r2", ZONE_LABEL: "z3"}),
    MeasuredNode("n3", {REGION_LABEL: "r1", ZONE_LABEL: "z2"}),
)


class Server:
    """An API server that holds a few objects."""

    def __init__(self, **objects: dict[str, Any]) -> None:
        self.objects = objects
        self.asked: list[str] = []
        self.is_down = False

    async def request(self, method: str, path: str, body: bytes = b"", **_: Any) -> Any:
        del method, body
        self.asked.append(path)
        found = self.objects.get(path.rsplit("/", 1)[1].replace("-", "_"))
        code = 503 if self.is_down else 200 if found is not None else 404
        return Response(code, json.dumps(found).encode(), f"answer {code}")


class Response(msgspec.Struct):
    code: int
    body: bytes
    message: str
    reason: str = ""
    retry_after_s: float | None = None


def topology(**spec: Any) -> NetworkTopology:
    raw = {"metadata": {"name": "nt", "namespace": "default", "generation": 1}, "spec": spec}
    found: NetworkTopology = read_as(BY_KIND["NetworkTopology"], raw)
    return found


def cost(table: Any, key: str, origin: str, destination: str) -> int | None:
    """Return a cost of a table, None if it has none."""
    for level in table.levels:
        for one in level.origins if level.topology_key == key else ():
            for path in one.paths if one.origin == origin else ():
                if path.destination == destination:
                    return int(path.network_cost)
    return None


async def test_a_config_map_is_asked_every_few_minutes_and_its_last_answer_stays():
    """freqUpdate determines the time; if the server is down the figures stay and the error is
    reported.
    """
    clock, server = ManualClock(START), Server(netperf_metrics={"data": MAP})
    measuring = Measuring(Client(server, 5), clock)
    asking = topology(configmapName="netperf-metrics", freqUpdate=2)
    await measuring.refresh(KEY, asking)
    await measuring.refresh(KEY, asking)
    first, fault = measuring.of(KEY)

    assert 1 == len(server.asked)
    assert first is not None
    assert ({("n1", "n2"): 20, ("n1", "n3"): 5}, "") == (first.reading.latencies, fault)
    assert 1 == len(first.reading.refused)
    assert START + 120 == measuring.next_due()

    clock.set(START + 120)
    server.is_down = True
    await measuring.refresh(KEY, asking)
    last, fault = measuring.of(KEY)
    assert first is last
    assert "503" in fault
    measuring.forget({})
    assert (None, "") == measuring.of(KEY)


async def test_prometheus_is_asked_with_range_and_token():
    """The query covers timeRangeInMinutes; the token is read from a Secret, and never appears in a
    text.
    """
    seen: list[tuple[str, str]] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append((request.query["query"], request.headers.get("Authorization", "")))
        sample = {"metric": {"origin": "n1", "destination": "n2"}, "value": [START, "1234.6"]}
        return web.json_response(
            {"status": "success", "data": {"resultType": "vector", "result": [sample]}}
        )

    app = web.Application()
    app.router.add_get("/api/v1/query", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
    try:
        secret = {"data": {"token": base64.b64encode(b"s3cret\n").decode()}}
        measuring = Measuring(Client(Server(prom=secret), 5), ManualClock(START))
        provider = {
            "type": "Prometheus",
            "address": f"http://127.0.0.1:{port}",
            "secretRef": {"name": "prom", "key": "token"},
        }
        await measuring.refresh(KEY, topology(metricProvider=provider, timeRangeInMinutes=7))
    finally:
        await runner.cleanup()

    found, fault = measuring.of(KEY)
    assert "" == fault
    assert found is not None
    assert {("n1", "n2"): 1235} == found.reading.latencies
    query, authorization = seen[0]
    assert "netperf_p90_latency_microseconds[7m]" in query
    assert "Bearer s3cret" == authorization


async def test_a_missing_secret_is_reported_without_a_query():
    """The fault names the Secret."""
    measuring = Measuring(Client(Server(), 5), ManualClock(START))
    provider = {"type": "Prometheus", "address": "http://127.0.0.1:1", "secretRef": {"name": "x"}}
    await measuring.refresh(KEY, topology(metricProvider=provider))

    assert "404" in measuring.of(KEY)[1]


async def test_what_is_measured_becomes_status_and_never_spec():
    """Costs of the measured table, the time, a condition; the user's own tables stay."""
    reading = Reading({("n1", "n2"): 20, ("n1", "n3"): 5})
    measured = await calculated(await samples(NODES, reading, START))
    previous = NetworkTopologyStatus()
    observed = ObservedTopology(
        3, 1, previous, "2026-01-01T00:00:10Z",
        measured=measured, measured_at="2026-01-01T00:00:00Z", source="Prometheus",
    )  # fmt: skip
    wanted = status_of(topology().spec, observed)

    assert 20 == cost(wanted.weights[0], REGION_LABEL, "r1", "r2")
    assert 5 == cost(wanted.weights[0], ZONE_LABEL, "z1", "z2")
    assert None is cost(wanted.weights[0], ZONE_LABEL, "z1", "z3")
    assert "2026-01-01T00:00:00Z" == wanted.weight_calculation_time
    assert ["True"] == [one.status for one in wanted.conditions if one.type == MEASURED]
    patch = merge_patch(previous, wanted)
    assert {"weights", "weightCalculationTime", "conditions"} <= set(patch)
    assert {} == merge_patch(
        wanted, status_of(topology().spec, msgspec.structs.replace(observed, previous=wanted))
    )


@pytest.mark.parametrize(
    ("spec", "source"),
    [
        ({}, None),
        ({"configMapName": "x"}, "ConfigMap"),
        ({"metricProvider": {"type": "Prometheus", "address": "http://p"}}, "Prometheus"),
        ({"metricProvider": {"type": "Prometheus"}}, None),
    ],
)
def test_where_measurements_come_from(spec: dict[str, Any], source: str | None):
    """A provider precedes a ConfigMap, in either spelling; without an address there is no
    source.
    """
    assert source == source_of(topology(**spec))
