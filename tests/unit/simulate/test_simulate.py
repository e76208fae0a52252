"""The contract of `simulate`: results, order, ties, victims, details, ends."""

import msgspec
import pytest

from scheduler.base.errors import InputError
from scheduler.engine.attempt.cycle import Ties
from scheduler.explain.explain import explain
from scheduler.framework.args import NoArgs
from scheduler.framework.plugin import Plugin
from scheduler.framework.status import unschedulable, wait
from scheduler.simulate.records import Result
from scheduler.testing import node
from tests.unit.simulate.asking import (
    HEAD,
    default_setup,
    place,
    plain,
    pod,
    results,
    setup,
    snapshot,
)

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


class Hold(Plugin[NoArgs]):
    """Pods with label `wait` wait at permit for one with label `go`, or for 30 s."""

    def permit(self, cycle, node):
        if "go" in cycle.pod.metadata.labels:
            for one in self.handle.waiting_pods():
                self.handle.allow(one.metadata.uid, self.name)
        return wait(30.0) if "wait" in cycle.pod.metadata.labels else None


class Broken(Plugin[NoArgs]):
    """Filter fails for pods with label `break`."""

    def filter(self, cycle, nodes):
        if "break" in cycle.pod.metadata.labels:
            raise RuntimeError("out of order")


class PingPong(Plugin[NoArgs]):
    """Reserve always refuses, and every attempt wakes the other pods."""

    reads = ("pod.deleted", "pod.added")

    def permit(self, cycle, node):
        return unschedulable("not now")


def test_the_answer_has_the_shape_of_the_contract():
    """Every field of contracts section 2, in its place."""
    answer = plain(place(node("n1"), pod("p1", requests={"cpu": "1"})))

    assert {
        "apiVersion": "trellis.dev/v1alpha1",
        "kind": "Simulation",
        "queueOrder": ["default/p1"],
        "pods": [
            {
                "namespace": "default",
                "name": "p1",
                "profile": "trellis",
                "result": "Scheduled",
                "node": "n1",
                "reason": "",
                "message": "",
                "nominatedNode": None,
                "victims": [],
            }
        ],
        "groups": [],
        "summary": {"scheduled": 1, "unschedulable": 0, "networkCost": 0},
    } == answer
    assert ["apiVersion", "kind", "queueOrder", "pods", "groups", "summary"] == list(answer)


def test_a_pod_that_fits_nowhere():
    """The message is that of the PodScheduled condition, in kube-scheduler's words."""
    answer = place(node("n1", cpu="1"), pod("p", requests={"cpu": "2"}), pod("q"))
    (q, p) = sorted(answer.pods, key=lambda one: one.result)

    assert (Result.SCHEDULED, "n1") == (q.result, q.node)
    assert (Result.UNSCHEDULABLE, "Unschedulable", None) == (p.result, p.reason, p.node)
    assert p.message.startswith("0/1 nodes are available: 1 Insufficient cpu.")
    assert (1, 1) == (answer.summary.scheduled, answer.summary.unschedulable)
    assert not answer.fits


def test_namespaces_are_those_of_an_api_server():
    """A namespace that no manifest describes exists, and has the label of its name."""
    excluding = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["other"]}
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": "web"}},
        "namespaceSelector": {"matchExpressions": [excluding]},
    }
    spec = {"affinity": {"podAntiAffinity": {REQUIRED: [term]}}}
    for namespace, result in (("other", "n1"), ("third", "Unschedulable")):
        web = pod("web", namespace=namespace, node_name="n1", labels={"app": "web"})
        n1 = node("n1", labels={"kubernetes.io/hostname": "n1"})

        assert {"p": result} == results(place(n1, web, pod("p", spec=spec)))


def test_no_nodes_at_all():
    """An empty cluster is a valid input."""
    (one,) = place(pod("p")).pods

    assert "no nodes available to schedule pods" == one.message


