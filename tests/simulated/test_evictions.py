"""Evictions of whole groups with obstacles: all members are evicted, or none."""

import pytest
from structlog.testing import capture_logs

from scheduler.kube.api import Response
from tests.simulated.cluster import SimulatedCluster
from tests.simulated.disruptions import PODS_PATH
from tests.simulated.groupcapacity import POD_GROUP
from tests.simulated.races import URGENT
from tests.unit.kube.memoryapi import LOST, Accident

pytestmark = pytest.mark.looptime
FORBIDDEN = Accident(Response(403, reason="Forbidden", message="a webhook rejects it"))
POD = f"{PODS_PATH}/g-3"


async def occupied(seed: int, replicas: int = 1) -> SimulatedCluster:
    """Return a cluster with one node that a group of eight fills, just bound."""
    cluster = SimulatedCluster(seed)
    cluster.protect()
    cluster.node("n0", cpu="8")
    for _ in range(replicas):
        cluster.add()
    cluster.gang("g")
    await cluster.until(lambda: not cluster.unbound())
    await cluster.pass_time(10)
    return cluster


def bound_pods(cluster: SimulatedCluster, group: str) -> list[str]:
    """Return the members of a group that are on a node."""
    pods = cluster.pods().values()
    mine = (pod for pod in pods if pod["metadata"].get("labels", {}).get(POD_GROUP) == group)
    return sorted(pod["metadata"]["name"] for pod in mine if pod["spec"].get("nodeName"))


async def test_a_member_that_could_not_be_deleted_with_its_group_goes_later():
    """The server deletes seven of eight members.

    The last one follows once it is allowed, with another event.
    """
    cluster = await occupied(1)
    async with cluster.running(0):
        cluster.refusals[f"DELETE {POD}"] = (FORBIDDEN,)
        for number in range(4):
            cluster.pod(f"urgent-{number}", spec=URGENT)
        await cluster.pass_time(150)
        assert ["g-3"] == bound_pods(cluster, "g")
        cluster.refusals.clear()
        await cluster.until(lambda: not bound_pods(cluster, "g"), 90)
        await cluster.pass_time(90)

    assert [] == cluster.history.broken
    assert ["GroupReleased"] == cluster.audit.reasons("g-3")[-1:]
    assert [] == cluster.unbound()


async def test_no_member_is_evicted_while_one_cannot_be_marked():
    """One pod's status write is rejected: the seven others keep running, since evicting them would
    be useless.
    """
    cluster = await occupied(2)
    async with cluster.running(0):
        cluster.refusals[f"PATCH {POD}/status"] = (FORBIDDEN,)
        for number in range(4):
            cluster.pod(f"urgent-{number}", spec=URGENT)
        await cluster.pass_time(200)
        assert 8 == len(bound_pods(cluster, "g"))
        assert 0 == cluster.audit.checked["eviction events"]
        cluster.refusals.clear()
        await cluster.until(lambda: not cluster.unbound(), 330)

    assert [] == cluster.history.broken
    assert [] == bound_pods(cluster, "g")


async def test_the_next_leader_finishes_the_eviction_of_a_group():
    """The leader dies after deleting some of eight members: the next one evicts the rest."""
    cluster = await occupied(3, replicas=2)
    async with cluster.running(0):
        (leader,) = (one for one in cluster.replicas if one.number == cluster.audit.holder)
        for number in (5, 6, 7):
            cluster.refusals[f"DELETE {PODS_PATH}/g-{number}"] = (Accident(LOST),)
        cluster.pod("urgent", spec=URGENT)
        await cluster.pass_time(2)
        await leader.kill()
        cluster.refusals.clear()
        assert ["g-5", "g-6", "g-7"] == bound_pods(cluster, "g")
        await cluster.until(lambda: not bound_pods(cluster, "g"), 90)

    assert [] == cluster.history.broken
    assert [] == cluster.unbound()


async def test_a_leader_that_loses_the_lease_during_an_eviction_ends_without_a_fault():
    """The fence is closed while victims wait for one another: no request is sent, and no error is
    raised.
    """
    cluster = await occupied(4, replicas=2)
    async with cluster.running(0):
        (leader,) = (one for one in cluster.replicas if one.number == cluster.audit.holder)
        refused = Accident(Response(500, reason="InternalError", message="no quorum"))
        leader.wiring.late = {"/status": 3.0}
        leader.wiring.accident = lambda _, path: refused if "/leases/" in path else None
        await cluster.pass_time(5)
        for number in range(6):
            cluster.pod(f"urgent-{number}", spec=URGENT)
            await cluster.pass_time(1)
        with capture_logs() as entries:
            await cluster.until(lambda: leader.task is not None and leader.task.done(), 60)
        await cluster.revive()
        await cluster.until(lambda: not cluster.unbound(), 120)

    assert [] == cluster.history.broken
    assert [] == [one for one in entries if one["event"] == "an effect failed"]
