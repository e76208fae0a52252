"""VolumeBinding in the engine: the writes before a pod is bound, and their failures."""

import pytest

from scheduler.engine.effects import Call, Evict
from scheduler.engine.queue.pod import Where
from scheduler.plugins.volumes.catalog import VolumeCatalog
from scheduler.testing import node, pod
from tests.unit.plugins.storage import HOST, claim, storage_class, using, volume
from tests.unit.plugins.volumeapi import VolumeApi

STATIC = storage_class(provisioner="kubernetes.io/no-provisioner")
PV = "/api/v1/persistentvolumes/v"
PVC = "/api/v1/namespaces/default/persistentvolumeclaims/c"
UID = "Pod/default/p"


def static_api(**fields):
    """Return an API with a free volume on node a, and a pod that claims it, both decided."""
    free = volume(storage_class="s", zones=["x"], persistentVolumeReclaimPolicy="Retain")
    api = VolumeApi(STATIC, free, claim(storage_class="s"), **fields)
    api.put(using("c"))
    return api


def made_api(**fields):
    """Return an API with a class that makes volumes, and a pod that claims one."""
    api = VolumeApi(storage_class(zones=["y"]), claim(storage_class="s"), **fields)
    api.put(using("c"))
    return api


def where(api):
    """Return the node of the pod."""
    queued = api.engine.queues.get(UID)
    return Where.GONE if queued is None else queued.where


def catalog(api):
    """Return the catalog of the plugin."""
    (tracker,) = (t for t in api.engine._handle.trackers.values() if isinstance(t, VolumeCatalog))
    return tracker


def failed(text):
    """Return the condition of a pod whose volumes could not be bound."""
    return ("SchedulerError", f'running PreBind plugin "VolumeBinding": {text}')


def test_a_volume_is_written_whole_and_the_pod_waits_for_its_claim():
    """The volume names its claim as Kubernetes' binder writes it and keeps unknown fields, and the
    pod is bound when the volume controller has bound the claim.
    """
    api = static_api()
    version = api.get("PersistentVolumeClaim", "default/c")["metadata"]["resourceVersion"]
    api.run()

    assert [("GET", PV), ("PUT", PV)] == api.calls
    stored = api.get("PersistentVolume", "v")
    assert {
        "kind": "PersistentVolumeClaim",
        "namespace": "default",
        "name": "c",
        "uid": "claim-c",
        "apiVersion": "v1",
        "resourceVersion": version,
    } == stored["spec"]["claimRef"]
    assert {"pv.kubernetes.io/bound-by-controller": "yes"} == stored["metadata"]["annotations"]
    assert "Retain" == stored["spec"]["persistentVolumeReclaimPolicy"]
    assert ["a"] == [one.nominated_node for one in api.statuses]
    assert ([], Where.IN_FLIGHT) == (api.binds, where(api))

    api.tell("PersistentVolume", "v")
    api.run()
    assert [] == api.binds
    api.bind("c", "v")
    api.run()
    assert [("p", "a")] == api.binds
    assert {} == catalog(api)._assumed_volumes


def test_a_claim_is_sent_to_the_node_and_the_pod_waits_for_its_volume():
    """The provisioner learns the node from an annotation and makes the volume for it."""
    api = made_api()
    api.run()

    assert [("GET", PVC), ("PUT", PVC)] == api.calls
    annotations = api.get("PersistentVolumeClaim", "default/c")["metadata"]["annotations"]
    assert {"volume.kubernetes.io/selected-node": "b"} == annotations
    api.tell("PersistentVolumeClaim", "default/c")
    api.run()
    assert [] == api.binds
    api.provision("c", volume("made", storage_class="s", zones=["y"], owner="c"))
    api.run()
    assert [("p", "b")] == api.binds


def test_volumes_are_written_before_claims():
    """Of two claims one gets an existing volume, the other a provisioned one."""
    api = VolumeApi(
        storage_class(),
        claim("c", storage_class="s", size="9Gi"),
        claim("d", storage_class="s"),
        volume(storage_class="s", zones=["x"]),
        using("c", "d", spec={"nodeSelector": {HOST: "a"}}),
    )
    api.run()

    assert ["GET", "PUT", "GET", "PUT"] == [method for method, _ in api.calls]
    assert [PV, PV, PVC, PVC] == [path for _, path in api.calls]
    api.bind("d", "v")
    api.run()
    assert [] == api.binds
    api.provision("c", volume("made", storage_class="s", size="9Gi", owner="c"))
    api.run()
    assert [("p", "a")] == api.binds


def test_a_bound_claim_costs_nothing():
    """No call, no nomination: the pod is bound at once."""
    api = VolumeApi(claim(to="v"), volume(owner="c", zones=["y"], phase="Bound"), using("c"))
    api.run()

    assert ([], [("p", "b")], []) == (api.calls, api.binds, api.statuses)


