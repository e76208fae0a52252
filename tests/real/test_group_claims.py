"""A claim of a PodGroup live: one for all of its pods, reserved for the group, with a SIGKILL in
between.
"""

from typing import Any

import pytest

from tests.apiserver.patience import until
from tests.apiserver.realcluster import Reachable
from tests.real.api import Api
from tests.real.schedulers import Trellis
from tests.real.test_devices import GROUP, _claim, _class, _node, _slice
from tests.real.test_group_lifecycle import token_of
from tests.real.test_workloads import PROFILES

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]
Json = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"
CLAIMS = f"{GROUP}/namespaces/default/resourceclaims"
SERVED = "/apis/scheduling.k8s.io"
LINK = {"name": "link", "resourceClaimName": "shared"}


def member(name: str) -> Json:
    """Return a pod of the group that names the group's claim as the group does."""
    return {
        "metadata": {"name": name},
        "spec": {
            "schedulerName": "trellis",
            "schedulingGroup": {"podGroupName": "ring"},
            "resourceClaims": [LINK],
            "tolerations": [{"operator": "Exists"}],
            "containers": [
                {
                    "name": "c",
                    "image": "registry.k8s.io/pause:3.10",
                    "resources": {"requests": {"cpu": "1"}},
                }
            ],
        },
    }


async def test_a_claim_of_a_group(server: Reachable):
    """Three members are placed where its device is.

    The claim names the group and no pod, also for a late one.
    """
    config = {"profiles": PROFILES, "clientConnection": {"kubeconfig": str(server.kubeconfig)}}
    async with Api(server, token_of(server)) as api:
        for name in ("n1", "n2"):
            await api.expect("POST", "/api/v1/nodes", _node(name))
        await api.expect("POST", f"{GROUP}/resourceslices", _slice("n2", [{"name": "d0"}]))
        await api.expect("POST", f"{GROUP}/deviceclasses", _class())
        await api.expect("POST", CLAIMS, _claim("shared"))
        gang = {"schedulingPolicy": {"gang": {"minCount": 3}}, "resourceClaims": [LINK]}
        versions = (await api.expect("GET", SERVED))["versions"]
        version = next(one["version"] for one in versions if one["version"] != "v1")
        groups = f"{SERVED}/{version}/namespaces/default/podgroups"
        made = await api.expect("POST", groups, {"metadata": {"name": "ring"}, "spec": gang})

        async def are_bound(number: int) -> bool:
            pods, _ = await api.list(PODS)
            return bool(number == sum(one["spec"].get("nodeName") == "n2" for one in pods))

        with Trellis().start(server, config) as running:
            for number in range(3):
                await api.expect("POST", PODS, member(f"m-{number}"))
            await until(lambda: are_bound(3), "three members")
            await running.kill()
        await api.expect("POST", PODS, member("late"))
        with Trellis().start(server, config):
            await until(lambda: are_bound(4), "the late member")
        claim = await api.expect("GET", f"{CLAIMS}/shared")

    assert [("scheduling.k8s.io", "podgroups", "ring", made["metadata"]["uid"])] == [
        (one["apiGroup"], one["resource"], one["name"], one["uid"])
        for one in claim["status"]["reservedFor"]
    ]
    (result,) = claim["status"]["allocation"]["devices"]["results"]
    assert ("n2", "d0") == (result["pool"], result["device"])
