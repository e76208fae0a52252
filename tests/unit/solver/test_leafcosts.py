"""The closed form of the last level's costs against the table built leaf by leaf."""

from random import Random

import numpy as np
import pytest

from scheduler.groups.solver import costs, tree
from scheduler.groups.solver.exact import leafcosts
from tests.property import groups


@pytest.mark.parametrize("batch", range(4))
def test_the_formula_gives_what_adding_leaf_after_leaf_gives(batch: int):
    """For every unit and count, with any rule for which the formula is used."""
    compared = 0
    for number in range(60):
        made = tree.build(groups.instance(Random(f"closed/{batch}/{number}")))
        if not len(made.slots) or not leafcosts.is_closed(made):
            continue
        unit_cost = costs.scale_of(made).unit_costs(made.depth)[-1]
        closed = leafcosts.tables(made, unit_cost)
        most = np.minimum(made.capacity[made.depth - 1], made.size)
        steps = leafcosts._stepwise(made, closed.order, unit_cost, most)
        added = steps[-1][:, 0].copy()
        added[:, 0] = 0
        for unit, limit in enumerate(most.tolist()):
            possible = np.flatnonzero(added[unit, : limit + 1] < costs.NEVER // 2)
            assert closed.cost[unit, possible].tolist() == added[unit, possible].tolist()
            compared += len(possible)
    assert compared > 100
