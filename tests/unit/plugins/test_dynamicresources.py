"""DynamicResources: rejections, the order of writes, and rollbacks."""

import pytest

from scheduler.engine.binding import prebind
from scheduler.engine.effects import Bind
from scheduler.framework.status import SKIP, Code
from scheduler.objects.claims import EXTENDED_RESOURCE_CLAIM
from scheduler.objects.plain import read_node, read_object, read_pod
from scheduler.plugins.dynamicresources import DynamicResources, DynamicResourcesArgs
from scheduler.plugins.noderesourcesfit import NodeResourcesFit
from scheduler.state.change import Change
from scheduler.testing import check_plugin, evaluate, node, pod
from scheduler.testing.scene import Scene
from tests.unit.plugins.devices import (
    Daemon,
    allocated,
    claim,
    claiming,
    gpu_class,
    local_slice,
)
from tests.unit.plugins.storage import device_class, using

GPU = "example.com/gpu"
IMPLICIT = "deviceclass.resource.kubernetes.io/gpu"
NODES = [node("plain"), node("gpus", allocatable={GPU: 4}), node("busy", allocatable={GPU: 1})]
FIELD = [node("n1"), node("n2")]
FINALIZER = "resource.kubernetes.io/delete-protection"


def daemon_with(*more, devices=("g0", "g1")):
    """Return a daemon for two nodes, of which the first has devices."""
    return Daemon(FIELD, gpu_class(), local_slice("n1", *devices), *more)


def test_it_keeps_the_invariants():
    """The invariants of all plugins hold, for pods with claims and for those with extended
    resources.
    """
    check_plugin(
        DynamicResources,
        pods=[claiming("p", "c"), pod("e", requests={GPU: 1}), claiming("absent", "x")],
        objects=[gpu_class(extendedResourceName=GPU), local_slice("n1", "g0"), claim("c")],
    )


def test_pods_without_claims_pass_through():
    """No node is filtered or scored for pods without claims."""
    got = evaluate(DynamicResources, nodes=NODES, pod=pod())
    assert (SKIP, {0}) == (got.pre_filter, set(got.normalized.values()))


def test_nodes_without_devices_are_rejected_for_good():
    """Evicting pods frees no devices."""
    objects = [gpu_class(), local_slice("n1", "g0"), claim("c")]
    got = evaluate(DynamicResources, nodes=FIELD, objects=objects, pod=claiming("p", "c"))

    assert got.filter["n1"].is_success
    assert (Code.UNRESOLVABLE, ("cannot allocate all claims",)) == (
        got.filter["n2"].code,
        got.filter["n2"].reasons,
    )


def test_a_profile_without_pre_filter_binds_no_pod_without_its_claims():
    """Reserve and pre-bind refuse a pod whose claims were not filtered."""
    scene = Scene(DynamicResources)
    scene.fill(FIELD, objects=[gpu_class(), claim("c")])
    cycle = scene.cycle(read_pod(claiming("p", "c")))

    assert not scene.plugin.reserve(cycle, "n1", None).is_success
    with pytest.raises(StopIteration) as end:
        next(scene.plugin.pre_bind(cycle, "n1", None))
    assert end.value.value.code is Code.ERROR


def test_a_resource_behind_a_class_needs_devices_where_no_node_names_it():
    """Nodes that offer the resource themselves fit; without a class NodeResourcesFit decides."""
    wanting = pod(requests={GPU: 1})
    behind = [gpu_class(extendedResourceName=GPU)]

    assert SKIP == evaluate(DynamicResources, nodes=NODES, pod=wanting).pre_filter
    got = evaluate(DynamicResources, nodes=NODES, objects=behind, pod=wanting)
    lacking = ("cannot allocate all claims",)
    assert {"plain": lacking, "gpus": (), "busy": ()} == {
        n: s.reasons for n, s in got.filter.items()
    }
    by_class = evaluate(
        DynamicResources, nodes=NODES, objects=behind, pod=pod(requests={IMPLICIT: 1})
    )
    assert not any(status.is_success for status in by_class.filter.values())


