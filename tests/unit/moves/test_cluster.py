"""Plans of snapshots: exclusions by owners' values, destinations by filters, and goals."""

from __future__ import annotations

import pytest

from scheduler.moves.eligible import MoveRules
from scheduler.moves.facts import ClusterFacts
from scheduler.moves.finding import MoveOptions, find_moves
from scheduler.moves.goals import FitGoal, FreeGoal, LoadGoal, RepairGoal
from scheduler.moves.solver import search  # noqa: F401 - loads CP-SAT before the first test
from scheduler.simulate.stage import AnswerOptions
from scheduler.snapshot.documents import items_of_objects
from scheduler.snapshot.snapshot import SnapshotReader
from scheduler.testing import node
from tests.unit.plugins.groupobjects import group
from tests.unit.simulate.asking import default_setup, pod

GPU = "nvidia.com/gpu"
CLAIM = {"name": "gpu", "resourceClaimTemplateName": "gpu"}


def gpu_node(name, gpus="4", **more):
    """Return a node with GPUs."""
    return node(name, cpu="64", memory="64Gi", **more) | {
        "status": {"allocatable": {"cpu": "64", "memory": "64Gi", "pods": "110", GPU: gpus}}
    }


def owned(name, on, *, gpus="1", kind="ReplicaSet", owner="web", spec=None, **meta):
    """A running pod of a controller."""
    found = pod(name, node_name=on, requests={"cpu": "1", GPU: gpus}, spec=spec)
    reference = {"kind": kind, "name": owner, "uid": owner, "controller": True}
    found["metadata"] |= {"ownerReferences": [reference], "labels": {"app": owner}} | meta
    return found


def waiting(gpus="4", **fields):
    """The pod that is to fit."""
    return pod("train", requests={"cpu": "1", GPU: gpus}, **fields)


def find(objects, goal=None, *, now=None, **options):
    """Return the report on plain objects."""
    facts, reader = ClusterFacts(), SnapshotReader()
    items = list(items_of_objects(objects, "objects"))
    for item in items:
        facts.take(item)
    reader.read(item for item in items if item.head.kind != "Job")
    rules = MoveRules(allowed=frozenset(options.pop("allow", ())))
    return find_moves(
        reader.snapshot(),
        facts,
        default_setup(),
        goal or FitGoal("default/train"),
        MoveOptions(rules, **options),
        AnswerOptions(now=now),
    )


def two_nodes(*extra, **meta):
    """Return two nodes of 4 GPUs; each has a pod, and one move empties a node."""
    return [
        gpu_node("n1"),
        gpu_node("n2"),
        owned("a", "n1", **meta),
        owned("b", "n2", gpus="2"),
        waiting(),
        *extra,
    ]


def test_the_fewest_moves_make_a_waiting_pod_fit():
    """One move, proven, verified by the simulation before and after."""
    report = find(two_nodes())

    assert [(move.pod, move.source, move.target) for move in report.moves] == [
        ("default/a", "n1", "n2")
    ]
    assert report.proven
    assert (report.before, report.after) == ("0 of 1 waiting pods fit", "1 of 1 waiting pods fit")
    assert report.statement == "1 move; no plan with fewer moves exists"


