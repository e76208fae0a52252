"""Runs with many faults replay byte for byte: only the logged input affects decisions."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from scheduler.engine.decisionlog import Header
from scheduler.engine.engine import Engine
from scheduler.simulate.replay import replay
from tests.property.moves import doorman, seeded_run
from tests.property.tinyplugins import tiny_engine

ROOT = Path(__file__).parents[2]
REPLAY = """
import sys
from scheduler.simulate.replay import replay
from tests.faults.test_replays import build
for path in sys.argv[1:]:
    with open(path, "rb") as lines:
        result = replay(lines, build)
    print(result.turns, result.is_complete, result.difference)
"""


def build(_header: Header) -> Engine:
    """Make the engine of the runs."""
    return tiny_engine()


def log_of(seed: int) -> bytes:
    """Return the decision log of a run; external interventions are no events."""
    rig = seeded_run(seed, without=(doorman,))
    rig.settle()
    return rig.log()


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_generated_runs_replay(first: int):
    """A fresh engine gives the same effects, also after relists, failures and lost leases."""
    for seed in range(first, first + 20):
        result = replay(io.BytesIO(log_of(seed)), build)
        assert result.difference is None, seed
        assert result.is_complete


@pytest.mark.parametrize("hash_seed", ["1", "2"])
def test_generated_runs_replay_in_another_process(tmp_path: Path, hash_seed: str):
    """Strings hash differently there: no order of a set or dict may affect a decision."""
    files = []
    for seed in range(12):
        path = tmp_path / f"{seed}.log"
        path.write_bytes(log_of(seed))
        files.append(str(path))
    done = subprocess.run(
        [sys.executable, "-c", REPLAY, *files],
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )

    results = done.stdout.splitlines()
    assert 12 == len(results)
    assert {"True None"} == {line.partition(" ")[2] for line in results}


def test_a_left_out_event_is_noticed():
    """A log without one of its answers replays differently, and the turn is named."""
    lines = log_of(3).splitlines(keepends=True)
    place = next(i for i, line in enumerate(lines) if b'"event":"Answer"' in line)
    start = lines[place].index(b'{"event":"Answer"')
    end = lines[place].index(b"}", start) + 1
    lines[place] = (lines[place][:start] + lines[place][end:]).replace(b"[,", b"[")
    lines[place] = lines[place].replace(b",,", b",").replace(b",]", b"]")
    found = replay(io.BytesIO(b"".join(lines)), build).difference

    assert found is not None
    assert found.line > place
    assert found.logged != found.replayed
