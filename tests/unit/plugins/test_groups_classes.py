"""Groups that describe their members: sizes and rules by class, rules between classes, traffic,
costs.
"""

import json
from collections import Counter
from typing import Any

import pytest

from scheduler.groups.description.classes import LABELS, LWS_INDEX, class_of
from scheduler.groups.topology.placement import in_order
from tests.property.making import make_pod
from tests.unit.plugins.groupobjects import config_map, tree
from tests.unit.simulate.asking import place, pod, results

RAY = "ray.io/node-type"
# Two racks of two nodes with four CPUs each.
RACKS = {"r0": {"a": 4, "b": 4}, "r1": {"c": 4, "d": 4}}
SAKKARA = {"sakkara.group.name": "g"}
COSCHEDULING = {"scheduling.x-k8s.io/pod-group": "g"}


def encoded(**keys):
    """Return the keys of a group as text."""
    return {
        key.replace("_", "-"): one if isinstance(one, str) else json.dumps(one)
        for key, one in keys.items()
    }


def by_config_map(size, **keys):
    """Return the ConfigMap of a group with classes."""
    data = {"name": "g", "size": str(size), "constraints": "{}"} | encoded(**keys)
    return config_map("g", "sakkara.group", data)


def by_pod_group(least, api_version, **keys):
    """Return a PodGroup with classes, which are in its annotations."""
    annotations = {f"sakkara.group/{key}": text for key, text in encoded(**keys).items()}
    is_own = api_version.startswith("scheduling.k8s.io")
    spec = {"schedulingPolicy": {"gang": {"minCount": least}}} if is_own else {"minMember": least}
    return {
        "apiVersion": api_version,
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default", "annotations": annotations},
        "spec": spec,
    }


def part(name, of, count=1, cpu="1", on="", label=RAY, group=SAKKARA, spec=None):
    """Return members of a class."""
    return [
        pod(
            f"{name}-{at}",
            labels={label: of} | group,
            node_name=on,
            requests={"cpu": cpu},
            spec={"priority": 0} | (spec or {}),
        )
        for at in range(count)
    ]


def report(done):
    """Return the report of the only group."""
    (found,) = done.groups
    return found


def racks(done):
    """Return the rack of each member that is placed."""
    where = {node: rack for rack, nodes in RACKS.items() for node in nodes}
    return {name: where[node] for name, node in results(done).items() if node}


SPREAD_WORKERS = {
    "head": {"min": 1, "max": 1},
    "worker": {"constraints": {"rack": {"type": "spread", "partitions": 2}}},
}


@pytest.mark.parametrize(
    ("made", "group"),
    [
        (by_config_map(5, classes=SPREAD_WORKERS), SAKKARA),
        (by_pod_group(5, "scheduling.x-k8s.io/v1alpha1", classes=SPREAD_WORKERS), COSCHEDULING),
        (by_pod_group(5, "scheduling.k8s.io/v1alpha2", classes=SPREAD_WORKERS), {}),
    ],
    ids=["ConfigMap", "coscheduling", "Kubernetes"],
)
def test_a_role_keeps_its_own_rule_for_every_source(made, group):
    """Workers need two racks, the head any node: their rule counts no head."""
    own = {} if group else {"schedulingGroup": {"podGroupName": "g"}}
    head = part("head", "head", cpu="3", group=group, spec=own)
    workers = part("worker", "worker", 4, group=group, spec=own)
    done = place(*tree(RACKS), made, *head, *workers)

    assert 5 == done.summary.scheduled, done.pods
    found = racks(done)
    assert {"r0", "r1"} == {rack for name, rack in found.items() if name.startswith("worker")}
    assert report(done).optimal
    assert "rack of worker squares" in report(done).terms
    assert len(report(done).terms) == len(report(done).objective)


@pytest.mark.parametrize(
    ("rule", "level", "together"),
    [("same", "rack", {1}), ("other", "rack", {2}), ("with", "node", {1, 2})],
)
def test_rules_between_classes_hold(rule, level, together):
    """Rules between two classes hold: same rack, other rack, or the head beside a worker."""
    between = [{"rule": rule, "classes": ["head", "worker"], "level": level}]
    done = place(
        *tree(RACKS),
        by_config_map(4, classes={"head": {}, "worker": {}}, between=between),
        *part("head", "head"),
        *part("worker", "worker", 3),
    )

    found, nodes = racks(done), results(done)
    assert 4 == done.summary.scheduled, done.pods
    assert len(set(found.values())) in together
    workers = {rack for name, rack in found.items() if name.startswith("worker")}
    assert (found["head-0"] in workers) == (rule != "other")
    if rule == "with":
        assert nodes["head-0"] == nodes["worker-0"]


