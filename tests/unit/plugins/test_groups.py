"""Groups in `simulate`: placed whole, gated, refused, preferred."""

from __future__ import annotations

import msgspec
import pytest

from scheduler.groups.sources import registry as sources
from scheduler.simulate.stage import AnswerOptions, staged
from tests.unit.plugins.groupobjects import config_map, group, member, members, tree
from tests.unit.simulate.asking import default_setup, place, results, setup, snapshot

STORY_A = {
    "rack-0": {"node-0": 5, "node-1": 1, "node-2": 2},
    "rack-1": {"node-3": 2, "node-4": 2, "node-5": 2},
    "rack-2": {"node-6": 0, "node-7": 2, "node-8": 3},
}
STORY_B = {"s0": {"a": 5, "b": 1, "c": 3}, "s1": {"d": 3, "e": 2, "f": 2, "g": 3}}
TWO_RACKS = {"r0": {"a": 4, "b": 4}, "r1": {"c": 4, "d": 4}}
DESIGN = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: trellis
  plugins:
    preEnqueue: {enabled: [{name: ClusterTopologyPlacementGroup}]}
    queueSort:
      enabled: [{name: ClusterTopologyPlacementGroup}]
      disabled: [{name: "*"}]
    postFilter: {enabled: [{name: ClusterTopologyPlacementGroup}]}
    preScore: {enabled: [{name: ClusterTopologyPlacementGroup}]}
    score: {enabled: [{name: ClusterTopologyPlacementGroup, weight: 10}]}
    reserve: {enabled: [{name: ClusterTopologyPlacementGroup}]}
    permit: {enabled: [{name: ClusterTopologyPlacementGroup}]}
    postBind: {enabled: [{name: ClusterTopologyPlacementGroup}]}
  pluginConfig:
  - name: ClusterTopologyPlacementGroup
    args: {topologyConfigMapNameSpace: %s}
"""


def report(simulation, name="g"):
    """Return the report of a group."""
    return next(one for one in simulation.groups if one.name == name)


def counts(simulation, name="g"):
    """Return the members per node."""
    found: dict[str, int] = {}

    def walk(at):
        for key, below in at.items():
            inner = [one for one in below.values() if one]
            if inner:
                walk(below)
            elif below:
                found[key] = len(below)

    walk(report(simulation, name).placement)
    return found


@pytest.mark.parametrize("using", [None, DESIGN % "default"])
def test_user_story_a(using):
    """Two racks with four pods each, packed inside: the placement that the design text draws."""
    rules = {"rack": {"type": "spread", "partitions": 2}, "node": {"type": "pack"}}
    done = place(
        *tree(STORY_A), group("g", 8, rules), *members("g", 8), using=using and setup(config=using)
    )

    assert {"node-0": 4, "node-7": 1, "node-8": 3} == counts(done)
    assert report(done).optimal
    assert ("Bound", 8) == (report(done).status, report(done).size)


def test_user_story_b():
    """The group has one server, and two to four spread pods on each used node."""
    rules = {"server": {"type": "pack"}, "node": {"type": "spread", "min": 2, "max": 4}}
    done = place(*tree(STORY_B, "server", "node"), group("g", 6, rules), *members("g", 6))

    assert [2, 2, 2] == sorted(counts(done).values())
    assert set(counts(done)) <= {"d", "e", "f", "g"}


def test_a_group_waits_until_all_members_are_there():
    """No pod of an incomplete group is placed; the message of each member names the missing
    ones.
    """
    done = place(*tree(TWO_RACKS), group("g", 4), *members("g", 3))

    assert {"Gated"} == set(results(done).values())
    assert {"the group default/g is not complete: it needs 4 members: 3 are there"} == {
        pod.message for pod in done.pods
    }
    assert "Waiting" == report(done).status


@pytest.mark.parametrize("by", ["alpha.jobset", "leaderworkerset"])
def test_a_gang_whose_pods_are_created_in_order_gets_the_reason(by):
    """Exclusive topology makes the other pods only after the first pod has a node, so they never
    appear.
    """
    note = f"{by}.sigs.k8s.io/exclusive-topology"
    leader = member("g-0", "g")
    leader["metadata"]["annotations"] = {note: "rack"}
    (pod,) = place(*tree(TWO_RACKS), group("g", 4), leader).pods
    assert (
        f"by the annotation {note} makes the others only when the first has a node" in pod.message
    )

    prepared = {"nodeSelector": {"alpha.jobset.sigs.k8s.io/namespaced-job": "default_g"}}
    leader["spec"] |= prepared
    (pod,) = place(*tree(TWO_RACKS), group("g", 4), leader).pods
    assert ("never starts" in pod.message) == (by == "leaderworkerset")


def test_members_without_a_description_wait_and_pods_without_a_group_do_not():
    """The gate is for pods with a group's label alone."""
    done = place(*tree(TWO_RACKS), *members("g", 1), member("alone"))

    assert "Gated" == results(done)["g-0"]
    assert results(done)["alone"] in ("a", "b", "c", "d")


