"""Groups derived from workloads (JobSet, LeaderWorkerSet, Ray, MPI, indexed Jobs) by profile."""

import msgspec
import pytest

from scheduler.groups.sources import registry as sources
from scheduler.objects.groups.derivedgroups import OBJECT_OF, derived, group_named
from scheduler.objects.groups.jobs import LeaderWorkerSet
from scheduler.simulate.simulate import simulate
from scheduler.simulate.stage import AnswerOptions, staged
from scheduler.testing import node
from tests.unit.simulate.asking import HEAD, place, pod, results, setup, snapshot

NODES = [node(f"n{at}", allocatable={"cpu": "2"}) for at in range(2)]
TEMPLATE = {
    "spec": {
        "schedulerName": "trellis",
        "restartPolicy": "Never",
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}],
    }
}


def deriving(*words, field="derive"):
    """Return a setup whose profile derives groups of these kinds."""
    args = f"{{{field}: [{', '.join(words)}]}}"
    entry = f"{{name: ClusterTopologyPlacementGroup, args: {args}}}"
    return setup(config=f"{HEAD}profiles: [{{schedulerName: trellis, pluginConfig: [{entry}]}}]\n")


def workload(kind, api, **spec):
    """Return a workload named w."""
    meta = {"name": "w", "namespace": "default", "uid": "w"}
    return {"apiVersion": api, "kind": kind, "metadata": meta, "spec": spec}


def members(number, labels, **more):
    """Return pods as their controllers make them, one core each."""
    return [
        pod(
            f"w-{at}",
            requests={"cpu": "1"},
            labels={**labels, **{k: v.format(at) for k, v in more.items()}},
        )
        for at in range(number)
    ]


def jobset(replicas, parallelism=1, **spec):
    """Return a JobSet of one replicated job."""
    job = {"parallelism": parallelism, "completions": parallelism, "template": TEMPLATE}
    one = {"name": "r", "replicas": replicas, "template": {"spec": job}}
    return workload("JobSet", "jobset.x-k8s.io/v1alpha2", replicatedJobs=[one], **spec)


def ray(replicas, **spec):
    """Return a RayCluster of one group of workers."""
    group = {
        "groupName": "g",
        "replicas": replicas,
        "minReplicas": 1,
        "maxReplicas": 9,
        "rayStartParams": {},
        "template": TEMPLATE,
    }
    return workload(
        "RayCluster",
        "ray.io/v1",
        headGroupSpec={"template": TEMPLATE},
        workerGroupSpecs=[group],
        **spec,
    )


def mpi(workers, **spec):
    """Return an MPIJob with a launcher."""
    replicas = {
        "Launcher": {"replicas": 1, "template": TEMPLATE},
        "Worker": {"replicas": workers, "template": TEMPLATE},
    }
    return workload("MPIJob", "kubeflow.org/v2beta1", mpiReplicaSpecs=replicas, **spec)


RAY = {"ray.io/cluster": "w"}
MPI = {"training.kubeflow.org/job-name": "w", "training.kubeflow.org/operator-name": "mpi-operator"}


@pytest.mark.parametrize(
    ("word", "objects", "source"),
    [
        ("JobSet", lambda n: [jobset(n)], "jobset-w"),
        ("TrainJob", lambda n: [jobset(n)], "jobset-w"),
        ("RayCluster", lambda n: [ray(n - 1), *members(n, RAY)], "raycluster-w"),
        ("RayJob", lambda n: [ray(n - 1), *members(n, RAY)], "raycluster-w"),
        ("MPIJob", lambda n: [mpi(n - 1), *members(n, MPI)], "mpijob-w"),
        (
            "Job",
            lambda n: [
                workload(
                    "Job",
                    "batch/v1",
                    parallelism=n,
                    completions=n,
                    completionMode="Indexed",
                    template=TEMPLATE,
                )
            ],
            "job-w",
        ),
        (
            "LeaderWorkerSet",
            lambda n: [
                workload(
                    "LeaderWorkerSet",
                    "leaderworkerset.x-k8s.io/v1",
                    replicas=1,
                    leaderWorkerTemplate={"size": n, "workerTemplate": TEMPLATE},
                )
            ],
            "leaderworkerset-w-0",
        ),
    ],
)
def test_all_or_nothing_where_the_profile_asks(word, objects, source):
    """Four pods fit, of five none is placed; without the setting the pods are placed one by one."""
    asked = deriving(word)
    whole, none = (place(*NODES, *objects(n), using=asked) for n in (4, 5))

    assert 4 == whole.summary.scheduled
    assert [source] == [one.name for one in whole.groups]
    assert 0 == none.summary.scheduled, results(none)
    assert "does not fit" in none.pods[0].message
    assert 4 == place(*NODES, *objects(5)).summary.scheduled


def test_a_pod_that_another_source_claims_is_not_of_a_derived_group():
    """The label of a PodGroup counts; its group has another size."""
    group = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default"},
        "spec": {"minMember": 2},
    }
    pods = members(5, {**RAY, "scheduling.x-k8s.io/pod-group": "g"})
    found = place(*NODES, ray(4), group, *pods, using=deriving("RayCluster"))

    assert 4 == found.summary.scheduled
    assert {"g"} == {one.name for one in found.groups if one.placement["root"]}


