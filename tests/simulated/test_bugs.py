"""The table of injected bugs matches the current code.

`make bugs` runs the simulation against them.
"""

import pytest

from tests.house.source import ROOT
from tests.simulated.bugs import BUGS, Bug


@pytest.mark.parametrize("bug", BUGS, ids=lambda one: one.name)
def test_a_bug_can_be_made(bug: Bug):
    """The text to replace occurs once, and the changed file parses."""
    text = (ROOT / bug.file).read_text(encoding="utf-8")
    made = text.replace(bug.old, bug.new)

    assert 1 == text.count(bug.old), f"{bug.file} was changed: mend tests/simulated/bugs.py"
    assert made != text
    compile(made, bug.file, "exec")


def test_there_are_fifty():
    """There are at least fifty injected bugs with different names."""
    assert 50 <= len({bug.name for bug in BUGS})
