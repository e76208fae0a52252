"""Trellis sends the same extenders the same requests as kube-scheduler, with the same results."""

import json
import re
from typing import Any

import pytest

from tests.apiserver.realcluster import start_cluster
from tests.real.extended import Outcome, place_all
from tests.real.schedulers import ROOT, KubeSchedulerPeer, Scheduler

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

REPORTS = ROOT / "build" / "reports"
# Differs between clusters, and does not depend on a scheduler.
CHANGING = frozenset(
    ("uid", "UID", "PodUID", "resourceVersion", "creationTimestamp", "startTime", "managedFields",
     "lastTransitionTime", "deletionTimestamp", "schedulerName", "timeAdded"),
)  # fmt: skip
CHANGING_TEXT = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|(?<=127\.0\.0\.1:)\d+")
# Our event on a victim continues kube-scheduler's text: the preemptor and its priority.
EVICTION_NOTE = re.compile(
    r"(?<=Preempted by pod X on node )(\S+): .* frees capacity for the pod .*"
)


@pytest.mark.parametrize("by_name", [True, False])
async def test_both_ask_the_same(scheduler: Scheduler, *, by_name: bool):
    """Filter, prioritize, preempt and bind: same questions up to order, same messages, same
    nodes.
    """
    outcomes = []
    for each in (KubeSchedulerPeer(), scheduler):
        with start_cluster(name=f"extended-{each.name}") as cluster:
            outcomes.append(await place_all(cluster, each, by_name=by_name))
    peer, ours = outcomes
    REPORTS.mkdir(parents=True, exist_ok=True)
    report = REPORTS / f"extenders-{'names' if by_name else 'nodes'}.json"
    report.write_text(json.dumps({"peer": plain(peer), "ours": plain(ours)}, indent=1) + "\n")

    for name, expected in peer.items():
        got = ours[name]
        for verb in ("rank", "spare"):
            assert (verb in expected.asked) == (verb in got.asked), (name, verb)
        assert shown(expected) == shown(got), f"{name}, see {report}"
    asked = {verb for outcome in peer.values() for verb in outcome.asked}
    assert {"sift", "rank", "spare", "bind", "vendor", "flaky"} == asked
    assert {"n4"} == {peer["vip"].node} == {ours["vip"].node}


def shown(outcome: Outcome) -> dict[str, Any]:
    """Return the values that must be equal."""
    questions = {verb: without_changing(body) for verb, body in outcome.asked.items()}
    return {
        "node": outcome.node,
        "condition": without_changing(outcome.condition),
        # The preemptor's own event has no counterpart.
        "events": [
            [without_changing(text) for text in event]
            for event in outcome.events
            if event[1] != "Preempting"
        ],
        "asked": questions,
    }


def without_changing(value: Any) -> Any:
    """Return plain data without values that change; names and objects in order of name."""
    if isinstance(value, dict):
        return {key: without_changing(item) for key, item in value.items() if key not in CHANGING}
    if isinstance(value, str):
        return EVICTION_NOTE.sub(r"\1", CHANGING_TEXT.sub("X", value))
    if not isinstance(value, list):
        return value
    if all(isinstance(item, str) for item in value):
        return sorted(value)
    items = [without_changing(item) for item in value]
    if items and all(isinstance(item, dict) and item.get("metadata") for item in items):
        return sorted(items, key=lambda item: str(item["metadata"].get("name")))
    return items


def plain(outcomes: dict[str, Outcome]) -> dict[str, Any]:
    """Return outcomes as plain data for the report."""
    return {name: shown(outcome) for name, outcome in outcomes.items()}
