"""The greedy descent equals chic-sched on its worked examples, and the solver is better."""

import pytest

from scheduler.groups.problem.instance import LevelRule
from scheduler.groups.solver.solve import solve
from tests.unit.solver.making import KEP_A, group, placed

PACK, SPREAD = LevelRule("pack"), LevelRule("spread")
FULL_R2 = KEP_A | {"rack-2": {"node-6": 0, "node-7": 0, "node-8": 0}}


def nodes(*slots):
    """Return a flat tree of nodes a, b, …"""
    return {chr(97 + at): number for at, number in enumerate(slots)}


# Tree, size, rules, the greedy placement (counts, largest first; None: it fails), the best.
EXAMPLES = {
    "one rack holds all": (
        {"r0": nodes(3, 3, 3), "r1": {"x": 3, "y": 3, "z": 3}},
        8,
        {"rack": PACK, "node": SPREAD},
        [3, 3, 2],
        [3, 3, 2],
    ),
    "uneven rack": (
        {"r0": nodes(9, 3, 0), "r1": {"x": 2, "y": 2, "z": 2}},
        8,
        {"rack": PACK, "node": SPREAD},
        [5, 3],
        [5, 3],
    ),
    "two racks needed": (
        {"r0": nodes(3, 0, 3), "r1": {"x": 2, "y": 0, "z": 2}},
        8,
        {"rack": PACK, "node": SPREAD},
        [3, 3, 1, 1],
        [3, 3, 1, 1],
    ),
    "story A": (
        KEP_A,
        8,
        {"rack": LevelRule("spread", partitions=2), "node": PACK},
        [3, 2, 2, 1],
        [4, 3, 1],
    ),
    "story A with a full rack": (
        FULL_R2,
        8,
        {"rack": LevelRule("spread", partitions=2), "node": PACK},
        None,
        [4, 2, 2],
    ),
    "story B": (
        {"s0": nodes(5, 1, 3), "s1": {"w": 3, "x": 2, "y": 2, "z": 3}},
        6,
        {"server": PACK, "node": LevelRule("spread", min=2, max=4)},
        [2, 2, 2],
        [2, 2, 2],
    ),
    "range in need of a look ahead": (
        nodes(4, 4),
        5,
        {"node": LevelRule(min=2, max=4)},
        None,
        [3, 2],
    ),
    "range with a rest of one": (nodes(5, 5), 6, {"node": LevelRule(min=2, max=5)}, None, [4, 2]),
    "factor": (nodes(5, 5, 3), 8, {"node": LevelRule(factor=4)}, [4, 4], [4, 4]),
    "factor that cannot be": (nodes(8, 8), 6, {"node": LevelRule(factor=4)}, None, None),
    "small unit first": (
        nodes(1, 4, 4, 4),
        9,
        {"node": LevelRule("spread", partitions=3)},
        [4, 4, 1],
        [3, 3, 3],
    ),
    "full unit first": (
        nodes(0, 4, 4, 4),
        9,
        {"node": LevelRule("spread", partitions=3)},
        None,
        [3, 3, 3],
    ),
    "more partitions than units": (nodes(4, 4), 6, {"node": LevelRule(partitions=3)}, None, None),
    "many thin nodes": (
        {"r0": nodes(1, 1, 1, 1, 1), "r1": {"x": 4}},
        4,
        {"rack": PACK, "node": PACK},
        [1, 1, 1, 1],
        [4],
    ),
    "hard pack": (nodes(7, 4), 8, {"node": LevelRule("pack", hard=True)}, None, None),
    "hard spread": (
        nodes(7, 4, 1, 1),
        3,
        {"node": LevelRule("spread", hard=True)},
        [1, 1, 1],
        [1, 1, 1],
    ),
    "hard spread of too many": (
        nodes(7, 4, 1, 1),
        5,
        {"node": LevelRule("spread", hard=True)},
        None,
        None,
    ),
    "maximum without a minimum": (nodes(5, 5), 6, {"node": LevelRule(max=3)}, None, [3, 3]),
    "rack that takes less than its share": (
        {"r0": nodes(4), "r1": {"x": 6}},
        6,
        {"rack": SPREAD, "node": LevelRule(factor=2)},
        [4, 2],
        [4, 2],
    ),
    "spread over small nodes": (nodes(1, 1, 6), 6, {"node": SPREAD}, [4, 1, 1], [4, 1, 1]),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_greedy_descent_takes_what_chic_sched_takes(name):
    """The worked examples, failures included."""
    tree, size, rules, greedy, _ = EXAMPLES[name]
    instance = group(tree, size, **rules)
    answer = solve(instance, solver="Greedy")

    found = (
        sorted(placed(instance, answer.counts).values(), reverse=True) if answer.counts else None
    )
    assert greedy == found


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_best_is_found_where_it_exists(name):
    """The solver finds the best placement of each case, and proves infeasible cases."""
    tree, size, rules, _, best = EXAMPLES[name]
    instance = group(tree, size, **rules)
    answer = solve(instance)

    assert answer.optimal
    found = (
        sorted(placed(instance, answer.counts).values(), reverse=True) if answer.counts else None
    )
    assert best == found
