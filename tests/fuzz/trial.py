"""Run fuzzed cases in this process: their durations, answers and problems."""

import gc
import json
import signal
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from time import process_time
from types import FrameType
from typing import Any

import msgspec

from scheduler.base.errors import InputError
from scheduler.framework.registry import Registry
from scheduler.intree import IN_TREE
from scheduler.simulate.batch import INTERNAL, Batch
from scheduler.simulate.setups import Setups
from scheduler.simulate.stage import AnswerOptions
from tests.fuzz import specs
from tests.fuzz.listener import Listener

# CPU time that one small case may take; a hang is stopped and reported.
LIMIT_S = 2.0
COLLECT_EVERY = 100
RESULTS = frozenset(("Scheduled", "Unschedulable", "Gated", "Waiting", "Error"))


class Report(msgspec.Struct):
    """The results of the cases: `problems` must be empty."""

    outcomes: Counter[str] = msgspec.field(default_factory=Counter)
    errors: Counter[str] = msgspec.field(default_factory=Counter)
    watched: Counter[str] = msgspec.field(default_factory=Counter)
    problems: list[str] = []
    slowest: tuple[float, int] = (0.0, -1)
    seconds: float = 0.0

    def add(self, other: "Report") -> None:
        """Add the counts of another report."""
        self.outcomes += other.outcomes
        self.errors += other.errors
        self.watched += other.watched
        self.problems += other.problems
        self.slowest = max(self.slowest, other.slowest)
        self.seconds += other.seconds


class HangError(BaseException):
    """A case took too long; no `except Exception` may catch it."""


def run(numbers: Iterable[int]) -> Report:
    """Run these cases through `simulate --batch` and through a watch, one after the other.

    POSIX, main thread.
    """
    report = Report()
    batch = Batch(Setups(Registry(IN_TREE)), AnswerOptions(), _no_file)
    before = signal.signal(signal.SIGPROF, _cut_off)
    # Engines refer to themselves. A collection during a case would be counted there.
    gc.disable()
    try:
        for count, number in enumerate(numbers):
            if count % COLLECT_EVERY == 0:
                gc.collect()
            _timed(number, report, partial(_ask, batch, number, report))
            _timed(number, report, partial(_tell, number, report))
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
        gc.enable()
    return report


def _timed(number: int, report: Report, work: Callable[[], None]) -> None:
    started = process_time()
    signal.setitimer(signal.ITIMER_PROF, LIMIT_S)
    try:
        work()
    except HangError:
        report.problems.append(f"case {number}: more than {LIMIT_S} s of CPU")
    except Exception as error:  # noqa: BLE001 - any exception is a finding
        report.problems.append(f"case {number}: {type(error).__name__}: {error}")
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        took = process_time() - started
        report.seconds += took
        report.slowest = max(report.slowest, (took, number))


def _tell(number: int, report: Report) -> None:
    """Send the objects to an engine one by one.

    Only the objects may be at fault, never a plugin.
    """
    listener = Listener(report.watched)
    for raw in specs.parts(number):
        listener.handle(raw)
    report.problems += [f"case {number}: {problem}" for problem in listener.place()]


def _ask(batch: Batch, number: int, report: Report) -> None:
    """Read the answer to a case."""
    found: dict[str, Any] = json.loads(batch.answer(specs.line(number)))
    if "error" in found:
        code, message = found["error"]["code"], found["error"]["message"]
        report.outcomes[code] += 1
        if code == INTERNAL or not message:
            report.problems.append(f"case {number}: {code}: {message}")
        return
    if found["id"] != number:
        report.outcomes["id truncated"] += 1
    for pod in found["simulation"]["pods"]:
        report.outcomes[pod["result"]] += 1
        if pod["result"] not in RESULTS:
            report.problems.append(f"case {number}: a result called {pod['result']}")
        if pod["result"] == "Error":
            report.errors[pod["message"]] += 1
            if not pod["message"]:
                report.problems.append(f"case {number}: an error without words")


def _no_file(name: str) -> str:
    raise InputError("there are no files here", where=name)


def _cut_off(_number: int, _frame: FrameType | None) -> None:
    raise HangError
