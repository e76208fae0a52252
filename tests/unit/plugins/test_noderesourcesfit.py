"""NodeResourcesFit: capacity for the pod, and the three scores of allocation."""

from fractions import Fraction
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.framework.status import Code
from scheduler.objects.plain import read_pod
from scheduler.plugins.allocation import MostAllocated
from scheduler.plugins.noderesourcesfit import NodeResourcesFit, NodeResourcesFitArgs
from scheduler.testing import check_plugin, evaluate, node, pod
from scheduler.testing.evaluate import look
from scheduler.testing.scene import read_args
from tests.unit.plugins.randomclusters import GPU, SimulatedCluster, amounts, moves

MEBI = 2**20


def test_it_keeps_the_invariants():
    """The invariants of all plugins hold."""
    check_plugin(NodeResourcesFit)


def test_all_reasons_are_reported_in_order_and_final_only_beyond_the_nodes_size():
    """Reasons are in the order pods, cpu, memory, others; UAU iff the empty node is too small."""
    small = node("small", cpu="1", memory="1Gi", pods="1")
    full = node("full", cpu="4", memory="8Gi", pods="1")
    sitting = pod("e", node_name="full", requests={"cpu": "3500m", "memory": "7Gi"})
    wanting = pod(requests={GPU: "1", "memory": "2Gi", "cpu": "2"})

    got = evaluate(NodeResourcesFit, nodes=[small, full], existing_pods=[sitting], pod=wanting)

    reasons = ("Insufficient cpu", "Insufficient memory", f"Insufficient {GPU}")
    assert reasons == got.filter["small"].reasons
    assert Code.UNRESOLVABLE == got.filter["small"].code
    assert ("Too many pods", *reasons) == got.filter["full"].reasons


def test_a_full_node_is_not_final():
    """Capacity that pods hold could be freed, and so could a pod's place."""
    sitting = pod("e", node_name="n", requests={"cpu": "1"})
    got = evaluate(
        NodeResourcesFit,
        nodes=[node("n", cpu="1", pods="1")],
        existing_pods=[sitting],
        pod=pod(requests={"cpu": "1"}),
    )

    assert Code.UNSCHEDULABLE == got.filter["n"].code
    assert ("Too many pods", "Insufficient cpu") == got.filter["n"].reasons


def test_only_extended_resources_can_be_ignored():
    """An ignored group does not cover Kubernetes' own resources."""
    args = {"ignoredResourceGroups": ["example.com"], "ignoredResources": ["cpu"]}
    got = evaluate(
        NodeResourcesFit,
        args=args,
        nodes=[node("n", cpu="1")],
        pod=pod(requests={GPU: 1, "cpu": 2}),
    )

    assert ("Insufficient cpu",) == got.filter["n"].reasons


def test_pod_level_requests_count_for_the_filter_but_not_for_the_score():
    """kube-scheduler scores the incoming pod by its containers, with 100m and 200Mi assumed."""
    wanting = pod(spec={"resources": {"requests": {"cpu": "2"}}})
    got = evaluate(NodeResourcesFit, nodes=[node("n", cpu="1", memory="1000Mi")], pod=wanting)

    assert ("Insufficient cpu",) == got.filter["n"].reasons
    assert (90 + 80) // 2 == got.raw["n"]


def test_it_can_score_without_pre_score_but_not_filter_without_pre_filter():
    """kube-scheduler behaves the same if a profile disables the earlier point."""
    assert ["pre_filter"] == list(NodeResourcesFit.unread)


@pytest.mark.parametrize(
    ("args", "field", "message"),
    [
        (
            {"scoringStrategy": {"type": "Nope"}},
            "scoringStrategy.type",
            (
                'Unsupported value: "Nope": supported values: "LeastAllocated", "MostAllocated", '
                '"RequestedToCapacityRatio"'
            ),
        ),
        (
            {"scoringStrategy": {"type": "RequestedToCapacityRatio"}},
            "scoringStrategy.requestedToCapacityRatio",
            "Required value: must be specified when type is RequestedToCapacityRatio",
        ),
        (
            {"scoringStrategy": {"resources": [{"name": "cpu", "weight": 101}]}},
            "scoringStrategy.resources[0].weight",
            "Invalid value: 101: resource weight of cpu not in valid range (0, 100]",
        ),
        (
            {"ignoredResourceGroups": ["a/b"]},
            "ignoredResourceGroups[0]",
            "Invalid value: \"a/b\": resource group name can't contain '/'",
        ),
    ],
)
def test_what_kube_scheduler_refuses_is_refused_in_its_words(args, field, message):
    """The texts are those that users search for."""
    faults = list(msgspec.convert(args, NodeResourcesFitArgs).validate())

    assert [(field, message)] == faults


