"""Snapshots are read strictly, and completed as an API server would have."""

import pytest

from scheduler.base.errors import ObjectError
from scheduler.testing import node
from scheduler.testing import pod as plain_pod
from tests.unit.simulate.asking import pod, snapshot

LOW = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "low"},
    "value": -5,
    "preemptionPolicy": "Never",
}


def container(**resources):
    return {"containers": [{"name": "c", "resources": resources}]}


@pytest.mark.parametrize(
    ("obj", "error"),
    [
        (
            pod("p", requests={"cpu": "-1"}),
            (
                "objects[0]: Pod default/p: spec.containers[0].resources.requests[cpu]: -1 is less "
                "than 0"
            ),
        ),
        (
            pod("p", requests={"cpu": "many"}),
            'objects[0]: Pod default/p: spec.containers[0].resources.requests[cpu]: "many" is not',
        ),
        (
            pod("p", spec={"priority": 2**31}),
            "objects[0]: Pod default/p: Expected `int` <= 2147483647 - at `$.spec.priority`",
        ),
        (
            pod("p", spec={"priority": 10**400}),
            "objects[0]: Pod default/p: Expected `int` <= 2147483647 - at `$.spec.priority`",
        ),
        (
            pod("p", host_ports=[70000]),
            "objects[0]: Pod default/p: spec.containers[0].ports[0].hostPort: 70000 is not between",
        ),
        (
            pod("p", spec={"tolerations": "all"}),
            "objects[0]: Pod default/p: Expected `array`, got `str` - at `$.spec.tolerations`",
        ),
        (
            pod("p", spec={"priorityClassName": "lo"}),
            'objects[0]: Pod default/p: spec.priorityClassName: no PriorityClass "lo" is given',
        ),
        (
            node("n", cpu="-4"),
            "objects[0]: Node n: status.allocatable[cpu]: -4 is less than 0",
        ),
        (
            {"kind": "Node", "metadata": {"labels": {}}},
            "objects[0]: Node: metadata.name is missing",
        ),
        ({"kind": "Node"}, "objects[0]: Node: metadata.name is missing"),
        ({"metadata": {"name": "n"}}, "objects[0]: kind is missing"),
        (
            {"kind": "Service", "metadata": {"name": "s"}, "spec": {"selector": [1]}},
            "objects[0]: Service s: Expected `object`, got `array` - at `$.spec.selector`",
        ),
    ],
)
def test_a_broken_object_is_named_with_its_field(obj, error):
    """One clear error with the place, the object and the field."""
    with pytest.raises(ObjectError) as refused:
        snapshot(obj)

    assert str(refused.value).startswith(error)


def test_two_objects_of_one_name():
    """The same object twice is valid, two different ones of one name are not.

    Uids are unique as well.
    """
    assert 1 == len(snapshot(node("n"), node("n")).nodes)
    with pytest.raises(ObjectError, match=r"objects\[1\]: Node n: there are two .* objects\[0\]"):
        snapshot(node("n"), node("n", cpu="9"))

    first, second = pod("a"), pod("b")
    first["metadata"]["uid"] = second["metadata"]["uid"] = "u"
    with pytest.raises(ObjectError, match=r'Pod default/b: metadata.uid: "u" is that of Pod defau'):
        snapshot(first, second)


def test_where_pods_go():
    """Bound, pending, terminating or finished: each pod is in one list."""
    leaving = pod("leaving")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    got = snapshot(
        pod("there", node_name="n"),
        pod("waits"),
        leaving,
        pod("over", status={"phase": "Succeeded"}),
        pod("failed", node_name="n", status={"phase": "Failed"}),
        given=[pod("given")],
    )

    assert ["there"] == [one.metadata.name for one in got.bound]
    assert ["waits", "given"] == [one.metadata.name for one in got.unbound]
    assert {"Pod/default/given"} == got.given
    assert (
        "not to be placed, as they are being deleted: default/leaving",
        "on nodes that are not in the snapshot, so they count nowhere: default/there (node n)",
    ) == got.notices


def test_the_oldest_pod_comes_first_and_the_newest_sets_the_time():
    """Pods wait in the order of their creation, those without a time last."""
    pods = [pod("untold"), pod("new"), pod("old")]
    pods[1]["metadata"]["creationTimestamp"] = "2026-03-01T00:00:00Z"
    pods[2]["metadata"]["creationTimestamp"] = "2026-02-01T00:00:00Z"
    got = snapshot(*pods)

    assert ["old", "new", "untold"] == [one.metadata.name for one in got.unbound]
    assert 1772323200.0 == got.taken_at


