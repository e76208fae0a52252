"""The objective packed into words: each placement's cost is unpacked to the checker's values."""

from random import Random

import msgspec
import numpy as np
import pytest

from scheduler.groups.problem import checker
from scheduler.groups.problem.instance import Level, LevelRule
from scheduler.groups.solver import costs, tree
from tests.property import groups

WIDEST = costs.WIDEST


@pytest.mark.parametrize("widest", [1, 1 << 12, WIDEST])
def test_the_cost_of_a_placement_has_the_value_of_every_stage(monkeypatch, widest):
    """For any counts on leaves, also of fewer pods than the group has, in one word or in several.

    Smaller costs are better placements: the order of the words is that of the stages, for
    placements of equally many pods. Stages that fit into one word share it.
    """
    monkeypatch.setattr(costs, "WIDEST", widest)
    words_needed = set()
    for number in range(30):
        rng = Random(f"costs {number}")
        plain = groups.instance(rng)
        levels = tuple(Level(one.name, LevelRule(one.rule.kind)) for one in plain.levels)
        instance = msgspec.structs.replace(plain, levels=levels)
        made = tree.build(instance)
        if not len(made.slots):
            continue
        scale = costs.scale_of(made)
        words_needed.add(scale.words)
        found = []
        for _ in range(6):
            counts = np.array([rng.randint(0, most) for most in made.slots.tolist()])
            while counts.sum() > made.size:
                counts[rng.choice(np.flatnonzero(counts).tolist())] -= 1
            if not counts.any():
                continue
            words, below = np.zeros((scale.words, 1), dtype=np.int64), counts
            for level in range(made.depth, 0, -1):
                words += scale.unit_costs(level)[:, below].sum(axis=1, keepdims=True)
                sums = np.concatenate(([0], np.cumsum(below)))
                below = np.diff(sums[made.starts[level - 1]])
            pods = np.array([counts.sum()])
            whole = np.zeros(len(instance.leaves), dtype=np.int64)
            whole[made.leaf] = counts
            values = [value for _, _, value in checker.objective(instance, tuple(whole.tolist()))]

            assert values == [int(stage[0]) for stage in scale.stages(words, pods)], instance
            found.append((int(pods[0]), words[:, 0].tolist(), values))
        for pods_of, word, values in found:
            others = (one for one in found if one[0] == pods_of)
            assert all((word < other) == (values < those) for _, other, those in others), instance
    assert words_needed == {1} if widest == WIDEST else words_needed - {1}
