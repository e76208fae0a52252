"""A copy of the project to break, and tests that run in it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.house.source import ROOT

PARTS: Final = ("scheduler", "operators", "crds", "charts", "docs", "tests")
TOO_LONG_S: Final = 1200
FAILED: Final = 1  # pytest's exit code when tests failed; a broken import gives another


def copied(folder: Path) -> Path:
    """Copy the project into a folder; return the folder."""
    skip = shutil.ignore_patterns("__pycache__", "node_modules", ".*", "build")
    for part in PARTS:
        shutil.copytree(ROOT / part, folder / part, ignore=skip)
    for file in filter(Path.is_file, ROOT.iterdir()):
        shutil.copy(file, folder)
    return folder


def tried(folder: Path, arguments: list[str], limit_s: float = TOO_LONG_S) -> tuple[int, str]:
    """Run tests in a copy until one fails; return pytest's exit code and the end of its output.

    Raises subprocess.TimeoutExpired after `limit_s` seconds.
    """
    # Compiled files go by time and size: a mutation of equal length would not be noticed.
    environment = os.environ | {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *arguments],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=limit_s, check=False,
    )  # fmt: skip
    return done.returncode, (done.stdout + done.stderr)[-4000:]
