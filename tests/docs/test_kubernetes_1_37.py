"""The table of Kubernetes 1.37: each gate, metric and test that it names is as it states."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler.base.meters import Meters
from scheduler.config.featuregates.gates import Effect, gate_effect

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "compatibility" / "kubernetes-1.37.md").read_text()
# By the first words of a cell: the effect of `true` and that of `false`.
GATES = {
    "done": (Effect.DONE, Effect.DONE),
    "always": (Effect.DONE, Effect.REFUSED),
    "always: groups": (Effect.DONE, Effect.WITHOUT),
    "always; `false` has no effect": (Effect.DONE, Effect.WITHOUT),
    "no effect": (Effect.WITHOUT, Effect.WITHOUT),
    "`true` is refused": (Effect.REFUSED, Effect.DONE),
}


def rows(section: str) -> Iterator[tuple[str, str]]:
    """Yield (subject, state) for each row of a section's tables."""
    text = PAGE.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| ") and cells[1:2] != ["here"] and len(cells) == 2:
            yield cells[0], cells[1]


def gates() -> Iterator[tuple[str, str]]:
    """Yield (gate, state) for each gate by name."""
    for subject, state in rows("Feature gates"):
        for name in re.findall(r"\b(?:[A-Z][a-z0-9]*){2,}[A-Za-z0-9]*\b", subject):
            yield name, state


@pytest.mark.parametrize(("name", "state"), list(gates()))
def test_each_gate_has_the_effect_that_the_page_states(name: str, state: str):
    """For `true` and `false`, the effect is the longest entry of `GATES` that the page's cell
    begins with.
    """
    start = max((one for one in GATES if state.startswith(one)), key=len)

    assert GATES[start] == (gate_effect(name, True)[0], gate_effect(name, False)[0])


def test_metrics_that_are_done_exist_and_others_do_not():
    """Names are kube-scheduler's, with its prefix."""
    known = {spec.name.removeprefix("scheduler_") for spec in Meters.table().values()}
    named = [
        (name.rstrip("*"), state)
        for subject, state in rows("Metrics")
        for name in re.findall(r"`([a-z_]+\*?)`", subject)
        if name not in {"incomplete", "pending", "pending_pods"}
    ]
    there = {name for name, state in named if state.startswith(("done", "always"))}
    absent = {name for name, state in named if state.startswith(("no effect", "absent", "differs"))}

    assert len(there) > 8
    assert set() == there - known
    assert set() == {one for one in known if one.startswith(tuple(absent))}


def test_the_tests_that_the_page_names_exist():
    """The path is from the root, or the name is beside the previous one in the cell."""
    missing = []
    for named in re.findall(r"`((?:tests/)[^`]+|test_\w+\.py)`", PAGE):
        if not any(ROOT.glob(named if "/" in named else f"tests/**/{named}")):
            missing.append(named)

    assert [] == missing