def test_a_resource_that_neither_node_nor_class_has_fits_nowhere():
    """The pod is rejected, also if NodeResourcesFit is off or ignores the resource. A node that
    names 0 of it passes.
    """
    other = "example.com/fpga"
    got = evaluate(
        DynamicResources,
        nodes=[
            node("none"),
            node("named", allocatable={other: 0}),
            node("some", allocatable={other: 1}),
        ],
        objects=[
            gpu_class(extendedResourceName=GPU),
            *(local_slice(name, "g0") for name in ("none", "named", "some")),
        ],
        pod=pod(requests={GPU: 1, other: 1}),
    )
    alone = evaluate(
        DynamicResources,
        nodes=[node("none")],
        objects=[gpu_class(extendedResourceName=GPU)],
        pod=pod(requests={other: 1}),
    )

    assert {"none": ("cannot fit resource",), "named": (), "some": ()} == {
        name: status.reasons for name, status in got.filter.items()
    }
    assert SKIP == alone.pre_filter


def test_the_fit_leaves_such_nodes_alone():
    """NodeResourcesFit still counts the resource where a node names it, and all other resources
    everywhere.
    """
    wanting = pod(requests={GPU: 2, "cpu": "2"})
    got = evaluate(
        NodeResourcesFit,
        nodes=[*NODES, node("small", cpu="1")],
        existing_pods=[pod("e", node_name="gpus", requests={GPU: 3})],
        objects=[device_class("gpu", GPU)],
        pod=wanting,
    )

    assert {
        "plain": (Code.SUCCESS, ()),
        "gpus": (Code.UNSCHEDULABLE, (f"Insufficient {GPU}",)),
        "busy": (Code.UNRESOLVABLE, (f"Insufficient {GPU}",)),
        "small": (Code.UNRESOLVABLE, ("Insufficient cpu",)),
    } == {name: (status.code, status.reasons) for name, status in got.filter.items()}


def test_a_claim_is_protected_allocated_and_reserved_in_this_order():
    """First the finalizer, then allocation with a timestamp and the pod, each with the version
    seen.
    """
    daemon = daemon_with(claim("c"), claiming("p", "c"))
    (first,) = daemon.run()
    assert ("PATCH", "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/c") == (
        first.method,
        first.path,
    )
    assert first.body == {
        "metadata": {"uid": "uid-c", "resourceVersion": "5", "finalizers": [FINALIZER]}
    }

    (second,) = daemon.answer(first, body=claim("c", resourceVersion="6", finalizers=[FINALIZER]))
    assert second.path.endswith("/resourceclaims/c/status")
    status = second.body["status"]
    assert "6" == second.body["metadata"]["resourceVersion"]
    assert [{"resource": "pods", "name": "p", "uid": "uid-p"}] == list(status["reservedFor"])
    assert status["allocation"]["allocationTimestamp"]
    assert [] == daemon.bound()

    done = claim("c", status=allocated("g0", users=["p"]), resourceVersion="7")
    assert [] == daemon.answer(second, body=done)
    assert ["n1"] == daemon.bound()


def test_reserved_devices_are_not_allocated_to_others():
    """Devices stay reserved before and during the write, and after it with or without the watch
    event.
    """
    daemon = daemon_with(claim("c"), claim("e"), claiming("p", "c"), devices=["g0"])
    (first,) = daemon.run()
    daemon.see(claiming("q", "e"))
    assert [] == daemon.run()
    assert "2 cannot allocate all claims" in daemon.messages()[-1]
    (second,) = daemon.answer(first, body=claim("c", finalizers=[FINALIZER]))
    done = claim("c", status=allocated("g0", users=["p"]), resourceVersion="7")
    daemon.answer(second, body=done)
    catalog = daemon.catalog()
    device = ("gpu.example.com", "n1", "g0")
    assert catalog.in_use.has(device)
    daemon.see(done, "MODIFIED")
    assert {device: 1} == catalog.in_use.whole
    daemon.see(claim("c", resourceVersion="8"), "MODIFIED")
    assert {} == catalog.in_use.whole


