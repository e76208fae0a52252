"""Members of groups by their index: neighbours in the tree, whatever their names are."""

import pytest
from msgspec import to_builtins

from scheduler.testing import node
from tests.unit.simulate.asking import place, pod, snapshot

RACK = "topology.trellis.dev/rack"
JOB_INDEX = "batch.kubernetes.io/job-completion-index"
WORKER_INDEX = "leaderworkerset.sigs.k8s.io/worker-index"
KUEUE_INDEX = "kueue.x-k8s.io/pod-group-pod-index"
API = "scheduling.x-k8s.io/v1alpha1"


def racks(*sizes, cpu="2"):
    """Return nodes in racks, so many in each."""
    return [
        node(f"r{rack}n{number}", labels={RACK: f"r{rack}"}, allocatable={"cpu": cpu})
        for rack, size in enumerate(sizes)
        for number in range(size)
    ]


def group(minimum):
    """Return a PodGroup."""
    spec = {"minMember": minimum}
    return {
        "apiVersion": API,
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default"},
        "spec": spec,
    }


def member(name, index, label=JOB_INDEX, cpu="1", on="", **labels):
    """Return a member with an index."""
    named = {"scheduling.x-k8s.io/pod-group": "g", label: str(index), **labels}
    made = pod(name, requests={"cpu": cpu}, labels=named)
    if on:
        made["spec"]["nodeName"] = on
    return made


def order(*objects):
    """Return the order of the only group."""
    found = place(*objects)
    (report,) = found.groups
    (only,) = report.orders
    return only


@pytest.mark.parametrize("label", [JOB_INDEX, WORKER_INDEX, KUEUE_INDEX, "volcano.sh/task-index"])
def test_names_do_not_matter(label):
    """Pods with random names: consecutive indices share nodes and racks."""
    names = ["x9", "b4", "a7", "k2", "c3", "z1"]
    members = [member(name, index, label) for index, name in enumerate(names)]
    found = order(*racks(2, 2), group(6), *reversed(members))

    assert names == [name for name, _ in found.members]
    assert {"rack": 1, "node": 2} == found.crossings
    assert found.is_proven


def test_without_indexes_there_is_no_order():
    """Members without an index are placed by name, and no order is reported."""
    pods = [
        pod(f"p-{n}", requests={"cpu": "1"}, labels={"scheduling.x-k8s.io/pod-group": "g"})
        for n in (10, 2, 1)
    ]
    found = place(*racks(2), group(3), *pods)

    assert "orders" not in to_builtins(found.groups[0])
    assert {"p-1": "r0n0", "p-2": "r0n0", "p-10": "r0n1"} == {
        one.name: one.node for one in found.pods
    }


def test_a_leader_of_another_role_is_beside_its_first_worker():
    """The leader is larger and fits one node only; worker 1 is on the same node or in its rack."""
    nodes = [*racks(2, 2), node("r1big", labels={RACK: "r1"}, allocatable={"cpu": "5"})]
    leader = member("lead", 0, WORKER_INDEX, cpu="4")
    workers = [member(f"w{n}", n, WORKER_INDEX) for n in range(1, 8)]
    found = order(*nodes, group(8), leader, *workers)
    first = dict(found.members)

    assert first["lead"] == first["w1"] == "r1big"
    assert found.is_proven


def test_lost_members_come_back_between_their_neighbours():
    """Members 1 and 4 were lost; each gets the free place that is nearer to its neighbours."""
    bound = [
        member("a", 0, on="r0n0"),
        member("c", 2, on="r0n1"),
        member("d", 3, on="r1n0"),
        member("f", 5, on="r1n1"),
    ]
    lost = [member("zz", 1), member("aa", 4)]
    found = order(
        *racks(2, 2, cpu="1500m"),
        node("x", labels={RACK: "r0"}, allocatable={"cpu": "1"}),
        node("y", labels={RACK: "r1"}, allocatable={"cpu": "1"}),
        group(6),
        *bound,
        *lost,
    )
    nodes = dict(found.members)

    assert ("x", "y") == (nodes["zz"], nodes["aa"])
    assert {"rack": 1, "node": 5} == found.crossings


def test_explain_shows_the_order_and_its_crossings():
    """`explain` of a member shows the order of its AppGroup and the crossings."""
    from scheduler.explain.explain import explain
    from scheduler.simulate.stage import AnswerOptions
    from tests.unit.simulate.asking import default_setup

    cluster = snapshot(*racks(1, 1), group(4), *(member(f"m{n}", n) for n in range(4)))
    found = explain(cluster, default_setup(), "default/m1", AnswerOptions(details=True))

    why = found.explanation.why

    assert why is not None
    assert why.sentence.endswith(
        "; by index: m0 to m1 on r0n0, m2 to m3 on r1n0; "
        "crossings: 1 of rack, 1 of node, the fewest possible"
    )
