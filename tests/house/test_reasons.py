"""Reasons of events are spelled in one place, from which the reference page is generated."""

import ast

from docs.generate import events
from scheduler.base import reasons
from tests.house.source import name_of, python_files, tree_of

TABLE = {reason for when in reasons.EVENTS.values() for reason in when}
# The functions that write events, and which of their arguments is the reason.
WRITERS = {
    "_record": 2, "node_event": 2, "node_warning": 2, "announce": 0, "record_event": 0, "event": 3,
    "PodEvent": 0,
}  # fmt: skip
# The same word with another meaning.
OTHERWISE = {
    "scheduler/base/reasons.py": TABLE,
    "scheduler/config/__init__.py": {"LeaderElection"},  # the name of a class
    # An event's action is called as its reason.
    "scheduler/engine/attempt/failure.py": {"Preempting"},
    "scheduler/groups/status/statuswriter.py": {"Preempting"},
    "scheduler/framework/groups.py": {"Preempting"},  # a stage
    "scheduler/groups/cycle/states.py": {"Preempting", "Preempted"},  # stages
    "scheduler/engine/queue/hints.py": {"Preempted"},  # the event that a pod waits for
    "scheduler/groups/status/lifecycle.py": {
        "Preempted",
        "Preempting",
    },  # the status in a ConfigMap
    "scheduler/groups/sources/coscheduling.py": {"Scheduled"},  # a phase
    "scheduler/groups/sources/appgroup.py": {"Scheduled"},  # a phase
    "scheduler/groups/sources/volcano.py": {"Scheduled"},  # a condition
    "scheduler/simulate/records.py": {"Scheduled"},  # a result of simulate
    "scheduler/cli/output/printing.py": {"Scheduled"},  # a result of simulate
    "scheduler/explain/grouprows.py": {"Preempting"},  # a status of a group
}


def test_no_reason_of_an_event_is_spelled_twice():
    """All writers and readers of an event take its reason from the table."""
    found = {}
    for file in python_files("scheduler", "operators"):
        name = name_of(file)
        if name.startswith("scheduler/sandbox/"):  # an API server's own words
            continue
        words = {
            node.value
            for node in ast.walk(tree_of(file))
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }
        if twice := (words & TABLE) - OTHERWISE.get(name, set()):
            found[name] = twice

    assert {} == found


def test_who_writes_an_event_takes_its_reason_from_the_table():
    """A reason in quotes would be missing on the page."""
    quoted, taken = [], set()
    packages = ("engine", "framework", "plugins", "kube", "daemon")
    for file in python_files(*(f"scheduler/{package}" for package in packages)):
        for node in ast.walk(tree_of(file)):
            if not isinstance(node, ast.Call):
                continue
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            place = WRITERS.get(called, len(node.args))
            reason = node.args[place] if place < len(node.args) else None
            if isinstance(reason, ast.Constant) and isinstance(reason.value, str):
                quoted.append(f"{name_of(file)}:{node.lineno}: {reason.value}")
            name = getattr(reason, "attr", getattr(reason, "id", ""))
            taken |= {getattr(reasons, name, "")}

    assert [] == quoted
    assert {reasons.FAILED_SCHEDULING, reasons.NODE_METRIC_EXPIRED, reasons.LEADER_ELECTION} < taken


def test_every_reason_has_its_constant_and_its_row():
    """A reason without a text, or a text without a reason, is a mistake of the page."""
    constants = {
        value for name, value in vars(reasons).items() if name.isupper() and name != "EVENTS"
    }
    rows = [(reported.about.rpartition(", ")[0], reported.reason) for reported in events.events()]

    assert TABLE <= constants
    assert set(rows) == {
        (about, reason) for about, when in reasons.EVENTS.items() for reason in when
    }
    assert set(rows) == set(events._TEXTS)