def test_a_wait_ends_after_the_time_that_the_configuration_gives():
    """The condition says so, the nomination is cleared, and the pod is retried after back-off.

    Finished writes are not repeated.
    """
    api = static_api(args={"bindTimeoutSeconds": 30})
    api.run()
    api.pass_time(29)
    api.run()
    assert ["a"] == [one.nominated_node for one in api.statuses]
    api.pass_time(1)
    api.run()

    assert failed("binding volumes: context deadline exceeded") == api.message()
    assert ["a", ""] == [one.nominated_node for one in api.statuses]
    api.pass_time(1)
    api.run()
    assert ["a", "", "a"] == [one.nominated_node for one in api.statuses]
    assert 1 == sum(method == "PUT" for method, _ in api.calls)
    api.tell("PersistentVolume", "v")
    api.bind("c", "v")
    api.run()
    assert [("p", "a")] == api.binds


def test_no_time_to_wait_fails_at_once():
    """Zero seconds are no wait; the claim is bound in the next attempt of the pod."""
    api = static_api(args={"bindTimeoutSeconds": 0})
    api.run()
    api.run()
    assert failed("binding volumes: context deadline exceeded") == api.message()

    api.tell("PersistentVolume", "v")
    api.bind("c", "v")
    api.pass_time(30)
    api.run()
    assert [("p", "a")] == api.binds


def test_a_volume_that_changed_meanwhile_is_a_conflict():
    """The API server refuses the write, no assumption stays, and the next attempt succeeds."""
    api = static_api()
    api.before_put = lambda: api.put(
        api.get("PersistentVolume", "v") | {"touched": "yes"}, tell=False
    )
    api.run()

    text = (
        'Operation cannot be fulfilled on persistentvolumes "v": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )
    assert failed(text) == api.message()
    assert {} == catalog(api)._assumed_volumes
    api.tell("PersistentVolume", "v")
    api.pass_time(30)
    api.run()
    assert "claimRef" in api.get("PersistentVolume", "v")["spec"]
    api.bind("c", "v")
    api.run()
    assert [("p", "a")] == api.binds


def test_a_claim_that_changed_meanwhile_is_a_conflict():
    """The API server rejects the write of a claim that is to be sent to a node; no assumption
    stays, and the next attempt succeeds.
    """
    api = made_api()
    api.before_put = lambda: api.put(api.get("PersistentVolumeClaim", "default/c"), tell=False)
    api.run()

    reason, text = api.message()
    assert "SchedulerError" == reason
    assert text.startswith('running PreBind plugin "VolumeBinding": Operation cannot be fulfilled')
    assert {} == catalog(api)._assumed_claims


def test_a_volume_that_is_gone_cannot_be_written():
    """The message of the API server is in the condition of the pod."""
    api = static_api()
    del api.objects["PersistentVolume", "v"]
    api.run()

    assert failed('persistentvolumes "v" not found') == api.message()


def test_a_volume_taken_for_one_pod_is_not_given_to_another():
    """As long as the first one waits, the second finds nothing; no volume is given twice."""
    api = VolumeApi(
        STATIC,
        volume(storage_class="s", zones=["x"]),
        claim("c", storage_class="s"),
        claim("d", storage_class="s"),
        using("c"),
        using("d", name="q"),
    )
    api.run()

    assert 1 == sum(method == "PUT" for method, _ in api.calls)
    reason, text = api.message()
    assert "Unschedulable" == reason
    assert "2 node(s) didn't find available persistent volumes to bind" in text


def reset(api):
    """The volume controller takes the volume back."""
    stored = api.get("PersistentVolume", "v")
    spec = {key: value for key, value in stored["spec"].items() if key != "claimRef"}
    api.put(stored | {"spec": spec})


def move(api):
    """Change the node of the volume."""
    stored = api.get("PersistentVolume", "v")
    elsewhere = volume(zones=["y"])["spec"]["nodeAffinity"]
    api.put(stored | {"spec": stored["spec"] | {"nodeAffinity": elsewhere}})


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (reset, 'ClaimRef got reset for pv "v"'),
        (
            move,
            'pv "v" node affinity doesn\'t match node "a": no matching NodeSelectorTerms',
        ),
        (
            lambda api: api.remove("PersistentVolume", "v"),
            'failed to check binding: persistentvolumes "v" not found',
        ),
        (
            lambda api: api.remove("PersistentVolumeClaim", "default/c"),
            'failed to check binding: persistentvolumeclaims "default/c" not found',
        ),
        (
            lambda api: api.put(node("a", labels={HOST: "a"})),
            'pv "v" node affinity doesn\'t match node "a": no matching NodeSelectorTerms',
        ),
        (lambda api: api.remove("Node", "a"), 'failed to get node "a": node "a" not found'),
    ],
)
def test_what_ends_a_wait_for_a_volume(event, text):
    """The pod's condition names the reason, and the pod is retried."""
    api = static_api()
    api.run()
    api.tell("PersistentVolume", "v")
    event(api)
    api.run()

    assert failed(f"binding volumes: {text}") == api.message()
    assert [] == api.binds


