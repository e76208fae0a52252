"""Netperf's agents find one another on an API server, by the endpoints of their Service alone."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from operators.agents.netperf import PeersOfService
from operators.agents.netperf.peers import Peer
from operators.api import Api
from scheduler.base.errors import ApiError
from tests.e2e.operatorcluster import SERVERS, LiveCluster, open_cluster

SLICES = "/apis/discovery.k8s.io/v1/namespaces/agents/endpointslices"

pytestmark = pytest.mark.allow_blocking("servers and clients are set up on the test's loop")


@pytest.fixture(params=SERVERS)
async def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[LiveCluster]:
    async with open_cluster(request.param, tmp_path) as opened:
        await opened.send("POST", "/api/v1/namespaces", {"metadata": {"name": "agents"}})
        yield opened


def part(name: str, service: str, *endpoints: dict[str, Any]) -> dict[str, Any]:
    """Return an EndpointSlice."""
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/service-name": service}},
        "addressType": "IPv4",
        "ports": [{"name": "netperf", "port": 10261, "protocol": "TCP"}],
        "endpoints": list(endpoints),
    }


async def test_agents_are_the_endpoints_of_their_service(cluster: LiveCluster):
    """All slices of the one Service count, without those that are not ready; a failure is an
    ApiError.
    """
    ready, unready = {"conditions": {"ready": True}}, {"conditions": {"ready": False}}
    one = {"addresses": ["10.1.0.1"], "nodeName": "n1", "zone": "a", **ready}
    two = {"addresses": ["10.1.0.2"], "nodeName": "n2", "zone": "b", **ready}
    gone = {"addresses": ["10.1.0.3"], "nodeName": "n3", "zone": "b", **unready}
    for body in (
        part("first", "netperf", one),
        part("second", "netperf", gone, two),
        part("other", "else", {**one, "nodeName": "n9"}),
    ):
        await cluster.send("POST", SLICES, body)
    api = Api(cluster.client, 5.0)

    assert await PeersOfService(api, "agents", "netperf").find() == (
        Peer("n1", "10.1.0.1", 10261, "a"),
        Peer("n2", "10.1.0.2", 10261, "b"),
    )
    assert await PeersOfService(api, "agents", "unused").find() == ()
    await cluster.client.close()
    with pytest.raises(ApiError):
        await PeersOfService(api, "agents", "netperf").find()
