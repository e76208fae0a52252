"""Claims on a real API server: written field by field as kube-scheduler writes them, whichever
process dies.

TRELLIS_TEST_SCHEDULER=kube-scheduler runs the first test with the peer: the expected values are the
peer's.
"""

from collections import Counter
from random import Random

import pytest

from scheduler.base.release import V1_37
from tests.apiserver.patience import pause
from tests.apiserver.realcluster import assets, release_of
from tests.real.api import Api

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

GROUP = "/apis/resource.k8s.io/v1"
CLAIMS = f"{GROUP}/namespaces/default/resourceclaims"
PODS = "/api/v1/namespaces/default/pods"
DRIVER = "gpu.example.com"
GPU = "example.com/gpu"
FINALIZER = "resource.kubernetes.io/delete-protection"


def _node(name):
    amounts = {"cpu": "64", "memory": "64Gi", "pods": "110"}
    meta = {"name": name, "labels": {"kubernetes.io/hostname": name}}
    return {"metadata": meta, "status": {"capacity": amounts, "allocatable": amounts}}


def _slice(node, devices):
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices}
    return {"metadata": {"name": f"slice-{node}"}, "spec": spec}


def _class(**spec):
    selectors = [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]
    return {"metadata": {"name": "gpu"}, "spec": {"selectors": selectors, **spec}}


def _claim(name, *requests, **spec):
    asks = requests or ({"name": "r", "exactly": {"deviceClassName": "gpu"}},)
    return {"metadata": {"name": name}, "spec": {"devices": {"requests": list(asks), **spec}}}


def _pod(name, scheduler, *claims, requests=None, **spec):
    amounts = {"requests": requests or {"cpu": "100m"}, "limits": requests or {}}
    container = {"name": "c", "image": "registry.k8s.io/pause:3.10", "resources": amounts}
    entries = [{"name": f"d{i}", "resourceClaimName": one} for i, one in enumerate(claims)]
    return {
        "metadata": {"name": name},
        "spec": {
            "schedulerName": scheduler,
            "containers": [container],
            "resourceClaims": entries,
            **spec,
        },
    }


async def _create_cluster(api, nodes, devices, **of_class):
    for name in nodes:
        await api.expect("POST", "/api/v1/nodes", _node(name))
        await api.expect("POST", f"{GROUP}/resourceslices", _slice(name, devices))
    await api.expect("POST", f"{GROUP}/deviceclasses", _class(**of_class))


async def _bound(api, names):
    pods, _ = await api.list(PODS)
    nodes = {pod["metadata"]["name"]: pod["spec"].get("nodeName") for pod in pods}
    return all(nodes.get(name) for name in names)


async def _until_bound(api, names, timeout_s=60.0):
    for _ in range(int(timeout_s / 0.1)):
        if await _bound(api, names):
            return
        await pause(0.1)
    pods, _ = await api.list(PODS)
    raise AssertionError([(p["metadata"]["name"], p.get("status")) for p in pods])


def _plain(status):
    """Return a claim's status without values that differ between runs."""
    allocation = dict(status["allocation"])
    assert allocation.pop("allocationTimestamp")
    for result in allocation["devices"]["results"]:
        if "consumedCapacity" in result:
            assert result.pop("shareID")
    users = [{k: v for k, v in one.items() if k != "uid"} for one in status["reservedFor"]]
    return {"allocation": allocation, "reservedFor": users} | {
        key: value for key, value in status.items() if key not in ("allocation", "reservedFor")
    }


async def test_claims_are_written_as_kube_scheduler_writes_them(audited_cluster, scheduler):
    """Results, parameters, nodes, consumers and finalizers agree, also for a claim of two pods and
    one for extended resources.
    """
    devices = [
        {"name": "g0", "attributes": {"model": {"string": "a"}}},
        {"name": "g1", "attributes": {"model": {"string": "b"}}},
        {"name": "s0", "allowMultipleAllocations": True, "capacity": {"memory": {"value": "8Gi"}}},
        {"name": "g2"},
    ]
    opaque = {"driver": DRIVER, "parameters": {"kind": "Config", "mode": "fast"}}
    only = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    here = {"nodeSelectorTerms": [{"matchFields": [only]}]}
    async with Api(audited_cluster) as api:
        await _create_cluster(
            api, ["n1"], devices, config=[{"opaque": opaque}], extendedResourceName=GPU
        )
        shared = {"name": "r", "exactly": {
            "deviceClassName": "gpu",
            "selectors": [{"cel": {"expression": "device.allowMultipleAllocations"}}],
            "capacity": {"requests": {"memory": "1Gi"}},
            "tolerations": [{"key": "k", "operator": "Exists"}],
        }}  # fmt: skip
        wanted = {"name": "r", "firstAvailable": [
            {"name": "no", "deviceClassName": "gpu", "count": 9},
            {"name": "yes", "deviceClassName": "gpu"},
        ]}  # fmt: skip
        await api.expect("POST", CLAIMS, _claim("plain", config=[{"opaque": opaque}]))
        await api.expect("POST", CLAIMS, _claim("shared", shared))
        await api.expect("POST", CLAIMS, _claim("listed", wanted))
        name = scheduler.scheduler_name
        with scheduler.start(audited_cluster):
            for pod, claims in (("p", ["plain", "shared"]), ("q", ["plain"]), ("l", ["listed"])):
                await api.expect("POST", PODS, _pod(pod, name, *claims))
                await _until_bound(api, [pod])
            await api.expect("POST", PODS, _pod("e", name, requests={GPU: "1"}))
            await _until_bound(api, ["e"])
        found = {one["metadata"]["name"]: one for one in (await api.list(CLAIMS))[0]}
        pod = await api.expect("GET", f"{PODS}/e")

    def result(device, request="r", **more):
        return {"request": request, "driver": DRIVER, "pool": "n1", "device": device, **more}

    def of_class(*requests):
        # Since 1.37 an entry for all requests names none.
        named = {} if release_of(assets()) >= V1_37 else {"requests": list(requests)}
        return {"source": "FromClass", **named, "opaque": opaque}

    def users(*names):
        return [{"resource": "pods", "name": one} for one in names]

    assert all(one["metadata"]["finalizers"] == [FINALIZER] for one in found.values())
    assert _plain(found["plain"]["status"]) == {
        "allocation": {
            "devices": {
                "results": [result("g0")],
                "config": [of_class("r"), {"source": "FromClaim", "opaque": opaque}],
            },
            "nodeSelector": here,
        },
        "reservedFor": users("p", "q"),
    }
    share = result(
        "s0",
        tolerations=[{"key": "k", "operator": "Exists"}],
        consumedCapacity={"memory": "1Gi"},
    )
    assert _plain(found["shared"]["status"])["allocation"]["devices"] == {
        "results": [share],
        "config": [of_class("r")],
    }
    assert _plain(found["listed"]["status"])["allocation"]["devices"] == {
        "results": [result("g1", "r/yes")],
        "config": [of_class("r/yes")],
    }
    (made,) = [one for key, one in found.items() if key.startswith("e-extended-resources-")]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "e", "controller": True}
    assert made["metadata"]["ownerReferences"] == [owner | {"uid": pod["metadata"]["uid"]}]
    assert made["metadata"]["generateName"] == "e-extended-resources-"
    assert made["metadata"]["annotations"] == {
        "resource.kubernetes.io/extended-resource-claim": "true"
    }
    request = made["spec"]["devices"]["requests"][0]["name"]
    assert _plain(made["status"])["reservedFor"] == users("e")
    assert pod["status"]["extendedResourceClaimStatus"] == {
        "resourceClaimName": made["metadata"]["name"],
        "requestMappings": [{"containerName": "c", "resourceName": GPU, "requestName": request}],
    }


