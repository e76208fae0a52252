"""Trees by name: a group names the tree of its placement, whatever the tree of the profile."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.plugins.groupobjects import config_map, members, tree
from tests.unit.plugins.test_groups import DESIGN, counts, report
from tests.unit.simulate.asking import place, pod, results, setup

BLOCK, RACK = "cloud.provider.com/topology-block", "cloud.provider.com/topology-rack"
HOST = "kubernetes.io/hostname"
# Racks of one name in two blocks, and a node without the labels.
NODES = {"a": ("b0", "r0", 2), "b": ("b0", "r1", 2), "c": ("b1", "r0", 3), "d": ("b1", "r0", 1)}


def nodes():
    """Return the nodes with the labels of both levels, and one without."""
    cpus = {name: amount for name, (_, _, amount) in NODES.items()}
    found = tree({**cpus, "stray": 9}, "node")[:-1]
    for one in found[:-1]:
        block, rack, _ = NODES[one["metadata"]["name"]]
        one["metadata"]["labels"] = {BLOCK: block, RACK: rack}
    return found


def topology(name="fabric", *labels, version="v1beta1"):
    """Return Kueue's Topology with these levels."""
    levels = [{"nodeLabel": label} for label in labels or (BLOCK, RACK, HOST)]
    return {
        "apiVersion": f"kueue.x-k8s.io/{version}",
        "kind": "Topology",
        "metadata": {"name": name},
        "spec": {"levels": levels},
    }


def group(size, rules, tree_name="fabric", name="g"):
    """Return a group's ConfigMap that names its tree."""
    data = {"name": name, "size": str(size), "constraints": json.dumps(rules)}
    return config_map(name, "sakkara.group", data | {"topology": tree_name})


IN_ONE_RACK = {"topology-block": {"type": "pack", "hard": True}, "topology-rack": {"hard": True}}


@pytest.mark.parametrize("version", ["v1alpha1", "v1beta1", "v1beta2"])
def test_a_group_is_placed_in_the_tree_of_kueues_topology(version):
    """The units of the tree are paths: racks of one name in two blocks are two racks; strays are
    outside.
    """
    done = place(*nodes(), topology(version=version), group(4, IN_ONE_RACK), *members("g", 4))

    assert {"c": 3, "d": 1} == counts(done)
    assert report(done).optimal
    wide = {"topology-block": {"min": 1, "max": 4}, "topology-rack": {"min": 2, "max": 2}}
    done = place(*nodes(), topology(version=version), group(6, wide), *members("g", 6))
    assert {"a": 2, "b": 2} == {key: n for key, n in counts(done).items() if key in "ab"}


def test_a_topology_without_the_nodes_as_a_level_is_the_same():
    """Nodes are the last level whether Kueue names them or not."""
    done = place(*nodes(), topology("fabric", BLOCK, RACK), group(4, IN_ONE_RACK), *members("g", 4))

    assert {"c": 3, "d": 1} == counts(done)


def test_a_profile_may_name_the_tree_of_all_groups_that_name_none():
    """The argument is the default for groups without a tree."""
    config = DESIGN.replace("topologyConfigMapNameSpace: %s", "topology: fabric")
    flat = {"name": "flat", "level-names": '["node"]', "tree": '{"a": {}, "stray": {}}'}
    ours = config_map("flat", "sakkara.topology", flat)
    cluster = [*nodes(), ours, topology()]
    done = place(*cluster, group(4, IN_ONE_RACK, ""), *members("g", 4), using=setup(config=config))
    assert {"c": 3, "d": 1} == counts(done)
    done = place(
        *cluster, group(9, {"node": {"hard": True}}, "flat"), *members("g", 9),
        using=setup(config=config),
    )  # fmt: skip
    assert {"stray": 9} == counts(done)


def test_several_config_maps_are_trees_by_their_names():
    """Without a name the first counts, as before."""
    first = {"name": "one", "level-names": '["node"]', "tree": '{"a": {}, "b": {}}'}
    other = {"name": "two", "level-names": '["node"]', "tree": '{"c": {}, "d": {}}'}
    cluster = [
        *nodes(),
        config_map("t1", "sakkara.topology", first),
        config_map("t2", "sakkara.topology", other),
    ]
    assert {"a", "b"} == set(counts(place(*cluster, group(3, {}, ""), *members("g", 3))))
    assert {"c"} == set(counts(place(*cluster, group(3, {"node": {}}, "two"), *members("g", 3))))


def test_an_unknown_tree_blocks_the_group_and_the_existing_ones_are_listed():
    """The message names as many trees as fit."""
    many = [topology(f"t{number}") for number in range(12)]
    done = place(*nodes(), *many, group(2, {}, "nowhere"), *members("g", 2))

    message = done.pods[0].message
    assert (
        "no topology is called nowhere (there are: t0, t1, t2, t3, t4, t5, t6, t7 and 4 others)"
        in message
    )
    assert {"Unschedulable"} == set(results(done).values())


def pod_group(annotations, key=""):
    """Return a PodGroup of Kubernetes' own with annotations."""
    spec: dict[str, Any] = {"schedulingPolicy": {"gang": {"minCount": 4}}}
    if key:
        spec["schedulingConstraints"] = {"topology": [{"key": key}]}
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default", "annotations": annotations},
        "spec": spec,
    }


def gang(count):
    """Return pods that name the PodGroup."""
    more = {"schedulingGroup": {"podGroupName": "g"}}
    return [pod(f"g-{n}", requests={"cpu": "1"}, spec=more) for n in range(count)]


RULES = {
    "sakkara.group/topology": "fabric",
    "sakkara.group/constraints": json.dumps(IN_ONE_RACK),
}


def test_pod_groups_say_in_annotations_what_their_fields_have_no_words_for():
    """The tree and rules for its levels; a topology key beside them would be a second tree."""
    done = place(*nodes(), topology(), pod_group(RULES), *gang(4))
    assert {"c", "d"} == {one.node for one in done.pods}

    done = place(*nodes(), topology(), pod_group(RULES, key=RACK), *gang(4))
    assert "exclude each other" in done.pods[0].message

    older = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default", "annotations": RULES},
        "spec": {"minMember": 4},
    }
    named = {"scheduling.x-k8s.io/pod-group": "g"}
    pods = [pod(f"g-{n}", requests={"cpu": "1"}, labels=named) for n in range(4)]
    done = place(*nodes(), topology(), older, *pods)
    assert {"c", "d"} == {one.node for one in done.pods}