def test_after_a_conflict_the_claim_is_read_again():
    """The write then contains the change of the other client."""
    daemon = daemon_with(claim("c"), claiming("p", "c"))
    (first,) = daemon.run()
    (read,) = daemon.answer(first, 409, message="modified")
    assert "GET" == read.method
    (again,) = daemon.answer(read, body=claim("c", resourceVersion="9", finalizers=["other"]))
    assert {"uid": "uid-c", "resourceVersion": "9", "finalizers": ["other", FINALIZER]} == (
        again.body["metadata"]
    )


def test_a_claim_that_another_client_allocated_is_not_changed():
    """The pod fails, its reserved devices are free again, and no claim is overwritten."""
    daemon = daemon_with(claim("c"), claiming("p", "c"))
    (first,) = daemon.run()
    (read,) = daemon.answer(first, 409, message="modified")
    theirs = claim("c", status=allocated("g1"), resourceVersion="9")
    assert [] == daemon.answer(read, body=theirs)
    assert "claim default/c got allocated elsewhere in the meantime" in daemon.messages()[-1]
    assert not daemon.catalog().in_use.whole


def test_a_write_without_an_answer_is_looked_up():
    """If it happened the pod proceeds, without a second write."""
    daemon = daemon_with(claim("c", finalizers=[FINALIZER]), claiming("p", "c"))
    (write,) = daemon.run()
    (look,) = daemon.answer(write, 0)
    assert "GET" == look.method
    done = claim("c", status=allocated("g0", users=["p"]), resourceVersion="7")
    assert [] == daemon.answer(look, body=done)
    assert ["n1"] == daemon.bound()


def test_a_pod_that_is_not_bound_leaves_the_claims_it_was_written_to():
    """Allocations stay, the pod leaves reservedFor; unwritten devices are free at once."""
    daemon = daemon_with(claim("c", finalizers=[FINALIZER]), claim("e"), claiming("p", "c", "e"))
    (write,) = daemon.run()
    done = claim("c", status=allocated("g0", users=["p"]), resourceVersion="7")
    (second,) = daemon.answer(write, body=done)
    (undo,) = daemon.answer(second, 403, message="not allowed")

    assert ("PATCH", {"reservedFor": [{"$patch": "delete", "uid": "uid-p"}]}) == (
        undo.method,
        undo.body["status"],
    )
    assert "add finalizer to claim default/e: not allowed" in daemon.messages()[-1]
    in_use = daemon.catalog().in_use.whole
    assert {("gpu.example.com", "n1", "g0"): 1} == in_use


def test_a_claim_without_a_timestamp_can_still_be_shared():
    """Allocations never change: a missing time is left missing."""
    old = claim("c", status=allocated("g0", timestamp=None), finalizers=[FINALIZER])
    daemon = daemon_with(old, claiming("p", "c"))
    (write,) = daemon.run()
    assert {"reservedFor"} == set(write.body["status"])


def test_a_claim_that_blocks_its_pod_is_freed():
    """The pod cannot run at its node, and no other pod uses it; a claim in use is kept."""
    away = {"nodeSelector": {"kubernetes.io/hostname": "n2"}}
    nodes = [node("n1", labels={"kubernetes.io/hostname": "n1"})]
    nodes.append(node("n2", labels={"kubernetes.io/hostname": "n2"}))
    for users, wanted in (((), "deallocation of ResourceClaim completed"), (["q"], "still not")):
        in_use = claim("c", status=allocated("g0", users=users))
        daemon = Daemon(nodes, gpu_class(), local_slice("n1", "g0"), in_use)
        daemon.see(claiming("p", "c", **away))
        calls = daemon.run()
        assert wanted in daemon.messages()[-1]
        cleared = {"allocation": None, "reservedFor": None, "devices": None}
        assert ([] if users else [cleared]) == [call.body["status"] for call in calls]


