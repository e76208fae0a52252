"""Actions that use the rights of every scheduler: evictions, volumes with late binding, a lost
Lease.
"""

from typing import Any

from scheduler.base.clock import RealClock, rfc3339
from scheduler.testing import node
from tests.e2e.chartcluster import NAMESPACE, PODS, RELEASE, Json, Server, waiting
from tests.e2e.chartparts import METRICS, names
from tests.unit.plugins.devices import DRIVER, gpu_class, local_slice

LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
VOLUMES = "/api/v1/persistentvolumes"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
DEVICES = "/apis/resource.k8s.io/v1"
DEVICE_CLAIMS = f"{DEVICES}/namespaces/default/resourceclaims"
HERE = {"core": "here"}
SELECTED = "volume.kubernetes.io/selected-node"


async def evicting(server: Server) -> None:
    """A pod of high priority takes the only place of the only node for both from one of low
    priority.
    """
    await _join(server, node("core", pods="1", labels=HERE))
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    await server.post(classes, {"metadata": {"name": "urgent"}, "value": 1000})
    low, high = waiting("low"), waiting("high")
    for one in (low, high):
        one["spec"] |= {"nodeSelector": HERE, "terminationGracePeriodSeconds": 0}
    high["spec"]["priorityClassName"] = "urgent"
    await server.post(PODS, low)
    await server.bound("low")
    await server.post(PODS, high)
    await server.bound("high")
    listed = await server.get(PODS)
    assert "low" not in [one["metadata"]["name"] for one in listed["items"]]


async def waiting_in_vain(server: Server) -> None:
    """A pod that fits nowhere is retried when a node is added.

    Its repeated event becomes a series.
    """
    stuck = waiting("stuck")
    stuck["spec"]["nodeSelector"] = {"stuck": "here"}
    await server.post(PODS, stuck)
    events = "/apis/events.k8s.io/v1/namespaces/default/events"

    raw = node("odd", labels={"stuck": "here"}, taints=[{"key": "core", "effect": "NoSchedule"}])
    raw["status"]["capacity"] = raw["status"]["allocatable"]

    def times(found: Json) -> int:
        own = [one for one in found["items"] if one["regarding"].get("name") == "stuck"]
        return sum(one.get("series", {"count": 1})["count"] for one in own)

    # The first ones are about other versions of the pod, whose condition is written in between.
    for number in range(1, 5):
        await server.until(events, lambda found, least=number: times(found) >= least)
        if number > 1:
            await server.delete("/api/v1/nodes/odd")
        await server.post("/api/v1/nodes", raw)
    await server.until(events, lambda found: "lastObservedTime" in str(found))


