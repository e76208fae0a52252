"""The cheapest sufficient nodes: by arithmetic, and by simulating one node fewer."""

from math import ceil, inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.simulate.capacity import capacity, capacity_for
from scheduler.simulate.offers import NodeOffer, cheapest, pods_wait
from scheduler.simulate.simulate import simulate
from scheduler.snapshot.changes import with_nodes
from scheduler.testing import node
from tests.unit.simulate.asking import default_setup, pod, snapshot


def small_clusters():
    """Draw cores of the existing nodes, pods and their size in cores, and kinds of nodes as (cores,
    cost).
    """
    kinds = st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9)), min_size=1, max_size=3)
    return st.tuples(
        st.lists(st.integers(1, 6), max_size=3), st.integers(1, 9), st.integers(1, 4), kinds
    )


def offered(kinds):
    """Return kinds of nodes as offers."""
    made = snapshot(*(node(f"k{at}", cpu=str(cores)) for at, (cores, _) in enumerate(kinds))).nodes
    return [
        NodeOffer(one.key, one, float(cost)) for one, (_, cost) in zip(made, kinds, strict=True)
    ]


def by_arithmetic(free, number, size, kinds):
    """Return by kind the number of nodes needed, None if no number helps.

    0 for all: none is needed.
    """
    left = number - sum(cores // size for cores in free)
    if left <= 0:
        return {}
    return {
        f"k{at}": ceil(left / (cores // size)) if cores >= size else None
        for at, (cores, _) in enumerate(kinds)
    }


def check_order(found):
    """Assert that the cheapest comes first, and insufficient ones last."""
    totals = [inf if one.total is None else one.total for one in found.offers]
    assert totals == sorted(totals)
    for one in found.offers:
        assert one.total == (None if one.nodes is None else one.nodes * one.cost)
        assert bool(one.message) == (one.nodes is None)


def _check(case):
    free, number, size, kinds = case
    nodes = [node(f"n{at}", cpu=str(cores)) for at, cores in enumerate(free)]
    pods = [pod(f"p{at}", requests={"cpu": str(size)}) for at in range(number)]
    cluster, offers = snapshot(*nodes, *pods), offered(kinds)
    found = cheapest(cluster, offers, pods_wait(default_setup(), None), number)
    expected = by_arithmetic(free, number, size, kinds)

    assert found.is_needed == bool(expected)
    assert {one.node: one.nodes for one in found.offers} == expected
    check_order(found)
    for one in found.offers:
        if one.nodes is None:
            continue
        kind = next(offer.node for offer in offers if offer.name == one.node)
        assert simulate(with_nodes(cluster, kind, one.nodes), default_setup()).fits
        fewer = with_nodes(cluster, kind, one.nodes - 1) if one.nodes > 1 else cluster
        assert not simulate(fewer, default_setup()).fits


@settings(max_examples=15, deadline=None)
@given(small_clusters())
def test_the_fewest_of_each_kind(case):
    """The numbers equal those computed in the test; the number suffices and one fewer does not."""
    _check(case)


@pytest.mark.long
@settings(max_examples=300, deadline=None)
@given(small_clusters())
def test_the_fewest_of_each_kind_in_many_clusters(case):
    """The result is the same in many clusters."""
    _check(case)


@settings(max_examples=10, deadline=None)
@given(small_clusters())
def test_offers_for_a_number_of_copies(case):
    """The fewest nodes are offered for a pod shape with a number of copies that must fit."""
    free, number, size, kinds = case
    nodes = [node(f"n{at}", cpu=str(cores)) for at, cores in enumerate(free)]
    cluster = snapshot(*nodes, given=[pod("shape", requests={"cpu": str(size)})])
    found = cheapest(cluster, offered(kinds), capacity_for(number, default_setup()), number)

    assert {one.node: one.nodes for one in found.offers} == by_arithmetic(free, number, size, kinds)
    assert found.is_needed == (capacity(cluster, default_setup(), number).fits < number)
    check_order(found)


def test_pods_that_would_be_evicted_count():
    """A pod that fits only by an eviction is unsolved; one more node solves it."""
    low = pod("low", node_name="n", requests={"cpu": "3"}, spec={"priority": 0})
    high = pod("high", requests={"cpu": "2"}, spec={"priority": 1000})
    cluster = snapshot(node("n", cpu="4"), low, high)
    found = cheapest(cluster, offered([(4, 1)]), pods_wait(default_setup(), None), 1)

    assert found.message == "1 pods would have to leave"
    assert [1] == [one.nodes for one in found.offers]
