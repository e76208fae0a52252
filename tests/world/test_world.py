"""Runs of the whole world by seed: workloads and faults at random, judged by the server's history."""

import pytest

from tests.world.alone import alone
from tests.world.playing import Length


@pytest.mark.parametrize("seed", range(4))
def test_no_law_is_broken(seed: int):
    """Two replicas, gangs of eight in bursts, and what can happen to them, their nodes and their kinds."""
    run = alone(seed, Length(40))
    assert run.broken is None, str(run.broken)
    assert run.played is not None
    assert run.played.world.history.binds > 10


def test_no_law_is_broken_by_the_clock():
    """A world that is quiet for hours: watches end, events grow old, who waits is tried again and told nothing new."""
    run = alone(16, Length(days=0.1))
    assert run.broken is None, str(run.broken)
    assert run.virtual_s > 8640


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 140))
def test_no_law_is_broken_for_long(seed: int):
    """The same with more seeds and more moves."""
    assert alone(seed, Length(200)).broken is None
