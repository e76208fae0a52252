"""`trellis capacity` on files: the count, the nodes, the reason against the next copy, and
rejections.
"""

import json

import pytest
import yaml

from scheduler.cli.main import run
from scheduler.testing import node
from tests.unit.plugins import kueueobjects, volcanoobjects
from tests.unit.plugins.groupobjects import group, members
from tests.unit.simulate.asking import pod


@pytest.fixture
def ask(tmp_path, capsys):
    """Run it with the objects of a cluster and those of `-f`; return exit code, stdout and
    stderr.
    """

    def asked(objects, shape, *flags):
        names = []
        for name, found in (("cluster.yaml", objects), ("shape.yaml", shape)):
            file = tmp_path / name
            file.write_text(yaml.safe_dump_all(found))
            names.append(str(file))
        code = run(["capacity", "--snapshot", names[0], "-f", names[1], *flags])
        reported = capsys.readouterr()
        return code, reported.out, reported.err

    return asked


CLUSTER = [
    node("n1", cpu="4"),
    node("n2", cpu="2"),
    pod("busy", node_name="n1", requests={"cpu": "1"}),
    pod("waits", requests={"cpu": "2"}),
]


def test_count_places_and_what_stops_the_next_one(ask):
    """Other programs rely on the shape of the JSON."""
    code, out, _ = ask(CLUSTER, [pod("web", requests={"cpu": "1"})], "-o", "json")
    assert code == 0
    answer = json.loads(out)
    assert "0/2 nodes are available: 2 Insufficient cpu." == answer.pop("message")
    assert answer == {
        "apiVersion": "trellis.dev/v1alpha1",
        "kind": "Capacity",
        "pod": "default/web",
        "fits": 5,
        "limited": False,
        "nodes": [{"name": "n1", "pods": 3}, {"name": "n2", "pods": 2}],
    }


def test_the_limit_is_reported(ask):
    """The answer states only the counted number."""
    code, out, _ = ask(CLUSTER, [pod("web", requests={"cpu": "1"})], "--limit", "2")
    assert code == 0
    assert out.startswith("at least 2 more of default/web fit\n")


def test_as_many_as_are_wanted(ask):
    """Exit code 3 if fewer fit, so that a script can test for capacity."""
    shape = [pod("web", requests={"cpu": "1"})]
    assert 0 == ask(CLUSTER, shape, "--want", "5")[0]
    code, out, _ = ask(CLUSTER, shape, "--want", "6")
    assert code == 3
    assert out.startswith("5 more of default/web fit; the next one: ")


def test_which_nodes_at_least_cost(ask, tmp_path):
    """The nodes come from a file or from the cluster; the answer is one line, followed by every
    offer.
    """
    large = tmp_path / "large.yaml"
    large.write_text(yaml.safe_dump(node("large", cpu="16")))
    offers = ("--offer-nodes", f"5={large}", "--offer-nodes", "2=n1", "--offer-nodes", "1=n2")
    shape = [pod("web", requests={"cpu": "3"})]
    code, out, _ = ask(CLUSTER, shape, "--want", "5", *offers)
    assert code == 0
    assert out.startswith(
        f"1 of {large} for 5 suffice at the lowest cost; without them: 1 fit, the next one: "
    )
    code, out, _ = ask(CLUSTER, shape, "--want", "5", *offers, "-o", "json")
    answer = json.loads(out)
    assert "NodeOffers" == answer["kind"]
    found = [(one["node"], one["nodes"], one["total"]) for one in answer["offers"]]
    assert [(str(large), 1, 5.0), ("n1", 4, 8.0), ("n2", None, None)] == found
    assert "Insufficient cpu" in answer["offers"][2]["message"]
    code, out, _ = ask(CLUSTER, shape, "--want", "2", "--offer-nodes", "1=n2")
    assert code == 3
    assert out.startswith("none of these nodes helps: 1 fit")


@pytest.mark.parametrize(
    ("flags", "reported"),
    [
        (("--offer-nodes", "n1"), "named as COST=NODE, not 'n1'"),
        (("--offer-nodes", "nan=n1"), "named as COST=NODE"),
        (("--offer-nodes", "-1=n1"), "named as COST=NODE"),
        (("--offer-nodes", "1=./none.yaml"), "./none.yaml: cannot be read"),
        (("--add-nodes", "1=shape.yaml"), "one Node, and nothing else"),
        (("--limit", "5", "--want", "5"), "--limit and --want exclude one another"),
        (("--want", "10001"), "a number from 1 to 10000"),
    ],
)
def test_what_is_wrong_with_nodes_is_named(ask, tmp_path, monkeypatch, flags, reported):
    """The message has one line."""
    monkeypatch.chdir(tmp_path)
    code, _, err = ask(CLUSTER, [pod("web", requests={"cpu": "1"})], *flags)
    assert code == 2
    assert reported in err


def test_none_fits(ask):
    """The exit code is 3, as for simulate. The message has no part about preemption, as copies
    evict no pod.
    """
    code, out, _ = ask(CLUSTER, [pod("web", requests={"cpu": "9"})])
    assert code == 3
    stopped = "0/2 nodes are available: 2 Insufficient cpu."
    assert f"0 more of default/web fit; the next one: {stopped}\n" == out


def test_pods_that_lose_their_node(ask):
    """Pods of a removed node are placed before the copies, and those without a node are counted."""
    shape = [pod("web", requests={"cpu": "1"})]
    full = [*CLUSTER, pod("full", node_name="n2", requests={"cpu": "2"})]
    _, _, err = ask(full, shape, "--remove-node", "n1")
    assert "notice: 1 pod of these nodes has no other place\n" == err
    more = [*full, pod("late", node_name="n1", requests={"cpu": "1"})]
    _, _, err = ask(more, shape, "--remove-node", "n1")
    assert "notice: 2 pods of these nodes have no other place\n" == err


