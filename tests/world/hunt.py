"""Make each hand-made bug in a copy of the project and play worlds until a law is broken.

`python -m tests.world.hunt [--seed 1] [--minutes 400] [--only TEXT]` prints a table: after how many virtual
minutes each bug was found, and by which law. Every seed is first played without a bug; one that breaks a law
then proves nothing and is left out. Only a named law that is broken is a find: a world that comes to no end, or
whose own code fails, is told as that. The exit code is 1 when a bug was not found.
"""

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from math import inf
from pathlib import Path
from typing import NamedTuple

from tests.house.source import ROOT
from tests.world.bugs import BUGS, Bug

PARTS = ("scheduler", "operators", "crds", "tests")
LONGEST = 110
SAID = re.compile(r"^seed (\d+) after ([\d.]+) virtual minutes: ([^:]*): (.*)", re.MULTILINE)
PLAYED = re.compile(r"^\| virtual minutes \| (\d+)", re.MULTILINE)


class Verdict(NamedTuple):
    """What came of a bug: the law that found it, or empty, after how many virtual minutes, and in which words."""

    law: str
    minutes: float
    seed: int
    told: str


class Hunter:
    """Plays worlds in a copy of the project in `folder`."""

    def __init__(self, folder: Path, seed: int, minutes: float, cpu_s: float) -> None:
        self._folder = folder
        self._seed = seed
        self._minutes = minutes
        self._cpu_s = cpu_s
        self._unfit = ""

    def prepare(self) -> list[int]:
        """Play the seeds without a bug; return those that break a law, which are not played again."""
        # Worlds that a bug ends early leave time for more: half as many again are looked at.
        done = self._play("--minutes", str(self._minutes * 1.5), cpu_s=inf)
        found = [int(said[1]) for said in SAID.finditer(done.stdout)]
        self._unfit = ",".join(map(str, found))
        return found

    def hunt(self, bug: Bug) -> Verdict:
        """Make a bug, play, and undo it."""
        file = self._folder / bug.file
        whole = file.read_text(encoding="utf-8")
        file.write_text(whole.replace(bug.old, bug.new), encoding="utf-8")
        words = ["--minutes", str(self._minutes), "--cpu-seconds", str(self._cpu_s)]
        try:
            done = self._play(*words, "--until-broken", "--skip", self._unfit, cpu_s=self._cpu_s)
        finally:
            file.write_text(whole, encoding="utf-8")
        if said := SAID.search(done.stdout):
            return Verdict(said[3], float(said[2]), int(said[1]), said[4][:LONGEST])
        played = PLAYED.search(done.stdout)
        if done.returncode == 0 and played:
            return Verdict("", float(played[1]), 0, f"not in {played[1]} minutes")
        last = (done.stderr.strip().splitlines() or ["it used more CPU than it may"])[-1]
        return Verdict("", 0.0, 0, f"no verdict: {last[:LONGEST]}")

    def _play(self, *words: str, cpu_s: float) -> subprocess.CompletedProcess[str]:
        """Run worlds; a process that needs far more CPU than it was asked to is ended by the kernel."""
        most = int(min(2 * cpu_s + 60, 10**6))
        return subprocess.run(
            [sys.executable, "-m", "tests.world.run", "--seed", str(self._seed), *words],
            cwd=self._folder,
            env=os.environ | {"PYTHONPATH": str(self._folder), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (most, most)),
        )


def main(arguments: list[str]) -> int:
    """Hunt all bugs, or those whose name contains a text."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--minutes", type=float, default=400.0, help="virtual, for each bug")
    parser.add_argument("--cpu-seconds", type=float, default=120.0, help="at most, for each bug")
    parser.add_argument("--only", default="", help="a part of the bugs' names")
    asked = parser.parse_args(arguments)
    escaped = 0
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for part in PARTS:
            shutil.copytree(
                ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__")
            )
        hunter = Hunter(folder, asked.seed, asked.minutes, asked.cpu_seconds)
        unfit = hunter.prepare()
        print(f"left out, for they break a law without a bug: {unfit or 'no seed'}\n", flush=True)
        print("| bug | found after virtual minutes | law | seed |\n|---|---|---|---|", flush=True)
        for bug in (one for one in BUGS if asked.only in one.name):
            verdict = hunter.hunt(bug)
            escaped += not verdict.law
            if verdict.law:
                told = f"{verdict.minutes:.0f} | {verdict.law} | {verdict.seed}"
            else:
                told = f"**{verdict.told}** | | "
            print(f"| {bug.name} | {told} |", flush=True)
    return 1 if escaped else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
