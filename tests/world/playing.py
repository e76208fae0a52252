"""A run by seed from its first node to its verdict: moves, then rest, then the questions that only rest allows."""

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

import pytest

from tests.world.laws import Breach, BrokenError, Law
from tests.world.moves import Play
from tests.world.search import Script, Step
from tests.world.setting import drawn
from tests.world.world import World

# Whoever uses this module runs on a loop whose time jumps: its delays cost nothing.
pytestmark = pytest.mark.looptime

# Within so long after the last fault whoever can be bound is. The longest of what may have to run out first:
# a watch that brings nothing (150 s), a bind whose answer never came (65 s), a back-off; and then a lease.
SETTLED_S = 240.0
# Within so long whoever waits takes room that is freed in a world without faults: a back-off, and a solve.
TAKEN_S = 30.0
# What is written though nothing happens: who leads, and how often what was said has been said since.
AT_REST = ("Lease", "Event")
DAY_S = 86_400.0
# Who cannot be placed is tried again every five minutes, and then told if what he was told is true no more.
LAST_WORDS_S = (
    340.0  # five minutes, to which half a minute comes until that is looked at, and a back-off
)
# For how long nothing happens in a world that lives for days.
QUIET_S = (600.0, 3600.0, 3 * 3600.0, 8 * 3600.0, 24 * 3600.0)


class Length(NamedTuple):
    """How long a world lives: for so many moves, one soon after the other, or for so many days, most of them quiet."""

    moves: int = 100
    days: float = 0.0


def opened(script: Script) -> Play:
    """Return a world of a few nodes in which nothing has happened yet."""
    dice = Random(script.seed)
    world = World(script.seed, drawn(dice))
    for number in range(dice.choice((2, 4, 8, 12))):
        world.node(f"n{number:02}", cpu="8")
    world.protect()
    return Play(world, dice)


async def play(one: Play, script: Script, length: Length) -> None:
    """Let a world live for as long as asked for, or by the steps of a script, and judge it.

    Raises BrokenError with the laws that were broken.
    """
    async with one.world.running():
        if length.days:
            await live(one, length.days * DAY_S)
        else:
            await trouble(one, length.moves, script.steps)
            await come_to_rest(one)
    judge(one.world)


async def live(one: Play, seconds: float) -> None:
    """Let trouble come now and then, and hours pass between, as in a cluster."""
    world, began = one.world, one.world.clock.now()
    while world.clock.now() - began < seconds:
        await trouble(one, one.dice.randint(1, 8))
        await come_to_rest(one)
        before, needless = dict(world.writes), len(world.audit.needless)
        quiet_s = one.dice.choice(QUIET_S)
        await world.rest(quiet_s)
        one.quiet_s += quiet_s
        judge(world, [*silent(world, before, needless), *await unlike(world)])


async def trouble(one: Play, moves: int, steps: Sequence[Step] = ()) -> None:
    """Make these moves, or where none are given as many as asked for."""
    for number in range(len(steps) or moves):
        await one.make(steps[number] if steps else one.some_step())
        judge(one.world, one.world.idle())


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
    await settle(one, SETTLED_S + world.longest_lease_s)
    # Until what was only held in doubt is let go of, and a watch that brings nothing is given up. Who led may
    # have been unable to renew for long before: then another, or itself begun anew, waits for its lease to run out.
    await stay(world, 170)
    await settle(one, SETTLED_S + world.longest_lease_s)
    judge(world, [*await unlike(world), *world.audit.owing({one.number for one in world.replicas})])
    await one.finish()
    await settle(one, TAKEN_S + world.longest_backoff_s)
    await world.rest(LAST_WORDS_S)
    before, needless = dict(world.writes), len(world.audit.needless)
    await world.pass_time(60)
    judge(world, [*silent(world, before, needless), *await unlike(world)])


def silent(world: World, before: dict[str, int], needless: int) -> list[Breach]:
    """Return what has been written since in a world where nothing happened, and what was asked for in vain."""
    noise = {k: n - before.get(k, 0) for k, n in world.writes.items() if k not in AT_REST}
    said = [f"{n} writes of {kind}" for kind, n in noise.items() if n]
    said += world.audit.needless[needless:]
    return [Breach(Law.SILENCE, world.clock.now(), what) for what in said]


async def unlike(world: World) -> list[Breach]:
    """Return what is not as it must be at rest.

    Who waits is tried again now and then, which may be this very moment: that is let come to its end.
    """
    began = world.clock.now()
    while world.clock.now() - began < TAKEN_S and any(
        one.leads and one.is_busy for one in world.replicas
    ):
        await world.pass_time(1)
    return world.unlike()


async def stay(world: World, seconds: int) -> None:
    """Let time pass, in which whoever ends is started anew, as a Deployment would."""
    for _ in range(seconds):
        await world.pass_time(1)
        await world.revive()


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
