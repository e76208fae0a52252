"""Runs of the whole world by seed: workloads and faults at random, judged by the server's history."""

import pytest

from tests.world.moves import play

# Nothing comes from outside that a jump of time would have to wait for.
pytestmark = pytest.mark.looptime(noop_cycles=0)


@pytest.mark.parametrize("seed", range(4))
async def test_no_law_is_broken(seed: int):
    """Two replicas, gangs of eight in bursts, and what can happen to them, their nodes and their kinds."""
    played = await play(seed, 40)
    assert played.world.history.binds > 10


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 140))
async def test_no_law_is_broken_for_long(seed: int):
    """The same with more seeds and more moves."""
    await play(seed, 200)
