"""The NodeMetric operator against an API server: one object per node, policies, figures."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from aiohttp import web

from operators.metricproviders import HttpSettings
from operators.settings import OperatorsSettings
from scheduler.base.clock import RealClock, rfc3339
from scheduler.objects.plain import read_node, read_pod
from scheduler.objects.reports.nodemetric import NodeMetric
from scheduler.testing.builders import node, pod
from tests.apiserver import patience
from tests.apiserver.patience import asked
from tests.e2e.operatorcluster import (
    CRDS,
    DEFINITIONS,
    SERVERS,
    SETTINGS,
    LiveCluster,
    open_cluster,
    until_ok,
)

pytestmark = pytest.mark.allow_blocking("servers and clients are set up on the test's loop")

METRICS = "/apis/slo.koordinator.sh/v1alpha1/nodemetrics"
CONFIG_MAPS = "/api/v1/namespaces/koordinator-system/configmaps"
POLICY = {"enable": True, "metricReportIntervalSeconds": 20}
Json = dict[str, Any]


def settings(**more: Any) -> OperatorsSettings:
    """Return settings of a hasty operator."""
    quick = msgspec.structs.replace(
        SETTINGS.node_metric, config_poll_s=0.1, report_interval_s=0.1, settle_s=2.0, **more
    )
    return msgspec.structs.replace(SETTINGS, enabled=("nodemetric",), node_metric=quick)


@pytest.fixture(params=SERVERS)
async def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[LiveCluster]:
    async with open_cluster(request.param, tmp_path) as opened:
        namespace = {"metadata": {"name": "koordinator-system"}}
        await opened.send("POST", "/api/v1/namespaces", namespace)
        definition = yaml.safe_load((CRDS / "nodemetrics.yaml").read_text())
        await opened.send("POST", DEFINITIONS, definition)
        await until_ok(opened.client, METRICS)
        yield opened


@asynccontextmanager
async def mirrored(cluster: LiveCluster) -> AsyncIterator[None]:
    """Update the state in memory from the server's NodeMetrics, as the daemon's watch does."""

    async def follow() -> None:
        known: dict[str, NodeMetric] = {}
        while True:
            listed = await objects(cluster)
            for name in known.keys() - listed.keys():
                cluster.view.note(cluster.state.drop_object("NodeMetric", known.pop(name)))
            for name, raw in listed.items():
                metric = msgspec.convert(raw, NodeMetric)
                if known.get(name) != metric:
                    known[name] = metric
                    cluster.view.note(cluster.state.put_object("NodeMetric", metric))
            cluster.view.flush()

    task = asyncio.create_task(follow())
    try:
        yield
    finally:
        task.cancel()


async def objects(cluster: LiveCluster) -> dict[str, Json]:
    """Return the server's NodeMetrics by name."""
    listed = await cluster.send("GET", METRICS)
    return {one["metadata"]["name"]: one for one in listed["items"]}


async def until(cluster: LiveCluster, holds: Callable[[dict[str, Json]], Any]) -> dict[str, Json]:
    """Read the objects until the condition holds."""
    return await asked(lambda: objects(cluster), holds, "the NodeMetrics")


async def configure(cluster: LiveCluster, section: object, *, method: str = "PATCH") -> None:
    """Write the ConfigMap."""
    text = section if isinstance(section, str) else json.dumps(section)
    body = {"metadata": {"name": "slo-controller-config"}, "data": {"colocation-config": text}}
    if method == "POST":
        await cluster.send("POST", CONFIG_MAPS, body)
        return
    path = f"{CONFIG_MAPS}/slo-controller-config"
    await cluster.send("PATCH", path, body, content_type="application/merge-patch+json")


def intervals(found: dict[str, Json]) -> set[int]:
    """Return the report intervals of all objects."""
    return {one["spec"]["metricCollectPolicy"]["reportIntervalSeconds"] for one in found.values()}


