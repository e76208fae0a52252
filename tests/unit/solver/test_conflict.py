"""Groups that fit nowhere: the message names the smallest conflict, and its advice makes them
fit.
"""

import itertools
from collections.abc import Sequence

import msgspec
import pytest
from msgspec.structs import replace

from scheduler.groups.problem import conflict
from scheduler.groups.problem.answer import Advice, Conflict
from scheduler.groups.problem.instance import NEUTRAL, DomainRule, Instance, Level, LevelRule
from scheduler.groups.solver.explain import explain
from scheduler.groups.solver.solve import solve
from tests.unit.solver.making import group

NODES = {"a": 4, "b": 4, "c": 2}
RACKS = {"r0": {"a": 4, "b": 4}, "r1": {"c": 3, "d": 2}}
HARD_PACK, HARD_SPREAD = LevelRule("pack", hard=True), LevelRule("spread", hard=True)

CASES = {
    "too large": (
        group(NODES, 12, node=LevelRule()),
        "12 pods do not fit: the nodes have capacity for 10; a group of 10 would fit",
    ),
    "odd for a factor": (
        group(NODES, 9, node=LevelRule(factor=2)),
        (
            "9 pods do not fit: node factor 2 cannot hold; without node factor 2 all fit; "
            "a group of 8 or 10 would fit"
        ),
    ),
    "no node is large enough": (
        group(NODES, 8, node=HARD_PACK),
        (
            "8 pods do not fit: node hard pack cannot hold; without node hard pack all fit; "
            "a group of 4 would fit"
        ),
    ),
    "more than one pod each": (
        group(NODES, 5, node=HARD_SPREAD),
        (
            "5 pods do not fit: node hard spread cannot hold; without node hard spread all fit; "
            "a group of 3 would fit"
        ),
    ),
    "more partitions than units": (
        group(NODES, 6, node=LevelRule(partitions=4)),
        "6 pods do not fit: node partitions 4 cannot hold; without node partitions 4 all fit",
    ),
    "between two ranges": (
        group(NODES, 5, node=LevelRule(min=3, max=4)),
        (
            "5 pods do not fit: node min 3 cannot hold; "
            "without node min 3 all fit; a group of 4 or 6 would fit"
        ),
    ),
    "partitions against a factor": (
        group(NODES, 4, node=LevelRule(partitions=2, factor=3)),
        (
            "4 pods do not fit: node factor 3 cannot hold; without node factor 3 all fit; "
            "a group of 6 would fit"
        ),
    ),
    "a rack too small for the rack rule": (
        group(RACKS, 10, rack=HARD_PACK, node=LevelRule()),
        (
            "10 pods do not fit: rack hard pack cannot hold; without rack hard pack all fit; "
            "a group of 8 would fit"
        ),
    ),
    "rules of two levels": (
        group(RACKS, 8, rack=LevelRule(partitions=2), node=LevelRule(factor=4)),
        (
            "8 pods do not fit: rack partitions 2 and node factor 4 cannot hold together; "
            "without rack partitions 2 or node factor 4 all fit"
        ),
    ),
    "three numbers at once": (
        group({"a": 6, "b": 6}, 10, node=LevelRule(min=3, max=5, factor=2)),
        (
            "10 pods do not fit: node max 5 and node factor 2 cannot hold together; "
            "without node max 5 or node factor 2 all fit; a group of 8 would fit"
        ),
    ),
    "a number beside a hard type that has no effect while it is there": (
        group(NODES, 5, node=LevelRule("spread", hard=True, max=1)),
        (
            "5 pods do not fit: node max 1 cannot hold; "
            "without node max 1 and node hard spread all fit; a group of 3 would fit"
        ),
    ),
    "a range beside a hard type: half of it has no effect": (
        group(NODES, 5, node=LevelRule("spread", hard=True, min=1, max=1)),
        (
            "5 pods do not fit: node max 1 cannot hold; "
            "without node max 1 and node hard spread all fit; a group of 3 would fit"
        ),
    ),
    "a hard type that another number covers": (
        group(NODES, 5, node=LevelRule("spread", hard=True, min=1, max=1, partitions=3)),
        (
            "5 pods do not fit: node max 1 cannot hold; without node max 1 all fit; "
            "a group of 3 would fit"
        ),
    ),
}


