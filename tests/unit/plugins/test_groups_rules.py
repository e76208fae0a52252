"""Groups whose members have rules among themselves: spread beside others, victims, sizes, odd
trees.
"""

import json

import pytest

from scheduler.testing import node
from tests.unit.plugins.groupobjects import config_map, group, member, members, tree
from tests.unit.simulate.asking import place, pod, results

ZONE = "topology.kubernetes.io/zone"
LIKE_G = {"matchLabels": {"app": "g"}}
APART = {
    "affinity": {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": LIKE_G, "topologyKey": "kubernetes.io/hostname"}
            ]
        }
    }
}
SPREAD = {
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": ZONE,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": LIKE_G,
        }
    ]
}
PORT = [{"containerPort": 29500, "hostPort": 29500}]


def zoned(name, zone, cpu=4):
    """Return a node in a zone."""
    labels = {"kubernetes.io/hostname": name, ZONE: zone}
    return node(name, cpu=str(cpu), memory="64Gi", pods="110", labels=labels)


def equal_pods(name, spec, *, priority=0, group_name="g", ports=()):
    """Return a pod that the rules count; a member of the group unless its name is empty."""
    labels = {"app": "g"} | ({"sakkara.group.name": group_name} if group_name else {})
    made = pod(name, labels=labels, requests={"cpu": "1"}, spec={"priority": priority} | spec)
    if ports:
        made["spec"]["containers"][0]["ports"] = list(ports)
    return made


def report(simulation):
    """Return the report of the only group."""
    (found,) = simulation.groups
    return found


def test_members_fill_up_the_domains_that_are_too_empty_for_one_of_them():
    """One old pod in z1: a single member may use z2 only, four are placed two and two, or one and
    three.
    """
    done = place(
        zoned("n1", "z1"),
        zoned("n2", "z2"),
        group("g", 4),
        equal_pods("old", {"nodeName": "n1"}, group_name=""),
        *(equal_pods(f"g-{at}", SPREAD) for at in range(4)),
    )

    assert "Bound" == report(done).status
    assert report(done).optimal
    found = list(results(done).values())
    assert abs(found.count("n1") + 1 - found.count("n2")) <= 1


def test_a_domain_that_only_others_may_use_is_not_the_least_of_all():
    """With nodeTaintsPolicy Honor a tainted zone does not count."""
    tainted = zoned("n3", "z3")
    tainted["spec"] = {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}
    spread = {**SPREAD["topologySpreadConstraints"][0], "nodeTaintsPolicy": "Honor"}
    done = place(
        zoned("n1", "z1"),
        zoned("n2", "z2"),
        tainted,
        group("g", 4),
        *(equal_pods(f"g-{at}", {"topologySpreadConstraints": [spread]}) for at in range(4)),
    )

    assert [2, 2] == [list(results(done).values()).count(name) for name in ("n1", "n2")]


@pytest.mark.parametrize("rule", ["apart", "port", "spread"])
def test_a_group_with_rules_between_members_evicts_what_they_need(rule):
    """Two full nodes: one victim on each, though one node alone would have capacity for both."""
    spec = {"apart": APART, "port": {}, "spread": SPREAD}[rule]
    busy = [
        member(f"a{at}{n}", on=f"n{at}", priority=1, spec={"schedulerName": "other"})
        for at in (0, 1)
        for n in (0, 1)
    ]
    done = place(
        zoned("n0", "z0", 2),
        zoned("n1", "z1", 2),
        group("g", 2, priority=50),
        *busy,
        *(
            equal_pods(f"g-{at}", spec, priority=50, ports=PORT if rule == "port" else ())
            for at in range(2)
        ),
    )

    assert {"n0", "n1"} == {results(done)[name] for name in ("g-0", "g-1")}
    assert {"a0", "a1"} == {victim["name"][:2] for victim in report(done).victims}
    assert 2 == len(report(done).victims)


def test_only_the_pod_with_the_port_is_evicted():
    """The node has capacity, but not beside the pod that listens on the members' port."""
    holder = equal_pods("holder", {"nodeName": "n0"}, priority=1, group_name="", ports=PORT)
    done = place(
        zoned("n0", "z0"),
        group("g", 1, priority=50),
        holder,
        member("other", on="n0", priority=0),
        equal_pods("g-0", {}, priority=50, ports=PORT),
    )

    assert ["holder"] == [victim["name"] for victim in report(done).victims]
    assert "n0" == results(done)["g-0"]