class FakePrometheus:
    """Serves the query API with constant figures, measured ten seconds ago."""

    def __init__(self) -> None:
        self.measured_at = float(int(RealClock().now()) - 10)
        self.settings = HttpSettings("")

    async def answer(self, request: web.Request) -> web.Response:
        query = request.query["query"]
        by_pod = "namespace, pod" in query
        labels = {"namespace": "default", "pod": "p"} if by_pod else {"node": "n1"}
        value = "1073741824" if "memory" in query else "0.5" if by_pod else "1.5"
        if query.startswith("max by (node) (timestamp"):
            value = str(self.measured_at)
        sample = {"metric": labels, "value": [self.measured_at + 10, value]}
        data = {"resultType": "vector", "result": [sample]}
        return web.json_response({"status": "success", "data": data})


@pytest.fixture
async def prometheus() -> AsyncIterator[FakePrometheus]:
    fake = FakePrometheus()
    app = web.Application()
    app.router.add_get("/api/v1/query", fake.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    fake.settings = HttpSettings(f"http://127.0.0.1:{port}")
    yield fake
    await runner.cleanup()


async def test_objects_follow_nodes_and_policies(cluster: LiveCluster):
    """One object per node; the ConfigMap's change reaches all; an invalid one changes nothing."""
    cluster.nodes("n1", "n2")
    async with mirrored(cluster), cluster.operators(settings()):
        await cluster.health.wait_for("running")
        found = await until(cluster, lambda found: set(found) == {"n1", "n2"})
        assert intervals(found) == {60}
        await configure(cluster, POLICY, method="POST")
        await until(cluster, lambda found: intervals(found) == {20})
        await configure(cluster, "{")
        complaint = "slo-controller-config"
        await patience.until(lambda: complaint in _last_error(cluster), "a complaint")
        cluster.nodes("n2", "n3")
        await until(cluster, lambda found: set(found) == {"n2", "n3"} and intervals(found) == {20})
        assert complaint in _last_error(cluster)
        assert cluster.health.check() is None


async def test_a_first_configuration_that_is_wrong_makes_nothing(cluster: LiveCluster):
    """After its correction the objects are created."""
    await configure(cluster, {"metricReportIntervalSeconds": -1}, method="POST")
    cluster.nodes("n1")
    async with mirrored(cluster), cluster.operators(settings()):
        await patience.until(
            lambda: "metricReportIntervalSeconds" in _last_error(cluster), "a complaint"
        )
        assert await objects(cluster) == {}
        await configure(cluster, POLICY)
        await until(cluster, lambda found: set(found) == {"n1"})


def _last_error(cluster: LiveCluster) -> str:
    return next((one.last_error for one in cluster.health.records.values()), "")


async def test_figures_come_from_prometheus_where_no_agent_is(
    cluster: LiveCluster, prometheus: FakePrometheus
):
    """Node, pods, time and source are in the object.

    A silent node's figures are unchanged.
    """
    raw = await cluster.send("POST", "/api/v1/nodes", node("n1"))  # else it is cleaned up as lost
    cluster.view.note(cluster.state.put_node(read_node(raw)))
    bound = read_pod(pod("p", node_name="n1", requests={"cpu": "1"}))
    cluster.view.note(cluster.state.put_pod(bound))
    cluster.view.flush()
    use = settings(source="Prometheus", http=prometheus.settings)
    async with mirrored(cluster), cluster.operators(use):
        found = await until(cluster, lambda found: found.get("n1", {}).get("status"))

    one = found["n1"]
    assert one["metadata"]["annotations"] == {"trellis.dev/load-source": "Prometheus"}
    assert one["status"]["updateTime"] == rfc3339(prometheus.measured_at)
    assert one["status"]["nodeMetric"]["nodeUsage"]["resources"]["cpu"] == "1500m"
    (of_pod,) = one["status"]["podsMetric"]
    assert (of_pod["name"], of_pod["priority"]) == ("p", "koord-prod")