def edited(instance: Instance, given_up: Sequence[Conflict]) -> Instance:
    """Return a problem as its author would edit it: without the named numbers and hard types.

    A minimum without its maximum has no effect, nor the other way round.
    """
    names = {(one.level, one.rule) for one in given_up}
    levels = []
    for level in instance.levels:
        dropped = {key for key in NEUTRAL if (level.name, key) in names}
        dropped |= {"min", "max"} if dropped & {"min", "max"} else set()
        bare = {key: NEUTRAL[key] for key in dropped}
        hard = level.rule.hard and (level.name, "hard") not in names
        rule = msgspec.structs.replace(level.rule, hard=hard, **bare)
        levels.append(Level(level.name, rule))
    kept = [one for one in instance.domains if ("", "between members") not in names]
    return msgspec.structs.replace(instance, levels=tuple(levels), domains=tuple(kept))


@pytest.mark.parametrize("name", CASES)
def test_the_message_names_the_smallest_conflict_and_what_helps(name):
    """One sentence names the obstacle, the rules to relax, and the size that would fit."""
    instance, text = CASES[name]

    assert text == conflict.message(explain(instance), instance.size)


@pytest.mark.parametrize("name", CASES)
def test_following_the_advice_makes_the_group_fit(name):
    """The group fits after each single suggestion."""
    instance, _ = CASES[name]
    advice = explain(instance)
    changed = [
        msgspec.structs.replace(instance, size=size)
        for size in (advice.smaller, advice.larger)
        if size
    ]
    if advice.give_up:
        changed.append(edited(instance, advice.give_up))
    changed += [edited(instance, (one,)) for one in advice.conflict if one.fits_without]

    assert changed
    assert ["placed"] * len(changed) == [solve(each).outcome for each in changed]
    assert "infeasible" == solve(instance).outcome


@pytest.mark.parametrize(
    ("size", "least", "rule", "text"),
    [
        (14, 12, LevelRule(),
            ("fewer than 12 of 14 pods fit: the nodes have capacity for 10; "
             "a group of 10 would fit")),
        (3, 1, LevelRule(factor=4), ("none of 3 pods fits: node factor 4 cannot hold; "
         "without node factor 4 at least 1 fits; a group of 4 would fit")),
        (12, 6, HARD_PACK, ("fewer than 6 of 12 pods fit: node hard pack cannot hold; "
         "without node hard pack at least 6 fit; a group of 4 would fit")),
    ],
)  # fmt: skip
def test_of_an_elastic_group_the_minimum_counts(size, least, rule, text):
    """For an elastic group, the message states whether its minimum would fit without the rule."""
    instance = msgspec.structs.replace(group(NODES, size, node=rule), minimum=least)

    assert text == conflict.message(explain(instance), size, least)


def test_a_group_that_fits_has_no_conflict():
    """A feasible group gets no advice."""
    instance = group(NODES, 4, node=LevelRule(factor=2))
    advice = explain(instance)

    assert () == advice.conflict
    assert "the group of 4 fits" == conflict.message(advice, 4)


def test_a_rule_between_members_can_be_the_conflict():
    """Zone anti-affinity with more members than zones is named."""
    plain = group(NODES, 4, node=LevelRule())
    zones = DomainRule("anti-affinity by zone", ((0, 1), (2,)), at_most=1)
    instance = Instance(plain.levels, plain.leaves, 4, (), (zones,))
    text = conflict.message(explain(instance), 4)

    assert "between members anti-affinity by zone cannot hold" in text


def test_one_pod_is_one():
    """The message has the singular for a group of one pod."""
    instance = group({"a": 0}, 1, node=LevelRule())

    text = "1 pod does not fit: the nodes have capacity for 0"
    assert text == conflict.message(explain(instance), 1)


RULES = (
    Conflict("rack", "hard", "pack"),
    Conflict("node", "max", "2"),
    Conflict("rack", "min", "3"),
)


def test_the_reasons_name_the_conflict_and_what_to_give_up():
    """For every conflict of up to three rules, every rule that suffices alone, and every set to
    give up: "without" stands before the rules that help, and nowhere else.
    """
    compared = 0
    for size, alone, given in itertools.product(range(4), range(-1, 3), range(4)):
        rules = [replace(one, fits_without=at == alone) for at, one in enumerate(RULES[:size])]
        text = conflict.reasons(Advice(tuple(rules), give_up=RULES[:given]), "enough fit")
        own = " and ".join(map(conflict.name_of, rules))
        together = " together" if size > 1 else ""
        helps = [conflict.name_of(one) for one in rules if one.fits_without]
        helps = helps or [conflict.name_of(one) for one in RULES[:given]]
        without = f"; without {' and '.join(helps)} enough fit" if helps else ""
        assert text == (f"{own} cannot hold{together}{without}" if size else "")
        compared += bool(without)
    assert compared