def test_details_are_what_the_first_attempt_saw():
    """All nodes by name, rejected ones with plugin, code and reasons, scored ones with scores."""
    (one,) = place(
        node("b", labels={"x": "1"}),
        node("c", cpu="1"),
        node("a"),
        node("d", taints=[{"key": "k", "effect": "NoSchedule"}]),
        pod("p", requests={"cpu": "2"}),
        details=True,
    ).pods
    a, b, c, d = plain(one)["nodes"]

    assert ["a", "b", "c", "d"] == [each["name"] for each in (a, b, c, d)]
    assert {
        "name": "d",
        "feasible": False,
        "rejectedBy": "TaintToleration",
        "code": "UnschedulableAndUnresolvable",
        "reasons": ["node(s) had untolerated taint(s)"],
        "scores": {},
        "total": None,
    } == d
    # No victims could free enough: the node as such is too small.
    assert ("NodeResourcesFit", "UnschedulableAndUnresolvable") == (c["rejectedBy"], c["code"])
    assert ["Insufficient cpu"] == c["reasons"]
    assert (True, None, "Success", []) == tuple(
        a[key] for key in ("feasible", "rejectedBy", "code", "reasons")
    )
    fit = a["scores"]["NodeResourcesFit"]
    assert {"raw", "normalized", "weight", "weighted"} == set(fit)
    assert fit["weighted"] == fit["normalized"] * fit["weight"]
    assert a["total"] == b["total"] == sum(each["weighted"] for each in a["scores"].values())


def test_a_single_feasible_node_has_no_scores():
    """No plugin scores a single node."""
    (one,) = place(node("a"), pod("p"), details=True).pods

    assert ({}, None) == (one.nodes[0].scores, one.nodes[0].total)


def test_a_node_that_a_pre_filter_left_out():
    """Nodes outside of a pod's list are rejected in the name of the plugin that read the list."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    spec = {"affinity": {"nodeAffinity": required}}
    (one,) = place(node("a"), node("b"), pod("p", spec=spec), details=True).pods

    assert "a" == one.node
    assert "NodeAffinity" == one.nodes[1].rejected_by
    assert ("node(s) didn't satisfy plugin(s) [NodeAffinity]",) == one.nodes[1].reasons


def test_ties_are_broken_the_same_every_time():
    """The lowest name, whatever the order of the file; the daemon's rule and a seed on demand."""
    nodes = [node(name) for name in ("c", "a", "b")]
    pods = [pod(f"p{number}", requests={"cpu": "10m"}) for number in range(12)]

    def chosen(**options):
        # Each pod alone: an even cluster and a tie every time.
        return [place(*nodes, one, **options).pods[0].node for one in pods]

    assert {"a"} == set(chosen())
    assert len(set(chosen(ties=Ties.UID))) > 1
    assert chosen(ties=Ties.UID) == chosen(ties=Ties.UID)
    together = results(place(*nodes, *pods, ties=Ties.SEED, seed=7))
    assert together == results(place(*nodes, *pods, ties=Ties.SEED, seed=7))
    assert together != results(place(*nodes, *pods, ties=Ties.SEED, seed=8))


def test_the_queue_decides_the_order():
    """Higher priority precedes, then the older pod; gated pods are in no order."""
    old, new, urgent = pod("old"), pod("new"), pod("urgent", spec={"priority": 5})
    old["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    new["metadata"]["creationTimestamp"] = "2026-01-01T00:01:00Z"
    gated = pod("gated", spec={"schedulingGates": [{"name": "later"}], "priority": 9})
    answer = place(node("n"), new, gated, old, urgent)

    assert ("default/urgent", "default/old", "default/new") == answer.queue_order
    assert ["urgent", "old", "new", "gated"] == [one.name for one in answer.pods]
    assert (
        Result.GATED,
        "SchedulingGated",
        "Scheduling is blocked due to non-empty scheduling gates",
    ) == (answer.pods[3].result, answer.pods[3].reason, answer.pods[3].message)
    assert (3, 0) == (answer.summary.scheduled, answer.summary.unschedulable)


def test_only_our_pods_are_placed_and_given_ones_in_any_case():
    """Other schedulers' pods are ignored; those of -f without a scheduler are placed."""
    foreign = pod("foreign", spec={"schedulerName": "default-scheduler"})
    given = pod("given", spec={"schedulerName": "default-scheduler"})
    answer = place(node("n"), foreign, given=[given])

    assert {"given": "n"} == results(answer)
    assert "trellis" == answer.pods[0].profile
    with pytest.raises(
        InputError, match=r"given.0.: Pod default/x: spec.schedulerName: no profile"
    ):
        place(node("n"), given=[pod("x", spec={"schedulerName": "volcano"})])


def test_pods_on_unknown_nodes_weigh_nothing_here():
    """A pod bound to a missing node neither disturbs nor counts."""
    ghost = pod("ghost", node_name="nowhere", requests={"cpu": "4"})

    assert {"p": "n"} == results(place(node("n"), ghost, pod("p", requests={"cpu": "4"})))


def test_victims_go_and_the_preemptor_comes():
    """The simulation includes preemption: victims removed, the preemptor placed, budgets
    charged.
    """
    low = [
        pod(name, node_name="n", requests={"cpu": "2"}, labels={"app": "low"})
        for name in ("low-a", "low-b")
    ]
    high = pod("high", requests={"cpu": "2"}, spec={"priority": 100})
    after = pod("after", requests={"cpu": "2"}, spec={"priority": 50})
    budget = {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "low"},
        "spec": {"selector": {"matchLabels": {"app": "low"}}},
        "status": {"disruptionsAllowed": 1},
    }
    answer = place(node("n"), *low, high, after, budget, details=True)
    first, second = answer.pods

    assert {"high": "n", "after": "n"} == results(answer)
    assert ["default/high", "default/after"] == list(answer.queue_order)
    assert (1, 1) == (len(first.victims), len(second.victims))
    assert {"low-a", "low-b"} == {first.victims[0].name, second.victims[0].name}
    assert (None, "") == (first.nominated_node, first.message)
    assert not first.nodes[0].feasible
    assert answer.fits


