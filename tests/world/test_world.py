"""Runs of the whole world by seed: workloads and faults at random, judged by the server's history."""

from random import Random

import pytest

from scheduler.kube.api import Response
from scheduler.sandbox.kinds.kinds import NODES
from tests.unit.kube.memoryapi import Accident
from tests.world.world import POD_GROUP, Replica, World

pytestmark = pytest.mark.looptime

REFUSALS = (
    Accident(Response(404, reason="NotFound", message="404 page not found")),
    Accident(Response(403, reason="Forbidden", message="no")),
    Accident(Response(500, reason="InternalError", message="oops")),
    Accident(Response(429, reason="TooManyRequests", retry_after_s=3.0)),
    Accident(Response(503, reason="ServiceUnavailable", message="down")),
)
PREFIXES = ("/api/v1/pods", "/api/v1/nodes", "/api/v1/namespaces/default/pods", "/apis/", "/api")


class Play:
    """The moves of one run; `dice` chooses them."""

    def __init__(self, world: World, dice: Random) -> None:
        self.world = world
        self.dice = dice
        self.groups: dict[str, int] = {}
        self._number = 0

    async def move(self) -> None:
        """Let one thing happen."""
        moves = (
            (self.burst, 6), (self.plain, 4), (self.finish, 5), (self.touch_node, 3),
            (self.cut, 2), (self.silence, 1), (self.refuse, 2), (self.heal, 3), (self.compact, 1),
            (self.kill, 1), (self.hand_over, 1), (self.partition, 1), (self.flap, 1),
        )  # fmt: skip
        chosen = self.dice.choices([m for m, _ in moves], [w for _, w in moves])[0]
        await chosen()
        await self.world.revive()
        await self.world.pass_time(self.dice.choice((0.0, 0.05, 0.3, 1.0, 5.0)))

    async def burst(self) -> None:
        """Some gangs of eight arrive at once."""
        for _ in range(self.dice.randint(1, 3)):
            self._number += 1
            name = f"g{self._number}"
            self.groups[name] = 8
            self.world.gang(name, 8, self.dice.choice(("1", "1500m", "350m")))

    async def plain(self) -> None:
        """Some pods arrive."""
        for _ in range(self.dice.randint(1, 6)):
            self._number += 1
            self.world.pod(f"p{self._number}", self.dice.choice(("500m", "2", "350m")))

    async def finish(self) -> None:
        """Some bound pods, or whole groups, end."""
        pods = [pod for pod in self.world.pods().values() if pod["spec"].get("nodeName")]
        for pod in self.dice.sample(pods, min(len(pods), 3)):
            group = pod["metadata"].get("labels", {}).get(POD_GROUP)
            self.groups.pop(group, None)
            for one in self.world.pods().values():
                mine = one["metadata"].get("labels", {}).get(POD_GROUP)
                if one is pod or (group and mine == group):
                    self.world.remove_pod(one["metadata"]["name"])

    async def touch_node(self) -> None:
        """A node's labels change, as its agents do all the time."""
        name = self._some_node()
        self._number += 1
        patch = {"metadata": {"labels": {"touched": str(self._number)}}}
        self.world.outside.change(f"/api/v1/nodes/{name}", patch)

    async def flap(self) -> None:
        """A node becomes unschedulable, and schedulable again."""
        path = f"/api/v1/nodes/{self._some_node()}"
        self.world.outside.change(path, {"spec": {"unschedulable": True}})
        await self.world.pass_time(self.dice.random())
        self.world.outside.change(path, {"spec": {"unschedulable": None}})

    async def cut(self) -> None:
        """All watches of a replica break."""
        for flow in list(self._some_replica().wiring.flows):
            flow.cut()

    async def silence(self) -> None:
        """All watches of a replica fall silent, and do not break."""
        for flow in self._some_replica().wiring.flows:
            flow.die()

    async def refuse(self) -> None:
        """Part of the API answers with a failure."""
        self.world.refusals[self.dice.choice(PREFIXES)] = self.dice.choice(REFUSALS)

    async def heal(self) -> None:
        """The API answers again, the network is whole, and then again it is not."""
        self.world.refusals.clear()
        for replica in self.world.replicas:
            replica.wiring.join()
            replica.wiring.trouble = self.dice.choice((0.0, 0.05, 0.2))

    async def compact(self) -> None:
        """The server forgets its history."""
        self.world.store.forget_history()

    async def kill(self) -> None:
        """A replica dies."""
        await self._some_replica().kill()

    async def hand_over(self) -> None:
        """A replica is asked to end."""
        await self._some_replica().leave()

    async def partition(self) -> None:
        """A replica is cut off."""
        self._some_replica().wiring.cut_off()

    def _some_replica(self) -> Replica:
        return self.dice.choice(self.world.replicas)

    def _some_node(self) -> str:
        nodes = [stored.obj["metadata"]["name"] for stored in self.world.store.list(NODES)]
        return str(self.dice.choice(nodes))


async def play(seed: int, moves: int) -> World:
    """Run a world of twelve nodes through so many moves, then let all go well, and judge it."""
    world = World(seed)
    for number in range(12):
        world.node(f"n{number:02}", cpu="8")
    one = Play(world, Random(seed))
    async with world.running():
        for _ in range(moves):
            await one.move()
            assert [] == world.history.broken
        world.refusals.clear()
        for replica in world.replicas:
            replica.wiring.join()
            replica.wiring.trouble = 0.0
        await world.pass_time(420)
        await one.finish()
        await world.until(lambda: world.is_settled(one.groups), 400)
    assert [] == world.history.broken
    assert [] == world.history.partial(one.groups, POD_GROUP, world.pods())
    return world


@pytest.mark.parametrize("seed", range(2))
async def test_no_law_is_broken(seed: int):
    """Two replicas, gangs of eight in bursts, and everything that can happen to them."""
    world = await play(seed, 20)
    assert world.history.binds > 10


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 140))
async def test_no_law_is_broken_for_long(seed: int):
    """The same with more seeds and more moves."""
    await play(seed, 200)