def test_surplus_members_stay_out():
    """A group takes as many members as it has places."""
    done = place(*tree(TWO_RACKS), group("g", 2), *members("g", 3))

    assert 1 == list(results(done).values()).count("Gated")
    assert 2 == sum(counts(done).values())


def test_heterogeneous_members_block_the_group_and_the_difference_is_named():
    """Members must request the same (D23)."""
    odd = member("g-2", "g", cpu="2")
    done = place(*tree(TWO_RACKS), group("g", 3), *members("g", 2), odd)

    assert {"Unschedulable"} == set(results(done).values())
    assert "g-0 asks for 1000 cpu, g-2 for 2000" in done.pods[0].message


@pytest.mark.parametrize(
    ("data", "expected_text"),
    [
        ({"constraints": "{"}, "data.constraints is no JSON"),
        ({"constraints": '{"rak": {}}'}, '"rak" is not known (did you mean "rack"?)'),
        ({"constraints": '{"rack": {"mni": 2}}'}, '"mni" is not known (did you mean "min"?)'),
        ({"size": "two"}, 'data.size: "two" is no whole number'),
    ],
)
def test_an_unreadable_group_is_blocked_with_the_reason(data, expected_text):
    """An unreadable group is not guessed (D24)."""
    described = group("g", 2)
    described["data"] |= data
    done = place(*tree(TWO_RACKS), described, *members("g", 2))

    assert {None} == {pod.node for pod in done.pods}
    assert all(expected_text in pod.message for pod in done.pods)
    assert "Failed" == report(done).status


TEN_INFEASIBLE = [
    (
        3,
        {"node": {"hard": True}},
        {"a": 2, "b": 2},
        "do not fit one node: the largest, a, has capacity for 2",
    ),
    (3, {"node": {"type": "spread", "hard": True}}, {"a": 2, "b": 2}, "node hard spread"),
    (5, {}, {"a": 2, "b": 2}, "the nodes have capacity for 4"),
    (3, {"node": {"factor": 2}}, {"a": 4, "b": 4}, "node factor 2"),
    (4, {"node": {"partitions": 3}}, {"a": 4, "b": 4}, "node partitions 3"),
    (3, {"node": {"min": 2, "max": 2}}, {"a": 4, "b": 4}, "node min 2 and node max 2"),
    (6, {"node": {"min": 4, "max": 5}}, {"a": 8, "b": 8}, "node min 4 and node max 5"),
    (5, {"node": {"partitions": 2, "factor": 2}}, {"a": 8, "b": 8}, "node factor 2"),
    (4, {"node": {"factor": 4}}, {"a": 3, "b": 3}, "node factor 4"),
    (6, {"node": {"factor": 3, "partitions": 2}}, {"a": 6, "b": 2}, "node partitions 2"),
]


