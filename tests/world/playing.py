"""A run by seed from its first node to its verdict: moves, then rest, then the questions that only rest allows."""

from random import Random

import pytest

from tests.world.laws import Breach, BrokenError, Law
from tests.world.moves import Play
from tests.world.world import World

# Whoever uses this module runs on a loop whose time jumps: its delays cost nothing.
pytestmark = pytest.mark.looptime

# Within so long after the last fault whoever can be bound is. The longest of what may have to run out first:
# a watch that brings nothing (150 s), a bind whose answer never came (65 s), a lease (15 s), a back-off.
SETTLED_S = 240.0
# Within so long whoever waits takes room that is freed in a world without faults: a back-off, and a solve.
TAKEN_S = 30.0
# What is written though nothing happens: who leads, and how often what was said has been said since.
AT_REST = ("Lease", "Event")


async def play(seed: int, moves: int) -> Play:
    """Run a world of a few nodes through so many moves, then let all go well, and judge it.

    Raises BrokenError with the laws that were broken.
    """
    world = World(seed)
    dice = Random(seed)
    for number in range(dice.choice((2, 4, 8, 12))):
        world.node(f"n{number:02}", cpu="8")
    world.protect()
    one = Play(world, dice)
    async with world.running():
        for _ in range(moves):
            await one.move()
            judge(world, world.idle())
        await come_to_rest(one)
    judge(world)
    return one


async def come_to_rest(one: Play) -> None:
    """Let all go well, and ask what must be true then."""
    world = one.world
    one.hold_up()
    # The last of the faults, in every world: what runs ends, and nobody is told of anything.
    await one.complete()
    for replica in world.replicas:
        for flow in replica.wiring.flows:
            flow.die()
    await one.amends()
    await settle(one, SETTLED_S)
    # Until what was only held in doubt is let go of, and a watch that brings nothing is given up.
    await world.pass_time(170)
    judge(world, [*world.unlike(), *world.audit.owing({one.number for one in world.replicas})])
    await one.finish()
    await settle(one, TAKEN_S)
    await world.pass_time(30)
    before, needless = dict(world.writes), len(world.audit.needless)
    await world.pass_time(60)
    now = world.clock.now()
    noise = {k: n - before.get(k, 0) for k, n in world.writes.items() if k not in AT_REST}
    found = [Breach(Law.SILENCE, now, f"{n} writes of {kind}") for kind, n in noise.items() if n]
    found += [Breach(Law.SILENCE, now, said) for said in world.audit.needless[needless:]]
    judge(world, [*found, *world.unlike()])


async def settle(one: Play, limit_s: float) -> None:
    """Let time pass until whoever can be bound is."""
    world, began = one.world, one.world.clock.now()
    while not world.is_settled(one.groups):
        await world.pass_time(1)
        await world.revive()
        judge(world)
        if world.clock.now() - began > limit_s:
            parts, unbound = world.partial(one.groups), world.unbound()
            what = f"not in {limit_s:.0f} s; in part: {parts}; unbound: {unbound[:20]}"
            law = Law.WHOLE if parts else Law.LIVENESS
            raise BrokenError([Breach(law, world.clock.now(), what)])
    one.settled_s = max(one.settled_s, world.clock.now() - began)


def judge(world: World, found: list[Breach] | None = None) -> None:
    """Raise what has been broken so far."""
    if broken := world.history.broken + (found or []):
        raise BrokenError(broken)
