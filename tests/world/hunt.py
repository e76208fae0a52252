"""Make each hand-made bug in a copy of the project and play worlds until a law is broken.

`python -m tests.world.hunt [--seed 1] [--cpu-seconds 60] [--only TEXT]` prints a table: after how many virtual
minutes each bug was found, and by which law. The exit code is 1 when one was not found.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from tests.house.source import ROOT
from tests.world.bugs import BUGS, Bug

PARTS = ("scheduler", "operators", "crds", "tests")
# Beside the limit in CPU time: a bug may make a world wait for ever.
TOO_LONG = 20
LONGEST = 150
FOUND = re.compile(r"^seed (\d+) after ([\d.]+) virtual minutes: (.*)", re.MULTILINE)


class Found(NamedTuple):
    """By which seed a bug was found, after how many virtual minutes from the first seed on, and how."""

    seed: int
    minutes: float
    law: str


def hunt(bug: Bug, folder: Path, seed: int, cpu_s: float) -> Found | None:
    """Make a bug in a copy, play worlds there, and undo it; return how it was found, None if not."""
    file = folder / bug.file
    whole = file.read_text(encoding="utf-8")
    file.write_text(whole.replace(bug.old, bug.new), encoding="utf-8")
    words = ["--seed", str(seed), "--cpu-seconds", str(cpu_s), "--until-broken"]
    try:
        done = subprocess.run(
            [sys.executable, "-m", "tests.world.run", *words],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=TOO_LONG * cpu_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Found(seed, 0.0, "a world does not come to its end")
    finally:
        file.write_text(whole, encoding="utf-8")
    told = FOUND.search(done.stdout)
    if told is None:
        assert done.returncode in (0, 1), done.stderr[-4000:]
        return None
    return Found(int(told[1]), float(told[2]), told[3][:LONGEST])


def main(arguments: list[str]) -> int:
    """Hunt all bugs, or those whose name contains a text."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--cpu-seconds", type=float, default=60.0, help="at most, for each bug")
    parser.add_argument("--only", default="", help="a part of the bugs' names")
    asked = parser.parse_args(arguments)
    escaped = 0
    print("| bug | found after virtual minutes | by |\n|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for part in PARTS:
            shutil.copytree(
                ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__")
            )
        for bug in (one for one in BUGS if asked.only in one.name):
            found = hunt(bug, folder, asked.seed, asked.cpu_seconds)
            escaped += found is None
            told = "**not found** | " if found is None else f"{found.minutes:.0f} | {found.law}"
            print(f"| {bug.name} | {told} |", flush=True)
    return 1 if escaped else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