@pytest.mark.parametrize(("size", "rules", "units", "expected_text"), TEN_INFEASIBLE)
def test_an_infeasible_group_gets_the_smallest_conflict_and_its_advice_helps(
    size, rules, units, expected_text
):
    """The obstacle is named; without the rules that the message names the group fits."""
    cluster = tree(units, "node")
    done = place(*cluster, group("g", size, rules), *members("g", size))

    assert {"Unschedulable"} == set(results(done).values())
    message = done.pods[0].message
    assert expected_text in message
    assert report(done).conflict
    if "; without " in message:
        given_up = message.split("; without ")[1].split(" all fit")[0].split(" and ")
        left = {
            level: {key: n for key, n in rule.items() if f"{level} {key}" not in _keys(given_up)}
            for level, rule in rules.items()
        }
        again = place(*cluster, group("g", size, left), *members("g", size))
        assert size == again.summary.scheduled, left
    else:
        fitting = int(message.split(" would fit")[0].rsplit(" ", 1)[1])
        again = place(*cluster, group("g", fitting, rules), *members("g", fitting))
        assert fitting == again.summary.scheduled


def _keys(names):
    """Return `level key` of rules as the advice names them (`node hard pack`, `node min 2`)."""
    return {" ".join(name.split()[:2]) for name in names}


def test_the_pods_own_rules_hold_inside_the_group():
    """Taints and selectors decide which nodes count, anti-affinity and spread bind the members."""
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"sakkara.group.name": "g"}},
    }
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    cluster = tree(TWO_RACKS)
    for one in cluster[:-1]:
        one["metadata"]["labels"] = {"kubernetes.io/hostname": one["metadata"]["name"]}
    cluster[0]["spec"]["taints"] = [{"key": "k", "effect": "NoSchedule"}]
    done = place(*cluster, group("g", 3), *members("g", 3, spec={"affinity": apart}))

    assert {"b": 1, "c": 1, "d": 1} == counts(done)
    refused = place(*cluster, group("g", 4), *members("g", 4, spec={"affinity": apart}))
    assert {"Unschedulable"} == set(results(refused).values())


def test_several_members_on_one_node_count_against_all_resources_and_the_pod_limit():
    """Resources that the topology does not list bind as well."""
    cluster = tree({"a": 8, "b": 8}, "node")
    cluster[0]["status"]["allocatable"]["pods"] = "3"
    done = place(*cluster, group("g", 8), *members("g", 8))

    assert {"b": 8} == counts(done)
    done = place(*cluster, group("g", 10), *members("g", 10))
    assert 3 >= counts(done)["a"]


def test_victims_are_the_fewest_and_nothing_is_evicted_in_vain():
    """One group of two is evicted rather than two of one; a useless eviction is not made."""
    old = [
        group("x", 2, priority=1),
        *[member(f"x-{n}", "x", on="a", priority=1, cpu="2") for n in range(2)],
        group("y", 4, priority=1),
        *[member(f"y-{n}", "y", on="b", priority=1) for n in range(4)],
    ]
    cluster = tree({"a": 4, "b": 4}, "node")
    done = place(*cluster, *old, group("g", 4, priority=5), *members("g", 4, priority=5))

    assert {"a": 4} == counts(done)
    assert [{"namespace": "default", "name": f"x-{n}"} for n in range(2)] == list(
        report(done).victims
    )
    vain = place(*cluster, *old, group("g", 9, priority=5), *members("g", 9, priority=5))
    assert 0 == vain.summary.scheduled
    assert () == report(vain).victims


def test_a_priority_in_a_config_map_evicts_no_pod():
    """A group is never more important than its members' admitted priority (D30)."""
    old = [member(f"old-{n}", on="a", priority=0) for n in range(4)]
    done = place(
        *tree({"a": 4}, "node"), *old, group("g", 2, priority=10**9), *members("g", 2, priority=0)
    )

    assert 0 == done.summary.scheduled
    assert () == report(done).victims


def test_members_that_may_not_preempt_do_not():
    """preemptionPolicy Never of members is respected."""
    old = [member(f"old-{n}", on="a", priority=0) for n in range(4)]
    never = {"preemptionPolicy": "Never"}
    done = place(
        *tree({"a": 4}, "node"), *old, group("g", 2, priority=5),
        *members("g", 2, priority=5, spec=never),
    )  # fmt: skip

    assert 0 == done.summary.scheduled


