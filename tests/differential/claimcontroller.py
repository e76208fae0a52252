"""The part of the claim controller and of device drivers that scheduling needs, and the resulting
claims.

Claims are made from templates as kube-controller-manager does, and devices that must be ready first
are reported ready: a lone API server has no controllers and no drivers.
"""

from typing import Any

from tests.differential.kinds import Manifest, api_version, collection
from tests.real.api import MERGE, Api

WHEN = "2026-01-01T00:00:00Z"


async def make_claims(api: Api, pod: Manifest) -> list[Manifest]:
    """Make the claims of `pod` that come from templates, and name them in its status."""
    made, named = [], []
    meta = pod["metadata"]
    for entry in pod["spec"].get("resourceClaims", ()):
        if "resourceClaimTemplateName" not in entry:
            continue
        templates = collection("ResourceClaimTemplate", meta["namespace"])
        path = f"{templates}/{entry['resourceClaimTemplateName']}"
        code, template = await api.request("GET", path)
        if code != 200:
            continue
        owner = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"]}
        claim = {
            "metadata": {
                "name": f"{meta['name']}-{entry['name']}",
                "annotations": {"resource.kubernetes.io/pod-claim-name": entry["name"]},
                "ownerReferences": [{**owner, "controller": True}],
            },
            "spec": template["spec"]["spec"],
        }
        claims = collection("ResourceClaim", meta["namespace"])
        stored = await api.expect("POST", claims, claim)
        made.append({**stored, "apiVersion": api_version("ResourceClaim"), "kind": "ResourceClaim"})
        named.append({"name": entry["name"], "resourceClaimName": claim["metadata"]["name"]})
    if named:
        path = f"{collection('Pod', meta['namespace'])}/{meta['name']}/status"
        await api.patch(path, {"status": {"resourceClaimStatuses": named}}, MERGE)
    return made


async def claims_of(api: Api, pod: Manifest) -> list[Manifest]:
    """Return the claims of `pod` in order, the one for its extended resources last."""
    status = pod.get("status", {})
    made = {
        one["name"]: one["resourceClaimName"] for one in status.get("resourceClaimStatuses", ())
    }
    names = [
        entry.get("resourceClaimName") or made.get(entry["name"])
        for entry in pod["spec"].get("resourceClaims", ())
    ]
    names.append(status.get("extendedResourceClaimStatus", {}).get("resourceClaimName"))
    found = []
    for name in filter(None, names):
        claims = collection("ResourceClaim", pod["metadata"]["namespace"])
        code, claim = await api.request("GET", f"{claims}/{name}")
        if code == 200:
            found.append(claim)
    return found


async def ready(api: Api, claim: Manifest) -> None:
    """Report those devices of a claim ready that must be ready before the pod is bound."""
    status = claim.get("status", {})
    results = status.get("allocation", {}).get("devices", {}).get("results", ())
    waiting = [one for one in results if one.get("bindingConditions")]
    if not waiting or status.get("devices"):
        return
    devices = [
        {
            **{key: one[key] for key in ("driver", "pool", "device", "shareID") if key in one},
            "conditions": [_is_true(name) for name in one["bindingConditions"]],
        }
        for one in waiting
    ]
    meta = claim["metadata"]
    path = f"{collection('ResourceClaim', meta['namespace'])}/{meta['name']}/status"
    await api.patch(path, {"status": {"devices": devices}}, MERGE)


def granted(allocation: Manifest) -> Manifest:
    """Return an allocation without values that differ between attempts: its time, ids of shares."""
    devices = allocation["devices"]
    return {
        "results": [_granted(result) for result in devices.get("results", ())],
        "config": devices.get("config") or [],
        "nodeSelector": allocation.get("nodeSelector"),
    }


def _granted(result: Manifest) -> Manifest:
    found: dict[str, Any] = {k: v for k, v in result.items() if k != "shareID" and v}
    found["shared"] = bool(result.get("shareID"))
    return found


def _is_true(name: str) -> Manifest:
    return {
        "type": name,
        "status": "True",
        "reason": "Ready",
        "message": "",
        "lastTransitionTime": WHEN,
    }
