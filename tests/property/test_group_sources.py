"""One group in two sources' formats has one result: other projects' objects mean the same as ours.

Random small clusters go through `simulate` twice, the group once in the other format and once in
ours (a PodGroup of coscheduling with annotations, or a ConfigMap). All pods go to the same nodes or
wait, the same pods are evicted, and the same is proven.
"""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from scheduler.testing import node
from tests.unit.plugins import groupobjects, kueueobjects
from tests.unit.plugins.volcanoobjects import GROUP_NAME, TASK, hyper_node, member, pod_group
from tests.unit.simulate.asking import place

Manifest = dict[str, Any]
CASES = 25
# The long form has them all.
BATCHES = [pytest.param(n, marks=() if n < 1 else pytest.mark.long) for n in range(20)]


def answer(*objects: Manifest) -> dict[str, Any]:
    """Return the result of a simulation without its messages."""
    done = place(*objects)
    (reported,) = (one for one in done.groups if one.name == "g")
    return {
        "pods": {one.name: one.node or one.result.value for one in done.pods},
        "status": reported.status,
        "victims": sorted(one["name"] for one in reported.victims),
        "objective": reported.objective,
        "optimal": reported.optimal,
        "size": reported.size,
        "conflict": reported.conflict,
    }


def cluster(random: Random) -> list[Manifest]:
    """Return a tree of racks and nodes, and pods of less importance on them."""
    racks = {
        f"r{rack}": {f"n{rack}{at}": random.randint(1, 4) for at in range(random.randint(1, 3))}
        for rack in range(random.randint(1, 3))
    }
    found = groupobjects.tree(racks)
    for name, cpus in groupobjects.leaves(racks):
        if random.random() < 0.4:
            cpu = str(random.randint(1, cpus))
            found.append(groupobjects.member(f"old-{name}", on=name, cpu=cpu))
    return found


def in_our_words(
    name: str, least: int, annotations: dict[str, str], spec: dict[str, Any]
) -> Manifest:
    """Return a PodGroup of coscheduling."""
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default", "annotations": annotations},
        "spec": {"minMember": least, **spec},
    }


def renamed(pods: list[Manifest]) -> list[Manifest]:
    """Return pods of Volcano's group that name one of coscheduling."""
    found = []
    for one in pods:
        meta = {key: value for key, value in one["metadata"].items() if key != "annotations"}
        labels = {
            **meta.get("labels", {}),
            "scheduling.x-k8s.io/pod-group": one["metadata"]["annotations"][GROUP_NAME],
        }
        found.append({**one, "metadata": {**meta, "labels": labels}})
    return found


@pytest.mark.parametrize("batch", BATCHES)
def test_a_pod_group_of_volcano_is_as_one_of_coscheduling(batch: int):
    """Minimum, tasks with numbers, needs, rules in annotations, priorities and victims."""
    random = Random(f"volcano {batch}")
    placed = 0
    for _ in range(CASES):
        objects = cluster(random)
        tasks = {task: random.randint(0, 2) for task in ("a", "b") if random.random() < 0.6}
        least = random.randint(1, 5)
        priority = random.choice((0, 5))
        pods = [
            member(
                f"g-{at}",
                "g",
                random.choice(("a", "b", "")),
                cpu=str(random.randint(1, 2)),
                priority=priority,
            )
            for at in range(random.randint(1, 6))
        ]
        rules = {"rack": {"type": random.choice(("pack", "spread"))}}
        annotations = {"sakkara.group/constraints": json.dumps(rules)}
        needs = (
            {"minResources": {"cpu": str(random.randint(1, 9))}} if random.random() < 0.3 else {}
        )
        binding = {task: number for task, number in tasks.items() if number}
        ours = dict(annotations)
        if binding and least >= sum(binding.values()):
            classes = {task: {"min": number} for task, number in binding.items()}
            ours |= {
                "sakkara.group/classes": json.dumps(classes),
                "sakkara.group/class-label": TASK,
            }
        theirs = pod_group("g", least, annotations=annotations, minTaskMember=tasks, **needs)

        got = answer(*objects, theirs, *pods)
        wanted = answer(*objects, in_our_words("g", least, ours, needs), *renamed(pods))

        assert wanted == got
        placed += got["status"] == "Bound"
    assert 0 < placed < CASES, "all cases have the same result"


