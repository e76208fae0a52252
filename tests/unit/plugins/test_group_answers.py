"""The answers of the group plugin to the engine: started groups, and priorities."""

from types import SimpleNamespace
from typing import Any

from msgspec.structs import replace

from scheduler.framework import Status
from scheduler.objects.plain import read_pod
from scheduler.testing import Scenario, node
from tests.unit.plugins.groupobjects import group, member

NAMES = ("part", "full", "lost", "none")


def test_partially_bound_groups_were_never_complete():
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
    scenario = Scenario(*objects)
    plugin: Any = scenario.plugin("ClusterTopologyPlacementGroup")

    assert ["part"] == [key.rpartition("/")[2] for key in plugin.groups_partially_bound()]


def test_a_group_has_the_priority_of_its_object_but_no_more_than_its_members():
    """The group of a ConfigMap counts with its priority, an unknown one with its members'."""
    config_map = group("g", 2, priority=3) | {"kind": "GroupConfigMap"}
    scenario = Scenario(node("n"), config_map)
    plugin: Any = scenario.plugin("ClusterTopologyPlacementGroup")
    high, low = ([read_pod(member("g-0", "g", priority=one))] for one in (5, 1))
    key = plugin.group_of(high[0])

    assert [3, 1] == [plugin.group_priority(key, pods) for pods in (high, low)]
    assert 5 == plugin.group_priority("unknown", high)


def wanted(scenario: Scenario, *pods: Any) -> Any:
    """Return the answer of the group's gate for these members."""
    plugin: Any = scenario.plugin("ClusterTopologyPlacementGroup")
    return plugin.group_wanted(plugin.group_of(pods[0]), pods)


def test_a_terminating_member_does_not_count():
    """One of two members is being deleted: the group waits for another."""
    members = [read_pod(member(f"g-{at}", "g")) for at in range(2)]
    scenario = Scenario(node("n"), group("g", 2) | {"kind": "GroupConfigMap"})
    assert {pod.metadata.uid for pod in members} == set(wanted(scenario, *members))

    last = members[1]
    meta = replace(last.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
    assert isinstance(wanted(scenario, members[0], replace(last, metadata=meta)), Status)


def test_a_group_with_its_minimum_and_without_waiting_members_wants_none():
    """The group's only member is bound, and no other waits."""
    gang = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default"},
        "spec": {"minMember": 1},
    }
    bound = member("g-0", on="n")
    bound["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": "g"}
    scenario = Scenario(node("n"), gang, bound)
    (placed,) = scenario.handle.pods
    status = wanted(scenario, placed.pod)

    assert isinstance(status, Status)
    assert "has all its 1 members" in str(status.reasons)


def test_the_queue_orders_a_group_by_its_own_priority():
    """A group whose ConfigMap has priority 3 is queued with 3, although a member has priority 5."""
    scenario = Scenario(node("n"), group("g", 2, priority=3) | {"kind": "GroupConfigMap"})
    plugin: Any = scenario.plugin("ClusterTopologyPlacementGroup")
    pods = [read_pod(member("g-0", "g", priority=5)), read_pod(member("alone", priority=5))]
    urgencies = [
        plugin.urgency(SimpleNamespace(pod=pod, priority=pod.priority, queued_at=0.0))
        for pod in pods
    ]

    assert [-3, -5] == [urgency[0] for urgency in urgencies]


def test_the_facts_of_a_group_have_the_tree_of_its_last_plan():
    """Before a plan there is none; an unknown group has no facts."""
    scenario = Scenario(node("n"), group("g", 1) | {"kind": "GroupConfigMap"})
    plugin: Any = scenario.plugin("ClusterTopologyPlacementGroup")
    key = plugin.group_of(read_pod(member("g-0", "g")))
    assert plugin.group_facts(key).tree is None

    scenario.apply(member("g-0", "g"))
    scenario.run()

    assert scenario.node_of("default/g-0") == "n"
    assert plugin.group_facts(key).tree is not None
    assert plugin.group_facts("unknown") is None
