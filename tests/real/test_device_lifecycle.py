"""Devices of a group and of single pods, with the daemon killed (SIGKILL) at every write of it.

There are exactly as many devices as requested. So all pods are bound in the end only if no device
was allocated twice and none stayed with an unused claim.
"""

from collections import Counter

import pytest

from tests.apiserver.patience import asked
from tests.apiserver.realcluster import Reachable
from tests.real.api import MERGE
from tests.real.test_group_lifecycle import CORE, SIZE, SOURCES, Json, Lifecycle, is_bound, prepared

pytestmark = [pytest.mark.real, pytest.mark.timeout(3600), pytest.mark.allow_blocking("files")]
GROUP = "/apis/resource.k8s.io/v1"
CLAIMS = f"{GROUP}/namespaces/default/resourceclaims"
DRIVER = "gpu.example.com"
GPU = "example.com/gpu"
NODES = ("n0", "n1")
PER_NODE = 3
# One claim for each member, one for the single pod; the claim of the third kind of pod is created
# for it.
NAMES = (*(f"g-{number}" for number in range(SIZE)), "alone")
EXTENDED = "extended"
# The writes at which a daemon dies in the short run, and whether they arrive: one that never
# arrived, one just after the first, and one among the others.
SOME_WRITES = ((5, False), (2, True), (9, True))


class Devices(Lifecycle):
    """Two nodes of three devices.

    A group, a pod with a claim, and one with an extended resource.
    """

    async def begin(self) -> None:
        """Publish devices, a class and claims."""
        spec = {"extendedResourceName": GPU}
        selectors = [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]
        body = {"metadata": {"name": "gpu"}, "spec": {"selectors": selectors, **spec}}
        await self.api.expect("POST", f"{GROUP}/deviceclasses", body)
        for name in NODES:
            await self._node(name)
        for name in NAMES:
            asks = [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]
            claim = {"metadata": {"name": name}, "spec": {"devices": {"requests": asks}}}
            await self.api.expect("POST", CLAIMS, claim)
        await self.api.expect("POST", self.source.path, self.source.group)

    async def _node(self, name: str) -> None:
        amounts = {"cpu": "8", "memory": "16Gi", "pods": "110"}
        status = {"capacity": amounts, "allocatable": amounts}
        await self.api.expect(
            "POST", "/api/v1/nodes", {"metadata": {"name": name}, "status": status}
        )
        spec = {
            "driver": DRIVER,
            "nodeName": name,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": f"gpu-{number}"} for number in range(PER_NODE)],
        }
        body = {"metadata": {"name": f"slice-{name}"}, "spec": spec}
        await self.api.expect("POST", f"{GROUP}/resourceslices", body)

    async def live(self) -> None:
        """Run until every pod is bound."""
        await self.begin()
        for name in NAMES:
            is_member = name != "alone"
            entry = {"resourceClaims": [{"name": "d", "resourceClaimName": name}]}
            about, spec = (self.source.meta, self.source.spec) if is_member else ({}, {})
            await self._pod(name, about, spec | entry)
        amounts = {"requests": {GPU: "1"}, "limits": {GPU: "1"}}
        container = {"name": "c", "image": "i", "resources": amounts}
        await self._pod(EXTENDED, {}, {"containers": [container]})
        await self.until(lambda pods: all(map(is_bound, pods.values())), "a device for every pod")

    async def check_rules(self, cut_at: int) -> None:
        """Check that each device has one claim, and that each claim belongs to a pod on its
        node.
        """
        pods = await self.pods()
        assert {*NAMES, EXTENDED} == set(pods), cut_at
        claims = await self._claims()
        given = {name: _devices(claim) for name, claim in claims.items()}
        counted = Counter(device for devices in given.values() for device in devices)
        assert {(node, f"gpu-{i}"): 1 for node in NODES for i in range(PER_NODE)} == counted, cut_at
        status = pods[EXTENDED]["status"]["extendedResourceClaimStatus"]
        used = {name: name for name in NAMES} | {EXTENDED: status["resourceClaimName"]}
        for name, claim in used.items():
            ((pool, _device),) = given[claim]
            assert pods[name]["spec"]["nodeName"] == pool, (name, cut_at)
            users = [one["uid"] for one in claims[claim]["status"]["reservedFor"]]
            assert [pods[name]["metadata"]["uid"]] == users, (name, cut_at)

    async def clean(self) -> None:
        """Delete all objects: the next lifecycle needs every device again, with the daemon that
        continues.
        """
        for name in await self.pods():
            await self.api.request("DELETE", f"{CORE}/pods/{name}", {"gracePeriodSeconds": 0})
        for name in await self._claims():
            free = {"metadata": {"finalizers": None}}
            await self.api.request("PATCH", f"{CLAIMS}/{name}", free, content_type=MERGE)
            await self.api.request("DELETE", f"{CLAIMS}/{name}")
        await asked(self._claims, lambda found: not found, "the claims to go")
        await super().clean()
        await self.api.request("DELETE", f"{GROUP}/deviceclasses/gpu")
        for name in NODES:
            await self.api.request("DELETE", f"{GROUP}/resourceslices/slice-{name}")

    async def _claims(self) -> dict[str, Json]:
        found, _ = await self.api.list(CLAIMS)
        return {one["metadata"]["name"]: one for one in found}


def _devices(claim: Json) -> list[tuple[str, str]]:
    allocation = claim.get("status", {}).get("allocation") or {"devices": {"results": []}}
    return [(one["pool"], one["device"]) for one in allocation["devices"]["results"]]


@pytest.mark.parametrize("kind", ["ConfigMap"])
async def test_devices_when_killed_at_some_writes(server: Reachable, kind: str):
    """The lifecycle ends correctly if the daemon is killed at some writes, one of which never
    arrives.
    """
    async with prepared(server, kind, 1, Devices) as lifecycles:
        for cut_at, arrives in SOME_WRITES:
            await lifecycles.lived(cut_at, arrives=arrives)


@pytest.mark.long
@pytest.mark.parametrize("daemons", [1, 2])
@pytest.mark.parametrize("kind", SOURCES)
async def test_devices_when_killed_at_every_write(server: Reachable, kind: str, daemons: int):
    """The lifecycle ends correctly if the daemon is killed at its n-th write, for each n, whether
    that write arrives or not.
    """
    async with prepared(server, kind, daemons, Devices) as lifecycles:
        await lifecycles.killed_at_every_write()
