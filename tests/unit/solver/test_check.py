"""The check finds every broken rule without any solver."""

import pytest

from scheduler.groups.problem import checker, checkparts
from scheduler.groups.problem.classes import ClassRule, PodClass
from scheduler.groups.problem.instance import DomainRule, Instance, Leaf, Level, LevelRule
from scheduler.groups.problem.parts import LikeParts, PlacedPart
from scheduler.groups.problem.roles import GroupProblem, Role
from tests.unit.solver.making import group

TREE = {"r0": {"a": 4, "b": 4}, "r1": {"c": 4}}


def test_a_right_answer_has_no_problem():
    """The check has no objection to a placement that keeps all rules."""
    rules = {"rack": LevelRule("spread", partitions=2), "node": LevelRule(factor=2, min=2, max=4)}

    assert [] == checker.problems(group(TREE, 8, **rules), (4, 0, 4))


@pytest.mark.parametrize(
    ("rack", "node", "counts", "reported"),
    [
        (LevelRule(), LevelRule(), (1, 1), "2 counts for 3 leaves"),
        (LevelRule(), LevelRule(), (1, 1, 1), "3 of 4 pods are placed"),
        (LevelRule(), LevelRule(), (5, 0, -1), "r0/a takes 5 of 4 slots"),
        (LevelRule(), LevelRule(min=2, max=3), (4, 0, 0), "node r0/a holds 4, not 2 to 3"),
        (LevelRule(), LevelRule(min=2), (1, 0, 3), "node r0/a holds 1, not 2 to 0"),
        (LevelRule(factor=2), LevelRule(), (3, 0, 1), "rack r0 holds 3, no multiple of 2"),
        (LevelRule(partitions=2), LevelRule(), (4, 0, 0), "1 units of rack in the root, not 2"),
        (LevelRule(), LevelRule(partitions=2), (2, 1, 1), "1 units of node in r1, not 2"),
        (
            LevelRule("pack", hard=True),
            LevelRule(),
            (2, 0, 2),
            "2 units of rack in the root, not 1",
        ),
        (
            LevelRule(),
            LevelRule("spread", hard=True),
            (2, 1, 1),
            "node r0/a holds 2, one is allowed",
        ),
    ],
)
def test_every_broken_rule_is_named(rack, node, counts, reported):
    """The text names level, unit and rule."""
    assert reported in checker.problems(group(TREE, 4, rack=rack, node=node), counts)


@pytest.mark.parametrize(
    ("domains", "reported"),
    [
        (DomainRule("z", ((0, 1), (2,)), at_most=2), "z: 3 pods in one domain, 2 allowed"),
        (DomainRule("z", ((0, 1), (2,)), single=True), "z: pods in more than one domain"),
        (DomainRule("z", ((0, 1), (2,)), max_skew=1), "z: skew above 1"),
        (DomainRule("z", ((0, 1),), only=True), "z: pods outside of all domains"),
    ],
)
def test_broken_rules_between_members_are_named(domains, reported):
    """Rules over sets of leaves are checked, too."""
    plain = group(TREE, 4, rack=LevelRule(), node=LevelRule())
    instance = Instance(plain.levels, plain.leaves, 4, (), (domains,))

    assert [reported] == checker.problems(instance, (2, 1, 1))


def test_resources_and_fixed_pods_are_counted():
    """New pods need capacity in every resource; bound ones are kept."""
    leaves = (Leaf(("a",), -1, (4, 2), fixed=1), Leaf(("b",), -1, (9, 9)))
    instance = Instance((Level("node"),), leaves, 4, (2, 1))

    assert [] == checker.problems(instance, (3, 1))
    assert ["a has 4, 3 pods need 6", "a has 2, 3 pods need 3"] == checker.problems(
        instance, (4, 0)
    )
    assert ["a releases bound pods"] == checker.problems(instance, (0, 4))


@pytest.mark.parametrize(("fixed", "found"), [((0, 1), False), ((1, 0), True), ((2, 0), True)])
def test_bound_pods_of_a_part_count_in_its_own_rules(fixed, found):
    """One pod per node, and the new one is on the first node."""
    rule = ClassRule(1, LevelRule("spread", max=1))
    part = LikeParts("part", 0, 1, 0, 1, (0,), (1,), fixed)
    one = GroupProblem(
        (Role(1, (1,), (9, 9)),),
        ((9,), (9,)),
        (Level("rack"), Level("node")),
        (("r0", "a"), ("r0", "b")),
        1,
        fixed=fixed,
        classes=(PodClass("part", (0,), rules=(rule,), fixed=fixed, part=1),),
        parts=(LikeParts("root"), part),
    )
    pieces = (PlacedPart(0), PlacedPart(1, 0, ((0, 0, 1),)))

    assert found == bool(checkparts.problems(one, ((1, 0),), pieces))