async def test_a_claim_that_blocks_its_pod_is_freed_and_the_pod_placed(audited_cluster, scheduler):
    """A claim without a consumer is allocated on a node that the pod does not fit: it is
    deallocated and allocated again.
    """
    async with Api(audited_cluster) as api:
        await _create_cluster(api, ["n1", "n2"], [{"name": "g0"}])
        await api.expect("POST", CLAIMS, _claim("c"))
        name = scheduler.scheduler_name
        with scheduler.start(audited_cluster):
            pinned = {"nodeSelector": {"kubernetes.io/hostname": "n1"}}
            await api.expect("POST", PODS, _pod("p", name, "c", **pinned))
            await _until_bound(api, ["p"])
            await api.expect("DELETE", f"{PODS}/p", {"gracePeriodSeconds": 0})
            # As the claim controller does when a consumer is deleted.
            await api.patch(f"{CLAIMS}/c/status", {"status": {"reservedFor": None}})
            pinned = {"nodeSelector": {"kubernetes.io/hostname": "n2"}}
            await api.expect("POST", PODS, _pod("q", name, "c", **pinned))
            await _until_bound(api, ["q"])
        claim = await api.expect("GET", f"{CLAIMS}/c")
    assert [("n2", "g0")] == _devices(claim)


async def test_killed_at_any_step_no_device_is_given_twice(audited_cluster, scheduler):
    """Killed 8 times while 60 pods take 60 devices: all are placed, each with a device of its
    own.
    """
    random = Random(19)
    nodes = [f"n{i}" for i in range(15)]
    names = [f"p{i:02d}" for i in range(60)]
    async with Api(audited_cluster) as api:
        await _create_cluster(api, nodes, [{"name": f"g{i}"} for i in range(4)])
        for name in names:
            await api.expect("POST", CLAIMS, _claim(name))
        for batch in range(8):
            for name in names[batch * 6 : batch * 6 + 6]:
                await api.expect("POST", PODS, _pod(name, scheduler.scheduler_name, name))
            seen = await _written(api)
            with scheduler.start(audited_cluster) as running:
                wanted = seen + random.randint(1, 5)
                for _ in range(600):
                    if await _written(api) >= wanted:
                        break
                    await pause(0.005)
                await pause(random.uniform(0.0, 0.02))
                await running.kill()
        for name in names[48:]:
            await api.expect("POST", PODS, _pod(name, scheduler.scheduler_name, name))
        with scheduler.start(audited_cluster):
            await _until_bound(api, names, 120.0)
        claims, _ = await api.list(CLAIMS)
        pods, _ = await api.list(PODS)
    given = Counter(device for claim in claims for device in _devices(claim))
    assert {1} == set(given.values())
    assert len(names) == len(given)
    on = {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in pods}
    for claim in claims:
        ((pool, _device),) = _devices(claim)
        assert pool == on[claim["metadata"]["name"]]
        assert [claim["metadata"]["name"]] == [
            one["name"] for one in claim["status"]["reservedFor"]
        ]


def _devices(claim):
    allocation = claim.get("status", {}).get("allocation") or {"devices": {"results": []}}
    return [(one["pool"], one["device"]) for one in allocation["devices"]["results"]]


async def _written(api):
    """Return the numbers of finalizers, allocations and bindings."""
    claims, _ = await api.list(CLAIMS)
    pods, _ = await api.list(PODS)
    steps = sum(bool(one["metadata"].get("finalizers")) for one in claims)
    steps += sum(bool(_devices(one)) for one in claims)
    return steps + sum(bool(one["spec"].get("nodeName")) for one in pods)
