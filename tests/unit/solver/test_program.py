"""The tables of the exact program: costs in one word or in several, and the reported progress."""

from random import Random

import numpy as np
import pytest

from scheduler.groups.problem import checker
from scheduler.groups.solver import costs
from scheduler.groups.solver.exact import layers
from scheduler.groups.solver.exact.program import Exact
from tests.property import groups

WIDEST = costs.WIDEST


@pytest.mark.parametrize("widest", [1, 1 << 12, WIDEST])
def test_the_roots_costs_are_those_of_the_placements(monkeypatch, widest):
    """For each possible number of pods, the root's table has the stage values of the placement that
    the tables return, in any number of words. The reported progress grows from 0 to 1 at most.
    """
    monkeypatch.setattr(costs, "WIDEST", widest)
    words_needed, compared = set(), 0
    for number in range(40):
        instance = groups.instance(Random(f"program {number}"))
        found = layers.of(instance)
        if found is None or not len(found.tree.slots):
            continue
        made, scale = found.tree, costs.scale_of(found.tree)
        progress = [0.0]

        def late(done: float, seen: list[float] = progress) -> bool:
            seen.append(done)
            return False

        tables = Exact(found, scale, late)
        for masks in found.choices():
            root = tables.root(masks)
            assert root is not None
            for pods in np.flatnonzero(root[0] < costs.NEVER // 2).tolist():
                if not pods:
                    continue
                whole = np.zeros(len(instance.leaves), dtype=np.int64)
                whole[made.leaf] = tables.counts(pods)
                wanted = checker.objective(instance, tuple(whole.tolist()))
                stages = scale.stages(root[:, [pods]], np.array([pods]))
                assert [one[2] for one in wanted] == [int(stage[0]) for stage in stages]
                compared += 1
        words_needed.add(scale.words)
        if len(list(found.choices())) == 1:
            assert progress == sorted(progress)
            assert progress[-1] <= 1
    assert compared > 50
    assert words_needed == {1} if widest == WIDEST else words_needed - {1}
