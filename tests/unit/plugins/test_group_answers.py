"""The answers of the group plugin to the engine: started groups, and priorities."""

from typing import Any

from scheduler.objects.plain import read_pod
from scheduler.testing import Scenario, node
from tests.unit.plugins.groupsworld import group, member

NAMES = ("part", "full", "lost", "none")


def test_only_groups_that_are_bound_in_part_and_were_never_whole_are_begun():
    """Groups without bound members, complete ones, and ones that lost a member are not."""
    was_whole = member("lost-0", "lost", on="n")
    was_whole["metadata"]["labels"]["sakkara.member.status"] = "Bound"
    bound = [member(f"{name}-0", name, on="n") for name in ("part", "full")]
    objects: list[Any] = [
        node("n"),
        *(group(name, 2) | {"kind": "GroupConfigMap"} for name in NAMES),
        *bound,
        member("full-1", "full", on="n"),
        was_whole,
        member("none-0", "none"),
    ]
    world = Scenario(*objects)
    plugin: Any = world.plugin("ClusterTopologyPlacementGroup")

    assert ["part"] == [key.rpartition("/")[2] for key in plugin.groups_begun()]


def test_a_group_has_the_priority_of_its_object_but_no_more_than_its_members():
    """The group of a ConfigMap counts with its priority, an unknown one with its members'."""
    config_map = group("g", 2, priority=3) | {"kind": "GroupConfigMap"}
    world = Scenario(node("n"), config_map)
    plugin: Any = world.plugin("ClusterTopologyPlacementGroup")
    high, low = ([read_pod(member("g-0", "g", priority=one))] for one in (5, 1))
    key = plugin.group_of(high[0])

    assert [3, 1] == [plugin.group_priority(key, pods) for pods in (high, low)]
    assert 5 == plugin.group_priority("unknown", high)
