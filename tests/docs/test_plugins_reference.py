"""The page for plugin authors: its snippets run, and it covers the whole public API."""

import re

import pytest

import scheduler.framework
import scheduler.testing
from scheduler.framework import Handle, Nodes
from scheduler.framework.plugin import POINTS
from scheduler.state import facts
from scheduler.testing import Scenario
from scheduler.testing.check import INVARIANTS
from tests.docs.pages import ROOT, blocks

PAGE = "reference/plugins.md"
TEXT = (ROOT / "docs" / PAGE).read_text()
# Types that annotations name; their meaning is in the words around them.
ALIASES = {"BoolColumn", "FloatColumn", "IdColumn", "IntMatrix", "Rows", "BrokenLawsError", "Fault"}

FACTS = {value for name, value in vars(facts).items() if name.isupper() and isinstance(value, str)}


def public(cls: type) -> set[str]:
    """Return the names that a class offers."""
    return {name for name in vars(cls) if not name.startswith("_")}


def test_its_snippets_run():
    """The snippets run one after the other, as a reader would type them."""
    names: dict[str, object] = {}
    for block in blocks(PAGE, "python"):
        exec(compile(block.text, PAGE, "exec"), names)

    assert "scenario" in names


@pytest.mark.parametrize(
    ("what", "names"),
    [
        ("extension points", {*POINTS, *POINTS.values(), "unreserve", "hint"}),
        ("facts", FACTS),
        ("nodes", public(Nodes)),
        ("handle", public(Handle)),
        ("scenario", public(Scenario)),
        ("framework", set(scheduler.framework.__all__) - ALIASES),
        ("testing", set(scheduler.testing.__all__) - ALIASES),
        ("invariants", {invariant.__name__ for invariant in INVARIANTS}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_every_public_name_is_documented(what: str, names: set[str]):
    """Every public name is on the page."""
    reported = set(re.findall(r"[\w.]+\w|\w", TEXT))

    assert what
    assert set() == {name for name in names if name not in reported}
