"""The load agent against an API server: it waits for its object, reports, and follows the
policy.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from operators.agents.load import LoadAgent, LoadSettings
from operators.api import Api
from scheduler.base.clock import RealClock, parse_rfc3339
from scheduler.testing.builders import node, pod
from tests.apiserver.patience import asked
from tests.e2e.operatorcluster import (
    CRDS,
    DEFINITIONS,
    SERVERS,
    LiveCluster,
    open_cluster,
    until_ok,
)

pytestmark = pytest.mark.allow_blocking("servers and clients are set up on the test's loop")

METRICS = "/apis/slo.koordinator.sh/v1alpha1/nodemetrics"
UID = "0f6a3bd0-6b5d-4b3a-9f62-1d2e3c4b5a69"
MEMINFO = "MemTotal: 16000 kB\nMemFree: 2000 kB\nMemAvailable: 10000 kB\nInactive(file): 0 kB\n"
Json = dict[str, Any]


@pytest.fixture(params=SERVERS)
async def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[LiveCluster]:
    async with open_cluster(request.param, tmp_path) as opened:
        definition = yaml.safe_load((CRDS / "nodemetrics.yaml").read_text())
        await opened.send("POST", DEFINITIONS, definition)
        await until_ok(opened.client, METRICS)
        yield opened


class Kernel:
    """A kernel whose counters are in files."""

    def __init__(self, root: Path) -> None:
        self.proc, self.cgroups = root / "proc", root / "cgroup"
        group = self.cgroups / "kubepods" / f"pod{UID}"
        group.mkdir(parents=True)
        self.proc.mkdir()
        (self.cgroups / "cgroup.controllers").write_text("cpu memory\n")
        (self.proc / "stat").write_text("cpu 1000 0 0 0 0 0 0 0 0 0\n")
        (self.proc / "meminfo").write_text(MEMINFO)
        (group / "cpu.stat").write_text("usage_usec 1000\n")
        (group / "memory.current").write_text("1048576\n")
        (group / "memory.stat").write_text("inactive_file 0\nactive_file 0\n")


@asynccontextmanager
async def agent(cluster: LiveCluster, kernel: Kernel) -> AsyncIterator[LoadAgent]:
    """Run an agent until the block ends."""
    settings = LoadSettings("n1", kernel.proc, kernel.cgroups, sample_s=0.05, missing_s=0.05)
    running = LoadAgent(settings, Api(cluster.client, 5.0), RealClock())
    task = asyncio.create_task(running.run())
    try:
        yield running
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


def metric(spec: Json) -> Json:
    """Return an object without a report."""
    return {
        "apiVersion": "slo.koordinator.sh/v1alpha1",
        "kind": "NodeMetric",
        "metadata": {"name": "n1"},
        "spec": spec,
    }


async def until(cluster: LiveCluster, holds: Callable[[Json], Any]) -> Json:
    """Read the object until the condition holds."""
    path = f"{METRICS}/n1"
    return await asked(lambda: cluster.send("GET", path), holds, path)


async def test_an_agent_waits_reports_and_names_itself(cluster: LiveCluster, tmp_path: Path):
    """Status, source and time are written once the object exists; pods are listed by their uid."""
    kernel = Kernel(tmp_path)
    raw = pod("static", node_name="n1", requests={"cpu": "1"})
    raw["metadata"]["annotations"] = {"kubernetes.io/config.hash": UID}
    await cluster.send("POST", "/api/v1/nodes", node("n1"))
    if (await cluster.client.request("GET", "/api/v1/namespaces/default")).code == 404:
        await cluster.send("POST", "/api/v1/namespaces", {"metadata": {"name": "default"}})
    await cluster.send("POST", "/api/v1/namespaces/default/pods", raw)
    began = int(RealClock().now())
    async with agent(cluster, kernel) as running:
        assert running.reports == 0
        policy = {
            "aggregateDurationSeconds": 60,
            "reportIntervalSeconds": 1,
            "nodeAggregatePolicy": {"durations": ["1m"]},
        }
        await cluster.send("POST", METRICS, metric({"metricCollectPolicy": policy}))
        found = await until(cluster, lambda one: one.get("status"))

    assert found["metadata"]["annotations"]["trellis.dev/load-source"] == "trellis agent load"
    status = found["status"]
    assert (parse_rfc3339(status["updateTime"]) or 0) >= began
    assert status["nodeMetric"]["nodeUsage"]["resources"] == {"cpu": "0m", "memory": "6000Ki"}
    assert status["nodeMetric"]["aggregatedNodeUsages"] == [{"duration": "1m", "usage": {}}]
    (one,) = status["podsMetric"]
    assert (one["name"], one["priority"]) == ("static", "koord-prod")
    assert one["podUsage"]["resources"]["memory"] == "1024Ki"


async def test_a_kernel_that_cannot_be_read_is_silence(cluster: LiveCluster, tmp_path: Path):
    """No report is written instead of a guess; the agent continues when the files can be read
    again.
    """
    kernel = Kernel(tmp_path)
    stat = (kernel.proc / "stat").read_text()
    (kernel.proc / "stat").write_text("gone\n")
    await cluster.send("POST", "/api/v1/nodes", node("n1"))
    await cluster.send("POST", METRICS, metric({}))
    async with agent(cluster, kernel) as running:
        for _ in range(20):
            found = await cluster.send("GET", f"{METRICS}/n1")
            assert not found.get("status")
        assert running.reports == 0
        (kernel.proc / "stat").write_text(stat)
        await until(cluster, lambda one: one.get("status"))
