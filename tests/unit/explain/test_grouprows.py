"""The status of a group in tables and on the page: one rule, and one order."""

import json
from typing import Any

import msgspec
import pytest

from scheduler.cli.inputs.cmdio import setups
from scheduler.explain.grouprows import in_order, shown_groups, shown_status
from scheduler.explain.questions import Question
from scheduler.explain.responder import QuestionResponder
from scheduler.framework.groups import GroupReport
from scheduler.simulate.stage import AnswerOptions
from scheduler.testing import node
from tests.unit.plugins.groupobjects import group
from tests.unit.simulate.asking import pod, snapshot

ON_NODE: dict[str, Any] = {"root": {"n1": {"a": {}, "b": {}}}}


def report(name, status, minimum=2, placement=None, source="ConfigMap", **more):
    """Return the report of a group."""
    return GroupReport(
        "default", name, status, 2, placement or {}, minimum=minimum, source=source, **more
    )


CASES = {
    "Invalid": report("a", "Failed", minimum=0),
    "DoesNotFit": report("b", "Failed"),
    "Missing": report("c", "Waiting", minimum=0, source=""),
    "Waiting": report("d", "Waiting"),
    "Fits": report("e", "Bound", placement=ON_NODE, planned=1),
    "Bound": report("f", "Bound", placement=ON_NODE),
    "Completed": report("g", "Completed", finished=2),
}


@pytest.mark.parametrize("status", CASES)
def test_a_group_has_one_shown_status(status):
    """A group that waits for capacity has not failed; one with planned nodes is not bound."""
    (shown,) = shown_groups([CASES[status]])
    assert status == shown_status(CASES[status]) == shown.shown
    assert (status not in ("Bound", "Completed")) == shown.waits
    known = msgspec.json.decode(msgspec.json.encode(CASES[status]))
    assert known.items() <= json.loads(msgspec.json.encode(shown)).items()


def test_groups_with_problems_come_first():
    """Tables and page list groups in one order."""
    reports = list(reversed(CASES.values()))
    assert list(CASES) == [one.shown for one in shown_groups(reports)]
    assert [one.name for one in in_order(reports)] == [one.name for one in shown_groups(reports)]


def test_a_page_receives_the_status_with_its_plan():
    """The page computes no status of its own."""
    quartet = [pod(f"p{at}", labels={"sakkara.group.name": "quartet"}) for at in range(4)]
    cluster = snapshot(node("n1"), group("quartet", 4, {}), *quartet)
    answer = QuestionResponder(setups("")).answer(Question("plan"), cluster, AnswerOptions())
    found = json.loads(msgspec.json.encode(answer))["groups"]
    assert found
    assert all(one["shown"] for one in found)