def test_a_larger_size_that_would_fit_is_named():
    """A group of three does not fit a rule of four pods per node. Sizes above the group's own are
    searched as well.
    """
    done = place(
        *tree({"r0": {"n0": 4}, "r1": {"n1": 8}}),
        group("g", 3, {"node": {"factor": 4}}),
        *members("g", 3),
    )

    assert "A group of 4 would fit" in done.pods[0].message


def test_a_tree_without_a_live_node_says_so():
    """The message is not that the nodes are full: the tree names other nodes."""
    done = place(
        zoned("big", "z0", 64),
        config_map("topo", "sakkara.topology", {"level-names": '["node"]', "tree": '{"n0": {}}'}),
        group("g", 2),
        *members("g", 2),
    )

    text = done.pods[0].message
    assert "the topology (ConfigMap default/topo) names no node of this cluster: n0" in text


def test_free_capacity_outside_of_the_tree_is_named():
    """The tree's node is full, another one is not in the tree."""
    names = {"level-names": '["node"]', "tree": json.dumps({"n0": {}})}
    done = place(
        zoned("n0", "z0", 0),
        zoned("big", "z0", 64),
        config_map("topo", "sakkara.topology", names),
        group("g", 2),
        *members("g", 2),
    )

    text = "topology (ConfigMap default/topo) does not name have free capacity: big"
    assert text in done.pods[0].message


def test_nodes_right_under_one_parent_are_two_units():
    """Two racks are required; two nodes outside of racks are a unit each."""
    units = {"z0": {"n0": 1, "n1": 1, "r0": {"n2": 0}}}
    done = place(
        *tree(units, "zone", "rack", "node"),
        group("g", 2, {"rack": {"partitions": 2}}),
        *members("g", 2),
    )

    assert {"n0", "n1"} == set(results(done).values())


def ranks_of(rules, head_cpu="3"):
    """Return a PodGroup with rules for levels, a large head and three small workers."""
    pod_group = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {
            "name": "g",
            "namespace": "default",
            "annotations": {"sakkara.group/constraints": json.dumps(rules)},
        },
        "spec": {"minMember": 4},
    }
    return [pod_group, member("head", "g", cpu=head_cpu), *members("g", 3)]


RACKS_OF_UNEQUAL_NODES = {"r0": {"a": 3, "b": 2}, "r1": {"c": 3, "d": 3}, "r2": {"e": 1, "f": 1}}


@pytest.mark.parametrize(
    ("rules", "racks", "nodes"),
    [
        ({"rack": {"type": "pack"}}, {"r1": 4}, [1, 3]),
        ({"rack": {"type": "spread", "partitions": 2}}, {"r0": 2, "r1": 2}, [1, 1, 2]),
        ({"rack": {"type": "spread", "min": 1, "max": 2}}, {"r0": 1, "r1": 1, "r2": 2}, None),
        ({"node": {"type": "spread", "hard": True}}, {"r0": 2, "r1": 2}, [1, 1, 1, 1]),
    ],
)
def test_rules_for_levels_count_heterogeneous_members_together(rules, racks, nodes):
    """A level counts pods, whatever their requests.

    The result is proven, stage by stage.
    """
    done = place(*tree(RACKS_OF_UNEQUAL_NODES), *ranks_of(rules))

    assert 4 == done.summary.scheduled
    assert report(done).optimal
    assert report(done).objective == report(done).bound != ()
    where = report(done).placement["root"]
    found = {rack: sum(map(len, below.values())) for rack, below in where.items()}
    assert sorted(racks.values()) == sorted(found.values())
    if nodes is not None:
        assert nodes == sorted(len(pods) for below in where.values() for pods in below.values())


def test_heterogeneous_members_wait_if_a_rule_prevents_the_placement():
    """The head alone fills a node of every rack with capacity for it: no pod starts."""
    rules = {"rack": {"type": "pack", "hard": True}}
    done = place(*tree({"r0": {"a": 3, "b": 2}, "r1": {"c": 3}}), *ranks_of(rules))

    assert 0 == done.summary.scheduled
    reported = (
        "1 pod of 3 cpu and 3 pods of 1 cpu do not fit one rack: the largest, r0, has 5 of the 6 "
        "cpu "
        "that they need; without rack hard pack enough fit"
    )
    assert reported in done.pods[0].message