def test_the_first_worker_is_beside_the_head():
    """The head fits in the second rack only, and fills its node: the first worker is on the other
    node of that rack.
    """
    between = [{"rule": "with", "classes": ["head", "worker"], "level": "rack"}]
    units = {"r0": {"a": 4, "b": 4}, "r1": {"c": 5, "d": 1}}
    done = place(
        *tree(units),
        by_config_map(10, classes={"head": {}, "worker": {}}, between=between),
        *part("head", "head", cpu="5"),
        *part("worker", "worker", 9),
    )

    nodes = results(done)
    assert 10 == done.summary.scheduled
    assert "c" == nodes["head-0"]
    assert "d" == nodes["worker-0"]


def test_one_of_a_class_in_each_unit_of_another():
    """A parameter server in each rack that has trainers, and nowhere else."""
    classes = {
        "ps": {"min": 1},
        "trainer": {"constraints": {"rack": {"type": "spread", "partitions": 2}}},
    }
    done = place(
        *tree(RACKS),
        by_config_map(
            6,
            classes=classes,
            between=[{"rule": "one", "classes": ["ps", "trainer"], "level": "rack"}],
            class_label="role",
        ),
        *part("ps", "ps", 2, label="role"),
        *part("trainer", "trainer", 4, label="role"),
    )

    found = racks(done)
    assert {"r0", "r1"} == {found["ps-0"], found["ps-1"]}
    assert 6 == done.summary.scheduled


def test_pods_with_traffic_are_placed_near_each_other():
    """Prefill sends traffic to decode: both in one rack, as many pairs as possible on common nodes.

    Other classes leave capacity.
    """
    classes: dict[str, Any] = {"prefill": {}, "decode": {}, "router": {}}
    done = place(
        *tree(RACKS),
        by_config_map(
            9,
            classes=classes,
            traffic=[{"between": ["prefill", "decode"], "weight": 3}],
            costs={"rack": 10, "node": 1},
            class_label="role",
        ),
        *part("router", "router", 1, cpu="4", label="role"),
        *part("prefill", "prefill", 4, label="role"),
        *part("decode", "decode", 4, label="role"),
    )

    found = racks(done)
    assert 9 == done.summary.scheduled
    assert 1 == len({rack for name, rack in found.items() if not name.startswith("router")})
    reported = report(done)
    # Two of each on both nodes: 8 of the 16 pairs are on different nodes, three times 1 each.
    assert {"cost": 24} == {
        term: value
        for term, value in zip(reported.terms, reported.objective, strict=True)
        if term == "cost"
    }
    assert reported.optimal
    assert Counter({2: 4}) == Counter(
        Counter(
            (node, name.split("-")[0])
            for name, node in results(done).items()
            if not name.startswith("router")
        ).values()
    )


def test_those_who_stand_count_in_the_rules_of_their_class():
    """Two workers run in r0, two are allowed in a rack: the replacement is placed in the other
    rack.
    """
    classes = {
        "head": {},
        "worker": {"constraints": {"rack": {"type": "spread", "min": 1, "max": 2}}},
    }
    pods = [*part("head", "head", on="a"), *part("worker", "worker", 2, on="b")]
    done = place(*tree(RACKS), by_config_map(4, classes=classes), *pods, *part("new", "worker"))

    assert "r1" == racks(done)["new-0"]


def test_a_class_that_lacks_members_is_waited_for():
    """Four are enough for the group, but its head does not exist yet."""
    classes = {"head": {"min": 1}, "worker": {}}
    made = by_pod_group(4, "scheduling.x-k8s.io/v1alpha1", classes=classes)
    workers = part("worker", "worker", 4, group=COSCHEDULING)
    done = place(*tree(RACKS), made, *workers)

    assert 0 == done.summary.scheduled
    text = "the group default/g waits: its class head has 0 members, at least 1 are needed"
    assert text in done.pods[0].message

    done = place(*tree(RACKS), made, *workers, *part("head", "head", group=COSCHEDULING))
    assert 5 == done.summary.scheduled


@pytest.mark.parametrize(
    ("label", "head", "worker"),
    [
        ("leaderworkerset.sigs.k8s.io/worker-index", ("0", "leader"), ("1", "worker")),
        ("training.kubeflow.org/replica-type", ("launcher", "launcher"), ("worker", "worker")),
        ("jobset.sigs.k8s.io/replicatedjob-name", ("driver", "driver"), ("workers", "workers")),
        ("volcano.sh/task-spec", ("ps", "ps"), ("worker", "worker")),
    ],
)
def test_classes_are_known_by_the_labels_of_workload_controllers(label, head, worker):
    """The labels that these controllers give their pods are the names of the classes."""
    between = [{"rule": "other", "classes": [head[1], worker[1]], "level": "node"}]
    done = place(
        *tree(RACKS),
        by_config_map(3, classes={head[1]: {"max": 1}, worker[1]: {}}, between=between),
        *part("x", head[0], label=label),
        *part("y", worker[0], 2, label=label),
    )

    nodes = results(done)
    assert 3 == done.summary.scheduled
    assert nodes["x-0"] not in (nodes["y-0"], nodes["y-1"])


