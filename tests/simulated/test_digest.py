"""One seed is one history: also in another process, where sets are iterated in another order, and
in another version of Python.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.source import ROOT


def pythons() -> list[Path]:
    """Return this interpreter, and those of the environments that make has built for others."""
    built = {stamp.parent / "bin" / "python" for stamp in ROOT.glob(".venv*/.dev-*")}
    built = {python for python in built if python.exists()}  # its interpreter may be deleted
    mine = Path(sys.executable)
    return [mine, *sorted(built - {mine})]


@pytest.mark.parametrize("moves", [12, pytest.param(25, marks=pytest.mark.long)])
def test_one_seed_is_one_history(moves: int):
    """Processes with different hash seeds, and addresses, write the same bytes at the same
    moments.
    """
    mine, *others = pythons()
    runs = [
        subprocess.Popen(
            [python, "-m", "tests.simulated.digest", "103", str(moves)],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed, python in enumerate((mine, mine, *others), start=1)
    ]
    reported = [run.communicate()[0].strip() for run in runs]
    assert [0] * len(runs) == [run.returncode for run in runs]
    assert 1 == len(set(reported)), dict(zip((mine, mine, *others), reported, strict=True))
    assert 64 == len(reported[0])
