"""Generated devices: pools, classes, allocated claims, and pods' claims.

The clusters are those of the invariants (tests/property/devicemaking.py), as far as an API server
accepts them.
"""

from copy import deepcopy

from tests.differential.kinds import Manifest
from tests.differential.making.newerdevices import NewerDevices
from tests.differential.making.words import GPU, Dice
from tests.property import devicemaking

WHEN = "2026-01-01T00:00:00Z"
# Pods with such a device wait for seconds until the scheduler retries: few have them.
CONDITIONED = 0.1
ADMIN = "red"  # the namespace whose label allows admin access


class Devices:
    """The devices of one case; `add_claims` adds claims to a pod and records them.

    `newer` adds the features of 1.37; None leaves them out.
    """

    def __init__(self, dice: Dice, nodes: list[Manifest], newer: NewerDevices | None) -> None:
        self._dice = dice
        self._newer = newer
        self._nodes = nodes
        self._claims: dict[str, list[str]] = {}
        self._made: list[Manifest] = []
        for number, node in enumerate(nodes):
            node["metadata"]["labels"] |= {"zone": f"z{number % 2}", "rack": f"r{number % 3}"}
        self._slices = self._pools()

    def objects(self) -> list[Manifest]:
        """Return all objects."""
        dice = self._dice
        classes = devicemaking.device_classes()
        if dice.chance(0.4):
            classes[0]["spec"]["extendedResourceName"] = GPU
        for one in classes:
            if dice.chance(0.2):
                opaque = {"driver": devicemaking.GPU, "parameters": {"mode": "fast"}}
                one["spec"]["config"] = [{"opaque": opaque}]
        return [
            *({**one, "kind": "DeviceClass"} for one in classes),
            *(self._newer.taint_rules(self._slices) if self._newer else ()),
            *self._slices,
            *self._taken(),
            *self._made,
        ]

    def add_claims(self, pod: Manifest) -> None:
        """Give a pod its own claims, shared ones, or those of a template."""
        dice = self._dice
        if not dice.chance(0.85):
            return
        namespace = pod["metadata"]["namespace"]
        entries: list[Manifest] = []
        for number in range(dice.weighted({1: 5, 2: 2, 3: 1})):
            known = self._claims.setdefault(namespace, [])
            if dice.chance(0.4):
                name = self._template(namespace)
                entries.append({"name": f"c{number}", "resourceClaimTemplateName": name})
            else:
                shared = bool(known) and dice.chance(0.4)
                name = dice.choice(known) if shared else self._claim(namespace)
                if all(one.get("resourceClaimName") != name for one in entries):
                    entries.append({"name": f"c{number}", "resourceClaimName": name})
        pod["spec"]["resourceClaims"] = entries

    def _pools(self) -> list[Manifest]:
        dice = self._dice
        found: list[Manifest] = []
        for node in self._nodes:
            for driver in (devicemaking.GPU, devicemaking.NIC):
                if dice.chance(0.75):
                    found += devicemaking.pool(dice, driver, node["metadata"]["name"], node)
        for number in range(dice.choice((0, 0, 1, 2))):
            driver = dice.choice((devicemaking.GPU, devicemaking.NIC))
            found += devicemaking.pool(dice, driver, f"net{number}", None)
        dice.shuffle(found)
        for number, one in enumerate(found):
            one["spec"] = deepcopy(one["spec"])
            one |= {"kind": "ResourceSlice", "metadata": {"name": f"s{number:02d}"}}
            for device in one["spec"].get("devices", ()):
                if self._newer:
                    self._newer.divide(device)
                if not device.pop("bindingConditions", None) or not dice.chance(CONDITIONED):
                    continue
                device["bindingConditions"] = ["example.com/ready"]
                device["bindingFailureConditions"] = ["example.com/broken"]
        return found

    def _taken(self) -> list[Manifest]:
        found: list[Manifest] = devicemaking.taken_claims(self._dice, self._slices)
        for one in found:
            one["kind"] = "ResourceClaim"
            one["metadata"] = {"name": one["metadata"]["name"], "namespace": ADMIN}
            one["status"]["allocation"]["allocationTimestamp"] = WHEN
        return found

    def _claim(self, namespace: str) -> str:
        """Make a claim; some are already allocated, with or without a consumer."""
        dice = self._dice
        name = f"claim-{len(self._made)}"
        one = devicemaking.claim(dice, name)
        one |= {"kind": "ResourceClaim", "metadata": {"name": name, "namespace": namespace}}
        self._prepare(one["spec"], namespace)
        if dice.chance(0.2) and self._nodes:
            one["status"] = self._allocated(one)
        self._made.append(one)
        self._claims[namespace].append(name)
        return name

    def _template(self, namespace: str) -> str:
        name = f"template-{len(self._made)}"
        spec = devicemaking.claim(self._dice, name)["spec"]
        self._prepare(spec, namespace)
        meta = {"name": name, "namespace": namespace}
        self._made.append(
            {"kind": "ResourceClaimTemplate", "metadata": meta, "spec": {"spec": spec}}
        )
        return name

    def _prepare(self, spec: Manifest, namespace: str) -> None:
        """Add configuration, and remove fields that the API server rejects in other namespaces."""
        dice = self._dice
        for request in spec["devices"]["requests"]:
            if namespace != ADMIN:
                request.get("exactly", {}).pop("adminAccess", None)
            if self._newer:
                for one in request.get("firstAvailable", (request.get("exactly"),)):
                    self._newer.request_share(one)
        if dice.chance(0.2):
            opaque = {"driver": devicemaking.GPU, "parameters": {"share": "whole"}}
            config: Manifest = {"opaque": opaque}
            if dice.chance(0.5):
                config["requests"] = [dice.choice(spec["devices"]["requests"])["name"]]
            spec["devices"]["config"] = [config]

    def _allocated(self, claim: Manifest) -> Manifest:
        """Return the status of a claim that got a device of no slice, on one node or anywhere."""
        dice = self._dice
        request = claim["spec"]["devices"]["requests"][0]
        path = request["name"]
        if "firstAvailable" in request:
            path += f"/{request['firstAvailable'][-1]['name']}"
        result = {
            "request": path,
            "driver": devicemaking.GPU,
            "pool": "elsewhere",
            "device": claim["metadata"]["name"],
        }
        allocation: Manifest = {"devices": {"results": [result]}, "allocationTimestamp": WHEN}
        if dice.chance(0.8):
            values = [dice.choice(self._nodes)["metadata"]["name"]]
            field = {"key": "metadata.name", "operator": "In", "values": values}
            allocation["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        status: Manifest = {"allocation": allocation}
        if dice.chance(0.4):
            user = {"resource": "pods", "name": "other", "uid": "u-1"}
            status["reservedFor"] = [user]
        return status
