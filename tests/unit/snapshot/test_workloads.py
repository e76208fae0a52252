"""Workloads in a snapshot count as the pods that their controllers would still make."""

import pytest

from scheduler.base.errors import ObjectError
from scheduler.snapshot.changes import NodeChanges, changed
from scheduler.snapshot.documents import items_of_objects
from scheduler.snapshot.snapshot import SnapshotReader
from scheduler.snapshot.workloads.found import MAX_PODS
from scheduler.testing import node
from scheduler.testing import pod as plain_pod
from tests.unit.simulate.asking import place, pod, results, snapshot

LABELS = {"app": "web"}


def template(**spec):
    """Return a pod template with one small container."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    return {"metadata": {"labels": LABELS}, "spec": {"containers": [container]} | spec}


def workload(kind, group="apps/v1", name="web", **spec):
    """A workload whose selector and template agree."""
    made = {"selector": {"matchLabels": LABELS}, "template": template()} | spec
    return {"apiVersion": group, "kind": kind, "metadata": {"name": name}, "spec": made}


def names(*objects, given=()):
    """The names of the pods that are to be placed."""
    return [one.metadata.name for one in snapshot(*objects, given=given).unbound]


def there(name, **labels):
    """A pod of the workload that is bound already."""
    return plain_pod(name, node_name="n", labels=LABELS | labels)


def test_a_deployment_in_a_file_is_placed():
    """Users simulate Deployments with `-f`; nodes decide how many of their pods fit."""
    got = place(node("n", cpu="2"), given=[workload("Deployment", replicas=3)])

    assert {"web-0": "n", "web-1": "n", "web-2": "Unschedulable"} == results(got)


def owned_by(kind, name, uid=""):
    """An owner reference to a controller."""
    return {"kind": kind, "name": name, "uid": uid, "controller": True}


def owned(made, kind, name, uid=""):
    """The pod with a controller."""
    made["metadata"]["ownerReferences"] = [owned_by(kind, name, uid)]
    return made


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet"])
def test_pods_that_are_there_are_not_made_again(kind):
    """A snapshot of a cluster holds workloads and their pods.

    Pods without a controller are adopted.
    """
    for known in (there("web-0"), owned(there("web-0"), kind, "web")):
        assert ["web-1", "web-2"] == sorted(names(node("n"), known, workload(kind, replicas=3)))


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"])
def test_pods_of_other_controllers_do_not_count(kind):
    """Labels alone do not make a pod a workload's, nor do those of an earlier workload of that
    name.
    """
    given = workload(kind)
    given["metadata"]["uid"] = "new"
    for other in (
        owned(there("other-0"), "StatefulSet", "other"),
        owned(there("other-0"), kind, "web", "old"),
    ):
        assert 1 == len(names(node("n"), other, given))


def replica_set(label, image, replicas):
    """Return the ReplicaSet of the Deployment `web` for one template."""
    labels = LABELS | {"pod-template-hash": label}
    made = workload(
        "ReplicaSet", name=f"web-{label}", replicas=replicas, selector={"matchLabels": labels}
    )
    made["spec"]["template"] = template(containers=[{"name": "c", "image": image}])
    made["spec"]["template"]["metadata"] = {"labels": labels}
    made["metadata"]["ownerReferences"] = [owned_by("Deployment", "web")]
    return made


def pod_of(label, name, image):
    """A bound pod of that ReplicaSet."""
    made = owned(there(name, **{"pod-template-hash": label}), "ReplicaSet", f"web-{label}")
    made["spec"]["containers"] = [{"name": "c", "image": image}]
    return made


def rollout(strategy, *, with_set=True, image="x:2", is_given=True):
    """Names of new pods, of pods that stay, and the notices, for a Deployment of four over pods of
    x:1.
    """
    spec = {"replicas": 4, "strategy": strategy}
    made = workload(
        "Deployment", **spec, template=template(containers=[{"name": "c", "image": image}])
    )
    there_now = [node("n"), *[pod_of("111", f"web-111-{at}", "x:1") for at in "abcd"]]
    there_now += [replica_set("111", "x:1", 4)] if with_set else []
    found = snapshot(*there_now, *([] if is_given else [made]), given=[made] if is_given else [])
    return len(found.unbound), len(found.bound), found.notices


@pytest.mark.parametrize("with_set", [True, False])
@pytest.mark.parametrize(
    ("strategy", "new", "old"),
    [
        ({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}, 1, 4),
        ({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}, 1, 3),
        ({}, 2, 3),
        ({"type": "Recreate"}, 4, 0),
    ],
)
def test_a_changed_template_takes_the_first_step_of_its_update(strategy, new, old, with_set):
    """Surge pods are made, and pods that may be unavailable are deleted.

    Without the ReplicaSet the template is taken from the pods.
    """
    made, stay, reported = rollout(strategy, with_set=with_set)
    assert (new, old) == (made, stay)
    assert bool(old) == any("first step of a rolling update" in one for one in reported)


def test_an_unchanged_template_makes_nothing():
    """A given workload with an unchanged template starts no update."""
    for with_set in (True, False):
        assert (0, 4, ()) == rollout({}, with_set=with_set, image="x:1")


def test_fewer_replicas_take_pods_away():
    """Unbound pods are deleted first, as by the ReplicaSet controller."""
    known = [there("web-0"), plain_pod("web-1", labels=LABELS), there("web-2")]
    found = snapshot(node("n"), *known, given=[workload("ReplicaSet", replicas=2)])
    assert ["web-0", "web-2"] == sorted(one.metadata.name for one in found.bound)
    assert () == found.unbound


@pytest.mark.parametrize(("kind", "left"), [("StatefulSet", ["web-0"]), ("DaemonSet", ["web-1"])])
def test_a_changed_template_replaces_one_pod_of_a_set(kind, left):
    """The last ordinal, or the pod of one node; pods of the same template stay."""
    nodes = [node("n"), node("m")]
    known = [owned(there(f"web-{at}"), kind, "web") for at in range(2)]
    known[1]["spec"]["nodeName"] = "m"
    for one in known:
        one["spec"]["containers"] = template()["spec"]["containers"]
    same = snapshot(*nodes, *known, given=[workload(kind, replicas=2)])
    assert (2, 0) == (len(same.bound), len(same.unbound))
    other = template()
    other["spec"]["containers"] = [{"name": "c", "image": "other"}]
    found = snapshot(*nodes, *known, given=[workload(kind, replicas=2, template=other)])
    assert left == [one.metadata.name for one in found.bound]
    assert 1 == len(found.unbound)


def test_a_given_workload_replaces_that_of_the_cluster():
    """As with `kubectl apply`; two of one name in one file are an error."""
    cluster, given = workload("StatefulSet", replicas=2), workload("StatefulSet", replicas=3)
    assert ["web-0", "web-1", "web-2"] == names(cluster, given=[given])
    with pytest.raises(ObjectError, match="there are two of that name, and they differ"):
        snapshot(cluster, given)


def test_a_cron_job_given_apart_stands_for_one_run():
    """A CronJob in a given file adds the pods of one run; a CronJob of the cluster adds none."""
    spec = {
        "schedule": "* * * * *",
        "jobTemplate": {"spec": {"parallelism": 2, "template": template()}},
    }
    cron = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "tick"}, "spec": spec}
    assert 2 == len(names(given=[cron]))
    assert [] == names(cron)


def test_a_daemon_set_serves_added_nodes():
    """A pod of the cluster counts there; that of a given DaemonSet is to be placed."""
    cluster = [node("n"), owned(there("web-n"), "DaemonSet", "web"), workload("DaemonSet")]
    found = changed(snapshot(*cluster), NodeChanges(added=("2=n",)))
    assert 3 == len(found.bound)
    found = changed(snapshot(node("n"), given=[workload("DaemonSet")]), NodeChanges(added=("2=n",)))
    assert (0, 3) == (len(found.bound), len(found.unbound))


def test_who_is_owned_leaves_it_to_the_owner():
    """The ReplicaSet of a Deployment does not double its pods."""
    inner = workload("ReplicaSet", name="web-abc", replicas=2)
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "controller": True}
    inner["metadata"]["ownerReferences"] = [owner]

    assert ["web-0", "web-1"] == names(workload("Deployment", replicas=2), inner)
    assert ["web-abc-0", "web-abc-1"] == names(inner)


def test_a_daemon_set_makes_one_pod_for_each_node():
    """Each pod is pinned to its node; other rejections are reported as usual."""
    nodes = [node("a"), node("b"), node("full", cpu="0")]
    got = place(*nodes, given=[workload("DaemonSet")])

    assert {"web-a": "a", "web-b": "b", "web-full": "Unschedulable"} == results(got)


def test_a_daemon_set_makes_no_pod_where_its_controller_makes_none():
    """Node selectors and taints decide; daemon pods tolerate the taints of unhealthy nodes."""
    walled = node("walled", taints=[{"key": "k", "effect": "NoSchedule"}])
    taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    cordoned = node("cordoned", unschedulable=True, taints=[taint])
    assert ["web-a", "web-cordoned"] == names(node("a"), walled, cordoned, workload("DaemonSet"))


def test_a_stateful_set_brings_its_claims():
    """The StatefulSet's pods use claims that no file contains.

    Without them no volume rule would be checked.
    """
    claim = {"metadata": {"name": "data"}, "spec": {"storageClassName": "none"}}
    got = snapshot(workload("StatefulSet", replicas=2, volumeClaimTemplates=[claim]))

    claims = [obj.metadata.name for kind, obj in got.objects if kind == "PersistentVolumeClaim"]
    assert ["data-web-0", "data-web-1"] == claims
    assert ["data-web-0"] == [
        v.persistent_volume_claim.claim_name for v in got.unbound[0].spec.volumes
    ]


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ({}, ["web-0"]),
        ({"parallelism": 3}, ["web-0", "web-1", "web-2"]),
        ({"parallelism": 3, "completions": 2}, ["web-0", "web-1"]),
        ({"parallelism": 3, "suspend": True}, []),
    ],
)
def test_a_job_makes_the_pods_that_would_be_active(spec, wanted):
    """The number of pods is the parallelism, but no more than are left to complete."""
    assert wanted == names(workload("Job", "batch/v1", **spec))


def test_a_job_set_makes_the_pods_of_all_its_jobs():
    """Every replica of every replicated job is made, with the labels that mark groups."""
    jobs = [
        {"name": "driver", "template": {"spec": {"template": template()}}},
        {
            "name": "workers",
            "replicas": 2,
            "template": {
                "spec": {
                    "parallelism": 2,
                    "completions": 2,
                    "completionMode": "Indexed",
                    "template": template(),
                }
            },
        },
    ]
    made = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "train"},
        "spec": {"replicatedJobs": jobs},
    }
    got = snapshot(made).unbound

    assert [
        "train-driver-0-0",
        "train-workers-0-0",
        "train-workers-0-1",
        "train-workers-1-0",
        "train-workers-1-1",
    ] == [one.metadata.name for one in got]
    assert {"jobset.sigs.k8s.io/job-index": "1"}.items() <= got[3].metadata.labels.items()


def test_a_leader_worker_set_makes_leaders_and_workers():
    """Groups of `size` pods each; the leader may have a template of its own."""
    made = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "llm"},
        "spec": {
            "replicas": 2,
            "leaderWorkerTemplate": {
                "size": 2,
                "leaderTemplate": template(priority=7),
                "workerTemplate": template(),
            },
        },
    }
    got = snapshot(made).unbound

    assert ["llm-0", "llm-0-1", "llm-1", "llm-1-1"] == [one.metadata.name for one in got]
    assert [7, None, 7, None] == [one.spec.priority for one in got]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"replicas": "3"}, "spec.replicas: expected a number"),
        ({"replicas": -1}, "spec.replicas: expected a number"),
        ({"replicas": MAX_PODS + 1}, "spec.replicas: expected a number"),
        ({"selector": None}, "spec.selector is missing"),
        ({"selector": {"matchLabels": {"app": "x"}}}, "does not match the labels of spec.template"),
        ({"template": {"spec": {}}}, "spec.template.spec.containers is missing"),
        ({"template": 5}, "spec.template: expected an object"),
        ({"template": template(nodeSelektor={})}, "spec.nodeSelektor: a pod has no such field"),
    ],
)
def test_a_workload_that_cannot_be_understood_is_named(change, message):
    """The error names the object and the field."""
    with pytest.raises(ObjectError, match=message) as caught:
        snapshot(workload("Deployment") | {"spec": workload("Deployment")["spec"] | change})
    assert "Deployment default/web" in str(caught.value) or "Pod default/web-0" in str(caught.value)


def test_all_workloads_together_are_bounded():
    """Many workloads at the limit of one would fill the memory."""
    made = [workload("Job", "batch/v1", name=name, parallelism=3) for name in "ab"]
    reader = SnapshotReader(max_made=5)
    reader.read(items_of_objects(made, "objects"))
    with pytest.raises(
        ObjectError, match="Job default/b: workloads ask for more than 5 new objects"
    ):
        reader.snapshot()


def gang_job(**more):
    """Return a Job of Kubernetes 1.37 that requests a gang in one rack."""
    reported = {
        "schedulingPolicy": {"gang": {}},
        "schedulingConstraints": {"topology": [{"key": "rack"}]},
        "disruptionMode": {"all": {}},
    }
    spec = {
        "parallelism": 3,
        "completions": 5,
        "scheduling": reported | more,
        "template": template(),
    }
    meta = {"name": "ranks", "namespace": "default"}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}


def test_a_job_that_says_how_it_is_scheduled_is_a_group():
    """The group needs all pods that run at a time, or the given number; the pods name it."""
    for policy, least in (({"gang": {}}, 3), ({"gang": {"minCount": 2}}, 2)):
        found = snapshot(gang_job(schedulingPolicy=policy))
        ((kind, group),) = found.objects
        assert "PodGroup.v1beta1" == kind
        assert least == group.spec.scheduling_policy.gang.min_count
        assert ("rack",) == tuple(one.key for one in group.spec.scheduling_constraints.topology)
        assert ["ranks"] * 3 == [one.spec.scheduling_group.pod_group_name for one in found.unbound]


def test_pods_that_a_job_makes_anew_join_the_group_of_those_it_has():
    """The controller named the group; a Job without a policy has none."""
    group = {"schedulingGroup": {"podGroupName": "ranks-1a2b"}}
    labels = {"batch.kubernetes.io/job-name": "ranks"}
    running = pod("ranks-abcde", labels=labels, spec=group | {"nodeName": "a"})
    running["metadata"]["ownerReferences"] = [owned_by("Job", "ranks")]
    found = snapshot(gang_job(), node("a"), running)
    assert ["ranks-1a2b"] * 2 == [one.spec.scheduling_group.pod_group_name for one in found.unbound]

    found = snapshot(gang_job(schedulingPolicy={}))
    assert {None} == {one.spec.scheduling_group for one in found.unbound}


def priority_class(name, value, **more):
    """Return a PriorityClass."""
    meta = {"metadata": {"name": name}, "value": value}
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", **meta, **more}


def pod_group(version, **spec):
    """Return a gang that was never in an API server."""
    meta = {"metadata": {"name": "g", "namespace": "default"}}
    policy = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    kind = {"apiVersion": f"scheduling.k8s.io/{version}", "kind": "PodGroup"}
    return kind | meta | {"spec": policy | spec}


def test_a_group_has_the_priority_of_its_class():
    """A Job's group has that of its pods; one without a class that of the default, if there
    is one.
    """
    urgent = priority_class("urgent", 50, preemptionPolicy="Never")
    common = priority_class("common", 7, globalDefault=True)
    job = gang_job()
    job["spec"]["template"] = template(priorityClassName="urgent")
    for group, classes, wanted in (
        (job, (urgent, common), (50, "Never")),
        (gang_job(), (urgent, common), (7, "")),
        (pod_group("v1beta1", priorityClassName="urgent"), (urgent,), (50, "Never")),
        (pod_group("v1alpha2", priorityClassName="urgent"), (urgent,), (50, "")),
        (pod_group("v1alpha2", priority=3), (common,), (3, "")),
        (pod_group("v1alpha2"), (urgent,), (None, "")),
    ):
        found = snapshot(group, *classes)
        (spec,) = (obj.spec for kind, obj in found.objects if kind.startswith("PodGroup"))
        assert wanted == (spec.priority, spec.preemption_policy)
        assert {wanted[0] or 0} >= {one.spec.priority for one in found.unbound}


def test_a_group_whose_class_is_not_there_is_named():
    """A group with an unknown priority class is rejected with its name, as by the API server."""
    with pytest.raises(ObjectError, match='no PriorityClass "urgnt" is given'):
        snapshot(pod_group("v1beta1", priorityClassName="urgnt"), priority_class("urgent", 50))


def test_a_group_of_a_live_cluster_stays_as_it_is():
    """Without the admission plugin the class is not resolved there, and the priority is 0."""
    group = pod_group("v1beta1", priorityClassName="urgent")
    group["metadata"]["uid"] = "g"
    ((_, found),) = snapshot(group, priority_class("urgent", 50)).objects
    assert found.spec.priority is None


ZONE = "topology.kubernetes.io/zone"


def exclusive(kind, key, size, *, notes, **spec):
    """Return a JobSet of two Jobs, or a LeaderWorkerSet of two groups, with annotations."""
    meta = {"name": "x", "namespace": "default", "annotations": notes}
    if kind == "JobSet":
        job = {"parallelism": size, "completions": size, "completionMode": "Indexed"}
        jobs = [{"name": "w", "replicas": 2, "template": {"spec": job | {"template": template()}}}]
        return {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": kind,
            "metadata": meta,
            "spec": {"replicatedJobs": jobs},
        }
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": kind,
        "metadata": meta,
        "spec": {
            "replicas": 2,
            "leaderWorkerTemplate": {"size": size, "workerTemplate": template(), **key},
            **spec,
        },
    }


def zones(count, cpus):
    """Return nodes of two CPUs each, with the given number of CPUs in each zone."""
    return [
        node(f"n{zone}-{at}", cpu="2", labels={ZONE: f"z{zone}", "kubernetes.io/hostname": "h"})
        for zone in range(count)
        for at in range(cpus // 2)
    ]


JOBSET_NOTE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
LWS_NOTE = "leaderworkerset.sigs.k8s.io/exclusive-topology"


@pytest.mark.parametrize(
    "made",
    [
        exclusive("JobSet", {}, 3, notes={JOBSET_NOTE: ZONE}),
        exclusive("LeaderWorkerSet", {}, 3, notes={LWS_NOTE: ZONE}),
        exclusive(
            "LeaderWorkerSet", {}, 3, notes={},
            groupPlacementPolicy={"type": "Exclusive", "topologyKey": ZONE},
        ),
    ],
)  # fmt: skip
def test_exclusive_topology_gives_each_job_or_group_a_unit_of_its_own(made):
    """One is placed per unit, each within one unit; other pods may share the unit."""
    foreign = pod("foreign", requests={"cpu": "1"})
    for count in (1, 2, 3):
        simulation = place(*zones(count, 4), given=[made, foreign])
        where: dict[str, set[str]] = {}
        for one in simulation.pods:
            if one.node and one.name != "foreign":
                # x-w-0-1 is of x-w-0, x-0-1 and its leader x-0 are of x-0.
                parts = one.name.split("-")
                group = "-".join(parts[:3] if parts[1] == "w" else parts[:2])
                where.setdefault(group, set()).add(one.node[:2])
        assert all(len(units) == 1 for units in where.values()), where
        assert min(count, 2) == len(where) == len(set.union(*where.values())), where


def test_exclusive_topology_by_labels_of_nodes():
    """With the other annotation a Job waits for nodes with its name, and tolerates their taint."""
    notes = {JOBSET_NOTE: ZONE, "alpha.jobset.sigs.k8s.io/node-selector": "true"}
    for one in snapshot(exclusive("JobSet", {}, 1, notes=notes)).unbound:
        job = one.metadata.name.rsplit("-", 1)[0]
        wanted = {"alpha.jobset.sigs.k8s.io/namespaced-job": f"default_{job}"}
        assert wanted == one.spec.node_selector
        keys = [t.key for t in one.spec.tolerations if not t.key.startswith("node.kubernetes.io")]
        assert ["alpha.jobset.sigs.k8s.io/no-schedule"] == keys
        assert one.spec.affinity is None


@pytest.mark.parametrize(
    ("size", "each", "kind", "numbers"),
    [
        (4, 2, "LeaderWorker", "0011"),
        (5, 2, "LeaderWorker", "00011"),
        (5, 2, "LeaderExcluded", " 0011"),
    ],
)
def test_parts_of_a_group_have_units_of_their_own(size, each, kind, numbers):
    """The leader belongs to the first part, or to none."""
    policy = {"subGroupPolicy": {"subGroupSize": each, "subGroupPolicyType": kind}}
    notes = {"leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology": ZONE}
    made = exclusive("LeaderWorkerSet", policy, size, notes=notes)
    found = snapshot(made).unbound[:size]
    label = "leaderworkerset.sigs.k8s.io/subgroup-index"
    assert list(numbers) == [one.metadata.labels.get(label, " ") for one in found]
    keys = {one.metadata.labels.get("leaderworkerset.sigs.k8s.io/subgroup-key") for one in found}
    assert len({*numbers}) == len(keys)
    has_affinity = [one.spec.affinity is not None for one in found]
    assert [number != " " for number in numbers] == has_affinity
