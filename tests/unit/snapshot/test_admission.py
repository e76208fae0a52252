"""A simulation adds the same fields to its manifests as an API server."""

import msgspec
import pytest

from scheduler.base.errors import ObjectError
from scheduler.explain.questions import manifest
from scheduler.snapshot.changes import NodeChanges, changed
from scheduler.testing import node
from scheduler.testing import pod as plain_pod
from tests.unit.simulate.asking import place, pod, results, snapshot


def manifest_of(kind, version, name, **more):
    """A manifest in the namespace `default`."""
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": version, "kind": kind, "metadata": meta, **more}


def one_pod(*objects, **spec):
    """The only pod to be placed, after admission."""
    (found,) = snapshot(*objects, given=[pod("p", spec=spec)]).unbound
    return found


KATA = manifest_of(
    "RuntimeClass",
    "node.k8s.io/v1",
    "kata",
    overhead={"podFixed": {"cpu": "1"}},
    scheduling={"nodeSelector": {"sandboxed": "yes"}},
)
LIMITS = manifest_of(
    "LimitRange",
    "v1",
    "lr",
    spec={"limits": [{"type": "Container", "max": {"cpu": "3"}}]},
)
NOT_READY = "node.kubernetes.io/not-ready"


def test_admission_applies_to_new_pods_in_any_order_of_objects():
    """The objects of admission may follow the pods, in the cluster or apart from it."""
    new = pod("p", spec={"runtimeClassName": "kata"})
    for objects, given in (
        ([KATA, LIMITS, new], []),
        ([new, LIMITS, KATA], []),
        ([LIMITS], [new, KATA]),
    ):
        (found,) = snapshot(*objects, given=given).unbound
        assert {"cpu": "1"} == found.spec.overhead
        assert {"sandboxed": "yes"} == found.spec.node_selector
        assert {"cpu": "3"} == found.spec.containers[0].resources.requests
        assert NOT_READY in {one.key for one in found.spec.tolerations}


SPREAD = {
    "maxSkew": 1,
    "topologyKey": "zone",
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "a"}},
    "matchLabelKeys": ["version"],
}
SPECS = [
    {},
    {"nodeName": "n1"},
    {"nodeName": "n2"},
    {"runtimeClassName": "kata"},
    {"runtimeClassName": "kata", "nodeName": "n1"},
    {"topologySpreadConstraints": [SPREAD]},
    {"priority": 1},
]


@pytest.mark.parametrize("first", range(len(SPECS)))
def test_pods_of_one_spec_are_admitted_as_each_alone(first):
    """The result depends on spec, labels, namespace and node alone, not on earlier pods."""
    ranged = manifest_of(
        "LimitRange",
        "v1",
        "lr",
        spec={"limits": [{"type": "Container", "default": {"cpu": "2"}}]},
    )
    objects = [KATA, ranged, node("n1"), node("n2")]
    pods = [
        pod(f"p{at}-{version}-{space}", namespace=space, labels={"version": version}, spec=spec)
        for at, spec in enumerate(SPECS[first:] + SPECS[:first])
        for version in ("1", "2")
        for space in ("default", "other")
    ]
    together = snapshot(*objects, *pods)
    alone = [snapshot(*objects, one) for one in pods]
    expected = {found.key: found for one in alone for found in (*one.bound, *one.unbound)}
    assert expected == {found.key: found for found in (*together.bound, *together.unbound)}


@pytest.mark.parametrize("field", ["nodeSelektor", "nodeName"])
def test_a_fault_is_found_in_any_pod_of_a_spec(field):
    """A misspelt field, or a nodeName that is no string, is reported although an earlier pod is
    valid.
    """
    wrong = pod("b", spec={field: 1})
    with pytest.raises(ObjectError, match=r"nodeSelektor|xpected `str"):
        snapshot(pod("a"), wrong)


def test_a_pod_of_an_api_server_stays_as_it_is():
    """A pod of the cluster is not admitted again: the objects of admission may have changed
    since.
    """
    old = pod("p", spec={"runtimeClassName": "gone"})
    old["metadata"]["uid"] = "1234"
    (found,) = snapshot(LIMITS, old).unbound
    assert ({}, ()) == (found.spec.overhead, found.spec.tolerations)


def test_an_unknown_runtime_class_is_an_error_where_the_cluster_is_known():
    """A page's manifests are read without the cluster's classes: a notice names the ignored
    class.
    """
    with pytest.raises(
        ObjectError, match='Pod default/p: pod rejected: RuntimeClass "kata" not found'
    ):
        one_pod(runtimeClassName="kata")
    spec = "{runtimeClassName: kata, containers: [{name: c}]}"
    text = f"{{apiVersion: v1, kind: Pod, metadata: {{name: p}}, spec: {spec}}}"
    assert any("RuntimeClass that is not known" in one for one in manifest(text, "m").notices)


