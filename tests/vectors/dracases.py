"""The cluster of a recorded case of device allocation, as the peer left it after each pod."""

import re
from copy import deepcopy

from tests.property.devicereference import BrokenError, Reference

NOT_COMPARED = ("allocationTimestamp", "shareID")
# The text depends on the first visited node.
VARIES = re.compile(r"(no such key:|cannot add device|resource pool) \S+")


class SimulatedCluster:
    """Objects by kind and name; pods that were placed stay, with the claims they changed."""

    def __init__(self, objects):
        self._objects = {_key(one): one for one in objects}

    def objects(self):
        """Return all objects."""
        return list(self._objects.values())

    def of(self, kind):
        """Return all objects of a kind."""
        return [one for key, one in self._objects.items() if key[0] == kind]

    def claims_of(self, raw):
        """Return the existing claims of a pod, in order."""
        meta = raw["metadata"]
        made = raw.get("status", {}).get("resourceClaimStatuses", ())
        names = {one["name"]: one.get("resourceClaimName") for one in made}
        found = []
        for entry in raw["spec"].get("resourceClaims", ()):
            name = entry.get("resourceClaimName") or names.get(entry["name"])
            key = "ResourceClaim", f"{meta.get('namespace', 'default')}/{name}"
            found.append(self._objects.get(key))
        return [one for one in found if one is not None]

    def pinned(self, raw, node):
        """Return a pod that is pinned to one node."""
        pod = deepcopy(raw)
        terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]
        required = {"nodeSelectorTerms": terms}
        affinity = pod["spec"].setdefault("affinity", {}).setdefault("nodeAffinity", {})
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = required
        return pod

    def follow(self, raw, expected):
        """Apply the recorded result of a pod."""
        for one in expected.get("changed", ()):
            self._objects[_key(one)] = one
        for victim in expected["victims"]:
            self._objects.pop(("Pod", victim), None)
        if expected["result"] == "Scheduled":
            pod = deepcopy(raw)
            pod["spec"]["nodeName"] = expected["node"]
            pod.setdefault("status", {})["startTime"] = expected.get("startTime")
            self._objects[_key(pod)] = pod
            return
        uid = raw["metadata"]["uid"]
        self._objects = {k: o for k, o in self._objects.items() if not _is_made_for(o, uid)}


def was_gated_earlier(raw):
    """Return whether a recorded reason is that of the moment before the pod's claims were
    written.
    """
    return bool(raw.get("status", {}).get("resourceClaimStatuses"))


def is_forgetful(cluster, raw):
    """Return whether a pod needs a case where the peer is known to be wrong (D32): see
    `devicereference`.
    """
    asks = [
        ask
        for claim in cluster.claims_of(raw)
        for request in claim["spec"]["devices"].get("requests", ())
        for ask in (*request.get("firstAvailable", ()), request.get("exactly", {}))
    ]
    if any(ask.get("allocationMode") == "All" or ask.get("adminAccess") for ask in asks):
        return True
    if asks and _is_unpublished(cluster):
        return True
    if any(
        "distinctAttribute" in one
        for claim in cluster.claims_of(raw)
        for one in claim["spec"]["devices"].get("constraints", ())
    ):
        return True
    drivers: dict[str, set[str]] = {}
    for one in cluster.of("ResourceSlice"):
        spec = one["spec"]
        if any(device.get("consumesCounters") for device in spec.get("devices", ())):
            drivers.setdefault(spec["pool"]["name"], set()).add(spec["driver"])
    return any(len(found) > 1 for found in drivers.values())


def _is_unpublished(cluster):
    """Return whether a claim has a device that no slice publishes."""
    published = {
        (one["spec"]["driver"], one["spec"]["pool"]["name"], device["name"])
        for one in cluster.of("ResourceSlice")
        for device in one["spec"].get("devices", ())
    }
    return any(
        (one["driver"], one["pool"], one["device"]) not in published
        for claim in cluster.of("ResourceClaim")
        for one in (claim.get("status", {}).get("allocation") or {})
        .get("devices", {})
        .get("results", ())
    )


NO_DEVICES = {"cannot allocate all claims", "resource pools are currently being updated"}


def check_by_reference(cluster, raw, got):
    """Compare the result with the reference: every device that a node gave or could not give."""
    reference = Reference(
        *(cluster.of(k) for k in ("ResourceSlice", "DeviceClass", "ResourceClaim"))
    )
    nodes = {one["metadata"]["name"]: one for one in cluster.of("Node")}
    claims = [one for one in cluster.claims_of(raw) if not one.get("status", {}).get("allocation")]
    if got["result"] == "Error":
        assert any(_breaks(reference, node, claims) for node in nodes.values())
        return
    if got["result"] == "Scheduled":
        found = reference.allocate(nodes[got["node"]], claims)
        names = {one["metadata"]["name"]: place for place, one in enumerate(claims)}
        for one in got["claims"]:
            if one["name"] in names:
                results = one["allocation"]["devices"]["results"]
                devices = [(r["request"], (r["driver"], r["pool"], r["device"])) for r in results]
                assert [entry[:2] for entry in found[names[one["name"]]]] == devices
        return
    assert got["result"] == "Unschedulable"
    for node in got["nodes"]:
        if node["rejectedBy"] == "DynamicResources" and not NO_DEVICES.isdisjoint(node["reasons"]):
            assert reference.allocate(nodes[node["name"]], claims) is None, node["name"]


def _breaks(reference, node, claims):
    try:
        reference.allocate(node, claims)
    except BrokenError:
        return True
    return False


def plain_claims(claims):
    """Return claims without fields that differ from run to run."""
    return [
        {
            "name": one["name"],
            "results": [_without(result) for result in one["allocation"]["devices"]["results"]],
            "config": one["allocation"]["devices"].get("config", []),
            "nodeSelector": _selector(one["allocation"].get("nodeSelector")),
        }
        for one in claims
    ]


def plain_error(text):
    """Return an error without the parts that depend on the order of nodes."""
    return VARIES.sub(r"\1 …", text)


def _without(result):
    kept = {key: value for key, value in result.items() if key not in NOT_COMPARED}
    return kept | {"tolerations": [_toleration(one) for one in kept.get("tolerations", [])]}


def _toleration(one):
    return {"operator": "Equal"} | one


def _selector(selector):
    """Return a node selector; kube-scheduler collects its requirements in any order."""
    return selector


def _is_made_for(obj, uid):
    owners = obj["metadata"].get("ownerReferences", ())
    return obj["kind"] == "ResourceClaim" and any(one["uid"] == uid for one in owners)


def _key(obj):
    meta = obj["metadata"]
    namespaced = obj["kind"] in ("Pod", "ResourceClaim", "ResourceClaimTemplate")
    prefix = f"{meta.get('namespace', 'default')}/" if namespaced else ""
    return obj["kind"], f"{prefix}{meta['name']}"