def test_a_pod_waits_for_its_devices_to_be_ready():
    """The pod's message names the wait; the pod is bound when the driver reports ready, and not
    when the driver fails.
    """
    fabric = {"name": "f0", "bindingConditions": ["ok"], "bindingFailureConditions": ["bad"]}
    for kind, bound in (("ok", ["n1"]), ("bad", [])):
        daemon = daemon_with(
            claim("c", finalizers=[FINALIZER]), claiming("p", "c"), devices=[fabric]
        )
        (write,) = daemon.run()
        status = allocated("f0", users=["p"], conditions=["ok"], timestamp="2027-01-01T00:00:00Z")
        status["allocation"]["devices"]["results"][0]["bindingFailureConditions"] = ["bad"]
        done = claim("c", status=status, resourceVersion="7")
        daemon.answer(write, body=done)
        reasons = [getattr(one, "reason", "") for one in daemon.effects]
        assert "BindingConditionsPending" in reasons
        daemon.see(done, "MODIFIED")
        daemon.run()
        assert [] == daemon.bound()
        condition = {"type": kind, "status": "True", "reason": "R", "message": "m"}
        report = {"driver": "gpu.example.com", "pool": "n1", "device": "f0"}
        status = status | {"devices": [report | {"conditions": [condition]}]}
        daemon.see(claim("c", status=status, resourceVersion="8"), "MODIFIED")
        daemon.run()
        assert bound == daemon.bound()
        meters = daemon.engine.observation.meters
        word = "success" if bound else "failed"
        counted = meters.binding_conditions_allocations.labels("trellis", "gpu.example.com", word)
        assert 1 == counted.value
        if not bound:
            text = 'device binding failed: claim=c, reason=R, message="m"'
            assert daemon.messages()[-1].endswith(text)


def test_a_claim_is_made_for_extended_resources():
    """The claim is made, protected and allocated; the pod status maps requests to containers."""
    daemon = Daemon(FIELD, gpu_class(extendedResourceName=GPU), local_slice("n1", "g0"))
    wanting = pod("p", requests={GPU: 1}, spec={"schedulerName": "trellis"})
    wanting["metadata"]["uid"] = "uid-p"
    daemon.see(wanting)
    (make,) = daemon.run()
    assert ("POST", "p-extended-resources-") == (make.method, make.body["metadata"]["generateName"])
    meta = make.body["metadata"] | {"uid": "uid-made", "resourceVersion": "1"}
    made = make.body | {"metadata": meta}
    (protect,) = daemon.answer(make, 201, body=made)
    (allocate,) = daemon.answer(
        protect, body=made | {"metadata": meta | {"finalizers": [FINALIZER]}}
    )
    status = allocate.body["status"]
    (tell,) = daemon.answer(allocate, body=made | {"status": status})
    mapping = tell.body["status"]["extendedResourceClaimStatus"]
    assert meta["name"] == mapping["resourceClaimName"]
    assert "container-0-request-" in mapping["requestMappings"][0]["requestName"]
    assert 1 == daemon.engine.observation.meters.resourceclaim_creates.labels("success").value
    undo = daemon.answer(tell, 403, message="no")
    (delete,) = [call for call in undo if call.method == "DELETE"]
    before = daemon.messages()
    assert [] == daemon.answer(delete, 404)
    assert before == daemon.messages()


