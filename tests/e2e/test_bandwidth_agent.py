"""The bandwidth agent against an API server: advertised capacity, times of writes, unchanged
fields.
"""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from operators.agents.bandwidth import BandwidthAgent, BandwidthSettings
from operators.api import Api
from scheduler.base.clock import ManualClock
from scheduler.objects.network import BANDWIDTH
from scheduler.objects.quantity import quantity
from scheduler.testing.builders import node
from tests.e2e.operatorcluster import SERVERS, LiveCluster, open_cluster

pytestmark = pytest.mark.allow_blocking("the test acts as the kernel")
Json = dict[str, Any]


@pytest.fixture(params=SERVERS)
async def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[LiveCluster]:
    async with open_cluster(request.param, tmp_path) as opened:
        await opened.send("POST", "/api/v1/nodes", node("n1", cpu="4"))
        yield opened


class Kernel:
    """A network card whose speed a test changes."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.card = root / "class" / "net" / "eth0"
        (self.card / "device").mkdir(parents=True)
        self.set_link("up", 1000)

    def set_link(self, state: str, megabits: int) -> None:
        (self.card / "operstate").write_text(f"{state}\n")
        (self.card / "speed").write_text(f"{megabits}\n")


async def advertised(cluster: LiveCluster) -> tuple[int | None, int | None]:
    """Return capacity and allocatable of the link."""
    status = (await cluster.send("GET", "/api/v1/nodes/n1"))["status"]
    found = [status.get(field, {}).get(BANDWIDTH) for field in ("capacity", "allocatable")]
    capacity, allocatable = (None if one is None else quantity(one) for one in found)
    return capacity, allocatable


async def test_the_node_says_what_its_link_says(cluster: LiveCluster, tmp_path: Path):
    """Both fields in bit/s are set beside the others, and again after a change of link or node."""
    kernel, clock = Kernel(tmp_path / "sys"), ManualClock(1000.0)
    settings = BandwidthSettings("n1", "eth0", sysfs=kernel.root, check_s=60)
    agent = BandwidthAgent(settings, Api(cluster.client, 5.0), clock)

    await agent.look()
    assert await advertised(cluster) == (10**9, 10**9)
    assert (await cluster.send("GET", "/api/v1/nodes/n1"))["status"]["allocatable"]["cpu"] == "4"
    await agent.look()
    assert agent.writes == 1
    kernel.set_link("up", 25000)
    await agent.look()
    assert await advertised(cluster) == (25 * 10**9, 25 * 10**9)

    gone: Json = {"status": {"allocatable": {BANDWIDTH: None}}}
    await cluster.send(
        "PATCH", "/api/v1/nodes/n1/status", gone, content_type="application/merge-patch+json"
    )
    await agent.look()
    assert await advertised(cluster) == (25 * 10**9, None)
    clock.advance(60)
    await agent.look()
    assert (await advertised(cluster), agent.writes) == ((25 * 10**9, 25 * 10**9), 3)


async def test_what_cannot_be_read_changes_nothing_and_says_why(
    cluster: LiveCluster, tmp_path: Path
):
    """No capacity is advertised before a speed is known; a known one stays.

    Each reason is logged once.
    """
    kernel, clock = Kernel(tmp_path / "sys"), ManualClock(1000.0)
    settings = BandwidthSettings("n1", "eth0", sysfs=kernel.root, check_s=0)
    agent = BandwidthAgent(settings, Api(cluster.client, 5.0), clock)
    with capture_logs() as logs:
        for state, megabits in (("up", -1), ("up", -1), ("up", 1000), ("down", -1), ("down", -1)):
            kernel.set_link(state, megabits)
            await agent.look()
            if megabits == -1 and not agent.writes:
                assert await advertised(cluster) == (None, None)
    assert await advertised(cluster) == (10**9, 10**9)
    reported = [(one["event"], one.get("because")) for one in logs if one["log_level"] == "warning"]
    assert reported == [
        ("advertises nothing", "eth0: does not tell its speed"),
        ("the last speed stays", "eth0: is down"),
    ]
    kernel.set_link("up", 1000)
    await cluster.send("DELETE", "/api/v1/nodes/n1")
    with capture_logs() as logs:
        await agent.look()
    (one,) = logs
    assert "404" in one["because"]