def test_a_lost_member_is_replaced_in_its_unit():
    """The others stay where they are; the new one is placed in their rack."""
    placed_pods = [member(f"g-{n}", "g", on=node) for n, node in enumerate(("c", "c", "d"))]
    rules = {"rack": {"type": "pack"}}
    done = place(*tree(TWO_RACKS), group("g", 4, rules), *placed_pods, member("g-9", "g"))

    assert results(done)["g-9"] in ("c", "d")
    assert "Bound" == report(done).status
    assert not report(done).optimal, "what was proven of the new member says nothing of the group"


def test_a_single_pod_that_preempts_takes_the_whole_group():
    """A bound group is one victim (D26)."""
    old = [member(f"x-{n}", "x", on=("a", "b")[n % 2], priority=1, cpu="2") for n in range(4)]
    done = place(
        *tree({"a": 4, "b": 4}, "node"), group("x", 4, priority=1), *old,
        member("big", priority=9, cpu="4"),
    )  # fmt: skip

    assert results(done)["big"] in ("a", "b")
    assert "Failed" != report(done, "x").status
    assert {} == counts(done, "x")


def test_a_pod_group_with_a_minimum_lets_later_members_in_one_by_one():
    """minMember decides when it starts; more members follow (D25)."""
    pod_group = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default"},
        "spec": {"minMember": 3},
    }
    done = place(*tree(TWO_RACKS), pod_group, *members("g", 5))
    assert 5 == done.summary.scheduled
    pending = place(*tree(TWO_RACKS), pod_group, *members("g", 2))
    assert {"Gated"} == set(results(pending).values())


def test_without_a_topology_rack_labels_or_all_nodes_make_the_tree():
    """The label on all nodes gives racks; otherwise the tree is flat."""
    bare = tree({"a": 4, "b": 4, "c": 4, "d": 4}, "node")[:-1]
    done = place(*bare, group("g", 4, {"node": {"type": "spread"}}), *members("g", 4))
    assert {"a": 1, "b": 1, "c": 1, "d": 1} == counts(done)

    for one, rack in zip(bare, ("r0", "r0", "r1", "r1"), strict=True):
        one["metadata"]["labels"] = {"sakkara.topology.rack": rack}
    rules = {"rack": {"type": "pack"}, "node": {"type": "spread"}}
    done = place(*bare, group("g", 4, rules), *members("g", 4))
    assert 2 == len(counts(done))
    assert {"r0"} == set(report(done).placement["root"])


def test_a_topology_of_another_namespace_is_not_ours():
    """Only the namespace in the argument counts, so that not every user may write it."""
    cluster = tree(TWO_RACKS)
    done = place(
        *cluster, group("g", 2, {"rack": {"type": "pack"}}), *members("g", 2),
        using=setup(config=DESIGN % "elsewhere"),
    )  # fmt: skip

    assert '"rack" is not known (known: node)' in done.pods[0].message


def test_fifty_groups_compete_without_deadlock():
    """All groups that can run do run, the most important first, and the same way each time."""
    units = {f"r{r}": {f"n{r}-{n:02}": 2 for n in range(50)} for r in range(10)}
    cluster = tree(units)
    for number in range(50):
        size, priority = 12 + 8 * (number % 4), number % 5
        rules = ({}, {"rack": {"type": "pack", "hard": True}}, {"node": {"factor": 2}})[number % 3]
        name = f"g{number:02}"
        cluster += [group(name, size, rules, priority=priority)]
        cluster += members(name, size, priority=priority)
    done = place(*cluster)

    whole = [one for one in done.groups if one.status == "Bound"]
    assert {one.size for one in whole} <= {sum(counts(done, one.name).values()) for one in whole}
    used = done.summary.scheduled
    assert sum(one.size for one in whole) == used
    assert used > 960
    waiting = [one for one in done.groups if one.status != "Bound"]
    assert waiting
    # No group of the highest priority waits while a group of the lowest could be placed.
    assert not [one for one in waiting if int(one.name[1:]) % 5 == 4]
    assert untimed(done) == untimed(place(*cluster))