def test_a_claim_that_the_pod_does_not_control_is_not_its_claim():
    """An owner reference without `controller` is no match: a claim is made beside it."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "uid-p"}
    other = claim(
        "other",
        annotations={EXTENDED_RESOURCE_CLAIM: "true"},
        ownerReferences=[owner],
        uid="uid-other",
    )
    field = (FIELD, gpu_class(extendedResourceName=GPU), local_slice("n1", "g0"))
    daemon = Daemon(*field, other)
    wanting = pod("p", requests={GPU: 1}, spec={"schedulerName": "trellis"})
    wanting["metadata"]["uid"] = "uid-p"
    daemon.see(wanting)
    (make,) = daemon.run()

    assert ("POST", "p-extended-resources-") == (make.method, make.body["metadata"]["generateName"])


def test_counters_are_shared_by_devices_of_different_nodes():
    """Counters used by one node's device are missing for the other node's."""

    def partition(node, amount):
        consumed = [{"counterSet": "card", "counters": {"memory": {"value": amount}}}]
        made = local_slice(node, {"name": f"part-{node}", "consumesCounters": consumed})
        made["spec"]["pool"] = {"name": "fabric", "generation": 1, "resourceSliceCount": 3}
        return made

    counters = local_slice("n1", name="counters")
    counters["spec"]["pool"] = {"name": "fabric", "generation": 1, "resourceSliceCount": 3}
    del counters["spec"]["devices"]
    counters["spec"]["sharedCounters"] = [
        {"name": "card", "counters": {"memory": {"value": "40Gi"}}}
    ]
    taken = claim("t", status=allocated("part-n1", node="fabric"))
    for amount, fits in (("10Gi", True), ("20Gi", False)):
        objects = [gpu_class(), counters, partition("n1", "30Gi"), partition("n2", amount)]
        objects += [taken, claim("c")]
        got = evaluate(DynamicResources, nodes=FIELD, objects=objects, pod=claiming("p", "c"))
        assert fits == got.filter["n2"].is_success
        assert not got.filter["n1"].is_success


def test_what_wakes_a_pod():
    """Released devices, slices, classes and the pod's own claims wake it; claims of others do
    not.
    """
    scene = Scene(DynamicResources)
    scene.fill(objects=[claim("c"), claim("e")])
    waiting = read_pod(claiming("p", "c"))

    def helps(verb, new, old=None):
        kind = (new or old)["kind"]
        read = read_node if kind == "Node" else lambda raw: read_object(raw)[1]
        before, after = (read(raw) if raw else None for raw in (old, new))
        return scene.plugin.hint(Change(kind, verb, old=before, new=after), waiting)

    assert helps("add", NODES[1])
    assert helps("add", local_slice("n1", "g0"))
    assert helps("add", gpu_class())
    assert helps("add", claim("c"))
    assert helps("update", claim("e"), claim("e", status=allocated("g0")))
    assert not helps("add", claim("e"))
    assert not helps("update", claim("e", status=allocated("g0")), claim("e"))
    assert not helps("delete", None, claim("c"))


def test_the_condition_of_a_gated_pod_names_the_claim():
    """The owner learns of a claim that the pod names and that does not exist; then the pod
    waits.
    """
    daemon = daemon_with(claiming("p", "absent"))
    daemon.run()
    notes = [one.note for one in daemon.effects if getattr(one, "reason", "") == "MissingObject"]
    assert ['could not find ResourceClaim "default/absent"'] == notes
    daemon.see(claim("absent", finalizers=[FINALIZER]))
    assert ["PATCH"] == [call.method for call in daemon.run()]


def test_a_pod_is_gated_until_its_claims_exist():
    """The message is that of kube-scheduler."""
    scene = Scene(DynamicResources)
    scene.fill(objects=[claim("c"), claim("gone", deletionTimestamp="2026-01-01T00:00:00Z")])

    def message(*claims):
        status = scene.plugin.pre_enqueue(read_pod(claiming("p", *claims)))
        return "" if status is None else status.message

    assert "" == message("c")
    assert 'could not find ResourceClaim "default/x"' == message("c", "x")
    assert 'resourceclaim "gone" is being deleted' == message("gone")


@pytest.mark.parametrize(
    ("args", "faults"),
    [
        (DynamicResourcesArgs(), []),
        (DynamicResourcesArgs(filter_timeout="0s", binding_timeout="1s"), []),
        (
            DynamicResourcesArgs(filter_timeout="-5s"),
            [("filterTimeout", 'Invalid value: "-5s": must be zero or positive')],
        ),
        (
            DynamicResourcesArgs(binding_timeout="999ms"),
            [("bindingTimeout", 'Invalid value: "999ms": must be at least 1 second')],
        ),
    ],
)
def test_arguments(args, faults):
    """The checks are those of kube-scheduler."""
    assert faults == list(args.validate())


def test_a_search_ends():
    """A claim for an impossible combination ends the attempt, not the scheduler."""
    odd = [
        {"name": f"g{i}", "attributes": {"i": {"int": i}, "root": {"int": i}}} for i in range(60)
    ]
    hard = claim("c")
    ask = {"deviceClassName": "gpu", "count": 20}
    hard["spec"]["devices"] = {
        "requests": [{"name": "a", "exactly": ask}, {"name": "b", "exactly": ask | {"count": 10}}],
        "constraints": [{"requests": ["b"], "matchAttribute": "gpu.example.com/root"}],
    }
    daemon = daemon_with(hard, claiming("p", "c"), devices=odd)
    daemon.run()
    assert daemon.messages()[-1].endswith("node n1: timed out trying to allocate devices")


def test_messages_have_the_text_that_kube_schedulers_have():
    """The text is "nothing to deallocate", or an error's text alone if an earlier pre-filter
    rejected the pod.
    """
    unhelpful = "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."

    def reported(waiting):
        daemon = daemon_with(
            claim("c", requests=[{"name": "r", "exactly": {"deviceClassName": "no"}}])
        )
        waiting["spec"]["schedulerName"] = "trellis"
        daemon.see(waiting)
        daemon.run()
        return daemon.messages()[-1]

    no_claims = f"no new claims to deallocate, {unhelpful}"
    assert f"0/2 nodes are available: 2 Insufficient cpu. {no_claims}" == reported(
        pod(requests={"cpu": "99"})
    )
    missing = "request r: device class no does not exist"
    assert f"0/2 nodes are available: {missing}. {no_claims}" == reported(claiming("p", "c"))
    absent = '0/2 nodes are available: persistentvolumeclaim "nope" not found. not found'
    assert absent == reported(using("nope"))


def test_no_two_shares_have_one_id():
    """The ids differ in one claim, in two, and after a restart that repeats all random numbers."""
    shared = {"name": "s", "allowMultipleAllocations": True, "capacity": {"m": {"value": "9"}}}
    ask = {"deviceClassName": "gpu", "capacity": {"requests": {"m": "1"}}}
    requests = [{"name": name, "exactly": ask} for name in ("a", "b")]
    ids = []
    for name in ("c", "e"):
        mine = claim(name, requests=requests, finalizers=[FINALIZER])
        daemon = daemon_with(mine, claiming("p", name), devices=[shared])
        (write,) = daemon.run()
        results = write.body["status"]["allocation"]["devices"]["results"]
        ids += [one["shareID"] for one in results]
    assert 4 == len(set(ids))


@pytest.mark.parametrize("waits", [False, True])
def test_only_pods_that_wait_for_devices_need_a_place_in_pre_bind(monkeypatch, waits):
    """Claims of many pods of a namespace are written at once.

    Devices that need preparation are limited.
    """
    monkeypatch.setattr(prebind, "MOST_OF_NAMESPACE", 3)
    conditions = {"bindingConditions": ["ok"]} if waits else {}
    devices = [{"name": f"d{i}", **conditions} for i in range(6)]
    claims = [claim(f"c{i}") for i in range(6)]
    daemon = Daemon([node("n1")], local_slice("n1", *devices), gpu_class(), *claims)
    for i in range(6):
        daemon.see(claiming(f"p{i}", f"c{i}"))
    written = daemon.run()
    refused = [text for text in daemon.messages() if "wait for their volumes or claims" in text]

    assert len(written) == (3 if waits else 6)
    assert len(refused) == (3 if waits else 0)
    assert len(daemon.engine.bindings.pre_bind) == (3 if waits else 0)


LINK = {"name": "link", "resourceClaimName": "c"}
MADE = {"name": "link", "resourceClaimTemplateName": "t"}
OF_GROUP = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "uid-g"}


def pod_group(entry, *, made=""):
    """Return a basic PodGroup with a claim."""
    status = {"resourceClaimStatuses": [{"name": "link", "resourceClaimName": made}]}
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup.v1alpha2",  # the name in the watch
        "metadata": {"name": "g", "namespace": "default", "uid": "uid-g"},
        "spec": {"schedulingPolicy": {"basic": {}}, "resourceClaims": [entry]},
        "status": status if made else {},
    }


def of_group(name, entry):
    """Return a pod of the group with this entry in `resourceClaims`."""
    made = claiming(name, schedulingGroup={"podGroupName": "g"})
    made["spec"]["resourceClaims"] = [entry]
    return made


def test_a_claim_of_a_group_is_reserved_for_the_group():
    """The group reserves it once for all of its pods; a pod with another claim name, for itself."""
    daemon = daemon_with(claim("c", finalizers=[FINALIZER]), pod_group(LINK), of_group("p", LINK))
    (write,) = daemon.run()
    assert [OF_GROUP] == list(write.body["status"]["reservedFor"])
    status = allocated("g0") | {"reservedFor": [OF_GROUP]}
    done = claim("c", finalizers=[FINALIZER], status=status, resourceVersion="7")
    daemon.answer(write, body=done)
    daemon.see(done, "MODIFIED")
    (bind,) = [one for one in daemon.effects if isinstance(one, Bind)]
    daemon.answer(bind, 201)
    daemon.see(of_group("p", LINK) | {"spec": {"nodeName": "n1"}}, "MODIFIED")
    daemon.see(of_group("q", LINK))
    daemon.see(of_group("r", LINK | {"name": "other"}))
    (own,) = [call for call in daemon.run() if "/resourceclaims/" in call.path]

    assert ["n1", "n1"] == daemon.bound()
    assert ["uid-g", "uid-r"] == [one["uid"] for one in own.body["status"]["reservedFor"]]


def test_a_claim_that_is_made_for_a_group_is_the_groups():
    """Pods wait until its name is in the group's status, and until it is the group's own."""
    daemon = daemon_with(pod_group(MADE), of_group("p", MADE))
    assert [] == daemon.run()
    daemon.see(claim("foreign", finalizers=[FINALIZER]))
    daemon.see(pod_group(MADE, made="foreign"), "MODIFIED")
    assert [] == daemon.run()
    owner = {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "name": "g"}
    owner |= {"uid": "uid-g"}
    references = [{**owner, "controller": True}]
    daemon.see(claim("made", finalizers=[FINALIZER], ownerReferences=references))
    assert [] == daemon.run()
    daemon.see(pod_group(MADE, made="made"), "MODIFIED")
    (write,) = daemon.run()

    assert write.path.endswith("/resourceclaims/made/status")
    assert [OF_GROUP] == list(write.body["status"]["reservedFor"])


@pytest.mark.parametrize("runs", [False, True])
def test_what_a_group_holds_is_freed_when_none_of_its_pods_runs(runs):
    """A claim on a full node is allocated anew, unless a pod of the group runs there."""
    status = allocated("g0") | {"reservedFor": [OF_GROUP]}
    others = [of_group("there", LINK)] if runs else []
    for one in others:
        one["spec"]["nodeName"] = "n1"
    kept = claim("c", finalizers=[FINALIZER], status=status)
    daemon = daemon_with(kept, pod_group(LINK), *others)
    waits = of_group("p", LINK)
    waits["spec"]["affinity"] = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}
                ]
            }
        }
    }
    daemon.see(waits)
    calls = [call for call in daemon.run() if "/resourceclaims/" in call.path]

    cleared = {"allocation": None, "reservedFor": None, "devices": None}
    assert ([] if runs else [cleared]) == [call.body["status"] for call in calls]
