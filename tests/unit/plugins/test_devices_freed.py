"""Deleted claims: their devices are reported in metrics, and pods that wait for them are
retried.
"""

from scheduler.testing import node, pod
from tests.unit.plugins.devices import (
    DRIVER,
    Daemon,
    allocated,
    claim,
    claiming,
    gpu_class,
    local_slice,
)

GPU = "example.com/gpu"
OF_THE_POD = {
    "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
    "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "e", "uid": "uid-e"}],
}


def _left_over():
    made = claim("left", **OF_THE_POD)
    made["metadata"]["ownerReferences"][0]["controller"] = True
    return made


def test_a_pod_is_tried_again_when_what_is_left_of_an_attempt_has_gone():
    """A daemon ended after it created a claim for extended resources. The next daemon deletes the
    claim, creates another one and retries the pod.
    """
    daemon = Daemon([node("n1")], gpu_class(extendedResourceName=GPU), local_slice("n1", "g0"))
    waiting = pod("e", requests={GPU: 1}, spec={"schedulerName": "trellis"})
    waiting["metadata"]["uid"] = "uid-e"
    daemon.see(_left_over())
    daemon.see(waiting)
    (delete,) = daemon.run()
    assert "DELETE" == delete.method
    assert [] == daemon.answer(delete)

    daemon.see(_left_over(), "DELETED")
    daemon.now += 60.0  # beyond any backoff
    (make,) = daemon.run()
    assert ("POST", "e-extended-resources-") == (make.method, make.body["metadata"]["generateName"])


def test_a_claim_that_goes_with_its_devices_frees_them():
    """If another client removes the finalizer, the claim disappears while it is allocated. Its
    devices are free then.
    """
    allocated_claim = claim("allocated", status=allocated("g0"))
    daemon = Daemon([node("n1")], gpu_class(), local_slice("n1", "g0"), allocated_claim, claim("c"))
    daemon.see(claiming("p", "c"))
    assert [] == daemon.run()

    daemon.see(allocated_claim, "DELETED")
    daemon.now += 60.0
    (protect,) = daemon.run()
    assert protect.path.endswith("/resourceclaims/c")


def test_devices_are_counted():
    """The metrics have the devices of the newest pool generation, and the devices in use by kind
    from the decision on.
    """
    shared = claim("shared", status=allocated("s0"))
    (result,) = shared["status"]["allocation"]["devices"]["results"]
    result |= {"shareID": "b7a1", "consumedCapacity": {"memory": "1Gi"}}
    old = local_slice("n1", "g0", "g1", "g2", "g3", name="old")
    old["spec"]["pool"]["generation"] = 0
    slices = (old, local_slice("n1", "g0", "g1", "s0"), local_slice("n2", "g0"))
    daemon = Daemon([node("n1"), node("n2")], gpu_class(), *slices, claim("c"), shared)
    meters = daemon.engine.observation.meters
    daemon.see(claiming("p", "c"))
    daemon.run()

    published = {one.labels: one.value for one in meters.devices_published.samples()}
    in_use = {one.labels: one.value for one in meters.devices_in_use.samples()}
    assert {(DRIVER,): 4.0} == published
    assert {(DRIVER, "whole"): 1.0, (DRIVER, "shared"): 1.0} == in_use