async def storing(server: Server) -> None:
    """An existing volume is reserved, and a missing one is requested.

    Its controller does the rest.
    """
    for name, provisioner in (("kept", "kubernetes.io/no-provisioner"), ("made", "example.com/x")):
        body = {
            "metadata": {"name": name},
            "provisioner": provisioner,
            "volumeBindingMode": "WaitForFirstConsumer",
        }
        await server.post(CLASSES, body)
        await server.post(CLAIMS, _claim(name))
    await server.post(VOLUMES, _volume("kept"))
    await server.patch(f"{VOLUMES}/kept/status", {"status": {"phase": "Available"}})
    for name in ("kept", "made"):
        pod = waiting(f"with-{name}")
        pod["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]
        await server.post(PODS, pod)
    await server.until(f"{VOLUMES}/kept", lambda found: found["spec"].get("claimRef"))
    await _bind(server, "kept")
    claim = await server.until(f"{CLAIMS}/made", lambda found: SELECTED in _notes(found))
    volume = _volume("made")
    meta = claim["metadata"]
    volume["spec"]["claimRef"] = {
        "kind": "PersistentVolumeClaim",
        "apiVersion": "v1",
        **{key: meta[key] for key in ("namespace", "name", "uid")},
    }
    await server.post(VOLUMES, volume)
    await _bind(server, "made")
    await server.bound("with-kept", "with-made")


async def leading(server: Server) -> None:
    """A deleted Lease is created again, and events name the leader."""
    lease = await server.until(f"{LEASE}/{RELEASE}", _has_holder)
    await server.delete(f"{LEASE}/{RELEASE}")
    uid = lease["metadata"]["uid"]

    def is_new(found: Json) -> bool:
        return any(one["metadata"]["uid"] != uid and _has_holder(one) for one in found["items"])

    await server.until(LEASE, is_new)


async def asked_for_metrics(server: Server) -> None:
    """A request for metrics causes a review of the token and of the rights."""
    accounts = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
    await server.post(accounts, {"metadata": {"name": "curious"}})
    token = await server.post(f"{accounts}/curious/token", {"spec": {}})
    assert 403 == await server.metrics_for(token["status"]["token"])


async def _join(server: Server, raw: Json) -> None:
    """Make a node.

    Where NodeMetrics are made for all, report for it, as none is taken that is silent.
    """
    name = raw["metadata"]["name"]
    raw["status"]["capacity"] = raw["status"]["allocatable"]
    await server.post("/api/v1/nodes", raw)
    if (await server.get(METRICS))["items"]:
        await server.until(METRICS, lambda found: name in names(found))
        usage = {"cpu": "0", "memory": "0"}
        status = {
            "updateTime": rfc3339(RealClock().now()),
            "nodeMetric": {"nodeUsage": {"resources": usage}},
        }
        await server.patch(f"{METRICS}/{name}/status", {"status": status})


def _has_holder(lease: Json) -> Any:
    return lease.get("spec", {}).get("holderIdentity")


def _notes(found: Json) -> Json:
    notes: Json = found["metadata"].get("annotations") or {}
    return notes


def _claim(name: str) -> Json:
    spec = {
        "storageClassName": name,
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    return {"metadata": {"name": name}, "spec": spec}


def _volume(name: str) -> Json:
    spec = {
        "storageClassName": name,
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
        "hostPath": {"path": f"/data/{name}"},
    }
    return {"metadata": {"name": name}, "spec": spec}


async def _bind(server: Server, name: str) -> None:
    """Do the work of the volume controller."""
    done = {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
    await server.patch(f"{CLAIMS}/{name}", {"metadata": done, "spec": {"volumeName": name}})
    await server.patch(f"{CLAIMS}/{name}/status", {"status": {"phase": "Bound"}})
    await server.patch(f"{VOLUMES}/{name}/status", {"status": {"phase": "Bound"}})


# What any profile does; the Lease last, because no process leads for a while.
async def allocating(server: Server) -> None:
    """Allocate the devices of a claim and of an extended resource.

    Leftovers of an earlier attempt are deleted.
    """
    await _join(server, node("devices", labels={"devices": "here"}))
    await server.post(f"{DEVICES}/deviceclasses", gpu_class(extendedResourceName="core/gpu"))
    await server.post(f"{DEVICES}/resourceslices", local_slice("devices", "d0", "d1", "d2"))
    # Its parameters have blanks, which no patch would keep: it is read and put back as it is.
    opaque = {"driver": DRIVER, "parameters": {"mode": "fast"}}
    request = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
    spec = {"devices": {"requests": [request], "config": [{"opaque": opaque}]}}
    await server.post(DEVICE_CLAIMS, {"metadata": {"name": "one"}, "spec": spec})
    claiming, extended, late = (waiting(name) for name in ("claiming", "extended", "late"))
    for one in (claiming, extended, late):
        one["spec"]["nodeSelector"] = {"devices": "here"}
    claiming["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "one"}]
    for one in (extended, late):
        amounts = {"core/gpu": "1"}
        one["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
    await server.post(PODS, claiming)
    await server.post(PODS, extended)
    await server.bound("claiming", "extended")

    late["spec"]["schedulingGates"] = [{"name": "core/wait"}]
    made = await server.post(PODS, late)
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "late", "uid": made["metadata"]["uid"]}
    meta = {
        "name": "left",
        "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
        "ownerReferences": [{**owner, "controller": True}],
    }
    left = {"metadata": meta, "spec": {"devices": {"requests": [request]}}}
    await server.post(DEVICE_CLAIMS, left)
    # Claims and pods come by watches of their own: an attempt that does not know it leaves it
    # alone.
    number = len((await server.get(DEVICE_CLAIMS))["items"])
    await server.until_metric(f'trellis_store_objects{{kind="ResourceClaim"}} {number}.0')
    await server.patch(f"{PODS}/late", {"spec": {"schedulingGates": None}})
    await server.until(
        DEVICE_CLAIMS,
        lambda found: "left" not in {one["metadata"]["name"] for one in found["items"]},
    )


CORE = (evicting, waiting_in_vain, storing, allocating, asked_for_metrics, leading)