def test_kinds_without_bearing_are_passed_over():
    """Other objects of an application are ignored and named."""
    got = snapshot(
        {"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "s"}},
        {"kind": "Ingress", "apiVersion": "networking.k8s.io/v1", "spec": 5},
        {"kind": "Service", "apiVersion": "v1", "metadata": {"name": "s"}},
    )

    assert [("Service", "default", "s")] == [
        (kind, obj.metadata.namespace, obj.metadata.name) for kind, obj in got.objects
    ]
    assert ("without bearing on where pods go: 1 Ingress, 1 Secret",) == got.notices


@pytest.mark.parametrize(
    "head",
    [
        {"kind": "Service", "apiVersion": "serving.knative.dev/v1"},
        {"kind": "RayCluster", "apiVersion": "ray.io/v1"},
        {"kind": "Deployment", "apiVersion": "example.com/v1"},
    ],
)
def test_a_kind_that_might_matter_is_refused(head):
    """If it were ignored, an empty simulation would look like a good one."""
    with pytest.raises(
        ObjectError, match=f"kind {head['kind']} of {head['apiVersion']} is not one"
    ):
        snapshot(head | {"metadata": {"name": "x"}})


def test_a_misspelled_field_of_a_new_pod_is_refused():
    """An API server would reject or drop the field; in a pod that the server accepted it is no
    mistake.
    """
    fresh = pod("fresh")
    fresh["spec"]["containers"][0]["resource"] = {"requests": {"cpu": "1"}}
    text = r'spec.containers\[0\].resource: a pod has no such field \(did you mean "resources"\?\)'
    with pytest.raises(ObjectError, match=text):
        snapshot(fresh)

    fresh["metadata"]["uid"] = "u"
    assert ["fresh"] == [one.metadata.name for one in snapshot(fresh).unbound]


def test_a_manifest_gets_what_the_api_server_would_fill_in():
    """In a pod without uid, missing requests are set to the limits, and on the host network missing
    host ports to the container ports. A pod with uid is unchanged.
    """
    spec = container(requests={"cpu": "1"}, limits={"cpu": "2", "memory": "1Gi"})
    spec["containers"][0]["ports"] = [{"containerPort": 80}]
    fresh = plain_pod("fresh", spec=spec | {"hostNetwork": True})
    seen = plain_pod("seen", spec=spec | {"hostNetwork": True})
    seen["metadata"]["uid"] = "u"
    one, other = snapshot(fresh, seen).unbound

    assert {"cpu": "1", "memory": "1Gi"} == one.spec.containers[0].resources.requests
    assert 80 == one.spec.containers[0].ports[0].host_port
    assert {"cpu": "1"} == other.spec.containers[0].resources.requests
    assert 0 == other.spec.containers[0].ports[0].host_port


def test_priorities_follow_classes():
    """By name, by the built-in ones, by the default class; an explicit priority stays."""
    default = LOW | {"metadata": {"name": "usual"}, "value": 7, "globalDefault": True}
    default.pop("preemptionPolicy")
    named = {"priorityClassName": "low"}
    got = snapshot(
        pod("low", spec=named),
        pod("loud", spec=named | {"preemptionPolicy": "PreemptLowerPriority"}),
        pod("system", spec={"priorityClassName": "system-node-critical"}),
        pod("usual"),
        pod("own", spec=named | {"priority": 3}),
        LOW,
        default,
    ).unbound

    assert [-5, -5, 2_000_001_000, 7, 3] == [one.priority for one in got]
    assert ["Never", "PreemptLowerPriority"] == [one.spec.preemption_policy for one in got[:2]]


def test_a_node_offers_its_capacity_unless_it_says_less():
    """A hand-written node with a capacity alone takes pods."""
    bare = {"kind": "Node", "metadata": {"name": "n"}, "status": {"capacity": {"cpu": "4"}}}

    assert {"cpu": "4"} == snapshot(bare).nodes[0].status.allocatable


def test_nulls_mean_not_set():
    """The nulls that kubectl writes are read."""
    spec = {"nodeSelector": None, "tolerations": None, "schedulerName": None, "volumes": None}
    (got,) = snapshot(pod("p", spec=spec, status={"conditions": None})).unbound

    assert "default-scheduler" == got.spec.scheduler_name
    assert "Pod/default/p" == got.metadata.uid
