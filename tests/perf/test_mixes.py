"""The lower bounds of the mixes benchmark: they follow from the totals of cpu and memory alone."""

import pytest

from tests.perf import mixes

ONE_KIND: mixes.Mix = ([((4, 8), 5)], [])
TWO_KINDS: mixes.Mix = ([((4, 1), 1), ((1, 4), 1)], [])


def test_the_fewest_refused_pods_free_what_was_asked_too_much():
    """The lower bound on rejected pods: the largest pods first, for each resource alone."""
    assert mixes.least_refused(ONE_KIND, [(4, 1)] * 5) == 0
    assert mixes.least_refused(ONE_KIND, [(4, 1)] * 5 + [(1, 1)]) == 1
    assert mixes.least_refused(ONE_KIND, [(1, 8)] * 7 + [(1, 1)]) == 3


def test_nodes_of_one_kind_are_as_unbalanced_as_the_totals():
    """On equal nodes the floor is the difference of the parts of all cpu and memory in use."""
    assert mixes.least_imbalance(ONE_KIND, (20, 20)) == pytest.approx(0.5)
    assert mixes.least_imbalance(ONE_KIND, (10, 20)) == pytest.approx(0.0)


def test_two_kinds_of_nodes_can_balance_unequal_totals():
    """One full node and one empty node are balanced though 4 of 5 and 1 of 5 are in use."""
    assert mixes.least_imbalance(TWO_KINDS, (4, 1)) == pytest.approx(0.0)
    assert mixes.least_imbalance(TWO_KINDS, (5, 0)) == pytest.approx(1.0)


def test_the_scarcer_resource_comes_first():
    """The requests per pod are compared with what all nodes offer, not with one another."""
    offered = [((4, 8), 5), ((8, 4), 5)]
    assert mixes.by_scarcity((offered, [((1, 2), 1), ((2, 2), 1)])) == ["memory", "cpu"]
    assert mixes.by_scarcity((offered, [((2, 2), 1), ((2, 1), 1)])) == ["cpu", "memory"]
    assert mixes.by_scarcity(([((4, 8), 5)], [((2, 3), 1)])) == ["cpu", "memory"]
    assert mixes.by_scarcity(([((4, 8), 5)], [((1, 1), 1), ((1, 5), 1)])) == ["memory", "cpu"]


def test_no_run_passes_its_floors():
    """A short run with nodes of two kinds stays above both floors."""
    kinds = [((8000, 16_384), 2), ((4000, 32_768), 2)]
    mix = (kinds, [((1000, 1024), 0.5), ((1000, 8192), 0.3), ((3000, 12_288), 0.2)])
    for policy in mixes.policies(mix).values():
        found = mixes.run_seed(mix, policy, 1)
        assert found.refused >= found.least_refused
        assert found.imbalance >= found.least_imbalance - 1e-9
