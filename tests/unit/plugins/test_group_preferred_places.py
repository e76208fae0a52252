"""The places that roles prefer, in the order in which they are tried, beside a count by hand."""

from random import Random
from typing import Any, cast

import numpy as np

from scheduler.groups.planning.preferences import narrowed, places
from scheduler.groups.planning.roles.roles import RoleMembers

ROWS = 3


def role(rng: Random) -> RoleMembers:
    """Return a role of one to three members; most have a cost for each number of them on a row."""
    pods = rng.randint(1, 3)
    further = [[rng.choice((0, 1, 1, 2, 5)) for _ in range(ROWS)] for _ in range(pods)]
    slots = np.array([rng.randint(0, pods) for _ in range(ROWS)])
    costs = np.cumsum(further, axis=0) if rng.random() < 0.8 else None
    return RoleMembers(cast(Any, tuple(range(pods))), {}, slots, slots, "", costs=costs)


def lacking(one: RoleMembers) -> list[list[int]]:
    """Return by row what each further member lacks, at least what the members before it lack."""
    found = []
    for row, slots in enumerate(one.slots.tolist()):
        own: list[int] = []
        for number in range(slots):
            before = int(one.costs[number - 1, row]) if number else 0  # type: ignore[index]
            more = int(one.costs[number, row]) - before  # type: ignore[index]
            own.append(max([more, *own]))
        found.append(own)
    return found


def test_each_value_but_the_worst_is_tried_in_order():
    """With each value a role has the places that lack no more, if they suffice for all roles."""
    yielded = 0
    for number in range(200):
        rng = Random(f"preferred places {number}")
        roles = [role(rng) for _ in range(rng.randint(1, 2))]
        each = [None if one.costs is None else lacking(one) for one in roles]
        values = sorted({value for own in each if own for row in own for value in row})
        expected = []
        for limit in values[:-1]:
            slots = [
                one.slots.tolist()
                if own is None
                else [sum(value <= limit for value in row) for row in own]
                for one, own in zip(roles, each, strict=True)
            ]
            if all(sum(some) >= len(one.pods) for some, one in zip(slots, roles, strict=True)):
                expected.append(slots)

        assert expected == [[one.slots.tolist() for one in some] for some in narrowed(roles)]
        yielded += len(expected) > 1
    assert yielded > 5


def test_one_role_is_tried_with_the_places_of_each_value():
    """Beside the trials with further limits, the places are those of a group with several roles."""
    yielded = 0
    for number in range(200):
        one = role(Random(f"one role {number}"))
        if one.costs is None:
            continue
        found = places(one.costs, one.slots, len(one.pods), is_ruled=True)
        plain = [each.slots.tolist() for each in found if each.worse is None]
        assert plain == [next(some.slots.tolist() for some in each) for each in narrowed([one])]
        yielded += len(plain)
    assert yielded > 50


def test_all_better_places_are_used_only_if_no_rule_binds():
    """`least` requires members on them: there are no more than the group has."""
    required = 0
    for number in range(200):
        rng = Random(f"least {number}")
        one = role(rng)
        if one.costs is None:
            continue
        count, is_ruled = len(one.pods), rng.random() < 0.5
        for found in places(one.costs, one.slots, count, is_ruled=is_ruled):
            if found.least is not None:
                assert not is_ruled
                assert int(found.least.sum()) <= count
                required += int(found.least.sum()) > 0
    assert required > 5
