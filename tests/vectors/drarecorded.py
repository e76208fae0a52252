"""Device allocation as recorded from kube-scheduler: pods one after the other, through `simulate`.

A file is one case: for each pending pod the cluster is built as the peer left it after the one
before, and the pod is simulated alone. Where several nodes are equally good the peer's choice is
taken over before devices are compared: the available devices depend on the node.
"""

import json

from scheduler.framework.registry import Registry
from scheduler.intree import IN_TREE
from scheduler.simulate.batch import Batch
from scheduler.simulate.setups import Setups
from scheduler.simulate.stage import AnswerOptions
from tests.vectors.dracases import (
    SimulatedCluster,
    check_by_reference,
    is_forgetful,
    plain_claims,
    plain_error,
    was_gated_earlier,
)
from tests.vectors.frame import deviation

RESULTS = {"Held": "Gated"}


def run_case(case):
    """Compare each pod of a case with the result of the peer."""
    batch = Batch(Setups(Registry(IN_TREE)), AnswerOptions(), lambda _name: "")
    cluster = SimulatedCluster(case["objects"])
    for raw, expected in zip(case["pending"], case["expected"], strict=True):
        got = _simulated(batch, case, cluster.objects(), raw)
        try:
            _compare(raw, got, expected)
            if expected["result"] == "Scheduled":
                _compare_devices(batch, case, cluster, raw, got, expected)
        except AssertionError:
            # Counters and distinct values that the peer forgets are kept here.
            if not is_forgetful(cluster, raw):
                raise
            deviation("D32")
            check_by_reference(cluster, raw, got)
        cluster.follow(raw, expected)


def _compare_devices(batch, case, cluster, raw, got, expected):
    """Compare the devices of a placed pod."""
    if got["node"] != expected["node"]:
        assert got["node"] in expected["ties"]
        got = _simulated(batch, case, cluster.objects(), cluster.pinned(raw, expected["node"]))
    assert plain_claims(expected["claims"]) == plain_claims(got.get("claims", []))
    status = got.get("extendedResourceClaimStatus", {}).get("requestMappings")
    assert expected.get("extendedResourceClaimStatus", {}).get("requestMappings") == status


def _simulated(batch, case, objects, raw):
    line = {
        "id": case["id"],
        "config": case["config"],
        "objects": objects,
        "pending": [raw],
        "details": True,
    }
    answer = json.loads(batch.answer(json.dumps(line).encode()))
    assert "error" not in answer, answer.get("error")
    (pod,) = answer["simulation"]["pods"]
    return pod


def _compare(raw, got, expected):
    """Compare the result, its text, and the reason of each node."""
    result = expected["result"]
    assert RESULTS.get(result, result) == got["result"], (expected, got)
    victims = [victim["name"] for victim in got["victims"]]
    assert [victim.rpartition("/")[2] for victim in expected["victims"]] == victims
    if result == "Error":
        assert plain_error(expected["message"]) == plain_error(got["message"])
    elif result == "Held" and was_gated_earlier(raw):
        assert got["message"]
    elif result != "Scheduled":
        assert expected["message"] == got["message"]
    if result == "Unschedulable":
        assert expected["reason"] == got["reason"]
        assert expected["nominatedNode"] == got["nominatedNode"]
    if result in ("Scheduled", "Unschedulable"):
        passed = sorted(node["name"] for node in got["nodes"] if node["feasible"])
        assert sorted(expected["feasible"]) == passed
        scores = {node["name"]: node["scores"] for node in got["nodes"] if node["scores"]}
        for node, plugins in expected["scores"].items():
            shown = {name: scores[node][name]["weighted"] for name in plugins}
            assert plugins == shown, node