def annotate(api, annotations):
    """Change the annotations of the claim."""
    stored = api.get("PersistentVolumeClaim", "default/c")
    api.put(stored | {"metadata": stored["metadata"] | {"annotations": annotations}})


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (lambda api: annotate(api, {"x": "y"}), 'provisioning failed for PVC "c"'),
        (lambda api: annotate(api, {}), 'selectedNode annotation reset for PVC "c"'),
        (
            lambda api: api.remove("PersistentVolumeClaim", "default/c"),
            'failed to check provisioning pvc: persistentvolumeclaims "default/c" not found',
        ),
        (
            lambda api: api.provision("c", volume("made", owner="c", zones=["x"])),
            'pv "made" node affinity doesn\'t match node "b": no matching NodeSelectorTerms',
        ),
    ],
)
def test_what_ends_a_wait_for_a_new_volume(event, text):
    """A provisioner that gives up removes the node from the claim; the pod is retried."""
    api = made_api()
    api.run()
    api.tell("PersistentVolumeClaim", "default/c")
    event(api)
    api.run()

    assert failed(f"binding volumes: {text}") == api.message()


def test_a_claim_bound_before_its_volume_is_seen_goes_on_waiting():
    """The watch of volumes may be behind that of claims."""
    api = made_api()
    api.run()
    api.tell("PersistentVolumeClaim", "default/c")
    made = volume("made", storage_class="s", owner="c", zones=["y"])
    api.put(made, tell=False)
    bound = api.get("PersistentVolumeClaim", "default/c")
    bound["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] = "yes"
    api.put(bound | {"spec": bound["spec"] | {"volumeName": "made"}})
    api.run()
    assert ([], Where.IN_FLIGHT) == (api.binds, where(api))

    api.tell("PersistentVolume", "made")
    api.run()
    assert [("p", "b")] == api.binds


@pytest.mark.parametrize("is_written", [False, True])
def test_a_pod_deleted_meanwhile_gives_back_what_was_not_written(is_written):
    """No bind, no condition; a volume that already names the claim is kept for it."""
    api = static_api()
    api.run(answer=is_written)
    api.remove("Pod", "default/p")
    api.run()

    assert (Where.GONE, []) == (where(api), api.binds)
    assert (["v"] if is_written else []) == list(catalog(api)._assumed_volumes)


@pytest.mark.parametrize("is_written", [False, True])
def test_a_pod_preempted_meanwhile_is_not_bound_and_no_pod_is_deleted(is_written):
    """A higher pod that needs the capacity evicts it in memory; unwritten volumes are free
    again.
    """
    api = VolumeApi(STATIC, volume(storage_class="s", zones=["x"]), claim(storage_class="s"))
    api.put(using("c", requests={"cpu": "3"}))
    api.run(answer=is_written)
    assert Where.IN_FLIGHT is where(api)
    selector = {"priority": 9, "nodeSelector": {HOST: "a"}}
    api.put(pod("high", requests={"cpu": "3"}, spec=selector))
    api.run(answer=is_written)

    assert not [effect for effect in api.effects if isinstance(effect, Evict)]
    assert [("high", "a")] == api.binds
    assert where(api) not in (Where.IN_FLIGHT, Where.GONE)
    assert (["v"] if is_written else []) == list(catalog(api)._assumed_volumes)


def test_an_answer_that_never_comes_fails_after_a_minute():
    """The volume is free again, here for the next attempt of the same pod."""
    api = static_api()
    api.run(answer=False)
    for seconds in (60, 1):  # the second one is the back-off
        api.pass_time(seconds)
        api.run(answer=False)

    assert failed("context deadline exceeded") == api.message()
    calls = [effect for effect in api.effects if isinstance(effect, Call)]
    assert [("GET", PV)] * 2 == [(call.method, call.path) for call in calls]


def test_a_change_of_other_claims_asks_nothing_again():
    """A waiting pod is not checked again: thousands may wait, so only changed objects are read."""
    api = made_api()
    api.run()
    api.tell("PersistentVolumeClaim", "default/c")
    (until,) = api.engine.bindings._until.values()
    progress = until.predicate.__self__
    seen = progress._seen
    for number in range(3):
        api.put(claim(f"other{number}"))

    assert seen is progress._seen
