"""A run by seed from its first node to its verdict: actions, quiet time, and the final checks."""

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

import pytest

from tests.simulated.actions import Actions
from tests.simulated.cluster import SimulatedCluster
from tests.simulated.invariants import Breach, BrokenError, Invariant
from tests.simulated.search import Script, Step
from tests.simulated.setting import drawn

# This module runs on a loop with virtual time: its delays cost nothing.
pytestmark = pytest.mark.looptime

# The time after the last fault within which every pod that fits is bound. The longest of: a watch
# without events (150 s), a bind without an answer (65 s), a back-off; plus a lease.
SETTLED_S = 240.0
# The time within which pending pods use freed capacity in a cluster without faults: a back-off,
# and a solve.
TAKEN_S = 30.0
# Writes in a quiet cluster: the lease, and the counts of repeated events.
AT_REST = ("Lease", "Event")
DAY_S = 86_400.0
# Infeasible pods are retried every five minutes, and reported again if their message changed.
LAST_WORDS_S = 340.0  # five minutes, plus half a minute until the check, plus a back-off
# The length of quiet times in a long run.
QUIET_S = (600.0, 3600.0, 3 * 3600.0, 8 * 3600.0, 24 * 3600.0)


class Length(NamedTuple):
    """The length of a run: a number of actions in short succession, or a number of mostly quiet
    days.
    """

    moves: int = 100
    days: float = 0.0


def prepared(script: Script) -> Actions:
    """Return a cluster of a few nodes without any event yet."""
    dice = Random(script.seed)
    cluster = SimulatedCluster(script.seed, drawn(dice))
    for number in range(dice.choice((2, 4, 8, 12))):
        cluster.node(f"n{number:02}", cpu="8")
    cluster.protect()
    return Actions(cluster, dice)


async def simulate(one: Actions, script: Script, length: Length) -> None:
    """Simulate a cluster for the given length, or by a script, and check it.

    Raises BrokenError with the violated invariants.
    """
    async with one.cluster.running():
        if length.days:
            await run_days(one, length.days * DAY_S)
        else:
            await run_actions(one, length.moves, script.steps)
            await come_to_rest(one)
    raise_violations(one.cluster)


async def run_days(one: Actions, seconds: float) -> None:
    """Run faults now and then, with quiet hours between."""
    cluster, began = one.cluster, one.cluster.clock.now()
    while cluster.clock.now() - began < seconds:
        await run_actions(one, one.dice.randint(1, 8))
        await come_to_rest(one)
        before, needless = dict(cluster.writes), len(cluster.audit.needless)
        quiet_s = one.dice.choice(QUIET_S)
        await cluster.rest(quiet_s)
        one.quiet_s += quiet_s
        raise_violations(cluster, [*silent(cluster, before, needless), *await deviations(cluster)])


async def run_actions(one: Actions, moves: int, steps: Sequence[Step] = ()) -> None:
    """Run these actions, or else the configured number."""
    for number in range(len(steps) or moves):
        await one.make(steps[number] if steps else one.some_step())
        raise_violations(one.cluster, one.cluster.idle())


async def come_to_rest(one: Actions) -> None:
    """End all faults, and check the final state."""
    cluster = one.cluster
    one.clear_faults()
    # The last fault of every run: running pods end without an event.
    await one.complete_pods()
    for replica in cluster.replicas:
        for flow in replica.wiring.flows:
            flow.die()
    await one.remove_leftover_gates()
    await settle(one, SETTLED_S + cluster.longest_lease_s)
    # Until capacity in doubt is released, and a watch without events is closed. The leader may have
    # been unable to renew for long: then the next one waits for its lease to expire.
    await stay(cluster, 170)
    await settle(one, SETTLED_S + cluster.longest_lease_s)
    raise_violations(
        cluster,
        [
            *await deviations(cluster),
            *cluster.audit.owing({one.number for one in cluster.replicas}),
        ],
    )
    await one.finish()
    await settle(one, TAKEN_S + cluster.longest_backoff_s)
    await cluster.rest(LAST_WORDS_S)
    before, needless = dict(cluster.writes), len(cluster.audit.needless)
    await cluster.pass_time(60)
    raise_violations(cluster, [*silent(cluster, before, needless), *await deviations(cluster)])


def silent(cluster: SimulatedCluster, before: dict[str, int], needless: int) -> list[Breach]:
    """Return the writes in a quiet cluster, and the needless requests."""
    noise = {k: n - before.get(k, 0) for k, n in cluster.writes.items() if k not in AT_REST}
    stated = [f"{n} writes of {kind}" for kind, n in noise.items() if n]
    stated += cluster.audit.needless[needless:]
    return [Breach(Invariant.SILENCE, cluster.clock.now(), what) for what in stated]


async def deviations(cluster: SimulatedCluster) -> list[Breach]:
    """Return the deviations from the required final state.

    A pending pod may be in a retry at this moment, which is completed first.
    """
    began = cluster.clock.now()
    while cluster.clock.now() - began < TAKEN_S and any(
        one.leads and one.is_busy for one in cluster.replicas
    ):
        await cluster.pass_time(1)
    return cluster.deviations()


async def stay(cluster: SimulatedCluster, seconds: int) -> None:
    """Advance the time, and restart ended processes, as a Deployment would."""
    for _ in range(seconds):
        await cluster.pass_time(1)
        await cluster.revive()


async def settle(one: Actions, limit_s: float) -> None:
    """Advance the time until all pods that fit are bound."""
    cluster, began = one.cluster, one.cluster.clock.now()
    while not cluster.is_settled(one.groups):
        await cluster.pass_time(1)
        await cluster.revive()
        raise_violations(cluster)
        if cluster.clock.now() - began > limit_s:
            parts, unbound = cluster.partial(one.groups), cluster.unbound()
            what = f"not in {limit_s:.0f} s; in part: {parts}; unbound: {unbound[:20]}"
            invariant = Invariant.WHOLE if parts else Invariant.LIVENESS
            raise BrokenError([Breach(invariant, cluster.clock.now(), what)])
    one.settled_s = max(one.settled_s, cluster.clock.now() - began)


def raise_violations(cluster: SimulatedCluster, found: list[Breach] | None = None) -> None:
    """Raise the violations so far."""
    if broken := cluster.history.broken + (found or []):
        raise BrokenError(broken)
