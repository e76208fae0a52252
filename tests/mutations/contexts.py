"""A pytest plugin that records which test executes which lines of the mutated packages.

`make mutants` loads it (`-p tests.mutations.contexts`). Every process writes two files below the
folder in TRELLIS_CONTEXTS: a coverage file whose contexts are the ids of tests, and a JSON file
with the CPU seconds of each test that passed. `tests.mutations.sample` reads them.
"""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import coverage
import pytest

from tests.mutations.packages import PACKAGES

FOLDER: Final = Path(os.environ["TRELLIS_CONTEXTS"])
# Tests between two writes: an aborted run keeps its records until then.
EVERY: Final = 100

seconds: dict[str, float] = {}
others: set[str] = set()
recorder = coverage.Coverage(
    data_file=FOLDER / "lines", data_suffix=True, source=list(PACKAGES), messages=False
)
# The process that distributes tests to workers runs none of them.
recorder.set_option("run:disable_warnings", ["no-data-collected"])
recorder.start()


def write() -> None:
    """Write the records so far."""
    recorder.save()
    passed = {test: spent for test, spent in seconds.items() if test not in others}
    (FOLDER / f"seconds.{os.getpid()}.json").write_text(json.dumps(passed), encoding="utf-8")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Attribute to a test the lines that run from its set-up to its tear-down."""
    recorder.switch_context(item.nodeid)
    begin = time.process_time()
    result = yield
    seconds[item.nodeid] = time.process_time() - begin
    recorder.switch_context("")
    if len(seconds) % EVERY == 0:
        write()
    return result


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Record tests that fail or are skipped: their failure does not count against a mutant."""
    if not report.passed:
        others.add(report.nodeid)


def pytest_sessionfinish() -> None:
    """Write the records since the last write."""
    recorder.stop()
    write()
