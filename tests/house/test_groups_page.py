"""The page that follows a group through the code has plan.py's steps and names every file that a
gang enters.
"""

import re
import subprocess
import sys

from scheduler.groups import plan
from tests.house.source import ROOT

PAGE = ROOT / "docs/explanation/a-groups-way.md"


def test_the_page_has_the_steps_of_the_plan_in_their_order():
    """The headings of the page agree with the steps in the module's docstring."""
    steps = re.findall(r"^ +(\d) (\w+) ", plan.__doc__ or "", re.MULTILINE)
    assert 7 == len(steps)
    assert steps == re.findall(r"^## (\d)\. (\w+)$", PAGE.read_text(), re.MULTILINE)


def test_every_file_that_a_gang_enters_is_named():
    """If a file is missing, name it in the table of its section."""
    named = set(re.findall(r"`(groups/[\w/]+\.py)`", PAGE.read_text()))
    words = [sys.executable, "-m", "tests.e2e.groupstrace"]
    traced = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    entered = set(traced.stdout.split())

    assert [] == sorted(entered - named)
    assert [] == sorted(file for file in named if not (ROOT / "scheduler" / file).is_file())
    assert {
        "groups/plan.py",
        "groups/solver/exact/program.py",
        "groups/cycle/bindings.py",
    } <= entered
