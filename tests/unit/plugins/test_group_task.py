"""The minimum of a planning task, and whether enough members exist for it."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from scheduler.groups.description.spec import GroupSpec
from scheduler.groups.planning.task import GroupTask


def task(spec: GroupSpec, members: int, bound: int) -> GroupTask:
    """Return a task of a group with waiting and bound members."""
    context = cast(Any, SimpleNamespace(members=("pod",) * members))
    there = cast(Any, ("placed",) * bound)
    return GroupTask("default/g", spec, cast(Any, None), context, {}, there, [])


@pytest.mark.parametrize("bound", range(4))
@pytest.mark.parametrize("members", range(4))
def test_a_group_is_short_if_fewer_members_exist_than_it_needs(members, bound):
    """Bound and waiting members count; a group of groups has its minimums in its subgroups."""
    spec = GroupSpec("default", "g", 3)
    tree = GroupSpec("default", "g", 3, tree=cast(Any, "subgroups"))

    assert (members + bound < 3) == task(spec, members, bound).is_short
    assert not task(tree, members, bound).is_short
    assert 3 - bound == task(spec, members, bound).missing


@pytest.mark.parametrize(
    ("is_minimum", "wants_all", "bound", "least"),
    [(True, False, 1, 2), (True, False, 3, 1), (True, True, 1, 0), (False, False, 1, 0)],
)
def test_only_a_minimum_leaves_members_out(is_minimum, wants_all, bound, least):
    """If the size is a minimum, members beyond it may stay pending, but at least one is placed; 0
    stands for all members.
    """
    spec = GroupSpec("default", "g", 3, is_minimum=is_minimum)
    found = task(spec, 4, bound)
    found = GroupTask(
        found.key, spec, found.tree, found.context, {}, found.bound, [], wants_all=wants_all
    )

    assert least == found.least
