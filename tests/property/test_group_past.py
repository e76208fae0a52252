"""`never_whole` compared with the history of a group: a member of a once complete group never
counts as one of an incomplete group. The minimum of a group is the same alone and in a tree.
"""

import itertools
from collections.abc import Sequence
from random import Random
from types import SimpleNamespace
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from scheduler.base.clock import rfc3339
from scheduler.groups.description.history import GroupHistory
from scheduler.groups.description.past import never_whole
from scheduler.groups.description.spec import GroupNode, GroupSpec
from scheduler.groups.sources import registry
from scheduler.objects.pod import Pod, PodCondition
from scheduler.state.podindex import Placed, place
from scheduler.state.shapes import Shapes
from tests.property.making import make_pod, with_meta, with_status

START = 1_767_225_600
SECONDS = 30


class Member(NamedTuple):
    """A pod of the group: when it was created and bound, in seconds since the start."""

    uid: int
    created: int
    bound: int | None = None


class History(NamedTuple):
    """The remaining pods of a group, and whether a bound member was once part of the complete
    group.

    A complete group without any remaining member does not count: no pod of it can be evicted.
    """

    members: Sequence[Member]
    was_whole: bool


def history_of(random: Random, size: int) -> History:
    """Create, bind and delete members at random; there are never more than `size`."""
    members: list[Member] = []
    whole: set[Member] = set()
    for second in range(1, SECONDS):
        waiting = [one for one in members if one.bound is None]
        match random.choice("cccbbd"):
            case "c" if len(members) < size:
                members.append(Member(second, second))
            case "b" if waiting:
                chosen = random.choice(waiting)
                members[members.index(chosen)] = chosen._replace(bound=second)
            case "d" if members:
                members.remove(random.choice(members))
        bound = {one for one in members if one.bound is not None}
        if len(bound) >= size:
            whole |= bound
    return History(members, bool(whole.intersection(members)))


def pod_of(member: Member, name: str, *, has_time: bool) -> Pod:
    """Return a member's pod; without `has_time` its status has no time of its binding."""
    pod = make_pod(name, node="" if member.bound is None else "n")
    pod = with_meta(pod, creation_timestamp=rfc3339(START + member.created))
    if member.bound is None or not has_time:
        return pod
    time = rfc3339(START + member.bound)
    condition = PodCondition("PodScheduled", "True", last_transition_time=time)
    return with_status(pod, conditions=(condition,))


@settings(max_examples=400, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_group_reported_as_never_complete_never_was(seed: int):
    """The invariant holds for every history, also if some pods do not state when they were
    bound.
    """
    check(seed)


def test_never_whole_is_found_at_all():
    """Some of two thousand histories are recognised: the invariant is not empty."""
    assert sum(map(check, range(2000))) >= 20


def check(seed: int) -> bool:
    """Compare one history with the verdict; return the verdict."""
    random = Random(seed)
    size = random.choice((2, 3, 3))
    history = history_of(random, size)
    shapes = Shapes()
    waiting: list[Pod] = []
    placed: list[Placed] = []
    for number, member in enumerate(history.members):
        pod = pod_of(member, f"g-{number}", has_time=random.random() < 0.5)
        if member.bound is None:
            waiting.append(pod)
        else:
            placed.append(place(pod, shapes.of(pod), "n"))
    # The caller decides a group with bound and with waiting members.
    is_half = bool(placed and waiting)
    verdict = is_half and never_whole(placed, waiting, size, [rfc3339(START)])
    assert not (verdict and history.was_whole), (seed, history)
    return verdict


def test_the_minimum_of_a_group_is_the_same_alone_and_as_the_only_group_of_a_tree():
    """For every number of running, finished and waiting members, and with and without the label of
    a group that was complete.
    """
    reduced = 0
    counts = itertools.product(range(1, 5), range(4), range(3), range(4), (False, True))
    for least, running, finished, waiting, is_marked in counts:
        marked = {"sakkara.member.status": "Bound"} if is_marked else {}
        members = [
            make_pod(
                f"g-{number}",
                node="n" if number < running else "",
                labels={"sakkara.group.name": "g"}
                | (marked if number < running + finished else {}),
            )
            for number in range(running + finished + waiting)
        ]
        shapes = Shapes()
        bound = [place(pod, shapes.of(pod), "n") for pod in members[:running]]
        completed = [
            with_status(pod, phase="Succeeded") for pod in members[running : running + finished]
        ]
        handle: Any = SimpleNamespace(evicted=tuple)
        found: Any = SimpleNamespace(
            finished=lambda _, done=completed: done,
            bound=lambda _, there=bound: there,
            described_by=lambda _: [],
        )
        key = registry.group_of(members[0]) if members else ""
        alone = GroupSpec("default", "g", least)
        tree = replace(alone, tree=GroupNode(key, "g", least))

        alone_now = GroupHistory(handle, found).current_spec(
            key, alone, bound, members[running + finished :]
        )
        inside = GroupHistory(handle, found).current_spec(
            key, tree, bound, members[running + finished :]
        )

        assert [one.size for one in alone_now] == [one.tree.least for one in inside if one.tree]
        reduced += alone_now[0].size < alone_now[1].size
    assert reduced
