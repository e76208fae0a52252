"""The closed form of the last level's costs against the table built leaf by leaf."""

from random import Random

import msgspec
import numpy as np
import pytest

from scheduler.groups.problem.instance import Instance, Kind, Level, LevelRule
from scheduler.groups.solver import costs, tree
from scheduler.groups.solver.exact import leafcosts
from scheduler.groups.solver.tree import Tree
from tests.property import groups


def compared(made: Tree) -> int:
    """Compare the formula with the table for every unit and count; return the number of costs."""
    unit_cost = costs.scale_of(made).unit_costs(made.depth)[-1]
    closed = leafcosts.tables(made, unit_cost)
    most = np.minimum(made.capacity[made.depth - 1], made.size)
    steps = leafcosts._stepwise(made, closed.order, unit_cost, most)
    added = steps[-1][:, 0].copy()
    added[:, 0] = 0
    number = 0
    for unit, limit in enumerate(most.tolist()):
        assert closed.cost[unit, : limit + 1].tolist() == added[unit, : limit + 1].tolist()
        number += int((added[unit, : limit + 1] < costs.NEVER // 2).sum())
    return number


@pytest.mark.parametrize("batch", range(4))
def test_the_formula_gives_what_adding_leaf_after_leaf_gives(batch: int):
    """For every unit and count, with any rule for which the formula is used."""
    total = 0
    for number in range(60):
        made = tree.build(groups.instance(Random(f"closed/{batch}/{number}")))
        if len(made.slots) and leafcosts.is_closed(made):
            total += compared(made)
    assert total > 100


@pytest.mark.parametrize("kind", ["pack", "spread"])
@pytest.mark.parametrize("factor", [1, 2, 3])
def test_the_formula_covers_every_factor(kind: Kind, factor: int):
    """Also if the group is smaller than its nodes: leaves are then cut at the group's size.

    A minimum of 1 per used leaf has no effect. Rules of the levels above do not matter.
    """
    for number in range(30):
        plain = groups.instance(Random(f"{kind} {factor} {number}"))
        rule = LevelRule(kind, factor=factor, min=number % 2)
        levels = (*plain.levels[:-1], Level("node", rule))
        unfixed = tuple(msgspec.structs.replace(leaf, fixed=0) for leaf in plain.leaves)
        made = tree.build(Instance(levels, unfixed, plain.size))
        if len(made.slots):
            assert leafcosts.is_closed(made)
            compared(made)
