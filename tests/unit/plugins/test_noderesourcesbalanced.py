"""NodeResourcesBalancedAllocation: even use of resources, before against after."""

import math

import pytest
from hypothesis import given

from scheduler.base.errors import ConfigError
from scheduler.framework.status import Code
from scheduler.objects.plain import read_pod
from scheduler.plugins.noderesourcesbalanced import NodeResourcesBalancedAllocation
from scheduler.testing import check_plugin, evaluate, node, pod
from scheduler.testing.evaluate import look
from tests.unit.plugins.randomclusters import GPU, SimulatedCluster, amounts, moves

LISTED = ("cpu", "memory", GPU)


def test_it_keeps_the_invariants():
    """The invariants of all plugins hold."""
    check_plugin(NodeResourcesBalancedAllocation)


def test_a_neutral_pod_scores_75_and_one_that_evens_out_more():
    """The same share of cpu and memory leaves the balance of an empty node unchanged."""
    nodes = [node("even", cpu="4", memory="4Gi"), node("lopsided", cpu="4", memory="4Gi")]
    sitting = pod("e", node_name="lopsided", requests={"memory": "2Gi"})

    neutral = evaluate(
        NodeResourcesBalancedAllocation,
        nodes=nodes,
        existing_pods=[sitting],
        pod=pod(requests={"cpu": "1", "memory": "1Gi"}),
    )
    evening = evaluate(
        NodeResourcesBalancedAllocation,
        nodes=nodes,
        existing_pods=[sitting],
        pod=pod(requests={"cpu": "2"}),
    )

    assert {"even": 75, "lopsided": 75} == neutral.raw
    assert 62 == evening.raw["even"]
    assert 87 == evening.raw["lopsided"]


def test_pods_without_requests_are_not_scored():
    """A pod without requests leaves every node unchanged, and kube-scheduler skips it."""
    got = evaluate(NodeResourcesBalancedAllocation, nodes=[node("n")], pod=pod())

    assert Code.SKIP == got.pre_score.code
    assert {} == got.raw


@pytest.mark.parametrize(
    ("resources", "message"),
    [
        ([{"name": "cpu"}, {"name": "cpu"}], r'resources\[1\]\.name: Duplicate value: "cpu"'),
        ([{"name": "cpu", "weight": 2}], r"resources\[0\]\.weight: Invalid value: 2: must be 1"),
    ],
)
def test_what_kube_scheduler_refuses_is_refused(resources, message):
    """A resource is in the list once, with weight 1."""
    with pytest.raises(ConfigError, match=message):
        evaluate(
            NodeResourcesBalancedAllocation, args={"resources": resources}, nodes=[], pod=pod()
        )


@pytest.mark.parametrize("count", [2, 3])
@given(steps=moves, wanted=amounts(optional=True))
def test_scores_equal_a_slow_reference_after_any_moves(count, steps, wanted):
    """Whole columns and recomputed rows equal plain floats, to the last unit."""
    listed = LISTED[:count]
    args = {"resources": [{"name": name, "weight": 1} for name in listed]}
    cluster = SimulatedCluster(NodeResourcesBalancedAllocation, args)
    incoming = read_pod(pod("incoming", requests=wanted.plain()))
    for step in steps:
        cluster.do(step)
        got = look(cluster.scene, cluster.scene.cycle(incoming))

        if any(wanted.get(name) for name in listed):
            assert {
                name: _score(cluster, name, wanted, listed) for name in cluster.nodes
            } == got.raw
        else:
            assert Code.SKIP == got.pre_score.code


def _score(cluster, name, wanted, listed):
    offered, _ = cluster.nodes[name]
    before, after = [], []
    for resource in listed:
        offer, adds = offered.get(resource) or 0, wanted.get(resource) or 0
        if not offer or (resource == GPU and not adds):
            continue
        used = sum(one.get(resource) or 0 for one in cluster.on(name))
        before.append(min(float(used) / float(offer), 1.0))
        after.append(min(float(used + adds) / float(offer), 1.0))
    gain = 50 + int((1 - _deviation(after)) * 100) - int((1 - _deviation(before)) * 100)
    return 50 + int(gain / 2)


def _deviation(shares):
    if len(shares) < 2:
        return 0.0
    if len(shares) == 2:
        return abs((shares[0] - shares[1]) / 2)
    mean = 0.0
    for share in shares:
        mean += share
    mean /= len(shares)
    squares = 0.0
    for share in shares:
        squares += (share - mean) * (share - mean)
    return math.sqrt(squares / len(shares))