@pytest.mark.parametrize(
    ("meta", "reason"),
    [
        ({"annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}}, "safe-to"),
        ({"annotations": {"karpenter.sh/do-not-disrupt": "true"}}, "do-not-disrupt"),
        ({"annotations": {"karpenter.sh/do-not-disrupt": "soon"}}, "do-not-disrupt"),
        ({"annotations": {"descheduler.alpha.kubernetes.io/evict": "false"}}, "descheduler"),
        ({"annotations": {"descheduler.alpha.kubernetes.io/prefer-no-eviction": ""}}, "prefer-no"),
        ({"annotations": {"trellis.dev/moves": "never"}}, "trellis.dev/moves"),
        ({"annotations": {"kueue.x-k8s.io/podset-required-topology": "rack"}}, "kueue"),
        ({"labels": {"app": "web", "volcano.sh/preemptable": "false"}}, "volcano.sh"),
        ({"kind": "DaemonSet"}, "DaemonSet"),
        ({"kind": "Node"}, "static pod"),
        ({"kind": "RayCluster"}, "RayCluster"),
        ({"kind": "Job"}, "Job is not known"),
        ({"ownerReferences": []}, "no controller"),
        ({"deletionTimestamp": "2026-01-01T00:00:00Z"}, "terminating"),
        ({"spec": {"schedulerName": "other"}}, "other is no profile"),
        ({"spec": {"volumes": [{"name": "data", "emptyDir": {}}]}}, "local data"),
        ({"spec": {"resourceClaims": [CLAIM]}}, "its devices cannot be reserved"),
        ({"spec": {"priority": 5, "preemptionPolicy": "Never"}}, "priority"),
    ],
)
def test_a_pod_that_may_not_move_stays(meta, reason):
    """The other pod moves instead, and the report names the reason."""
    meta = dict(meta)
    report = find(two_nodes(owned("c", "n1", gpus="0", owner="web"), **meta))

    assert {move.pod for move in report.moves}.isdisjoint({"default/a"})
    found = {one.reason for one in report.excluded if "default/a" in one.examples}
    assert any(reason in one for one in found), report.excluded


@pytest.mark.parametrize(
    ("annotations", "volume", "moves"),
    [
        ({}, {"emptyDir": {"medium": "Memory"}}, True),
        ({"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}, {"emptyDir": {}}, True),
        (
            {"cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes": "x, data"},
            {"emptyDir": {}},
            True,
        ),
        ({"descheduler.alpha.kubernetes.io/evict": "true"}, {"hostPath": {"path": "/a"}}, True),
        (
            {"cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes": "x"},
            {"emptyDir": {}},
            False,
        ),
    ],
)
def test_local_data_moves_where_its_owner_permits(annotations, volume, moves):
    """The value of the annotation decides, as the Cluster Autoscaler and the descheduler define
    it.
    """
    spec = {"volumes": [{"name": "data", **volume}]}
    report = find(two_nodes(spec=spec, annotations=annotations))

    assert ("default/a" in {move.pod for move in report.moves}) == moves


@pytest.mark.parametrize(
    ("policy", "allow", "moves"),
    [
        ("Ignore", (), True),
        ("FailJob", ("job-retries",), False),
        ("", (), False),
        ("", ("job-retries",), True),
    ],
)
def test_a_job_moves_if_an_eviction_is_no_failure(policy, allow, moves):
    """podFailurePolicy Ignore permits it; FailJob forbids it whatever is allowed."""
    rule = {"action": policy, "onPodConditions": [{"type": "DisruptionTarget"}]}
    spec = {"podFailurePolicy": {"rules": [rule]}} if policy else {}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "web"}, "spec": spec}
    report = find([job, *two_nodes(kind="Job")], allow=allow)

    assert ("default/a" in {move.pod for move in report.moves}) == moves


@pytest.mark.parametrize(("allow", "moves"), [((), False), (("device-claims",), True)])
def test_a_pod_whose_extended_resource_is_a_claim_moves_if_allowed(allow, moves):
    """A DeviceClass serves the resource: only the pod's status names the claim."""
    cluster = two_nodes()
    cluster[2]["status"] = {"extendedResourceClaimStatus": {"resourceClaimName": "a-gpu"}}
    report = find(cluster, allow=allow)

    assert ("default/a" in {move.pod for move in report.moves}) == moves


@pytest.mark.parametrize(
    ("allowed", "budgets", "moves"), [(1, 1, True), (0, 1, False), (1, 2, False)]
)
def test_budgets_are_hard_limits(allowed, budgets, moves):
    """A pod stays if its budget has no allowance, or if a second budget covers it, for which the
    API server refuses evictions.
    """
    found = [
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": f"budget-{at}", "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": "web"}}},
            "status": {"disruptionsAllowed": allowed},
        }
        for at in range(budgets)
    ]
    assert bool(find([*two_nodes(), *found]).moves) == moves


def test_young_pods_stay():
    """A pod that started a minute ago stays, and the other node is freed."""
    report = find(two_nodes(creationTimestamp="2026-01-01T00:00:00Z"), now=1767225660.0)

    assert [move.pod for move in report.moves] == ["default/b"]


def test_destinations_obey_anti_affinity_between_arrivals():
    """Two pods that exclude one another do not both arrive on the one node with free capacity."""
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    rule = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    names = ("n1", "n2", "n3")
    nodes = [gpu_node(name, "8" if name == "n3" else "4") for name in names]
    for one in nodes:
        one["metadata"]["labels"] = {"kubernetes.io/hostname": one["metadata"]["name"]}
    pods = [owned(f"p-{name}", name, spec={"affinity": rule}) for name in ("n1", "n2")]
    report = find([*nodes, *pods], FreeGoal(2))

    assert report.verdict == "reached" or len({move.target for move in report.moves}) == len(
        report.moves
    )


def rack_node(at, nodes_per_rack=3):
    """A node of 4 GPUs in a rack."""
    rack, name = f"r{at // nodes_per_rack}", f"n{at}"
    return gpu_node(
        name, labels={"topology.trellis.dev/rack": rack, "kubernetes.io/hostname": name}
    )


def gang_pod(name, number, **fields):
    """A member of a group, running if it has a node name."""
    found = pod(f"{name}-{number}", requests={"cpu": "1", GPU: fields.pop("gpus")}, **fields)
    found["metadata"]["labels"] = {"sakkara.group.name": name}
    return found


def test_a_waiting_group_fits_inside_one_rack():
    """Three members of 4 GPUs need the three nodes of the rack that has fewer pods."""
    racks = [rack_node(at) for at in range(6)]
    pods = [owned(f"p{at}", f"n{at}") for at in range(6)] + [owned("more", "n5")]
    members = [gang_pod("gang", at, gpus="4") for at in range(3)]
    rules = {"rack": {"type": "pack", "hard": True}}
    report = find([*racks, *pods, group("gang", 3, rules), *members], FitGoal("default/gang"))

    assert {move.source for move in report.moves} == {"n0", "n1", "n2"}
    assert (report.proven, report.after) == (True, "3 of 3 waiting pods fit")


def test_members_of_a_running_group_move_together():
    """Two nodes become free only if both members of the group leave theirs."""
    racks = [rack_node(at) for at in range(4)]
    members = [gang_pod("gang", at, gpus="1", node_name=f"n{at}") for at in range(2)]
    for one in members:
        owner = {"kind": "ReplicaSet", "name": "gang", "uid": "gang", "controller": True}
        one["metadata"]["ownerReferences"] = [owner]
    others = [owned(f"z{at}", f"n{at}", gpus="2") for at in (2, 3)]
    report = find([*racks, group("gang", 2), *members, *others], FreeGoal(2))

    assert [(move.source, move.unit) for move in report.moves] == [
        ("n0", "default/gang"),
        ("n1", "default/gang"),
    ]


def test_a_shortage_is_named_with_its_figures():
    """Moves inside the cluster free nothing: two pods of 3 GPUs need more than is free."""
    other = waiting("3") | {"metadata": {"name": "more", "namespace": "default"}}
    objects = [gpu_node("n1"), owned("a", "n1", gpus="2"), owned("b", "n1", gpus="0"), waiting("3")]

    assert find([*objects, other]).statement == (
        "no set of moves suffices: 3 of nvidia.com/gpu are needed, 2 are free where the pods may "
        "run, and at most 2 with moves"
    )


def test_a_pod_that_no_node_could_take_is_answered_without_search():
    """A pod of 5 GPUs on nodes of 4 needs no search."""
    report = find([gpu_node("n1"), gpu_node("n2"), owned("a", "n1"), waiting("5")])

    assert report.verdict == "impossible"
    assert report.statement.endswith("no node accepts the pods without the movable pods")


def test_a_rack_becomes_free():
    """All nodes of one domain become free: those with the fewest pods."""
    nodes = [
        gpu_node(f"n{at}", labels={"rack": "abc"[at // 2], "kubernetes.io/hostname": f"n{at}"})
        for at in range(6)
    ]
    pods = [owned(f"p{at}", f"n{at}") for at in range(5)]
    report = find([*nodes, *pods], FreeGoal(1, "rack"))

    assert (report.freed, len(report.moves)) == (("c",), 1)
    assert report.goal == "1 domain of rack is free"
    assert (report.before, report.after) == ("0 free, 1 wanted", "1 free, 1 wanted")


def test_a_hot_node_loses_the_load_that_it_has_too_much():
    """Measured load: one move brings the node below 60 %, and no other node above it."""
    nodes = [gpu_node(f"n{at}") for at in range(2)]
    pods = [owned(f"p{at}", "n0", gpus="0") for at in range(3)]

    def metric(name, used, *shares):
        return {
            "apiVersion": "slo.koordinator.sh/v1alpha1",
            "kind": "NodeMetric",
            "metadata": {"name": name},
            "status": {
                "updateTime": "2026-01-01T00:00:00Z",
                "nodeMetric": {"nodeUsage": {"resources": {"cpu": used}}},
                "podsMetric": [
                    {
                        "namespace": "default",
                        "name": pod_name,
                        "podUsage": {"resources": {"cpu": share}},
                    }
                    for pod_name, share in shares
                ],
            },
        }

    metrics = [metric("n0", "50", ("p0", "5"), ("p1", "15"), ("p2", "20")), metric("n1", "10")]
    report = find([*nodes, *pods, *metrics], LoadGoal(60))

    assert (len(report.moves), report.before) == (1, "1 node is above the threshold")
    assert report.after == "0 nodes are above the threshold"


def test_a_pod_leaves_a_node_that_rejects_it():
    """A pod without a toleration for a node's taint is moved; a pod with it stays."""
    tainted = gpu_node("n1", taints=[{"key": "lab", "effect": "NoSchedule"}])
    fine = owned("fine", "n1", spec={"tolerations": [{"operator": "Exists"}]})
    report = find([tainted, gpu_node("n2"), owned("wrong", "n1"), fine], RepairGoal())

    assert [(move.pod, move.target) for move in report.moves] == [("default/wrong", "n2")]
