"""`make bench` for load-aware placement: speed, benefit, accuracy of the agent, as JSON files."""

import asyncio
import os
from pathlib import Path

import msgspec
import pytest

from tests.perf import loadagent, loadaware, loadplacement

pytestmark = pytest.mark.perf


def keep(name: str, result: object) -> None:
    """Write a result into the folder of `make bench`, if it is set, and print it."""
    text = msgspec.json.format(msgspec.json.encode(result)).decode()
    folder = os.environ.get("TRELLIS_BENCH_DIR")
    if folder:
        (Path(folder) / f"{name}.json").write_text(text)
    print(text)


def test_speed():
    """Every figure can be measured; the file states which goals are reached."""
    keep("loadaware", loadaware.measure())


def test_worth():
    """A burst is placed by every contestant; the peak stays within 0.85 of the defaults'."""
    result = loadplacement.main()
    keep("loadplacement", result)

    assert max(result["peakOfDefaults"].values()) <= result["goal"]


@pytest.mark.skipif(os.geteuid() != 0, reason="makes control groups, which needs root")
def test_agent():
    """The agent's figures are within 5 % of the usage of known processes."""
    result = asyncio.run(loadagent.measure())
    keep("loadagent", result)

    assert abs(result["cpu"]["error"]) <= result["goals"]["error"]
    assert abs(result["memory"]["error"]) <= result["goals"]["error"]
