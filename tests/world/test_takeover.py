"""What a new leader must read before its first decision."""

import pytest

from tests.unit.kube.memoryapi import LOST
from tests.world.world import SimulatedCluster

pytestmark = pytest.mark.looptime


async def test_a_standby_with_dead_watches_learns_what_the_leader_did():
    """The standby's watches have sent no event for seconds without breaking: the standby lists
    before it decides.
    """
    world = SimulatedCluster(1)
    for number in range(4):
        world.node(f"n{number}", cpu="8")
    async with world.running():
        leader, standby = world.replicas
        for flow in standby.wiring.flows:
            flow.die()
        for number in range(3):
            world.gang(f"g{number}")
        await world.until(lambda: not world.unbound())
        await leader.kill()
        for number in range(3):
            world.gang(f"late{number}")
        await world.pass_time(60)
        assert standby.daemon.engine.is_leading

    assert [] == world.history.broken
    assert 16 == len(world.unbound())
    assert 32 == world.history.binds


async def handed_over(world: SimulatedCluster) -> float:
    """Terminate the first process; return the seconds until the second one leads."""
    leader, standby = world.replicas
    asked_at = world.clock.now()
    await leader.leave()
    await world.until(lambda: standby.daemon.engine.is_leading)
    return world.clock.now() - asked_at


async def test_a_lease_is_not_given_back_over_a_bind_on_its_way():
    """A bind hangs in the server when the leader terminates: the next one waits for the lease to
    expire.
    """
    world = SimulatedCluster(1)
    world.node("n0", cpu="1")
    async with world.running():
        world.replicas[0].wiring.late = {"/binding": 20.0}
        world.pod("first")
        await world.pass_time(1)
        world.pod("second")
        waited_s = await handed_over(world)
        await world.pass_time(60)

    assert waited_s > 20
    assert [] == world.history.broken
    assert ["second"] == world.unbound()


async def test_a_lease_is_not_given_back_over_a_status_without_an_answer():
    """The connection breaks after the status of a PodGroup was sent, and the leader terminates."""
    world = SimulatedCluster(1)
    world.node("n0", cpu="8")
    async with world.running():
        world.replicas[0].wiring.unheard = {"podgroups/g/status": (LOST, 8.0)}
        world.gang("g")
        await world.until(lambda: not world.unbound())
        await world.pass_time(1)
        waited_s = await handed_over(world)
        await world.pass_time(20)

    assert waited_s > 8
    assert [] == world.history.broken


async def test_a_quiet_world_is_silent():
    """Without events, nothing is written for minutes but the lease."""
    world = SimulatedCluster(1)
    for number in range(3):
        world.node(f"n{number}")
    async with world.running():
        world.gang("g")
        await world.pass_time(380)
        before = {kind: world.writes.get(kind, 0) for kind in ("Pod", "Node", "PodGroup", "Event")}
        await world.pass_time(200)
        after = {kind: world.writes.get(kind, 0) for kind in before}

    assert before == after
