"""The pages that are written from the code say what the code says, and leave nothing out."""

import ast
import re

import pytest

from docs.generate import events
from docs.generate.__main__ import PAGES, ROOT
from tests.house.source import python_files, tree_of

# Who writes events, and which of their arguments is the reason.
WRITERS = {"_record": 2, "node_warning": 2, "announce": 0, "tell": 0}


@pytest.mark.parametrize("name", PAGES)
def test_a_generated_page_is_up_to_date(name: str):
    """If not: run `python -m docs.generate`."""
    assert PAGES[name]() == (ROOT / name).read_text(encoding="utf-8")


def test_every_event_is_told_of():
    """Each reason that stands in a call which writes an event is on the page."""
    reasons = {"Preempted"}  # written with its own Record
    for file in python_files(
        "scheduler/engine", "scheduler/plugins", "scheduler/kube", "scheduler/daemon"
    ):
        if not any(f"{name}(" in file.read_text() for name in WRITERS):
            continue
        tree = tree_of(file)
        constants = {
            target.id: node.value.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and (place := WRITERS.get(_called(node))) is not None:
                reason = node.args[place] if place < len(node.args) else None
                if isinstance(reason, ast.Name):
                    reasons.add(str(constants.get(reason.id, reason.id)))
                elif isinstance(reason, ast.Constant):
                    reasons.add(str(reason.value))
    written = {reason for reason in reasons if re.fullmatch(r"([A-Z][a-z]+){1,5}", reason)}

    assert {"FailedScheduling", "NodeMetricExpired", "LeaderElection"} < written
    assert set() == written - {told.reason for told in events.events()}


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