def test_the_role_label_counts_before_the_index_and_both_may_be_missing():
    """A role label takes precedence over the index of a LeaderWorkerSet; if a class label is
    configured, only that label counts.
    """
    index = {LWS_INDEX: "0"}
    for name in LABELS:
        for more in ({}, index):
            assert "ps" == class_of(make_pod("m", labels={name: "ps"} | more))
            assert "" == class_of(make_pod("m", labels={name: "ps"} | more), "own")
    assert ["leader", "worker"] == [
        class_of(make_pod("m", labels={LWS_INDEX: at})) for at in ("0", "7")
    ]
    assert "" == class_of(make_pod("m"))


@pytest.mark.parametrize("leading", ["launcher", "master", "Chief", "head", "leader", "driver"])
def test_members_are_ordered_by_role_and_index_and_the_leading_role_is_first(leading: str):
    """Roles and indexes are compared as numbers; a pod without an index follows in its role."""
    role, index = "training.kubeflow.org/replica-type", "training.kubeflow.org/replica-index"
    wanted = [
        *(make_pod(f"z{at}", labels={role: leading, index: str(at)}) for at in (0, 2, 10)),
        make_pod("z", labels={role: leading}),
        *(make_pod(f"b{10 - at}", labels={role: "a2", index: str(at)}) for at in (1, 9, 10)),
        make_pod("a", labels={role: "a10", index: "3"}),
    ]
    for turn in range(len(wanted)):
        assert wanted == in_order((wanted[turn:] + wanted[:turn])[::-1])


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ({"between": []}, "data.between says something of classes, data.classes is missing"),
        ({"classes": {}}, "data.classes: 0 are not between 1 and 8"),
        ({"classes": {"head": {"most": 1}}},
            "data.classes.head: Object contains unknown field `most`"),
        ({"classes": {"head": {"min": 3, "max": 2}}}, "data.classes.head: min 3 is above max 2"),
        ({"classes": {"head": {"constraints": {"rack": {"type": "tight"}}}}},
            "classes.head.constraints.rack.type"),
        ({"classes": {"head": {"constraints": {"shelf": {}}}}},
            'data.classes: "shelf" is not known'),
        ({"classes": {"head": {}}, "traffic": [{"between": ["head", "hand"]}]},
            '"hand" is not known (did you mean "head"'),
        (
            {"classes": {"a": {}, "b": {}},
                "between": [{"rule": "near", "classes": ["a", "b"], "level": "rack"}]},
            "(rules: same, other, with, one)",
        ),
        ({"classes": {"a": {}}, "between": [{"rule": "same", "classes": ["a", "a"],
            "level": "rack"}]}, "two classes are needed"),
        ({"classes": {"a": {}}, "costs": {"rack": 2.5}},
            "data.costs.rack: a whole number is needed"),
        ({"classes": {"a": {}}, "traffic": [{"between": ["a", "a"], "weight": 5000}]},
            "data.traffic[0].weight: 5000 is not between 1 and 1000"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_holds_the_group_by_name(keys, text):
    """Key and value are named; no pod is placed."""
    done = place(*tree(RACKS), by_config_map(1, **keys), *part("head", "head"))

    assert 0 == done.summary.scheduled
    assert text in done.pods[0].message


def test_an_annotation_is_named_as_one():
    """A PodGroup has no data."""
    made = by_pod_group(1, "scheduling.k8s.io/v1alpha2", classes={"head": {"min": -1}})
    own = {"schedulingGroup": {"podGroupName": "g"}}
    done = place(*tree(RACKS), made, *part("head", "head", group={}, spec=own))

    text = "metadata.annotations.sakkara.group/classes.head.min: -1 is not between 0 and 10000"
    assert text in done.pods[0].message


def test_a_config_map_counts_before_a_pod_group_of_the_same_name():
    """Two ConfigMaps would dispute the group; a PodGroup may replace its ConfigMap step by step."""
    both = SAKKARA | COSCHEDULING
    done = place(
        *tree(RACKS), by_config_map(2), by_pod_group(3, "scheduling.x-k8s.io/v1alpha1"),
        *part("w", "w", 2, group=both),
    )  # fmt: skip
    assert 2 == done.summary.scheduled
