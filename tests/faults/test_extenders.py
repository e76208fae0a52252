"""Misfortunes of extenders: their answers are lost, repeated, late, in another order, or
nonsense.
"""

import io
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from scheduler.engine.decisionlog import Header
from scheduler.engine.effects import AskExtender
from scheduler.engine.engine import Engine
from scheduler.simulate.replay import replay
from tests.property.model_extender import EXTENDERS, ask, create_extended_pod
from tests.property.moves import Move, create_pod, doorman, seeded_run
from tests.property.rig import Rig
from tests.property.tinyplugins import settings_with, tiny_engine

ROOT = Path(__file__).parents[2]
REPLAY = """
import sys
from scheduler.simulate.replay import replay
from tests.faults.test_extenders import build_logged
for path in sys.argv[1:]:
    with open(path, "rb") as lines:
        print(replay(lines, build_logged).difference)
"""
INSTEAD: Mapping[Move, Move] = {create_pod: create_extended_pod}


def build() -> Engine:
    """Return an engine with four extenders."""
    return tiny_engine(settings_with(extenders=EXTENDERS))


def run(seed: int, *, replayed: bool = False) -> Rig:
    """Return a settled run; external interventions are not replayed."""
    without = (doorman,) if replayed else ()
    rig = seeded_run(seed, build, without=without, instead=INSTEAD, extender=ask)
    rig.settle()
    return rig


def asked(rig: Rig) -> list[AskExtender]:
    """Return all questions to extenders."""
    return [e for _, _, _, effects in rig.steps for e in effects if isinstance(e, AskExtender)]


@pytest.mark.parametrize("first", range(0, 120, 60))
def test_generated_runs(first: int):
    """No pod is lost, bound twice or overcommitted, and the run settles."""
    verbs: set[str] = set()
    for seed in range(first, first + 60):
        verbs |= {effect.verb for effect in asked(run(seed))}

    assert {"filter", "prioritize", "preempt", "bind"} == verbs


@pytest.mark.long
@pytest.mark.parametrize("first", range(1000, 6000, 250))
def test_many_generated_runs(first: int):
    """The invariant holds on more seeds."""
    for seed in range(first, first + 250):
        run(seed)


@pytest.mark.parametrize("first", range(0, 20, 10))
def test_generated_runs_replay(first: int):
    """A new engine sends the same questions at the same times, byte for byte."""
    for seed in range(first, first + 10):
        result = replay(io.BytesIO(run(seed, replayed=True).log()), lambda _: build())
        assert result.difference is None, seed
        assert result.is_complete


def build_logged(_header: Header) -> Engine:
    """Make the engine of the runs, for a replay in another process."""
    return build()


def test_generated_runs_replay_in_another_process(tmp_path: Path):
    """Strings hash differently there: no order of a set or dict may affect a question."""
    files = []
    for seed in range(6):
        path = tmp_path / f"{seed}.log"
        path.write_bytes(run(seed, replayed=True).log())
        files.append(str(path))
    done = subprocess.run(
        [sys.executable, "-c", REPLAY, *files],
        env={**os.environ, "PYTHONHASHSEED": "3", "PYTHONPATH": str(ROOT)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )

    assert ["None"] * 6 == done.stdout.splitlines()