def test_a_pod_that_two_sources_claim_is_on_hold_and_reports_both():
    """Explicit names of two sources, derived or not."""
    labels = {**RAY, "scheduling.x-k8s.io/pod-group": "g", "sakkara.group.name": "h"}
    found = place(*NODES, ray(1), *members(2, labels), using=deriving("RayCluster"))

    assert 0 == found.summary.scheduled
    assert "several groups claim the pod" in found.pods[0].message


def test_the_outer_workload_counts():
    """A Job of a JobSet is no group of its own."""
    found = place(*NODES, jobset(2, 2), using=deriving("JobSet", "Job"))

    assert ["jobset-w"] == [one.name for one in found.groups if one.placement["root"]]


@pytest.mark.parametrize(
    "made",
    [
        jobset(5, startupPolicy={"startupPolicyOrder": "InOrder"}),
        workload(
            "LeaderWorkerSet",
            "leaderworkerset.x-k8s.io/v1",
            replicas=1,
            startupPolicy="LeaderReady",
            leaderWorkerTemplate={"size": 5, "workerTemplate": TEMPLATE},
        ),
    ],
)
def test_workloads_that_start_in_order_are_no_group(made):
    """The later pods of such workloads are made when the first ones run, so a wait for them would
    never end.
    """
    found = place(*NODES, made, using=deriving("JobSet", "LeaderWorkerSet"))

    assert found.summary.scheduled


def test_autoscaled_ray_workers_need_their_minimum():
    """One head and one worker at least; the others are placed as far as they fit."""
    made = ray(5, enableInTreeAutoscaling=True)
    found = place(*NODES, made, *members(6, RAY), using=deriving("RayCluster"))

    assert 4 == found.summary.scheduled
    assert [2] == [one.minimum for one in found.groups]


def test_a_namespace_requests_groups_by_its_annotation():
    """Only kinds that the profile offers are grouped; other namespaces are scheduled pod by pod."""
    offered = deriving("JobSet", "RayCluster", field="deriveOnRequest")
    words = ("", "RayCluster", "LeaderWorkerSet,", "TrainJob", "RayCluster ,JobSet")
    clusters = {one: snapshot(*NODES, namespace(one), jobset(5)) for one in words}
    found = {one: simulate(clusters[one], offered, AnswerOptions()) for one in words}

    assert [4, 4, 4, 0, 0] == [found[one].summary.scheduled for one in words]
    notices = staged(clusters["LeaderWorkerSet,"], offered, AnswerOptions()).notices
    text = 'annotation trellis.dev/derive-groups: no profile offers "LeaderWorkerSet"'
    assert text in str(notices)


def namespace(words):
    """Return the namespace of the workloads with this annotation."""
    meta = {"name": "default", "annotations": {"trellis.dev/derive-groups": words}}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}


def test_two_workloads_that_claim_a_pod_keep_it_on_hold():
    """Neither has precedence; the condition names both."""
    labels = {**RAY, "jobset.sigs.k8s.io/jobset-name": "v"}
    found = place(*NODES, ray(1), *members(2, labels), using=deriving("RayCluster", "JobSet"))

    assert 0 == found.summary.scheduled
    text = "derived group (jobset-v) and derived group (raycluster-w)"
    assert text in found.pods[0].message


def test_a_pod_waits_while_its_workload_is_unknown():
    """The watch of pods may be ahead of that of workloads: no member starts alone."""
    found = place(*NODES, *members(2, RAY), using=deriving("RayCluster"))

    assert 0 == found.summary.scheduled
    assert "no RayCluster describes the derived group raycluster-w" in found.pods[0].message


@pytest.mark.parametrize(("surge", "groups"), [(0, 3), (2, 5), ("34%", 5), ("x", 3)])
def test_groups_of_an_update_beyond_the_replicas_are_known(surge, groups):
    """A LeaderWorkerSet that is updated has `maxSurge` groups more, rounded up."""
    rollout = {"rollingUpdateConfiguration": {"maxSurge": surge}}
    made = {"replicas": 3, "leaderWorkerTemplate": {"size": 2}, "rolloutStrategy": rollout}
    obj = msgspec.convert({"metadata": {"name": "w"}, "spec": made}, LeaderWorkerSet)

    assert [f"leaderworkerset-w-{at}" for at in range(groups)] == [*derived("LeaderWorkerSet", obj)]


@pytest.mark.parametrize(
    "name", ["jobset-w", "leaderworkerset-w-0", "raycluster-w", "mpijob-w", "job-w"]
)
def test_a_member_of_a_copied_group_names_the_copy(name):
    """A pod that is moved to the copy carries the labels from which an engine derives that."""
    operator = {"training.kubeflow.org/operator-name": "mpi-operator"}
    index = {"batch.kubernetes.io/job-completion-index": "0"} if name.startswith("job-") else {}
    cluster = snapshot(pod("w-0", labels={**operator, **index}))
    member = msgspec.structs.replace(cluster.unbound[0], derived_group=name)

    moved = sources.moved(member, f"{name}-copy")

    assert f"default/{name}-copy" == sources.title_of(moved)
    assert f"{name}-copy" == group_named(moved, frozenset(OBJECT_OF.values()))
