"""kube-scheduler's vectors: plugins through `evaluate`, configuration through `load`, requests."""

import pytest

from scheduler.framework.status import Code, Status
from scheduler.objects.plain import read_pod
from scheduler.objects.quantity import resource_amount
from scheduler.state.resources import pod_requests
from scheduler.testing import evaluate
from tests.vectors.configcases import run_config
from tests.vectors.cyclecases import run_cycle
from tests.vectors.preemptioncases import run_preemption

FOLDER = "kube-scheduler"


def run_plugin(vector, kubernetes=""):
    """Run one plugin on one pod and compare every part that the case states."""
    case, expect = vector.case, vector.case["expect"]
    if case["op"] not in ("filter", "score"):
        pytest.fail(f"unknown operation {case['op']}")
    got = evaluate(
        vector.plugin,
        args=case.get("args"),
        nodes=case["nodes"],
        objects=case.get("objects", ()),
        existing_pods=case.get("existingPods", ()),
        namespaces=case.get("namespaces", ()),
        pod=case["pod"],
        feature_gates=case.get("featureGates"),
        feasible_nodes=case.get("feasibleNodes"),
        kubernetes=kubernetes,
    )
    known = {"preFilter", "filter", "preScore", "raw", "normalized"}

    assert set(expect) <= known, "unknown expectation"
    if "preFilter" in expect:
        wanted = _with_existing_nodes(expect["preFilter"], case["nodes"])
        assert wanted == _status(got.pre_filter, wanted, got.node_names)
    if "filter" in expect:
        filters = expect["filter"]
        assert filters == {name: _status(got.filter[name], filters[name]) for name in filters}
    if "preScore" in expect:
        assert expect["preScore"] == _status(got.pre_score, expect["preScore"])
    if "raw" in expect:
        assert expect["raw"] == got.raw
    if "normalized" in expect:
        assert expect["normalized"] == got.normalized


def _with_existing_nodes(expected, nodes):
    """Drop names of missing nodes: the pre-filter returns rows of the node table.

    Such a name changes nothing there either, and an empty set stays an empty set.
    """
    if "nodeNames" not in expected:
        return expected
    existing = {node["metadata"]["name"] for node in nodes}
    return expected | {"nodeNames": sorted(existing.intersection(expected["nodeNames"]))}


def _status(status: Status, expected, node_names=None):
    """Write a status as the files do; reasons only where the case states them or there are some."""
    shown: dict[str, str | list[str]] = {"code": status.code.value}
    if "reasons" in expected or (status.reasons and status.code is not Code.SKIP):
        shown["reasons"] = list(status.reasons)
    if node_names is not None:
        shown["nodeNames"] = sorted(node_names)
    return shown


def run_requests(vector, *, sums_first=False):
    """Compare the effective requests of a pod; quantities count by value, zero is as absent."""
    case = vector.case
    if case["op"] != "podRequests":
        pytest.fail(f"unknown operation {case['op']}")
    options = dict(case["options"])
    non_missing = options.pop("nonMissing", {})
    got = pod_requests(
        read_pod(case["pod"]),
        use_status=options.pop("useStatus", False),
        skip_pod_level=options.pop("skipPodLevel", False),
        pod_level_in_place=options.pop("podLevelInPlace", False),
        non_missing=_amounts(non_missing),
        sums_first=sums_first,
    )

    assert not options, "unknown option"
    assert _positive(_amounts(case["expect"]["requests"])) == _positive(got)


def _amounts(quantities):
    return {name: resource_amount(name, str(value)) for name, value in quantities.items()}


def _positive(amounts):
    return {name: amount for name, amount in amounts.items() if amount}


RUNNERS = {
    "config.json": run_config,
    "cycle.json": run_cycle,
    "defaultpreemption.json": run_preemption,
    "podrequests.json": run_requests,
    "imagelocality.json": run_plugin,
    "interpodaffinity-filter.json": run_plugin,
    "interpodaffinity-score.json": run_plugin,
    "nodeaffinity.json": run_plugin,
    "nodeports.json": run_plugin,
    "noderesourcesbalanced.json": run_plugin,
    "noderesourcesfit-filter.json": run_plugin,
    "noderesourcesfit-score.json": run_plugin,
    "podtopologyspread-filter.json": run_plugin,
    "podtopologyspread-score.json": run_plugin,
    "tainttoleration.json": run_plugin,
    "volumes-and-node-basics.json": run_plugin,
}


def test_case(vector):
    """Run one case and compare its expectation."""
    if vector.file not in RUNNERS:
        pytest.fail(f"no runner for {vector.path}")
    RUNNERS[vector.file](vector)
