"""Run the tests that execute the line of each drawn mutant, and print the surviving mutants.

    python -m tests.mutations.sample MUTANTS CONTEXTS [--minutes M] [--test-seconds S]

MUTANTS is the output of `tests.mutations.draw`, CONTEXTS the folder that `tests.mutations.contexts`
wrote. Both describe the same text of the product. A mutant is killed if a test fails, cannot be
collected, or runs ten times as long as before; it survives if all chosen tests pass, and is
unreached if no recorded test executes its statement.
"""

import argparse
import ast
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

import coverage

from tests.house.source import ROOT
from tests.mutations.packages import TESTS
from tests.mutations.trying import copied, tried

# CPU seconds of the tests that are run for one mutant, and their number at most.
TEST_SECONDS: Final = 15.0
MOST_TESTS: Final = 150
# A mutant's tests may last ten times as long as before, plus a margin for a loaded machine.
SLOWER: Final = 10
START_S: Final = 120
PASSED: Final = 0

Lines = Mapping[str, Mapping[int, Sequence[str]]]


def recorded(folder: Path) -> tuple[Lines, dict[str, float]]:
    """Return for each file and line the tests that execute it, and the CPU seconds of each test."""
    lines: dict[str, dict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
    for part in sorted(folder.glob("lines.*")):
        data = coverage.CoverageData(basename=str(part))
        data.read()
        for file in data.measured_files():
            name = "scheduler/" + file.rpartition("/scheduler/")[2]
            for line, tests in data.contexts_by_lineno(file).items():
                lines[name][line] += filter(None, tests)
    seconds: dict[str, float] = {}
    for part in folder.glob("seconds.*.json"):
        seconds |= json.loads(part.read_text(encoding="utf-8"))
    return lines, seconds


@cache
def statements(file: str) -> list[tuple[int, int]]:
    """Return the first and the last line of every statement; of a compound one, of its head."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return [
        (one.lineno, heads[0].lineno - 1 if (heads := getattr(one, "body", ())) else last)
        for one in ast.walk(tree)
        if isinstance(one, ast.stmt) and (last := one.end_lineno)
    ]


def executing(file: str, line: int, lines: Lines) -> list[str]:
    """Return the tests that execute a line, or else its statement; empty if there is none."""
    if exact := lines[file].get(line):
        return sorted(set(exact))
    within = [(first, last) for first, last in statements(file) if first <= line <= last]
    first, last = max(within, default=(line, line))
    return sorted({test for at in range(first, last + 1) for test in lines[file].get(at, ())})


def chosen(tests: list[str], seconds: Mapping[str, float], most_s: float) -> list[str]:
    """Return the quickest tests of every file in turn, up to a number of CPU seconds."""
    files: dict[str, list[str]] = defaultdict(list)
    for test in sorted((one for one in tests if one in seconds), key=lambda one: seconds[one]):
        files[test.partition("::")[0]].append(test)
    found: list[str] = []
    total = 0.0
    quickest = sorted(files.values(), key=lambda some: seconds[some[0]])
    for test in (one for turn in zip_longest(*quickest) for one in turn if one is not None):
        if found and (total + seconds[test] > most_s or len(found) == MOST_TESTS):
            continue
        found.append(test)
        total += seconds[test]
    return found


def outcome(
    folder: Path,
    mutant: Mapping[str, Any],
    lines: Lines,
    seconds: Mapping[str, float],
    most_s: float,
) -> tuple[str, int]:
    """Return the result of a mutant, and the number of tests that were chosen for it."""
    tests = chosen(executing(mutant["file"], mutant["line"], lines), seconds, most_s)
    if not tests:
        return "unreached", 0
    file = folder / mutant["file"]
    before = file.read_text(encoding="utf-8")
    start, stop = mutant["start"], mutant["start"] + len(mutant["old"])
    assert before[start:stop] == mutant["old"], f"{file} is not the text that was drawn from"
    file.write_text(before[:start] + mutant["new"] + before[stop:], encoding="utf-8")
    limit_s = START_S + SLOWER * sum(seconds[one] for one in tests)
    try:
        code, _ = tried(folder, ["-n", "0", *tests], limit_s)
    except subprocess.TimeoutExpired:
        return "killed by time", len(tests)
    finally:
        file.write_text(before, encoding="utf-8")
    return "survived" if code == PASSED else "killed", len(tests)


def shown(mutant: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a mutant before and after the change."""
    text = (ROOT / mutant["file"]).read_text(encoding="utf-8")
    start, stop = mutant["start"], mutant["start"] + len(mutant["old"])
    first = text.rfind("\n", 0, start) + 1
    last = text.find("\n", stop)
    yield f"  - {text[first:last].strip()}"
    yield f"  + {(text[first:start] + mutant['new'] + text[stop:last]).strip()}"


def main() -> None:
    """Try the mutants in the order drawn until the time is over; print survivors and totals."""
    parser = argparse.ArgumentParser(description="Run mutants that draw.py drew.")
    parser.add_argument("mutants", type=Path)
    parser.add_argument("contexts", type=Path)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--test-seconds", type=float, default=TEST_SECONDS)
    options = parser.parse_args()
    mutants = json.loads(options.mutants.read_text(encoding="utf-8"))
    lines, seconds = recorded(options.contexts)
    until = time.monotonic() + 60 * options.minutes
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        folder = copied(Path(name))
        # Compiles product and tests once: the runs for mutants write no compiled files.
        collect = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-n", "0", *TESTS]
        subprocess.run(
            collect, cwd=folder, check=True, stdout=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": str(folder)},
        )  # fmt: skip
        for at, mutant in enumerate(mutants, 1):
            if time.monotonic() > until:
                break
            what, tests = outcome(folder, mutant, lines, seconds, options.test_seconds)
            counts[what] += 1
            if not what.startswith("killed"):
                place = f"{mutant['file']}:{mutant['line']}"
                kind = f"{mutant['operator']} ({tests} tests)"
                print(f"{at}/{len(mutants)} {what} {place} {kind}", flush=True)
                print(*shown(mutant), sep="\n", flush=True)
    print(f"{sum(counts.values())} of {len(mutants)} mutants:", dict(counts))


if __name__ == "__main__":
    main()
