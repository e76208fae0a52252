"""What a new leader must read before its first decision."""

import pytest

from tests.simulated.cluster import SimulatedCluster
from tests.simulated.replica import Replica
from tests.unit.kube.memoryapi import LOST

pytestmark = pytest.mark.looptime


async def test_a_standby_with_dead_watches_learns_what_the_leader_did():
    """The standby's watches have sent no event for seconds without breaking: the standby lists
    before it decides.
    """
    cluster = SimulatedCluster(1)
    for number in range(4):
        cluster.node(f"n{number}", cpu="8")
    async with cluster.running():
        leader, standby = cluster.replicas
        for flow in standby.wiring.flows:
            flow.die()
        for number in range(3):
            cluster.gang(f"g{number}")
        await cluster.until(lambda: not cluster.unbound())
        await leader.kill()
        for number in range(3):
            cluster.gang(f"late{number}")
        await cluster.pass_time(60)
        assert standby.daemon.engine.is_leading

    assert [] == cluster.history.broken
    assert 16 == len(cluster.unbound())
    assert 32 == cluster.history.binds


async def test_only_a_leader_with_a_predecessor_lists_again():
    """No process has written before the first leader: a second list would only delay it."""
    cluster = SimulatedCluster(1)
    async with cluster.running():
        leader, standby = cluster.replicas
        before = lists_of(leader), lists_of(standby)
        await handed_over(cluster)
        await cluster.pass_time(1)

    assert {1} == set(before[0].values()) == set(before[1].values())
    assert 2 == lists_of(standby)["Pod"]


def lists_of(replica: Replica) -> dict[str, int]:
    """Return how many times a process has listed each required kind."""
    reflectors = replica.daemon._watches._reflectors
    return {one.kind.kind: one._lists for one in reflectors if one.kind.required}


async def handed_over(cluster: SimulatedCluster) -> float:
    """Terminate the first process; return the seconds until the second one leads."""
    leader, standby = cluster.replicas
    asked_at = cluster.clock.now()
    await leader.leave()
    await cluster.until(lambda: standby.daemon.engine.is_leading)
    return cluster.clock.now() - asked_at


async def test_a_lease_is_not_released_over_a_bind_in_flight():
    """A bind hangs in the server when the leader terminates: the next one waits for the lease to
    expire.
    """
    cluster = SimulatedCluster(1)
    cluster.node("n0", cpu="1")
    async with cluster.running():
        cluster.replicas[0].wiring.late = {"/binding": 20.0}
        cluster.pod("first")
        await cluster.pass_time(1)
        cluster.pod("second")
        waited_s = await handed_over(cluster)
        await cluster.pass_time(60)

    assert waited_s > 20
    assert [] == cluster.history.broken
    assert ["second"] == cluster.unbound()


async def test_a_lease_is_not_released_over_a_status_without_an_answer():
    """The connection breaks after the status of a PodGroup was sent, and the leader terminates."""
    cluster = SimulatedCluster(1)
    cluster.node("n0", cpu="8")
    async with cluster.running():
        cluster.replicas[0].wiring.unheard = {"podgroups/g/status": (LOST, 8.0)}
        cluster.gang("g")
        await cluster.until(lambda: not cluster.unbound())
        await cluster.pass_time(1)
        waited_s = await handed_over(cluster)
        await cluster.pass_time(20)

    assert waited_s > 8
    assert [] == cluster.history.broken


async def test_a_quiet_cluster_is_silent():
    """Without events, nothing is written for minutes but the lease."""
    cluster = SimulatedCluster(1)
    for number in range(3):
        cluster.node(f"n{number}")
    async with cluster.running():
        cluster.gang("g")
        await cluster.pass_time(380)
        before = {
            kind: cluster.writes.get(kind, 0) for kind in ("Pod", "Node", "PodGroup", "Event")
        }
        await cluster.pass_time(200)
        after = {kind: cluster.writes.get(kind, 0) for kind in before}

    assert before == after