def of_tree(objects: list[Manifest], random: Random) -> list[Manifest]:
    """Return a cluster with HyperNodes instead of its tree: racks are tier 1, all below one
    HyperNode of tier 2.
    """
    (described,) = (
        one for one in objects if "sakkara.topology" in one["metadata"].get("labels", {})
    )
    racks = json.loads(described["data"]["tree"])
    found = [one for one in objects if one is not described]
    for rack, below in racks.items():
        pattern = "|".join(f"^{name}$" for name in below)
        by_name = [{"type": "Node", "selector": {"exactMatch": {"name": name}}} for name in below]
        by_pattern = [{"type": "Node", "selector": {"regexMatch": {"pattern": pattern}}}]
        found.append(hyper_node(rack, 1, *random.choice((by_name, by_pattern))))
    inner = [{"type": "HyperNode", "selector": {"exactMatch": {"name": rack}}} for rack in racks]
    return [*found, hyper_node("all", 2, *inner)]


@pytest.mark.parametrize("batch", BATCHES)
def test_hypernodes_are_as_a_tree_in_a_config_map(batch: int):
    """A hard or soft rule up to a tier equals rules for racks below one root."""
    random = Random(f"hypernodes {batch}")
    placed = 0
    for _ in range(CASES):
        objects = cluster(random)
        least, count = random.randint(1, 5), random.randint(1, 6)
        priority = random.choice((0, 5))
        pods = [member(f"g-{at}", "g", priority=priority) for at in range(count)]
        near, rules = random.choice(
            (
                ({"mode": "hard", "highestTierAllowed": 1}, {"rack": {"hard": True}}),
                ({"mode": "hard", "highestTierAllowed": 2}, {}),
                ({"mode": "hard", "highestTierAllowed": 3}, {}),
                ({"mode": "soft"}, {}),
            )
        )
        theirs = pod_group("g", least, networkTopology=near)
        annotations = {"sakkara.group/constraints": json.dumps(rules)}

        got = answer(*of_tree(objects, random), theirs, *pods)
        wanted = answer(*objects, in_our_words("g", least, annotations, {}), *renamed(pods))

        # The single unit above all has the cost of the root, which does not affect the choice.
        for one in (got, wanted):
            del one["objective"], one["conflict"]
        assert wanted == got
        placed += got["status"] == "Bound"
    assert 0 < placed < CASES, "all cases have the same result"


@pytest.mark.parametrize("batch", BATCHES)
def test_a_pod_group_of_kueue_is_as_a_config_map(batch: int):
    """The group requires a number of pods, one unit of a level, whole slices in units of another,
    or nothing.
    """
    random = Random(f"kueue {batch}")
    placed = 0
    for _ in range(CASES):
        zones = [f"z{at}" for at in range(random.randint(1, 2))]
        objects = [
            node(
                f"{zone}{rack}{at}",
                cpu=str(random.randint(1, 3)),
                memory="64Gi",
                pods="110",
                labels={kueueobjects.ZONE: zone, kueueobjects.RACK: rack},
            )
            for zone in zones
            for rack in "rs"[: random.randint(1, 2)]
            for at in range(random.randint(1, 2))
        ]
        objects.append(kueueobjects.topology("fabric", kueueobjects.ZONE, kueueobjects.RACK))
        total = random.randint(1, 6)
        asked, rules = random.choice(
            (
                ({}, {}),
                ({"podset_preferred_topology": kueueobjects.RACK}, {}),
                (
                    {"podset_required_topology": kueueobjects.RACK},
                    {"zone": {"hard": True}, "rack": {"hard": True}},
                ),
                ({"podset_required_topology": kueueobjects.ZONE}, {"zone": {"hard": True}}),
                (
                    {
                        "podset_required_topology": kueueobjects.ZONE,
                        "podset_slice_required_topology": kueueobjects.RACK,
                        "podset_slice_size": "2",
                    },
                    {"zone": {"hard": True}, "rack": {"factor": 2}},
                ),
            )
        )
        total += total % 2 if "podset_slice_size" in asked else 0
        theirs = kueueobjects.members("g", total, **asked)
        ours = [{**one, "metadata": {**one["metadata"], "annotations": {}}} for one in theirs]
        for one in ours:
            one["metadata"]["labels"] = {"sakkara.group.name": "g"}
        map_of_group = groupobjects.group("g", total, rules)
        if asked:
            map_of_group["data"]["topology"] = "fabric"

        got = answer(*objects, *theirs)
        wanted = answer(*objects, map_of_group, *ours)

        assert wanted == got
        placed += got["status"] == "Bound"
    assert 0 < placed < CASES, "all cases have the same result"
