"""Runs of the whole world by seed: workloads and faults at random, judged by the server's history."""

import pytest

from tests.world.moves import play

pytestmark = pytest.mark.looptime


@pytest.mark.parametrize("seed", range(2))
async def test_no_law_is_broken(seed: int):
    """Two replicas, gangs of eight in bursts, and everything that can happen to them."""
    played = await play(seed, 20)
    assert played.world.history.binds > 10


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 140))
async def test_no_law_is_broken_for_long(seed: int):
    """The same with more seeds and more moves."""
    await play(seed, 200)
