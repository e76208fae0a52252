"""cycle.json: one attempt of an engine with the default profile, from pre-filter to the chosen
node.

The choice among several best nodes is free (D1): the file lists all of them. It has scores also
where one node alone is feasible, which is never scored; the runner then requests them. Each case
then runs once more through `simulate`, the interface of users.
"""

from collections import defaultdict
from typing import Any

import numpy as np
import pytest

from scheduler.config import default_config
from scheduler.engine.attempt.attempt import decide
from scheduler.engine.effects import Listed
from scheduler.engine.engine import Engine
from scheduler.framework.registry import Registry
from scheduler.framework.status import SUCCESS, Code
from scheduler.intree import IN_TREE
from scheduler.objects.plain import plain_data, read_node, read_object, read_pod
from tests.vectors.simulatecases import check_simulated

NOW = 1_800_000_000.0
EXPECTATIONS = {
    "preFilter",
    "filter",
    "scores",
    "bestNodes",
    "message",
    "unschedulablePlugins",
    "nominatedNode",
    "victims",
}


def run_cycle(vector):
    """Decide about the case's pod and compare every part that the case states."""
    case, expect = vector.case, vector.case["expect"]
    if case["op"] != "cycle":
        pytest.fail(f"unknown operation {case['op']}")
    assert set(expect) <= EXPECTATIONS, "unknown expectation"
    decision, attempt = _decided(case)
    nodes = attempt.nodes
    shown = _shown(decision, nodes)

    assert expect["preFilter"] == {key: shown["preFilter"][key] for key in expect["preFilter"]}
    if expect["preFilter"]["code"] == "Success":
        assert expect["filter"] == _filtered(decision, nodes)
    for key in set(expect) & {"message", "unschedulablePlugins", "victims"}:
        assert expect[key] == shown[key], key
    if "nominatedNode" in expect:
        assert (expect["nominatedNode"] or "") == (decision.nominated_node or "")
    if "bestNodes" in expect:
        assert decision.node in expect["bestNodes"]
    if expect.get("scores"):
        assert expect["scores"] == _scores(decision, attempt)
    check_simulated(case, expect)


def _decided(case):
    registry = Registry(IN_TREE)
    engine = Engine(default_config(registry).profiles, registry)
    (name,) = engine.profiles
    objects: dict[str, list[Any]] = defaultdict(list)
    for raw in (*case.get("namespaces", ()), *case.get("objects", ()), *case.get("pdbs", ())):
        kind, obj = read_object(raw)
        objects[kind.kind].append(obj)
    objects["Node"] = [read_node(raw) for raw in case["nodes"]]
    objects["Pod"] = [read_pod(raw) for raw in case["existingPods"]]
    for name_of_kind, found in objects.items():
        engine.handle(Listed(name_of_kind, tuple(found)), NOW)
    raw = plain_data(case["pod"])
    raw["spec"]["schedulerName"] = name
    attempt = engine.attempt(read_pod(raw), NOW)
    return decide(attempt), attempt


def _shown(decision, nodes):
    pre = decision.status if decision.status.plugin else SUCCESS
    pre_filter = {"code": pre.code.value, "reasons": list(pre.reasons)}
    if decision.outside is not None:
        pre_filter["nodeNames"] = sorted(
            nodes.name(row) for row in np.flatnonzero(nodes.exists & ~decision.outside).tolist()
        )
    return {
        "preFilter": pre_filter,
        "message": decision.message,
        "unschedulablePlugins": sorted(decision.rejected_by),
        "victims": sorted(placed.pod.metadata.name for placed in decision.victims),
    }


def _filtered(decision, nodes):
    found = {}
    for row in np.flatnonzero(nodes.exists).tolist():
        status = decision.node_status(nodes, row)
        one = {"code": status.code.value}
        if decision.outside is not None and decision.outside[row]:
            one["excludedByPreFilterResult"] = True
        elif status.code is not Code.SUCCESS:
            one |= {"plugin": status.plugin, "reasons": list(status.reasons)}
        found[nodes.name(row)] = one
    return found


def _scores(decision, attempt):
    nodes = attempt.nodes
    total, scores = decision.total, decision.scores
    if total is None:
        among = nodes.among(decision.feasible)
        total, scores = attempt.runner.score(attempt.cycle, among, attempt.states)
    return {
        nodes.name(row): {
            "total": int(total[row]),
            "weighted": {
                scored.plugin: int(scored.normalized[row]) * scored.weight for scored in scores
            },
        }
        for row in np.flatnonzero(decision.feasible).tolist()
    }