def untimed(simulation):
    """Return a simulation as JSON, without the seconds that the solver took."""
    groups = tuple(msgspec.structs.replace(one, solver_seconds=0.0) for one in simulation.groups)
    return msgspec.json.encode(msgspec.structs.replace(simulation, groups=groups))


def test_two_config_maps_for_one_group_hold_it():
    """If two ConfigMaps describe one group, the group stays pending and the message states it."""
    twin = config_map("twin", "sakkara.group", {"name": "g", "size": "2", "constraints": "{}"})
    done = place(*tree(TWO_RACKS), group("g", 2), twin, *members("g", 2))

    assert "describe the same group" in done.pods[0].message


@pytest.mark.parametrize("label", ["sakkara.topology.rack", "topology.trellis.dev/rack"])
def test_racks_work_without_a_word_of_configuration(label):
    """The sandbox's label makes racks like Sakkara's own, without configuration."""
    nodes = tree({"r0": {"a": 1, "b": 1}, "r1": {"c": 2, "d": 2}})[:-1]
    for one, rack in zip(nodes, ("r0", "r0", "r1", "r1"), strict=True):
        one["metadata"]["labels"] = {label: rack}
    done = place(*nodes, group("g", 4, {"rack": {"type": "pack", "hard": True}}), *members("g", 4))

    assert {"c": 2, "d": 2} == counts(done)


def test_a_missing_level_is_reported_with_the_setting():
    """The message lists the levels of the tree, and the argument that makes others."""
    nodes = tree({"r0": {"a": 1, "b": 1}})[:-1]
    done = place(*nodes, group("g", 2, {"rack": {"type": "pack"}}), *members("g", 2))

    message = done.pods[0].message
    assert "(known: node)" in message
    assert "topologyLabels" in message
    assert "sakkara.topology" in message


def test_levels_may_be_named_by_a_word():
    """zone and rack are the names of the well-known node labels."""
    nodes = tree({"r0": {"a": 1}, "r1": {"b": 1}, "r2": {"c": 1}, "r3": {"d": 1}})[:-1]
    for number, one in enumerate(nodes):
        one["metadata"]["labels"] = {
            "topology.kubernetes.io/zone": "z0" if number < 1 else "z1",
            "cloud.provider.com/topology-rack": f"r{number}",
        }
    named = DESIGN.replace("topologyConfigMapNameSpace: %s", "topologyLabels: [zone, rack]")
    rules = {"zone": {"type": "pack", "hard": True}, "rack": {"max": 1, "min": 1}}
    done = place(*nodes, group("g", 3, rules), *members("g", 3), using=setup(config=named))

    assert {"b": 1, "c": 1, "d": 1} == counts(done)


@pytest.mark.parametrize("argument", ["standbyLabel", "spareLabel"])
def test_a_group_beside_standby_nodes_gets_the_reason_why_it_cannot_use_them(argument: str):
    """A new group leaves standby nodes to groups that lose members, and its message states this."""
    config = DESIGN.replace("topologyConfigMapNameSpace: %s", f"{argument}: spare")
    nodes = tree({"r0": {"a": 1}, "r1": {"b": 4}})
    nodes[1]["metadata"]["labels"] = {"spare": ""}
    found = place(*nodes, group("g", 2), *members("g", 2), using=setup(config=config))

    (message,) = {one.message for one in found.pods}
    assert "the nodes have capacity for 1. A group of 1 would fit." in message
    assert message.endswith(" Nodes with the label spare are kept for members that get lost.")


def test_members_that_come_one_by_one_are_not_all_looked_at_each_time(monkeypatch):
    """Three times as many take three times as long, not nine: the decision waits for the last
    one.
    """
    looks = 0
    found = sources.dispute

    def dispute(one):
        nonlocal looks
        looks += 1
        return found(one)

    monkeypatch.setattr(sources, "dispute", dispute)
    counts = []
    for size in (50, 150):
        looks = 0
        arriving = snapshot(*members("g", size), group("g", size, {}))
        staged(arriving, default_setup(), AnswerOptions())
        counts.append(looks)

    assert 0 < counts[0] <= 50 * 4
    assert counts[1] <= 150 * 4
