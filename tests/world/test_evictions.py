"""Evictions of whole groups with obstacles: all members are evicted, or none."""

import pytest
from structlog.testing import capture_logs

from scheduler.kube.api import Response
from tests.unit.kube.memoryapi import LOST, Accident
from tests.world.grouproom import POD_GROUP
from tests.world.mishaps import PODS_PATH
from tests.world.races import URGENT
from tests.world.world import SimulatedCluster

pytestmark = pytest.mark.looptime
FORBIDDEN = Accident(Response(403, reason="Forbidden", message="a webhook says no"))
POD = f"{PODS_PATH}/g-3"


async def occupied(seed: int, replicas: int = 1) -> SimulatedCluster:
    """Return a world with one node that a group of eight fills, just bound."""
    world = SimulatedCluster(seed)
    world.protect()
    world.node("n0", cpu="8")
    for _ in range(replicas):
        world.add()
    world.gang("g")
    await world.until(lambda: not world.unbound())
    await world.pass_time(10)
    return world


def bound_pods(world: SimulatedCluster, group: str) -> list[str]:
    """Return the members of a group that are on a node."""
    pods = world.pods().values()
    mine = (pod for pod in pods if pod["metadata"].get("labels", {}).get(POD_GROUP) == group)
    return sorted(pod["metadata"]["name"] for pod in mine if pod["spec"].get("nodeName"))


async def test_who_could_not_be_deleted_with_its_group_goes_later():
    """The server deletes seven of eight members.

    The last one follows once it is allowed, with another event.
    """
    world = await occupied(1)
    async with world.running(0):
        world.refusals[f"DELETE {POD}"] = (FORBIDDEN,)
        for number in range(4):
            world.pod(f"urgent-{number}", spec=URGENT)
        await world.pass_time(150)
        assert ["g-3"] == bound_pods(world, "g")
        world.refusals.clear()
        await world.until(lambda: not bound_pods(world, "g"), 90)
        await world.pass_time(90)

    assert [] == world.history.broken
    assert ["GroupReleased"] == world.audit.reasons("g-3")[-1:]
    assert [] == world.unbound()


async def test_no_member_is_evicted_while_one_cannot_be_marked():
    """One pod's status write is rejected: the seven others keep running, since evicting them would
    be useless.
    """
    world = await occupied(2)
    async with world.running(0):
        world.refusals[f"PATCH {POD}/status"] = (FORBIDDEN,)
        for number in range(4):
            world.pod(f"urgent-{number}", spec=URGENT)
        await world.pass_time(200)
        assert 8 == len(bound_pods(world, "g"))
        assert 0 == world.audit.checked["receipts"]
        world.refusals.clear()
        await world.until(lambda: not world.unbound(), 330)

    assert [] == world.history.broken
    assert [] == bound_pods(world, "g")


async def test_who_leads_next_finishes_the_eviction_of_a_group():
    """The leader dies after deleting some of eight members: the next one evicts the rest."""
    world = await occupied(3, replicas=2)
    async with world.running(0):
        (leader,) = (one for one in world.replicas if one.number == world.audit.holder)
        for number in (5, 6, 7):
            world.refusals[f"DELETE {PODS_PATH}/g-{number}"] = (Accident(LOST),)
        world.pod("urgent", spec=URGENT)
        await world.pass_time(2)
        await leader.kill()
        world.refusals.clear()
        assert ["g-5", "g-6", "g-7"] == bound_pods(world, "g")
        await world.until(lambda: not bound_pods(world, "g"), 90)

    assert [] == world.history.broken
    assert [] == world.unbound()


async def test_who_loses_the_lease_in_the_midst_of_an_eviction_ends_without_a_fault():
    """The fence is closed while victims wait for one another: no request is sent, and no error is
    raised.
    """
    world = await occupied(4, replicas=2)
    async with world.running(0):
        (leader,) = (one for one in world.replicas if one.number == world.audit.holder)
        refused = Accident(Response(500, reason="InternalError", message="no quorum"))
        leader.wiring.late = {"/status": 3.0}
        leader.wiring.accident = lambda _, path: refused if "/leases/" in path else None
        await world.pass_time(5)
        for number in range(6):
            world.pod(f"urgent-{number}", spec=URGENT)
            await world.pass_time(1)
        with capture_logs() as entries:
            await world.until(lambda: leader.task is not None and leader.task.done(), 60)
        await world.revive()
        await world.until(lambda: not world.unbound(), 120)

    assert [] == world.history.broken
    assert [] == [one for one in entries if one["event"] == "an effect failed"]