def claim(**spec):
    """A claim for a volume."""
    return manifest_of("PersistentVolumeClaim", "v1", "c", spec=spec)


def test_a_claim_without_a_class_has_the_default_one():
    """A claim without a storage class gets the default class, also if it existed before the
    class.
    """
    notes = {"storageclass.kubernetes.io/is-default-class": "true"}
    std = manifest_of("StorageClass", "storage.k8s.io/v1", "std", provisioner="d")
    std["metadata"]["annotations"] = notes
    for spec, uid, wanted in (
        ({}, "", "std"),
        ({}, "1", "std"),
        ({"storageClassName": ""}, "", ""),
    ):
        made = claim(**spec)
        made["metadata"]["uid"] = uid
        objects = dict(snapshot(made, std).objects)
        assert wanted == objects["PersistentVolumeClaim"].spec.storage_class_name


@pytest.mark.parametrize("uid", ["", "1234"])
def test_a_generic_ephemeral_volume_has_its_claim(uid):
    """The simulation creates the claim of a generic ephemeral volume, also for a pod of the
    cluster.
    """
    template = {"spec": {"storageClassName": "none"}}
    volumes = [{"name": "v", "ephemeral": {"volumeClaimTemplate": template}}]
    new = pod("p", spec={"volumes": volumes})
    new["metadata"]["uid"] = uid
    found = snapshot(new)
    (made,) = (obj for kind, obj in found.objects if kind == "PersistentVolumeClaim")
    assert ("p-v", "none") == (made.metadata.name, made.spec.storage_class_name)
    assert found.unbound[0].metadata.uid == made.metadata.owner_references[0].uid


def test_device_claims_have_the_defaults_of_the_api_server():
    """The allocation repeats the toleration, which states the operator Equal."""
    request = {"name": "r", "exactly": {"deviceClassName": "g", "tolerations": [{"key": "k"}]}}
    spec = {"devices": {"requests": [request]}}
    made = manifest_of("ResourceClaim", "resource.k8s.io/v1", "c", spec=spec)
    template = manifest_of("ResourceClaimTemplate", "resource.k8s.io/v1", "t", spec={"spec": spec})
    objects = dict(snapshot(made, template).objects)
    for found in (objects["ResourceClaim"].spec, objects["ResourceClaimTemplate"].spec.spec):
        toleration = found.devices.requests[0].exactly.tolerations[0]
        assert {"key": "k", "operator": "Equal"} == msgspec.to_builtins(toleration)


def test_a_quota_that_pods_would_exceed_is_noticed():
    """A notice states that the API server would reject the pods; the simulation places them."""
    quota = manifest_of(
        "ResourceQuota", "v1", "q", spec={"hard": {"requests.cpu": "2", "pods": "9"}}
    )
    quota["status"] = {"used": {"requests.cpu": "1500m"}}
    new = pod("p", requests={"cpu": "1"})
    assert (
        (
            "the ResourceQuota default/q would refuse pods: requests.cpu would be 2500m, the limit "
            "is 2"
        ),
    ) == snapshot(quota, given=[new]).notices
    assert () == snapshot(quota, given=[pod("p", requests={"cpu": "500m"})]).notices


def test_a_quota_counts_the_pods_of_its_scope():
    """The scope is a priority class or requests; a scope without match counts nothing."""
    hard = {"hard": {"pods": "0"}}
    pods = [pod("p", requests={"cpu": "1"}, spec={"priorityClassName": "gold"})]
    gold = {"scopeName": "PriorityClass", "operator": "In", "values": ["gold"]}
    for scope, counts in (
        ({"scopeSelector": {"matchExpressions": [gold]}}, True),
        ({"scopeSelector": {"matchExpressions": [gold | {"operator": "NotIn"}]}}, False),
        ({"scopes": ["NotBestEffort"]}, True),
        ({"scopes": ["BestEffort"]}, False),
        ({"scopes": ["Terminating"]}, False),
        ({"scopes": ["NotTerminating"]}, True),
        ({"scopes": ["CrossNamespacePodAffinity"]}, False),
    ):
        quota = manifest_of("ResourceQuota", "v1", "q", spec=hard | scope)
        reported = [
            one for one in snapshot(quota, *GOLD, given=pods).notices if "would refuse" in one
        ]
        assert counts == bool(reported), scope


def test_a_quota_counts_pods_with_a_deadline_or_terms_for_other_namespaces():
    """Quota scopes select pods by activeDeadlineSeconds and by namespaces of affinity terms."""
    term = {"topologyKey": "zone", "namespaces": ["other"]}
    spread = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    for scope, spec in (
        ("Terminating", {"activeDeadlineSeconds": 60}),
        ("CrossNamespacePodAffinity", {"affinity": spread}),
    ):
        quota = manifest_of(
            "ResourceQuota", "v1", "q", spec={"hard": {"pods": "0"}, "scopes": [scope]}
        )
        (notice,) = snapshot(quota, given=[pod("p", spec=spec)]).notices
        assert "would refuse pods: pods would be 1" in notice


