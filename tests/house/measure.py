"""The cost of the code base for its readers: python -m tests.house.measure [--fast]

Counts things that the plan for the code wants few of: files entered by an attempt, caches,
declarations of a plugin, rules written twice. From imports, from traces of a plain pod, and from a
run of the engine with and without caches; `--fast` leaves out the run and mypy. `structure` adds
the counts that need no run.
"""

import ast
import inspect
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from scheduler.engine.engine import Engine
from scheduler.framework import points
from scheduler.framework.plugin import Plugin
from scheduler.framework.running import memo
from scheduler.framework.running.runner import Runner
from scheduler.intree import IN_TREE
from tests.house import structure
from tests.perf import decisions, interleaved

ROOT = Path(__file__).parents[2]
PACKAGES = ("engine", "framework", "state", "plugins", "objects", "base")
# Classes that cache a result for the next pod; a new one must be listed here.
KEEPERS = {
    "framework/running/memo.py": "Memo",
    "framework/rowcache.py": "RowCache",
    "framework/pershape.py": "PerShape, PerSpec, PerPod",
    "plugins/preemption/remembered.py": "DryRunCache",
}
HYPOTHETICAL = (
    "framework/hypothetical/overlay.py",
    "framework/hypothetical/dryrun.py",
    "engine/binding/nominated.py",
    "state/counts/rowlists.py",
)
# (kinds in turn, whether they are spread over zones)
LOADS = ((1, False), (20, False), (20, True))


def lines_of(files: Sequence[str]) -> int:
    """Return the lines of the existing ones of these files below `scheduler/`."""
    paths = [ROOT / "scheduler" / file for file in files]
    return sum(len(path.read_text().splitlines()) for path in paths if path.exists())


def entered(number: int) -> set[CodeType]:
    """Return the project's functions that `Engine.run` enters for the pod with this number of its
    kind.
    """
    drive = decisions.Drive(50)
    *before, last = interleaved.pods(number, "trace", 1, spread=False)
    for pod in before:
        drive.decide([pod])
    found: set[CodeType] = set()

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and "/scheduler/" in frame.f_code.co_filename:
            found.add(frame.f_code)

    run = drive.engine.run

    def traced(now: float, cycles: int) -> Any:
        sys.setprofile(note)
        try:
            return run(now, cycles)
        finally:
            sys.setprofile(None)

    drive.engine.run = traced  # type: ignore[method-assign] # only around this one pod
    drive.decide([last])
    return found


def file_of(code: CodeType) -> str:
    """Return the file of a function below `scheduler/`."""
    return code.co_filename.rpartition("/scheduler/")[2]


def late_bindings() -> int:
    """Return how many attributes `Engine` sets on its parts after their construction."""
    tree = ast.parse(Path(inspect.getfile(Engine)).read_text())
    assigned = [node for node in ast.walk(tree) if isinstance(node, ast.Assign)]
    targets = [one for node in assigned for one in node.targets if isinstance(one, ast.Attribute)]
    return sum(not (isinstance(t.value, ast.Name) and t.value.id == "self") for t in targets)


def declarations() -> list[str]:
    """Return the declarations of a plugin author besides points, arguments and the plugin's
    name.
    """
    given = {"args_type", "has_key", "takes_state", "takes_score_state", "points", "serves", "name"}
    found = {name for name in (*vars(Plugin), *Plugin.__annotations__) if not name.startswith("_")}
    return sorted(n for n in found - given if n == "key" or not callable(getattr(Plugin, n, None)))


def rare_abilities() -> list[str]:
    """Return the typed protocols that few plugins implement."""
    text = Path(inspect.getfile(points)).read_text().partition("# Rare abilities.")[2]
    tree = ast.parse(text)
    return [node.name for node in tree.body if isinstance(node, ast.ClassDef)]


def twice_written() -> list[str]:
    """Return the rules that plugins write a second time, for single rows."""
    return [f"{cls.name}.score_cells" for cls in IN_TREE if cls.serves("score_cells")]


def without_memo(engine: Engine) -> None:
    """Make the engine call every plugin for every pod."""
    runners: dict[str, Any] = engine._runners
    for name, profile in engine.profiles.items():
        runners[name] = Runner(profile, engine.observation.for_profile(name), keeps=False)


def mypy_errors() -> int:
    """Return how many errors mypy has for the plugin in which every signature is wrong."""
    words = ["-m", "mypy", "--strict", "--config-file", "/dev/null"]
    file = "tests/unit/framework/wrongplugin.py"
    done = subprocess.run(
        [sys.executable, *words, file], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.count("[override]")


def rows(*, fast: bool) -> Iterator[tuple[str, str]]:
    """Yield each measure and its count."""
    first, fourth = entered(1), entered(4)
    entered_files = {
        file_of(code) for code in fourth if file_of(code).startswith(("engine/", "framework/"))
    }
    yield (
        "engine and framework files that an attempt enters",
        f"{len(entered_files)}, {lines_of([*entered_files])} lines",
    )
    for name, codes in (("first", first), ("fourth", fourth)):
        files = {file_of(code) for code in codes}
        yield (
            f"functions for a plain pod, the {name} of its kind",
            f"{len(codes)} in {len(files)} files",
        )
    kept = [names for file, names in KEEPERS.items() if (ROOT / "scheduler" / file).exists()]
    yield "mechanisms that keep an answer for the next pod", f"{len(kept)}: {'; '.join(kept)}"
    yield "hypothetical stack", f"{lines_of(HYPOTHETICAL)} lines"
    yield "declarations of a plugin", f"{len(declarations())}: {', '.join(declarations())}"
    yield (
        "rare abilities, as typed protocols",
        f"{len(rare_abilities())}: {', '.join(rare_abilities())}",
    )
    yield "late bindings in the engine", str(late_bindings())
    yield "rules written twice", f"{len(twice_written())}: {', '.join(twice_written())}"
    yield from structure.rows()
    if fast:
        return
    yield "mypy --strict on a plugin with 22 wrong signatures", f"{mypy_errors()} errors"
    few = memo.FEW
    for title, change, cells in (
        ("as it is", interleaved.as_it_is, few),
        ("without cells", interleaved.as_it_is, 0),
        ("without memo", without_memo, few),
    ):
        memo.FEW = cells
        times = [f"{interleaved.microseconds(k, spread=s, change=change):.0f}" for k, s in LOADS]
        yield f"us of engine.run per pod, 1 / 20 kinds / 20 + spread, {title}", " / ".join(times)
    memo.FEW = few


def main(arguments: Sequence[str]) -> int:
    """Print the table."""
    for name, count in rows(fast="--fast" in arguments):
        print(f"{name:66} {count}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