def test_permit_waits_on_the_simulated_clock():
    """A pod without permission is rejected when its time is up; one with permission is bound."""
    alone = place(node("n"), pod("w", labels={"wait": "1"}), using=setup(Hold))
    both = place(
        node("n"), pod("w", labels={"wait": "1"}), pod("x", labels={"go": "1"}), using=setup(Hold)
    )

    assert Result.UNSCHEDULABLE is alone.pods[0].result
    assert "rejected due to timeout after waiting 30s at plugin Hold" in alone.pods[0].message
    assert {"w": "n", "x": "n"} == results(both)


def test_a_plugin_that_fails_ends_its_pod_and_no_other():
    """The error is named, retried a bounded number of times, and others are placed."""
    answer = place(node("n"), pod("b", labels={"break": "1"}), pod("p"), using=setup(Broken))
    broken = answer.pods[0]

    assert {"b": "Error", "p": "n"} == results(answer)
    assert "SchedulerError" == broken.reason
    assert 'running "Broken" filter plugin: out of order' == broken.message
    assert (1, 0) == (answer.summary.scheduled, answer.summary.unschedulable)


def test_what_never_settles_is_ended():
    """Pods that wake each other for ever do not keep the simulation from ending."""
    pods = [pod(f"p{number}") for number in range(5)]
    answer = place(node("n"), *pods, using=setup(PingPong))

    assert {Result.UNSCHEDULABLE} == {one.result for one in answer.pods}
    assert {"0/1 nodes are available: 1 not now."} == {one.message for one in answer.pods}


def test_a_victim_that_is_leaving_already_leaves():
    """The victim is not evicted again; its capacity is there for the pod nominated to its node."""
    low = pod("low", node_name="n", requests={"cpu": "1"})
    low["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    high = pod("high", requests={"cpu": "1"}, spec={"priority": 5})

    answer = place(node("n", allocatable={"cpu": "1", "pods": "9"}), low, high)

    assert {"high": "n"} == results(answer)
    assert ["low"] == [victim.name for victim in answer.pods[0].victims]


def storage(mode, provisioner="csi.example"):
    claim = {
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "uid": "c"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "fast",
            "resources": {"requests": {"storage": "1Gi"}},
        },
        "status": {"phase": "Pending"},
    }
    of = {
        "kind": "StorageClass",
        "metadata": {"name": "fast"},
        "provisioner": provisioner,
        "volumeBindingMode": mode,
    }
    return claim, of


USES_DATA = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}


def test_volumes_are_made_as_a_provisioner_would():
    """A claim that waits for its first consumer is bound with its pod.

    A second pod finds it bound.
    """
    claim, of = storage("WaitForFirstConsumer")
    pods = [pod(name, spec=USES_DATA) for name in ("p", "q")]

    assert {"p": "n", "q": "n"} == results(place(node("n"), claim, of, *pods))


def test_a_volume_that_was_asked_for_before_is_made_as_well():
    """The claim names its node already: the scheduler writes nothing, and the pod is placed."""
    claim, of = storage("WaitForFirstConsumer")
    claim["metadata"]["annotations"] = {"volume.kubernetes.io/selected-node": "n"}

    answer = place(node("n"), claim, of, pod("p", spec=USES_DATA))

    assert {"p": "n"} == results(answer)