GOLD = [
    {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "gold"},
        "value": 5,
    }
]


def test_a_limit_range_that_pods_violate_is_noticed():
    """The minimum of requests, the maximum of limits, and the ratio of the two are checked."""
    limit = {
        "type": "Container",
        "min": {"cpu": "500m"},
        "max": {"cpu": "2"},
        "maxLimitRequestRatio": {"cpu": "2"},
    }
    ranged = manifest_of("LimitRange", "v1", "r", spec={"limits": [limit]})
    lead = "the LimitRange default/r would refuse default/p, container main: cpu "

    def noticed(request, most):
        new = pod("p", requests={"cpu": request})
        new["spec"]["containers"][0]["resources"]["limits"] = {"cpu": most}
        return snapshot(ranged, given=[new]).notices

    assert () == noticed("1", "2")
    assert (
        f"{lead}requests 100m, the minimum is 500m",
        f"{lead}limit is more than 2 times the request",
    ) == noticed("100m", "1")
    assert (f"{lead}limit is 3, the maximum is 2",) == noticed("2", "3")


def test_a_limit_range_of_type_pod_bounds_the_sum_of_the_containers():
    """Init containers run before the others, sidecars beside them."""
    limit = {"type": "Pod", "max": {"cpu": "3"}, "min": {"memory": "1Gi"}}
    ranged = manifest_of("LimitRange", "v1", "r", spec={"limits": [limit]})

    def container(name, cpu, **more):
        amounts = {"cpu": cpu, "memory": "512Mi"}
        return {"name": name, "resources": {"requests": amounts, "limits": amounts}} | more

    def noticed(*containers, init=()):
        new = pod("p", spec={"containers": list(containers), "initContainers": list(init)})
        return snapshot(ranged, given=[new]).notices

    two = container("a", "1"), container("b", "2")
    lead = "the LimitRange default/r would refuse default/p: "
    assert () == noticed(*two)
    assert () == noticed(*two, init=[container("first", "3")])
    assert (f"{lead}cpu limit is 3500m, the maximum is 3",) == noticed(
        *two, init=[container("sidecar", "500m", restartPolicy="Always")]
    )
    assert (f"{lead}memory requests 512Mi, the minimum is 1Gi",) == noticed(container("a", "1"))


def test_default_tolerations_admit_new_pods_to_nodes_that_are_not_ready():
    """As on a cluster, where only the NoSchedule taint beside it rejects them."""
    taints = [{"key": NOT_READY, "effect": "NoExecute"}]
    assert {"p": "n"} == results(place(node("n", taints=taints), given=[pod("p")]))


@pytest.mark.parametrize(("allowed", "blocked"), [(0, True), (1, True), (2, False)])
def test_a_drain_that_a_budget_blocks_is_noticed(allowed, blocked):
    """A notice states that a budget blocks the drain; the simulation still moves the pods."""
    budget = manifest_of(
        "PodDisruptionBudget",
        "policy/v1",
        "web",
        spec={"selector": {"matchLabels": {"app": "web"}}},
        status={"disruptionsAllowed": allowed},
    )
    pods = [plain_pod(f"web-{at}", node_name="a", labels={"app": "web"}) for at in range(2)]
    cluster = snapshot(node("a", labels={"drain": "yes"}), node("b"), budget, *pods)
    found = changed(cluster, NodeChanges(drained=("drain=yes",)))
    assert 2 == len(found.unbound)
    assert blocked == any(
        "a real drain would block: the PodDisruptionBudget default/web allows" in one
        for one in found.notices
    )


@pytest.mark.parametrize(
    ("resources", "container", "message"),
    [
        (None, {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}, "limit of 1"),
        (None, {"requests": {"cpu": "4"}}, "limit of 3"),
        (
            {"requests": {"cpu": "1"}},
            {"requests": {"cpu": "2"}},
            "aggregate container requests of 2",
        ),
        ({"limits": {"cpu": "2"}}, {"requests": {"cpu": "1"}}, "pod limits of 2"),
    ],
)
def test_amounts_that_the_api_server_refuses_are_an_error(resources, container, message):
    """A LimitRange may have added one of them."""
    new = plain_pod("p")
    new["spec"]["containers"][0]["resources"] = container
    if resources is not None:
        new["spec"]["resources"] = resources
    with pytest.raises(ObjectError, match=message):
        snapshot(LIMITS, given=[new])


def test_pod_level_requests_follow_a_limit_range():
    """kube-apiserver applies the defaults once more when it reads a pod."""
    limits = manifest_of(
        "LimitRange",
        "v1",
        "lr",
        spec={"limits": [{"type": "Container", "defaultRequest": {"memory": "1Gi"}}]},
    )
    found = one_pod(limits, resources={"limits": {"cpu": "9"}})
    assert {"cpu": "9", "memory": "1Gi"} == found.spec.resources.requests
