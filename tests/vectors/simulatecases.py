"""Cycle cases once more, through the public interface: a case of `simulate --batch` with details.

A simulation continues after the first attempt, so a pod that preempts is placed at the end: the
expected result of that attempt is then in the victims and in the nodes as the attempt saw them.
"""

import json

from scheduler.framework.registry import Registry
from scheduler.intree import IN_TREE
from scheduler.simulate.batch import Batch
from scheduler.simulate.setups import Setups
from scheduler.simulate.stage import AnswerOptions


def simulated(case):
    """Return the one pod of a case as `simulate` reports it."""
    others = (*case.get("namespaces", ()), *case.get("objects", ()), *case.get("pdbs", ()))
    line = {
        "id": case["id"],
        "objects": [*case["nodes"], *case["existingPods"], *others],
        "pending": [case["pod"]],
        "details": True,
    }
    batch = Batch(Setups(Registry(IN_TREE)), AnswerOptions(), lambda _name: "")
    answer = json.loads(batch.answer(json.dumps(line).encode()))

    assert case["id"] == answer["id"]
    assert "error" not in answer, answer.get("error")
    (pod,) = answer["simulation"]["pods"]
    return pod


def check_simulated(case, expect):
    """Compare the expectation of a case with the simulation of its pod."""
    pod = simulated(case)
    if expect["preFilter"]["code"] == "Success":
        assert expect["filter"] == {node["name"]: _status(node) for node in pod["nodes"]}
    victims = expect.get("victims", [])
    assert sorted(victims) == sorted(victim["name"] for victim in pod["victims"])
    if "bestNodes" in expect:
        # Of equal ones a simulation takes the first by name (D1).
        assert min(expect["bestNodes"]) == pod["node"]
        _compare_scores(expect.get("scores") or {}, pod)
    elif not victims:
        assert ("Unschedulable", "Unschedulable") == (pod["result"], pod["reason"])
        assert expect["message"] == pod["message"]
        assert expect["nominatedNode"] == pod["nominatedNode"]
    else:
        assert expect["nominatedNode"] == pod["node"]


def _status(node):
    shown = {"code": node["code"]}
    if node["code"] != "Success":
        if node["reasons"][:1] and node["reasons"][0].startswith(
            "node(s) didn't satisfy plugin(s)"
        ):
            return shown | {"excludedByPreFilterResult": True}
        shown |= {"plugin": node["rejectedBy"], "reasons": node["reasons"]}
    return shown


def _compare_scores(scores, pod):
    """Compare the scores; Trellis reports none if only one node is feasible, while the file has
    them.
    """
    got = {
        node["name"]: {
            "total": node["total"],
            "weighted": {plugin: score["weighted"] for plugin, score in node["scores"].items()},
        }
        for node in pod["nodes"]
        if node["scores"]
    }
    assert got == (scores if len(scores) > 1 else {})
