"""A cluster ends alike in `simulate` and under the daemon; `python -m tests.agreement.outcomes` plays 500 cases."""

from pathlib import Path

import pytest

from tests.agreement.outcomes import play


@pytest.mark.parametrize("seed", range(3))
async def test_the_daemon_and_simulate_place_the_same_pods(seed: int, tmp_path: Path):
    """Node by node: pods, gangs, priorities, preemption and workloads, for a snapshot before the start."""
    assert not (await play(seed, tmp_path)).startswith("unexplained")