@pytest.mark.parametrize(
    ("shape", "flags", "reported"),
    [
        ([pod("a"), pod("b")], (), "one pod that is not bound is needed for the shape, not 2"),
        ([node("other")], (), "one pod that is not bound is needed for the shape, not 0"),
        ([pod("a")], ("--limit", "0"), "a number from 1 to 10000"),
        ([pod("a", spec={"schedulingGates": [{"name": "g"}]})], (), "ends as Gated"),
        (
            [pod("a", labels={"sakkara.group.name": "g"})],
            (),
            "no ConfigMap or PodGroup describes the group default/g",
        ),
        (
            [group("g", 3), *members("g", 2)],
            (),
            "the group default/g needs 3 members, 2 are given",
        ),
        ([*members("g", 2), pod("b")], (), "one pod that is not bound is needed"),
    ],
)
def test_what_cannot_be_counted_is_refused(ask, shape, flags, reported):
    """One line names the remedy; the exit code is 2."""
    code, out, err = ask(CLUSTER, shape, *flags)
    assert code == 2
    assert out == ""
    assert reported in err


POD_GROUP = {
    "apiVersion": "scheduling.x-k8s.io/v1alpha1",
    "kind": "PodGroup",
    "metadata": {"name": "g", "namespace": "default"},
    "spec": {"minMember": 2},
}
WORKLOAD_GROUP = {
    "apiVersion": "scheduling.k8s.io/v1alpha2",
    "kind": "PodGroup",
    "metadata": {"name": "g", "namespace": "default"},
    "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
}


@pytest.mark.parametrize(
    ("described", "shape"),
    [
        (group("g", 2), members("g", 2)),
        (
            POD_GROUP,
            [pod(f"g-{n}", labels={"scheduling.x-k8s.io/pod-group": "g"}) for n in range(2)],
        ),
        (
            WORKLOAD_GROUP,
            [pod(f"g-{n}", spec={"schedulingGroup": {"podGroupName": "g"}}) for n in range(2)],
        ),
        (volcanoobjects.pod_group("g", 2), volcanoobjects.members("g", 2)),
        (None, kueueobjects.members("g", 2)),
    ],
)
def test_groups_are_counted_whole(ask, described, shape):
    """Five CPUs are free for two groups of two; the third finds one, and the message states it.

    Equal for all kinds.
    """
    for one in shape:
        one["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    objects = [*([described] if described else []), *shape]
    code, out, _ = ask(CLUSTER, objects, "-o", "json")
    found = json.loads(out)

    assert (0, 2, False) == (code, found["fits"], found["limited"])
    assert ("default/g", 2) == (found["group"], found["members"])
    assert 4 == sum(node["pods"] for node in found["nodes"])
    assert "the nodes have capacity for 1" in found["message"]
    _, out, _ = ask(CLUSTER, objects)
    assert out.startswith(
        "2 more groups of 2 like default/g fit; the next one: the group default/g-"
    )


def test_a_group_of_a_composite_group_is_no_shape(ask):
    """The error names the reason; the number of whole trees is not counted."""
    spec = {
        "schedulingPolicy": {"gang": {"minCount": 2}},
        "parentCompositePodGroupName": "app",
    }
    child = {**WORKLOAD_GROUP, "apiVersion": "scheduling.k8s.io/v1alpha3", "spec": spec}
    shape = [pod(f"g-{n}", spec={"schedulingGroup": {"podGroupName": "g"}}) for n in range(2)]
    code, _, reported = ask(CLUSTER, [child, *shape])

    assert code
    assert "the group default/g is in another group" in reported


def test_a_group_that_runs_is_a_shape_like_any_other(ask):
    """The status of the running group (bound, and where) does not apply to its copies."""
    there = group("g", 2)
    there["data"] |= {"status": "Bound", "placement": "{}", "rank": "[]"}
    running = [
        one | {"spec": one["spec"] | {"nodeName": "n1"}} for one in members("g", 2, cpu="500m")
    ]
    for number, one in enumerate(running):
        one["metadata"] = one["metadata"] | {"name": f"there-{number}"}
    code, out, _ = ask([*CLUSTER, there, *running], members("g", 2), "-o", "json")

    assert (0, 2) == (code, json.loads(out)["fits"])


@pytest.mark.parametrize(
    ("flags", "fits", "reported"),
    [
        (("--add-nodes", "2=n2"), 9, ""),
        (("--remove-node", "n2"), 3, ""),
        (("--remove-node", "n1"), 1, ""),
        (
            ("--drain", "kubernetes.io/hostname=n1", "--remove-node", "n2"),
            0,
            "1 pod of these nodes",
        ),
    ],
)
def test_a_cluster_that_is_not_there(ask, flags, fits, reported):
    """Nodes added or removed; the pods of removed ones are placed before the copies."""
    nodes = [
        node(f"n{n}", cpu=cpu, labels={"kubernetes.io/hostname": f"n{n}"})
        for n, cpu in ((1, "4"), (2, "2"))
    ]
    busy = pod("busy", node_name="n1", requests={"cpu": "1"})
    _, out, err = ask([*nodes, busy], [pod("web", requests={"cpu": "1"})], "-o", "json", *flags)

    assert fits == json.loads(out)["fits"]
    assert reported in err


def test_a_name_that_is_taken_is_passed_over(ask):
    """A pod of the cluster with a copy's name stays unchanged."""
    taken = pod("web-00001", node_name="n1", requests={"cpu": "1"})
    _, out, _ = ask([*CLUSTER, taken], [pod("web", requests={"cpu": "1"})], "-o", "json")
    assert json.loads(out)["fits"] == 4
