"""The state after a simulation, and figures of it, against a count by hand."""

import json
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.config import default_config
from scheduler.framework.registry import Registry
from scheduler.intree import IN_TREE
from scheduler.simulate.outcome import after, figures
from scheduler.simulate.simulate import simulate
from scheduler.simulate.stage import AnswerOptions, Setup
from scheduler.snapshot.documents import SourceFile, items_of
from scheduler.snapshot.snapshot import read_snapshot
from scheduler.testing import node
from tests.unit.simulate.asking import pod

REGISTRY = Registry(IN_TREE)
SETUP = Setup(default_config(REGISTRY), REGISTRY)


def simulated(nodes, pods):
    """Return a snapshot of CPU amounts, its simulation, and the cluster after it."""
    items = [node(f"n{at}", cpu=str(cpu), memory="64Gi") for at, cpu in enumerate(nodes)]
    items += [pod(f"p{at}", requests={"cpu": str(cpu)}) for at, cpu in enumerate(pods)]
    snapshot = read_snapshot(items_of(SourceFile("test", json.dumps(items).encode())))
    simulation = simulate(snapshot, SETUP, AnswerOptions(scores=True))
    return simulation, after(snapshot, simulation)


@given(
    st.lists(st.integers(1, 8), min_size=1, max_size=4),
    st.lists(st.integers(1, 9), min_size=1, max_size=8),
)
def test_figures_are_those_of_a_count_by_hand(nodes, pods):
    """Use, balance and fragmentation of CPU; every pod is where the simulation put it."""
    simulation, snapshot = simulated(nodes, pods)
    node_of = {one.key: one.node for one in simulation.pods}
    found = figures(snapshot, simulation)

    assert {key: where for key, where in node_of.items() if where} == {
        one.key: one.spec.node_name for one in snapshot.bound
    }
    used = [0] * len(nodes)
    for at, cpu in enumerate(pods):
        if where := node_of[f"default/p{at}"]:
            used[int(where[1:])] += cpu
    cpu = found.resources["cpu"]
    assert (1000 * sum(used), 1000 * sum(nodes)) == (cpu.requested, cpu.allocatable)
    shares = [one / most for one, most in zip(used, nodes, strict=True)]
    assert statistics.pstdev(shares) == pytest.approx(cpu.balance)
    free = [most - one for one, most in zip(used, nodes, strict=True)]
    if sum(free):
        useless = [sum(one for one in free if one < wanted) / sum(free) for wanted in pods]
        assert statistics.mean(useless) == pytest.approx(cpu.fragmentation)
    else:
        assert cpu.fragmentation is None
    assert used.count(0) == found.empty_nodes
    assert len(snapshot.unbound) == found.waiting
    for one in simulation.pods:
        assert isinstance(one.scores, dict)
        assert bool(one.scores) <= (one.node is not None)


def test_victims_are_deleted_and_messages_reported():
    """A pod that preempted is on the node of its victims."""
    items = [
        node("n", cpu="2", memory="8Gi"),
        pod("low", node_name="n", requests={"cpu": "2"}, spec={"priority": 1}),
        pod("high", requests={"cpu": "2"}, spec={"priority": 9}),
        pod("huge", requests={"cpu": "99"}),
    ]
    snapshot = read_snapshot(items_of(SourceFile("test", json.dumps(items).encode())))
    simulation = simulate(snapshot, SETUP)
    left = after(snapshot, simulation)

    assert ["default/high"] == [one.key for one in left.bound]
    (waiting,) = left.unbound
    assert "Insufficient cpu" in waiting.status.conditions[0].message
