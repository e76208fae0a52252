"""Inject each bug in a copy of the project and simulate clusters until an invariant is violated.

`python -m tests.simulated.findbugs [--seed 1] [--minutes 1200] [--only TEXT]...` prints a line for
each bug as it ends: after how many virtual minutes and seconds of CPU it was found, and by which
invariant. A seed that violates one is run again without the bug; if it still does, it proves
nothing and is skipped. Only a named invariant counts: a run that does not end, or whose own code
fails, is reported as such. The exit code is 1 when a bug was not found.
"""

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.house.source import ROOT
from tests.simulated.bugs import BUGS, Bug

PARTS = ("scheduler", "operators", "crds", "tests")
LONGEST = 110
VIOLATION = re.compile(r"^seed (\d+) after ([\d.]+) virtual minutes: ([^:]*): (.*)", re.MULTILINE)
SIMULATED = re.compile(r"^\| virtual minutes \| (\d+)", re.MULTILINE)


class Verdict(NamedTuple):
    """The result of a bug: the invariant that found it, or '', after how many virtual minutes, and
    the message.
    """

    invariant: str
    minutes: float
    seed: int
    result: str


class BugSearch:
    """Simulate clusters in a copy of the project in `folder`.

    `unsuitable` are seeds with a violation without a bug.
    """

    def __init__(self, folder: Path, seed: int, minutes: float, cpu_s: float) -> None:
        self._folder = folder
        self._seed = seed
        self._minutes = minutes
        self._cpu_s = cpu_s
        self._suitable: set[int] = set()
        self.unsuitable: set[int] = set()

    def find(self, bug: Bug) -> Verdict:
        """Run with a bug until a seed violates an invariant that it satisfies without the bug."""
        began = cpu_of_children()
        while True:
            left_s = max(1.0, self._cpu_s - (cpu_of_children() - began))
            with self._made(bug):
                verdict = self._verdict(left_s)
            if not verdict.invariant or self._is_suitable(verdict.seed):
                return verdict

    @contextmanager
    def _made(self, bug: Bug) -> Iterator[None]:
        """Inject a bug, and remove it afterwards."""
        file = self._folder / bug.file
        whole = file.read_text(encoding="utf-8")
        file.write_text(whole.replace(bug.old, bug.new), encoding="utf-8")
        try:
            yield
        finally:
            file.write_text(whole, encoding="utf-8")

    def _verdict(self, cpu_s: float) -> Verdict:
        words = ["--seed", str(self._seed), "--minutes", str(self._minutes), "--until-broken"]
        words += [
            "--cpu-seconds",
            str(cpu_s),
            "--skip",
            ",".join(map(str, sorted(self.unsuitable))),
        ]
        done = self._simulate(*words, cpu_s=cpu_s)
        if stated := VIOLATION.search(done.stdout):
            return Verdict(stated[3], float(stated[2]), int(stated[1]), stated[4][:LONGEST])
        simulated = SIMULATED.search(done.stdout)
        if done.returncode == 0 and simulated:
            return Verdict("", float(simulated[1]), 0, f"not in {simulated[1]} minutes")
        last = (done.stderr.strip().splitlines() or ["it used more CPU than it may"])[-1]
        return Verdict("", 0.0, 0, f"no verdict: {last[:LONGEST]}")

    def _is_suitable(self, seed: int) -> bool:
        """Return whether a seed satisfies all invariants without a bug."""
        if seed not in self._suitable:
            done = self._simulate("--seed", str(seed), "--seeds", "1", cpu_s=self._cpu_s)
            (self._suitable if done.returncode == 0 else self.unsuitable).add(seed)
        return seed in self._suitable

    def _simulate(self, *words: str, cpu_s: float) -> subprocess.CompletedProcess[str]:
        """Simulate clusters; the kernel ends a process that far exceeds its CPU limit."""
        most = int(min(2 * cpu_s + 60, 10**6))
        return subprocess.run(
            [sys.executable, "-m", "tests.simulated.run", *words],
            cwd=self._folder,
            env=os.environ | {"PYTHONPATH": str(self._folder), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (most, most)),
        )


def cpu_of_children() -> float:
    """Return the CPU seconds of the ended child processes."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main(arguments: list[str]) -> int:
    """Search for all bugs, or those whose name contains a text."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--minutes", type=float, default=1200.0, help="virtual, for each bug")
    parser.add_argument("--cpu-seconds", type=float, default=120.0, help="at most, for each bug")
    parser.add_argument("--only", action="append", help="a part of the bugs' names")
    asked = parser.parse_args(arguments)
    escaped = 0
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for part in PARTS:
            shutil.copytree(
                ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__")
            )
        search = BugSearch(folder, asked.seed, asked.minutes, asked.cpu_seconds)
        print(
            "| bug | found after virtual minutes | CPU s | invariant | seed "
            "|\n|---|---|---|---|---|"
        )
        for bug in (one for one in BUGS if any(text in one.name for text in asked.only or [""])):
            began = cpu_of_children()
            verdict = search.find(bug)
            escaped += not verdict.invariant
            found = f"{verdict.minutes:.0f}" if verdict.invariant else f"**{verdict.result}**"
            spent = f"{cpu_of_children() - began:.0f}"
            reported = " | ".join(
                (bug.name, found, spent, verdict.invariant, str(verdict.seed or ""))
            )
            print(f"| {reported} |", flush=True)
        unsuitable = ", ".join(map(str, sorted(search.unsuitable)))
    print(f"\nskipped, because they violate an invariant without a bug: {unsuitable or 'no seed'}")
    return 1 if escaped else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
