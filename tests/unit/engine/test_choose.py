"""Choosing among the best nodes, and node sampling."""

from collections import Counter
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.engine.attempt.cycle import Ties, choose, sample
from tests.unit.framework.runnerrig import RunnerRig

rows = st.lists(st.tuples(st.booleans(), st.integers(0, 3)), min_size=1, max_size=8).filter(
    lambda cells: any(feasible for feasible, _ in cells)
)


@given(rows, st.sampled_from(list(Ties)))
def test_the_best_feasible_node_wins(cells: list[tuple[bool, int]], ties: Ties):
    """With any tie-break, no feasible node has a higher score; the same call gives the same
    answer.
    """
    rig = RunnerRig(nodes=len(cells))
    feasible = np.array([f for f, _ in cells])
    total = np.array([t for _, t in cells], dtype=np.int64)
    found = choose(rig.nodes, feasible, total, "uid", ties, Random(1))

    assert feasible[found]
    assert max(t for f, t in cells if f) == total[found]
    assert found == choose(rig.nodes, feasible, total, "uid", ties, Random(1))


def test_by_name():
    """The lowest name of the best."""
    rig = RunnerRig(nodes=12)
    total = np.zeros(12, dtype=np.int64)

    assert "n0" == rig.nodes.name(
        choose(rig.nodes, rig.nodes.exists, total, "u", Ties.NAME, Random(0))
    )


@pytest.mark.parametrize("ties", [Ties.UID, Ties.SEED])
def test_equal_pods_spread_over_equal_nodes(ties: Ties):
    """No node of eight gets more than a third of 400 pods, and each gets some."""
    rig = RunnerRig(nodes=8)
    total = np.zeros(8, dtype=np.int64)
    random = Random(0)
    found = Counter(
        choose(rig.nodes, rig.nodes.exists, total, f"uid-{i}", ties, random) for i in range(400)
    )

    assert 8 == len(found)
    assert max(found.values()) < 133


class TestSample:
    """percentageOfNodesToScore."""

    def test_small_clusters_are_looked_at_entirely(self):
        """Below 100 nodes none is left out."""
        feasible = np.ones(99, dtype=np.bool_)

        mask, start = sample(feasible, 5, 7, 99)
        assert mask is feasible
        assert 7 == start

    def test_a_hundred_at_least(self):
        """A small percentage still finds a hundred feasible nodes."""
        feasible = np.ones(500, dtype=np.bool_)
        mask, start = sample(feasible, 5, 0, 500)

        assert [*range(100)] == np.flatnonzero(mask).tolist()
        assert 100 == start

    def test_the_start_rotates(self):
        """The next pod continues where the last one stopped, and wraps."""
        feasible = np.ones(400, dtype=np.bool_)
        feasible[::2] = False
        mask, start = sample(feasible, 25, 399, 400)

        assert 100 == np.count_nonzero(mask)
        assert mask[399]
        assert not (mask & ~feasible).any()
        assert 198 == start

    def test_too_few_feasible_nodes(self):
        """All feasible nodes are kept, and the start of the search does not move."""
        feasible = np.zeros(400, dtype=np.bool_)
        feasible[:50] = True

        mask, start = sample(feasible, 50, 3, 400)
        assert mask is feasible
        assert 3 == start
