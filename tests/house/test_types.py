"""Type checkers on what a user or author runs them on: the page's modules, and a wrong plugin."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.source import ROOT
from tests.unit.framework import wrongplugin

TSC = ROOT / ".tools/npm/node_modules/.bin/tsc"
HERE = Path(wrongplugin.__file__)


@pytest.mark.skipif(not TSC.exists(), reason="needs typescript (make page-tools)")
def test_types_of_the_modules_hold():
    """The page consists of plain modules; a checker reads the types in their comments."""
    modules = sorted((ROOT / "scheduler/serve/page").glob("*.js"))
    flags = ["--noEmit", "--allowJs", "--checkJs", "--strict", "--target", "es2023"]
    flags += ["--lib", "es2023,dom,dom.iterable", "--module", "esnext"]
    flags += ["--moduleResolution", "bundler"]
    done = subprocess.run([TSC, *flags, *modules], capture_output=True, text=True, check=False)

    assert (0, "") == (done.returncode, done.stdout)


def test_mypy_reports_every_wrong_signature(tmp_path: Path):
    """An author with a type checker sees each error before running the plugin."""
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-incremental", "--no-error-summary",
         "--config-file", "/dev/null", str(HERE)],
        cwd=tmp_path, env={"MYPYPATH": str(HERE.parents[3]), "PATH": ""}, capture_output=True,
        text=True,
        timeout=110, check=False,
    )  # fmt: skip
    lines = HERE.read_text().splitlines()
    wrong = {number for number, line in enumerate(lines, 1) if re.match(r" +(async )?def ", line)}
    reported = {
        int(found[1])
        for found in re.finditer(r"wrongplugin\.py:(\d+): error: .*\[override\]", done.stdout)
    }

    assert 22 == len(wrong)
    assert wrong - reported == set(), done.stdout
