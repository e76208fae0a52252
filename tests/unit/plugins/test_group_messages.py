"""The message of a group that does not fit names the rule, the request, and nodes that are left
out.
"""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from scheduler.groups.description.spec import LabelRule
from scheduler.groups.planning import messages
from scheduler.groups.problem.answer import Conflict
from scheduler.testing import node
from tests.unit.plugins.groupobjects import group, members, tree
from tests.unit.simulate.asking import place, pod

RACK = "topology.trellis.dev/rack"


def gang(size, minimum=0, **spec):
    """Return a PodGroup with a rack key, and its pods."""
    group = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default"},
        "spec": {
            "schedulingPolicy": {"gang": {"minCount": minimum or size}},
            "schedulingConstraints": {"topology": [{"key": RACK}]},
        }
        | spec,
    }
    members = [
        pod(
            f"g-{number}",
            requests={"cpu": "1", "nvidia.com/gpu": "8"},
            spec={"schedulingGroup": {"podGroupName": "g"}},
        )
        for number in range(size)
    ]
    return [group, *members]


def rack(name, nodes, gpus=8, cpu=64):
    """Return nodes of a rack."""
    labels = {RACK: name} if name else {}
    return [
        node(
            f"{name or 'bare'}-{number}",
            cpu=str(cpu),
            memory="64Gi",
            pods="110",
            labels=labels,
            allocatable={"cpu": str(cpu), "nvidia.com/gpu": str(gpus), "pods": "110"},
        )
        for number in range(nodes)
    ]


def report(*objects):
    """Return the report of the only group."""
    (found,) = place(*objects).groups
    return found


def test_the_rack_rule_and_the_request_are_named_with_the_largest_rack():
    """The message is exactly that of the issue; cpu is not short and is not named."""
    found = report(*rack("rack-0", 2), *rack("rack-1", 2), *gang(3))

    assert found.message == (
        "the group default/g does not fit: 3 pods of 8 nvidia.com/gpu do not fit one rack: the "
        "largest, rack-0, has capacity for 2. A group of 2 would fit."
    )
    assert found.conflict == (f"{RACK}: hard pack", "request: 8 nvidia.com/gpu")
    assert (found.status, found.would_fit) == ("DoesNotFit", 2)


def test_a_hard_pack_that_conflicts_only_with_a_hard_spread_is_named_with_it():
    """Each rack has capacity for 8 pods on two nodes: the largest one does not explain it."""
    rules = {"rack": {"type": "pack", "hard": True}, "node": {"type": "spread", "hard": True}}
    racks = {"r0": {"a": 4, "b": 4}, "r1": {"c": 4, "d": 4}}
    found = report(*tree(racks), group("g", 3, rules), *members("g", 3))

    assert found.message == (
        "the group default/g does not fit: 3 pods do not fit: rack hard pack and node hard spread "
        "cannot hold together; without rack hard pack or node hard spread all fit. "
        "A group of 2 would fit."
    )
    assert found.status == "DoesNotFit"


def test_a_group_that_an_empty_rack_would_take_waits():
    """Another pod has the GPUs: without it the group fits."""
    busy = pod("busy", requests={"nvidia.com/gpu": "8"}, spec={"nodeName": "rack-0-0"})
    found = report(*rack("rack-0", 3), *rack("rack-1", 1), busy, *gang(3))

    assert found.status == "Waiting"
    assert "the largest, rack-0, has capacity for 2" in found.message


@pytest.mark.parametrize("is_cordoned", [False, True])
@pytest.mark.parametrize(("count", "status"), [(2, "DoesNotFit"), (3, "Waiting")])
def test_bound_members_use_capacity_of_the_empty_cluster(count, status, is_cordoned):
    """One of three members is bound, and another pod uses one node: without that pod they fit on
    three nodes, never on two. A cordoned node keeps its bound member.
    """
    nodes = rack("rack-0", count)
    nodes[0].setdefault("spec", {})["unschedulable"] = is_cordoned
    busy = pod("busy", requests={"nvidia.com/gpu": "8"}, spec={"nodeName": "rack-0-1"})
    described, first, *others = gang(3)
    first["spec"]["nodeName"] = "rack-0-0"

    assert report(*nodes, busy, described, first, *others).status == status


def test_a_request_above_every_node_names_the_largest_node():
    """No other size would help, and none is named."""
    found = report(*rack("rack-0", 2, gpus=4), *gang(2))

    assert (
        "2 pods of 8 nvidia.com/gpu do not fit on any node: the largest has 4 nvidia.com/gpu. "
        "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."
    ) in found.message
    assert found.status == "DoesNotFit"


@pytest.mark.parametrize(
    ("bare", "expected_text"),
    [
        (1, f" Node bare-0 is left out: it has no label {RACK}."),
        (2, f" 2 nodes (bare-0, bare-1) are left out: they have no label {RACK}."),
    ],
)
def test_nodes_without_the_label_are_named_as_left_out(bare, expected_text):
    """Nodes without the label could run members and are in no rack."""
    assert expected_text in report(*rack("rack-0", 1), *rack("", bare), *gang(2)).message


def test_a_label_that_no_node_has_is_named():
    """The sentence has no gap where nodes would be listed."""
    found = report(*rack("", 2), *gang(2))

    assert found.message == f"the group default/g does not fit: no node has the label {RACK}"


def test_an_incomplete_group_names_who_is_there_and_why_others_do_not_count():
    """Another scheduler, a gate, an end: each with its name."""
    objects = gang(4)
    objects[2]["spec"]["schedulerName"] = "default-scheduler"
    objects[3]["spec"]["schedulingGates"] = [{"name": "quota"}]
    objects[4]["status"] = {"phase": "Succeeded"}
    (message,) = {
        one.message for one in place(*rack("rack-0", 4), *objects).pods if one.name == "g-0"
    }

    assert "it needs 4 members: 1 is there; " in message
    assert "g-1 does not count: its schedulerName is default-scheduler" in message
    assert "g-2 does not count yet: it has the scheduling gate quota" in message
    assert "g-3 has ended (Succeeded)" in message


LABEL = "example.com/rack"


@pytest.mark.parametrize(
    ("rule", "labels", "expected_text"),
    [
        (Conflict("rack", "hard", "pack"), LabelRule(LABEL), f"the required topology {LABEL}"),
        (Conflict("rack", "hard", "pack"), LabelRule(preferred=LABEL), "rack hard pack"),
        (Conflict("rack", "hard", "pack"), None, "rack hard pack"),
        (Conflict("rack", "max", "4"), LabelRule(LABEL), "rack max 4"),
        (Conflict("", "between members", "host port 80/TCP"), None, "host port 80/TCP"),
        (Conflict("", "between members", "spread by zone"), None, "between members spread by zone"),
    ],
)
def test_a_rule_is_named_as_its_source_states_it(rule, labels, expected_text):
    """Only the hard rule of a group that requires a label is named by that label."""
    task = SimpleNamespace(spec=SimpleNamespace(labels=labels), context=None)

    assert expected_text == messages.rule_name(cast(Any, task), rule)


@pytest.mark.parametrize(
    ("texts", "expected_text"),
    [([], ""), (["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c")],
)
def test_names_are_listed_with_one_and(texts, expected_text):
    """All names are there, each once."""
    assert expected_text == messages.listed(texts)
