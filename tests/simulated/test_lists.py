"""Outcomes that one bad response, or a lost list, must never have."""

import pytest

from scheduler.kube.api import Response
from tests.simulated.cluster import SimulatedCluster
from tests.unit.kube.memoryapi import Accident

pytestmark = pytest.mark.looptime
NOT_FOUND = Accident(Response(404, reason="NotFound", message="404 page not found"))


async def test_a_404_for_pods_fills_no_node_twice():
    """Twenty nodes full with 800 pods; pods respond 404 and all watches break: no pod is bound."""
    cluster = SimulatedCluster(1)
    for number in range(20):
        cluster.node(f"n{number:02}", cpu="40")
    for number in range(800):
        cluster.foreign(f"p{number}", f"n{number % 20:02}")
    async with cluster.running():
        for number in range(60):
            cluster.pod(f"late-{number}")
        await cluster.pass_time(5)
        cluster.refusals["/api/v1/pods"] = (NOT_FOUND,)
        for replica in cluster.replicas:
            for flow in list(replica.wiring.flows):
                flow.cut()
        await cluster.pass_time(20)
        leader = cluster.replicas[0]
        assert "Pod" in str(leader.daemon._synced.check())
        cluster.refusals.clear()
        await cluster.pass_time(60)
        assert leader.daemon._synced.check() is None

    assert [] == cluster.history.broken
    assert 0 == cluster.history.binds
    assert 60 == len(cluster.unbound())
