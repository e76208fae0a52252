"""Breaking a rule on purpose makes its law fail: else the law says nothing.

Each mutation of the table is made in a copy of the project, and the law's tests are run there; they must
fail. `make mutations` runs all; in the default suite only whether the table still speaks of the code as it is.
"""

import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.house.source import ROOT
from tests.mutations.table import MUTATIONS, Mutation

PARTS = ("scheduler", "operators", "crds", "charts", "docs", "tests")
TOO_LONG_S = 1200
FAILED = 1  # pytest's exit code when tests were run and some failed; a broken import gives another
MARKS = "(real or not real) and not long and not perf"


@pytest.fixture(scope="module")
def copy(tmp_path_factory) -> Path:
    """Return a copy of the project to break."""
    folder: Path = tmp_path_factory.mktemp("project")
    skip = shutil.ignore_patterns("__pycache__", "node_modules", ".*", "build")
    for part in PARTS:
        shutil.copytree(ROOT / part, folder / part, ignore=skip)
    for file in filter(Path.is_file, ROOT.iterdir()):
        shutil.copy(file, folder)
    return folder


def tried(folder: Path, test: tuple[str, ...]) -> tuple[int, str]:
    """Run tests in a copy; return pytest's exit code and what it printed."""
    # Compiled files go by time and size: a mutation of equal length would not be noticed.
    environment = os.environ | {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-m",
        MARKS,
        "-p",
        "no:cacheprovider",
        *test,
    ]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True,
        timeout=TOO_LONG_S, check=False,
    )  # fmt: skip
    return done.returncode, (done.stdout + done.stderr)[-4000:]


def broken(mutation: Mutation, text: str) -> str:
    """Return a file's text with the mutation made."""
    made = text.replace(mutation.old, mutation.new)
    if mutation.file.endswith(".py"):
        compile(made, mutation.file, "exec")
    return made


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda one: one.name)
def test_the_table_speaks_of_the_code_as_it_is(mutation: Mutation):
    """What is to be changed stands there once, and the changed file can still be read."""
    text = (ROOT / mutation.file).read_text(encoding="utf-8")

    assert 1 == text.count(mutation.old), (
        f"{mutation.file} was changed: mend tests/mutations/table.py"
    )
    assert text != broken(mutation, text)
    assert (ROOT / mutation.test[0].partition("::")[0]).exists()


def test_every_law_is_broken_in_two_ways_at_least():
    """One way might be caught by luck."""
    assert min(Counter(one.law for one in MUTATIONS).values()) >= 2


@pytest.mark.long
@pytest.mark.timeout(2 * TOO_LONG_S)
@pytest.mark.parametrize(
    "test", sorted({one.test for one in MUTATIONS if not one.real}), ids=" ".join
)
def test_a_law_holds_where_nothing_is_broken(test: tuple[str, ...], copy: Path):
    """Else a failure would prove nothing."""
    code, text = tried(copy, test)
    assert 0 == code, text


@pytest.mark.long
@pytest.mark.timeout(2 * TOO_LONG_S)
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda one: one.name)
def test_a_broken_rule_is_caught(mutation: Mutation, copy: Path):
    """The law's tests run, and fail."""
    if mutation.real and "KUBEBUILDER_ASSETS" not in os.environ:
        pytest.skip("KUBEBUILDER_ASSETS names no real API server")
    file = copy / mutation.file
    whole = file.read_text(encoding="utf-8")
    file.write_text(broken(mutation, whole), encoding="utf-8")
    try:
        code, text = tried(copy, mutation.test)
    finally:
        file.write_text(whole, encoding="utf-8")
    assert FAILED == code, f"{mutation.name} is not caught by {' '.join(mutation.test)}:\n{text}"
