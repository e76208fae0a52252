"""The core depends on its arguments alone; tests wait for conditions and never for time."""

import ast

import pytest

from tests.house.source import CORE, calls_of, name_of, python_files, tree_of

CLOCK = "scheduler/base/clock.py"

# Full names of calls that read the machine instead of an argument; a final dot is a prefix.
IMPURE = (
    "time.",
    "datetime.datetime.now",
    "datetime.datetime.utcnow",
    "datetime.datetime.today",
    "datetime.date.today",
    "random.",
    "numpy.random.",
    "secrets.",
    "uuid.uuid1",
    "uuid.uuid4",
    "os.urandom",
    "os.getenv",
    "os.environ.",
    "os.getpid",
    "open",
    "input",
)

# Formatting a given time or creating a source from a given seed reads no clock.
PURE = ("time.strftime", "time.strptime", "time.gmtime", "time.struct_time")
SEEDED = (
    "random.Random",
    "numpy.random.default_rng",
    "numpy.random.PCG64",
    "numpy.random.Generator",
)


def impure_calls(source: ast.Module) -> list[tuple[int, str]]:
    """Return (line, name) of the calls in a module that a core module must not make."""
    found = []
    for line, name, call in calls_of(source):
        if name in PURE or (name in SEEDED and call.args):
            continue
        if any(name == bad or (bad.endswith(".") and name.startswith(bad)) for bad in IMPURE):
            found.append((line, name))
    return found


def test_no_wall_clock_and_no_global_random_in_the_core():
    """`now` and the random source are arguments; only base/clock.py reads the machine's."""
    found = [
        f"{name_of(file)}:{line}: {name}"
        for file in python_files(*CORE)
        if name_of(file) != CLOCK
        for line, name in impure_calls(tree_of(file))
    ]

    assert [] == found


@pytest.mark.parametrize(
    "code",
    [
        "import time\ntime.time()",
        "import time as t\nt.monotonic()",
        "from time import time\ntime()",
        "from datetime import datetime\ndatetime.now(None)",
        "import datetime\ndatetime.date.today()",
        "import random\nrandom.random()",
        "from random import choice as pick\npick([1])",
        "import random\nrandom.Random()",
        "import numpy as np\nnp.random.default_rng()",
        "import numpy as np\nnp.random.rand(3)",
        "def f():\n    import uuid\n    return uuid.uuid4()",
        "open('x')",
    ],
)
def test_the_purity_check_finds(code: str):
    """The check finds impure calls behind aliases and local imports."""
    assert impure_calls(ast.parse(code))


@pytest.mark.parametrize(
    "code",
    [
        "import random\nrandom.Random(7).random()",
        "import numpy as np\nnp.random.default_rng(7)",
        "from random import Random\ndef f(random: Random):\n    return random.choice([1])",
        "from datetime import datetime\ndatetime.fromisoformat('2024-01-01')",
    ],
)
def test_the_purity_check_allows(code: str):
    """Values made from arguments are no finding."""
    assert [] == impure_calls(ast.parse(code))


def test_tests_do_not_sleep():
    """No test calls time.sleep; asyncio.sleep is only a bare turn of the loop or runs on a loop
    whose time jumps. Benchmarks are no tests: they may sleep.
    """
    found = [
        f"{name_of(file)}:{line}"
        for file in python_files("tests")
        if "perf" not in file.parts
        for line in sleeping_lines(tree_of(file))
    ]

    assert [] == found


def sleeping_lines(tree: ast.Module) -> list[int]:
    """Return the lines of a test module that wait for time to pass."""
    jumping: set[int] = set()
    for node in ast.walk(tree):
        marked = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and any(
            "looptime" in ast.unparse(decorator) for decorator in node.decorator_list
        )
        if marked:
            jumping.update(call.lineno for call in ast.walk(node) if isinstance(call, ast.Call))
    module_marks = [
        statement
        for statement in tree.body
        if isinstance(statement, ast.Assign) and "pytestmark" in ast.unparse(statement.targets[0])
    ]
    all_jump = any("looptime" in ast.unparse(statement) for statement in module_marks)
    lines = []
    for line, name, call in calls_of(tree):
        is_turn = bool(call.args) and ast.unparse(call.args[0]) == "0"
        jumps = all_jump or line in jumping
        if name == "time.sleep" or (name == "asyncio.sleep" and not is_turn and not jumps):
            lines.append(line)
    return lines


def test_the_sleep_check_finds_and_allows():
    """Waiting is found; a turn of the loop and a jump of its time are not."""
    code = """
import asyncio, time
import pytest
async def test_a():
    await asyncio.sleep(1)
    await asyncio.sleep(0)
@pytest.mark.looptime
async def test_b():
    await asyncio.sleep(60)
def test_c():
    time.sleep(1)
"""

    assert [5, 11] == sorted(sleeping_lines(ast.parse(code)))
