"""When a placement inside one unit is optimal because all traffic is free there."""

from typing import Any

import pytest

from scheduler.groups.problem.classes import ClassRule, PodClass, Traffic, TrafficCosts
from scheduler.groups.problem.instance import LevelRule
from scheduler.groups.solver.roles.heterogeneous import _is_free_together
from tests.unit.solver.test_classes import HEAD, WORKERS, group

FREE: dict[str, Any] = {
    "traffic": (Traffic(HEAD, WORKERS, 3),),
    "costs": TrafficCosts(steps=(10, 0)),
    "unwished": (0, 1),
}
RULED = (
    PodClass("head", (0,)),
    PodClass("workers", (1,), rules=(ClassRule(1, LevelRule("pack")),)),
)


def test_traffic_that_costs_between_racks_alone_is_free_inside_a_rack():
    """All pods are placed, they are connected, and the cost is the first objective."""
    assert _is_free_together(group(**FREE), 1)


@pytest.mark.parametrize(
    ("change", "level"),
    [
        ({}, 0),
        ({}, 2),
        ({"traffic": ()}, 1),
        ({"traffic": (Traffic(HEAD, WORKERS, 0),)}, 1),
        ({"traffic": (Traffic(WORKERS, WORKERS, 1),)}, 1),
        ({"costs": TrafficCosts(steps=(10, 1))}, 1),
        ({"costs": TrafficCosts(steps=(0, 0))}, 1),
        ({"costs": TrafficCosts(areas=(0, 0, 1, 1), matrix=((0, 7), (7, 0)))}, 1),
        ({"unwished": (0,)}, 1),
        ({"minimum": 4}, 1),
        ({"classes": RULED}, 1),
    ],
)
def test_any_missing_condition_rules_it_out(change: dict[str, Any], level: int):
    """Another level, no or partial traffic, costs inside a unit, other objectives, fewer pods."""
    assert not _is_free_together(group(**FREE | change), level)
