"""Unusual pods, selectors and related objects: each case is answered.

`make fuzz` runs 100,000 cases; the default suite a few hundred. A case is named by its number:
`tests.fuzz.specs.line(number)` is its line, which never changes.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from scheduler.simulate.batch import Batch
from tests.fuzz import specs, trial

CHUNK = 10_000


def show(report: trial.Report) -> None:
    """Print the results of the cases."""
    slowest_s, number = report.slowest
    print(f"\nsimulate: {reported(report.outcomes)}")
    print(f"watch: {reported(report.watched)}")
    print(f"{report.seconds:.1f} s of CPU; the slowest was case {number} with {slowest_s:.3f} s")
    print(*report.problems, sep="\n", flush=True)


def reported(counts: Counter[str]) -> str:
    """Return counts as a text."""
    return ", ".join(f"{count} {name}" for name, count in counts.most_common())


def test_some_cases_are_answered():
    """No case crashes, hangs or ends without a text, and the cases reach all of these outcomes."""
    report = trial.run(range(250))

    assert [] == report.problems
    assert {"Scheduled", "Unschedulable", "Gated", "Error", "InvalidObject", "InvalidCase"} <= set(
        report.outcomes
    )
    assert {"bound", "unschedulable", "unreadable", "faults"} <= set(report.watched)


@pytest.mark.long
@pytest.mark.parametrize("chunk", range(10))
def test_many_cases_are_answered(chunk: int):
    """The invariant holds for 100,000 cases."""
    report = trial.run(range(chunk * CHUNK, (chunk + 1) * CHUNK))
    show(report)

    assert [] == report.problems


def test_a_case_is_the_same_for_ever():
    """The number of a case is enough to repeat it."""
    first = [specs.line(number) for number in range(300)]
    assert first == [specs.line(number) for number in range(300)]
    assert 90 < len({specs.line(number) for number in range(100)})
    json.loads(specs.line(7))


def test_a_problem_is_seen(monkeypatch: pytest.MonkeyPatch):
    """A crash, a fault of the program and a hang are each reported with the number of the case."""
    answers: dict[int, bytes | BaseException] = {
        0: RuntimeError("broken"),
        1: b'{"id": 1, "error": {"code": "InternalError", "message": "KeyError: 1"}}',
        2: b'{"id": 2, "simulation": {"pods": [{"result": "Error", "message": ""}]}}',
        3: trial.HangError(),
    }

    def answer(_batch: object, line: bytes) -> bytes:
        found = answers[int(line)]
        if isinstance(found, BaseException):
            raise found
        return found

    monkeypatch.setattr(Batch, "answer", answer)
    monkeypatch.setattr(specs, "line", lambda number: str(number).encode())
    monkeypatch.setattr(specs, "parts", lambda _number: [])

    assert [
        "case 0: RuntimeError: broken",
        "case 1: InternalError: KeyError: 1",
        "case 2: an error without words",
        f"case 3: more than {trial.LIMIT_S} s of CPU",
    ] == trial.run(range(4)).problems


def test_answers_are_the_same_bytes_whatever_the_hash_seed(tmp_path: Path):
    """Details, scores, messages and victims are equal in two processes with other orders of
    sets.
    """
    file = tmp_path / "cases.jsonl"
    file.write_bytes(b"".join(specs.line(number) + b"\n" for number in range(200)))
    command = [sys.executable, "-m", "scheduler.cli.main", "simulate", "--batch", str(file)]
    answers = [
        subprocess.run(
            command,
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            timeout=100,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]

    assert 200 == answers[0].count(b"\n")
    assert answers[0] == answers[1]