def test_a_weight_of_zero_counts_as_one():
    """kube-scheduler's defaulting does the same; without resources cpu and memory count."""
    args = {"scoringStrategy": {"resources": [{"name": "cpu", "weight": 0}]}}
    read = read_args(NodeResourcesFit, args)

    assert isinstance(read, NodeResourcesFitArgs)
    assert [1] == [spec.share for spec in read.scoring_strategy.counted]


SHAPE = [(20, 2), (60, 9), (80, 3)]
STRATEGIES: dict[str, dict[str, Any]] = {
    "LeastAllocated": {"type": "LeastAllocated"},
    "MostAllocated": {"type": "MostAllocated"},
    "RequestedToCapacityRatio": {
        "type": "RequestedToCapacityRatio",
        "requestedToCapacityRatio": {"shape": [{"utilization": u, "score": s} for u, s in SHAPE]},
    },
}
WEIGHTS = {"cpu": 3, "memory": 1, GPU: 5}
ASSUMED = {"cpu": 100, "memory": 200 * MEBI, GPU: 0}


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(steps=moves, wanted=amounts(optional=True))
def test_scores_equal_a_slow_reference_after_any_moves(strategy, steps, wanted):
    """Whole columns and recomputed rows equal plain integers, to the last unit."""
    resources = [{"name": name, "weight": weight} for name, weight in WEIGHTS.items()]
    cluster = SimulatedCluster(
        NodeResourcesFit, {"scoringStrategy": STRATEGIES[strategy] | {"resources": resources}}
    )
    incoming = read_pod(pod("incoming", requests=wanted.plain()))
    for step in steps:
        cluster.do(step)
        got = look(cluster.scene, cluster.scene.cycle(incoming))

        assert {name: _score(strategy, cluster, name, wanted) for name in cluster.nodes} == got.raw


@given(steps=moves, wanted=amounts(optional=True))
def test_results_equal_a_slow_reference_after_any_moves(steps, wanted):
    """Codes and reasons of each node are those of plain subtraction."""
    cluster = SimulatedCluster(NodeResourcesFit)
    incoming = read_pod(pod("incoming", requests=wanted.plain()))
    for step in steps:
        cluster.do(step)
        got = look(cluster.scene, cluster.scene.cycle(incoming))

        assert {name: _expected(cluster, name, wanted) for name in cluster.nodes} == {
            name: (status.code, status.reasons) for name, status in got.filter.items()
        }


@given(offered=st.integers(0, 2**62), used=st.integers(0, 2**62))
def test_past_float64_the_percentages_stay_exact(offered, used):
    """Integers take over where float64 cannot divide exactly (and int64 still holds 100 times)."""
    offered, used = offered % (2**63 // 100), used % (2**63 // 100)
    strategy = MostAllocated([1])
    column = strategy.column(np.array([[offered]]), np.array([[used]]))

    expected = 100 * min(used, offered) // offered if offered else 0
    assert expected == column[0] == strategy.cell([(offered, used)])


def _expected(cluster, name, wanted):
    offered, places = cluster.nodes[name]
    existing = cluster.on(name)
    reasons = ["Too many pods"] if len(existing) + 1 > places else []
    final = False
    for resource in ("cpu", "memory", GPU):
        amount = wanted.get(resource) or 0
        offer = offered.get(resource) or 0
        taken = sum(one.get(resource) or 0 for one in existing)
        if amount > 0 and amount > offer - taken:
            reasons.append(f"Insufficient {resource}")
            final = final or amount > offer
    if not reasons:
        return Code.SUCCESS, ()
    return (Code.UNRESOLVABLE if final else Code.UNSCHEDULABLE), tuple(reasons)


def _score(strategy, cluster, name, wanted):
    offered, _ = cluster.nodes[name]
    total = shares = 0
    for resource, weight in WEIGHTS.items():
        offer = offered.get(resource) or 0
        adds = _assumed(wanted, resource)
        if not offer or (resource == GPU and not adds):
            continue
        used = adds + sum(_assumed(one, resource) for one in cluster.on(name))
        score = _resource_score(strategy, offer, used)
        if strategy != "RequestedToCapacityRatio" or score > 0:
            total += score * weight
            shares += weight
    if not shares:
        return 0
    if strategy == "RequestedToCapacityRatio":
        return int(Fraction(total, shares) + Fraction(1, 2))
    return total // shares


def _resource_score(strategy, offer, used):
    if strategy == "LeastAllocated":
        return 0 if used > offer else (offer - used) * 100 // offer
    utilization = min(used, offer) * 100 // offer
    if strategy == "MostAllocated":
        return utilization
    if utilization <= SHAPE[0][0]:
        return SHAPE[0][1] * 10
    for (low, start), (high, end) in pairwise(SHAPE):
        if utilization <= high:
            return int(
                start * 10 + int(Fraction((end - start) * 10 * (utilization - low), high - low))
            )
    return SHAPE[-1][1] * 10


def _assumed(requests, resource):
    amount = requests.get(resource)
    return ASSUMED[resource] if amount is None else amount
