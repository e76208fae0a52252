"""The openb replay in small: rules of the published experiment on hand-made clusters."""

import numpy as np
import pytest

from scheduler.plugins.fragmentation.loss import Weights
from tests.perf.openb.data import Order, TraceNode, TracePod
from tests.perf.openb.policies import (
    BestFit,
    Fgd,
    FragmentationAware,
    NodeFragmentation,
    TotalFragmentation,
    typical,
    worth_of,
)
from tests.perf.openb.replay import State, run_arrivals

NODES = [TraceNode("a", 64_000, 262_144, 2, "M1"), TraceNode("b", 64_000, 262_144, 2, "M2")]
HALF, SMALL = TracePod(4_000, 1024, 1, 500), TracePod(4_000, 1024, 1, 300)
WHOLE, NAMED = TracePod(4_000, 1024, 1, 1000), TracePod(4_000, 1024, 2, 1000, "M2")


def order(*pods):
    """Return an order of arrival with nodes in the order of their ranks."""
    return Order(np.array(pods), np.arange(len(NODES)))


def policies(pods):
    """Return one of each policy for a trace."""
    nodes = NodeFragmentation(typical(pods))
    return [
        BestFit(),
        Fgd(nodes),
        FragmentationAware(worth_of(pods, NODES), Weights()),
    ]


@pytest.mark.parametrize("number", range(3))
def test_a_full_cluster_is_full(number):
    """Pods that fill all devices are placed by each policy, one more is rejected."""
    pods = [WHOLE]
    run = run_arrivals(NODES, pods, order(0, 0, 0, 0, 0), policies(pods)[number])

    assert 4000 == run.used[-1]
    assert 5000 == run.asked[-1]
    assert 125.0 == run.first_refusal


def test_worth_keeps_the_model_that_pods_name_free():
    """A pod without a model is placed on the node whose model no pod names."""
    pods = [WHOLE, NAMED]
    run = run_arrivals(NODES, pods, order(0, 0, 1), policies(pods)[2])

    assert 4000 == run.used[-1]


def test_worth_fills_a_device_that_is_in_use():
    """Two halves share one device; a whole pod then still finds three free ones."""
    pods = [HALF, WHOLE]
    run = run_arrivals(NODES, pods, order(0, 0, 1, 1, 1), policies(pods)[2])

    assert 4000 == run.used[-1]


def test_fragmentation_counts_what_no_typical_pod_can_use():
    """A device with 300 milli left is lost for pods of 500, and free devices are not."""
    pods = [HALF]
    fragmentation = TotalFragmentation(NodeFragmentation(typical(pods)))
    state = State(NODES, np.arange(2))
    fragmentation.moved(state, 0)
    assert 0.0 == fragmentation.total

    state.place(TracePod(1_000, 0, 1, 700), 0, [0])
    fragmentation.moved(state, 0)
    assert 300.0 == fragmentation.total


def test_typical_pods_cover_95_percent():
    """Rare shapes are left out, shares add up to 1."""
    found = typical([HALF] * 60 + [WHOLE] * 36 + [SMALL] * 4)

    assert [500, 1000] == [pod.milli for pod, _ in found]
    assert pytest.approx(1.0) == sum(share for _, share in found)
