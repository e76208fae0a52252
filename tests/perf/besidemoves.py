"""What reservations of MovePlans cost plain pods when there is no plan: two processes in turn.

    python -m tests.perf.besidemoves

One process runs this tree, the other one a copy without the engine's tests for reservations. Both
decide the same pods, a few at a time and alternately. Prints JSON: microseconds of CPU per pod of
both, their ratios pair by pair, and the ratio of the executed Python opcodes, which does not depend
on the load of the machine. Asserts nothing.
"""

import argparse
import gc
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import process_time
from types import FrameType
from typing import Any

from tests.house.source import ROOT
from tests.mutations.trying import copied
from tests.perf import decisions, interleaved

ENGINE = Path("scheduler/engine")
FILES = "engine.py", "intake.py", "attempt/attempt.py", "binding/nominated.py"
# The statements that a pod executes for MovePlans.
GUARDED = re.compile(
    r"^( *)if .*(?:reservations\.by_node|\.has_reserved):\n(?:\1 +\S.*\n)+", re.MULTILINE
)
STATEMENTS = 5
TURN = 50  # pods that one process decides before the other one takes its turn
COUNTED = 200  # pods whose opcodes are counted


def without(folder: Path) -> Path:
    """Copy the project into a folder, without the code for MovePlans that plain pods execute."""
    copied(folder)
    removed = 0
    for name in FILES:
        file = folder / ENGINE / name
        source, count = GUARDED.subn("", file.read_text())
        file.write_text(source)
        removed += count
    if removed != STATEMENTS:
        raise AssertionError(f"{removed} statements for MovePlans instead of {STATEMENTS}")
    return folder


class Side:
    """A process that decides the pods of one round in one tree."""

    def __init__(self, tree: Path, kinds: int) -> None:
        command = [sys.executable, "-m", "tests.perf.besidemoves", "--decides", str(kinds)]
        environment = os.environ | {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
        self._process = subprocess.Popen(
            command,
            cwd=tree,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.seconds = 0.0
        self.tree = self._read()

    def _read(self) -> Any:
        if self._process.stdout is None:
            raise AssertionError("the process has no output")
        return json.loads(self._process.stdout.readline())

    def turn(self, request: str) -> Any:
        """Return the answer to a request."""
        print(request, file=self._process.stdin, flush=True)
        return self._read()

    def end(self) -> None:
        """End the process."""
        self._process.communicate()


def decide(kinds: int) -> None:
    """Answer each line of stdin: a turn by its CPU seconds, `count` by the opcodes of its pods."""
    made = decisions.Drive(interleaved.NODES, process_time)
    made.decide(list(interleaved.pods(interleaved.WARM_UP, "warm", kinds, spread=False)))
    made.reset()
    wanted = list(interleaved.pods(interleaved.PODS + COUNTED, "pod", kinds, spread=False))
    gc.collect()
    gc.freeze()
    print(json.dumps(str(ROOT)), flush=True)
    for line in sys.stdin:
        before = sum(made.seconds.values())
        if line.strip() == "count":
            found: float = opcodes(lambda: made.decide(wanted[-COUNTED:]))
        else:
            made.decide(wanted[int(line) : int(line) + TURN])
            found = sum(made.seconds.values()) - before
        print(json.dumps(found), flush=True)
    if made.binds != len(wanted):
        raise AssertionError(f"{made.binds} binds for {len(wanted)} pods")


def opcodes(work: Callable[[], None]) -> int:
    """Return the number of Python opcodes that a function executes."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return trace

    sys.settrace(trace)
    work()
    sys.settrace(None)
    return count


def pair(trees: dict[str, Path], kinds: int) -> dict[str, tuple[float, float]]:
    """Return the microseconds of CPU and the opcodes per pod of both trees."""
    sides = {name: Side(tree, kinds) for name, tree in trees.items()}
    for name, side in sides.items():
        if Path(side.tree) != trees[name]:
            raise AssertionError(f"{name} runs in {side.tree}")
    for number, start in enumerate(range(0, interleaved.PODS, TURN)):
        for name in list(sides)[:: 1 if number % 2 else -1]:
            sides[name].seconds += sides[name].turn(str(start))
    found = {
        name: (1e6 * side.seconds / interleaved.PODS, side.turn("count") / COUNTED)
        for name, side in sides.items()
    }
    for side in sides.values():
        side.end()
    return found


def main() -> None:
    """Measure pairs and print them."""
    parser = argparse.ArgumentParser(prog="python -m tests.perf.besidemoves", description=__doc__)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--kinds", type=int, default=1)
    parser.add_argument("--decides", type=int, default=0, help=argparse.SUPPRESS)
    wanted = parser.parse_args()
    if wanted.decides:
        decide(wanted.decides)
        return
    with tempfile.TemporaryDirectory() as folder:
        trees = {"with": ROOT, "without": without(Path(folder).resolve())}
        found = [pair(trees, wanted.kinds) for _ in range(wanted.pairs)]
    ratios = [one["with"][0] / one["without"][0] for one in found]
    figures = {
        "kinds": wanted.kinds,
        "microseconds": {name: [round(one[name][0]) for one in found] for name in found[0]},
        "ratios": [round(one, 4) for one in ratios],
        "median": round(median(ratios), 4),
        "opcodes": {name: found[0][name][1] for name in found[0]},
        "opcodesRatio": round(found[0]["with"][1] / found[0]["without"][1], 4),
        "load": [round(one, 1) for one in os.getloadavg()],
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
