"""Generated faults: seeded runs of the events of tests/property, hundreds of them.

A failing run is repeated by its seed alone: `seeded_run(SEED).settle()`.
"""

import os

import pytest

from tests.property.moves import seeded_run

PER_TEST = 25
RUNS = 200
LONG_RUNS = 10_000


@pytest.mark.parametrize("first", range(0, RUNS, PER_TEST))
def test_generated_runs(first: int):
    """No pod is lost, bound twice or overcommitted, and the run settles."""
    for seed in range(first, first + PER_TEST):
        seeded_run(seed).settle()


@pytest.mark.long
@pytest.mark.parametrize("first", range(RUNS, RUNS + LONG_RUNS, 500))
def test_many_generated_runs(first: int):
    """The invariant holds on other seeds; TRELLIS_SEED selects new ones."""
    offset = int(os.environ.get("TRELLIS_SEED", "0"))
    for seed in range(offset + first, offset + first + 500):
        seeded_run(seed).settle()