def test_a_claim_for_a_node_that_is_gone_is_provisioned_elsewhere():
    """The provisioner rejects it, so the pod is placed; `explain` gives the same answer."""
    claim, of = storage("WaitForFirstConsumer")
    claim["metadata"]["annotations"] = {"volume.kubernetes.io/selected-node": "gone"}
    objects = (node("n"), claim, of, pod("p", spec=USES_DATA))

    assert {"p": "n"} == results(place(*objects))
    reported = explain(snapshot(*objects), default_setup(), "default/p").explanation
    assert ("n", True) == (reported.node, reported.nodes[0].feasible)


def test_a_free_volume_is_bound_where_it_is():
    """A local volume takes its claim, and the pod, to its node."""
    claim, of = storage("WaitForFirstConsumer", "kubernetes.io/no-provisioner")
    expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["b"]}
    volume = {
        "kind": "PersistentVolume",
        "metadata": {"name": "disk"},
        "spec": {
            "capacity": {"storage": "2Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "fast",
            "nodeAffinity": {
                "required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
            },
        },
        "status": {"phase": "Available"},
    }
    nodes = [node(name, labels={"kubernetes.io/hostname": name}) for name in "abc"]

    assert {"p": "b"} == results(place(*nodes, claim, of, volume, pod("p", spec=USES_DATA)))


def test_what_storage_cannot_do():
    """A claim of a class that binds at once and is not bound holds the pod, with the reason."""
    claim, of = storage("Immediate")
    (one,) = place(node("n"), claim, of, pod("p", spec=USES_DATA)).pods

    assert "pod has unbound immediate PersistentVolumeClaims" in one.message


def test_profiles_decide_by_schedulername():
    """Each pod is placed by the profile it names."""
    config = (
        f"{HEAD}profiles:\n- {{schedulerName: spread}}\n- schedulerName: pack\n"
        "  pluginConfig:\n  - name: NodeResourcesFit\n    args: {scoringStrategy: "
        "{type: MostAllocated, resources: [{name: cpu, weight: 1}]}}\n"
        "  plugins: {score: {disabled: [{name: NodeResourcesBalancedAllocation}]}}\n"
    )
    objects = [
        node("a"),
        node("b"),
        pod("old", node_name="b", requests={"cpu": "1"}),
        pod("one", requests={"cpu": "1"}, spec={"schedulerName": "spread"}),
        pod("two", requests={"cpu": "1"}, spec={"schedulerName": "pack", "priority": 1}),
    ]
    answer = place(*objects, using=setup(config=config))

    assert {"two": "b", "one": "a"} == results(answer)
    assert ["pack", "spread"] == [one.profile for one in answer.pods]


def test_extenders_cannot_be_asked():
    """A placement that an extender could forbid is no result; an ignorable extender is left out."""
    extender = "extenders: [{urlPrefix: 'http://x', filterVerb: f%s}]\n"
    text = "the extender http://x cannot be asked here about pod default/p"
    with pytest.raises(InputError, match=text):
        place(node("n"), pod("p"), using=setup(config=HEAD + extender % ""))

    using = setup(config=HEAD + extender % ", ignorable: true")
    assert {"p": "n"} == results(place(node("n"), pod("p"), using=using))


@pytest.mark.parametrize(
    "fields", ["bindVerb: b", "filterVerb: f, managedResources: [{name: example.com/other}]"]
)
def test_extenders_that_have_no_say_are_no_obstacle(fields: str):
    """A binder does not choose the node, and an extender without matching pods is not called."""
    config = f"{HEAD}extenders: [{{urlPrefix: 'http://x', {fields}}}]\n"

    assert {"p": "n"} == results(place(node("n"), pod("p"), using=setup(config=config)))


def test_absurd_amounts_are_amounts():
    """An unbounded node takes pods and is scored; a pod that requests everything fits nowhere."""
    most = {"memory": "9" * 40, "cpu": 10**18}
    answer = place(
        node("a", allocatable=most),
        node("b", allocatable=most),
        pod("p", requests={"cpu": "1"}),
        pod("q", requests=most),
    )

    assert {"p": "a", "q": "Unschedulable"} == results(answer)


def test_two_runs_are_the_same_bytes():
    """Two runs with the same arguments write the same bytes."""
    objects = [node(f"n{number}") for number in range(5)]
    objects += [pod(f"p{number}", requests={"cpu": "1"}) for number in range(30)]

    first, second = (msgspec.json.encode(place(*objects, details=True)) for _ in range(2))
    assert first == second
