"""Objects of device allocation for tests, as users write them, and an engine with these objects."""

import msgspec

from scheduler.config import default_config
from scheduler.engine.effects import Answer, Bind, Call, Listed, Solve, Watched
from scheduler.engine.engine import Engine
from scheduler.engine.settings import engine_settings
from scheduler.framework.registry import Registry
from scheduler.groups.solver.questions import answer
from scheduler.intree import IN_TREE
from scheduler.objects.plain import read_node, read_object, read_pod
from scheduler.plugins.dynamicresources.catalog import DeviceCatalog
from scheduler.testing import pod
from scheduler.testing.scene import NOW

DRIVER = "gpu.example.com"
GROUP = "resource.k8s.io/v1"


def gpu_class(name="gpu", **spec):
    """Return a class of all devices of the driver."""
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    meta = {"name": name}
    spec = {"selectors": [selector], **spec}
    return {"apiVersion": GROUP, "kind": "DeviceClass", "metadata": meta, "spec": spec}


def local_slice(node, *devices, name="", **spec):
    """Return the whole pool of a node; devices are names or objects."""
    listed = [{"name": one} if isinstance(one, str) else one for one in devices]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": listed, **spec}
    meta = {"name": name or f"slice-{node}"}
    return {"apiVersion": GROUP, "kind": "ResourceSlice", "metadata": meta, "spec": spec}


def claim(name, *, count=1, selector="", status=None, requests=None, **meta):
    """Return a claim for devices of the class `gpu`."""
    ask = {"deviceClassName": "gpu", "count": count}
    if selector:
        ask["selectors"] = [{"cel": {"expression": selector}}]
    requests = requests or [{"name": "r", "exactly": ask}]
    meta = {
        "name": name,
        "namespace": "default",
        "uid": f"uid-{name}",
        "resourceVersion": "5",
    } | meta
    found = {"apiVersion": GROUP, "kind": "ResourceClaim", "metadata": meta}
    found["spec"] = {"devices": {"requests": requests}}
    return found | ({"status": status} if status else {})


def allocated(*devices, node="n1", users=(), timestamp="2026-01-01T00:00:00Z", conditions=()):
    """Return the status of a claim that has these devices of a node's pool."""
    results = [{"request": "r", "driver": DRIVER, "pool": node, "device": one} for one in devices]
    for result in results if conditions else ():
        result["bindingConditions"] = list(conditions)
    only = {"key": "metadata.name", "operator": "In", "values": [node]}
    selector = {"nodeSelectorTerms": [{"matchFields": [only]}]}
    allocation = {"devices": {"results": results}, "nodeSelector": selector}
    if timestamp:
        allocation["allocationTimestamp"] = timestamp
    reserved = [{"resource": "pods", "name": one, "uid": f"uid-{one}"} for one in users]
    return {"allocation": allocation, "reservedFor": reserved}


def claiming(name, *claims, **spec):
    """Return a pod that uses claims."""
    entries = [{"name": f"d{i}", "resourceClaimName": one} for i, one in enumerate(claims)]
    made = pod(name, spec={"resourceClaims": entries, "schedulerName": "trellis", **spec})
    made["metadata"]["uid"] = f"uid-{name}"
    return made


class Daemon:
    """An engine with the default profile whose calls a test answers."""

    def __init__(self, nodes, *objects, release=None):
        registry = Registry(IN_TREE)
        loaded = msgspec.structs.replace(default_config(registry), release=release)
        settings = engine_settings(loaded) if release else None
        self.engine = Engine(loaded.profiles, registry, settings=settings)
        self.now = NOW
        self.engine.handle(Listed("Node", tuple(map(read_node, nodes))), self.now)
        for one in objects:
            self.see(one)
        self.effects = []

    def see(self, raw, verb="ADDED"):
        """Send an event of the watch about an object."""
        if raw["kind"] == "Pod":
            self.engine.handle(Watched("Pod", verb, read_pod(raw)), self.now)
        else:
            kind, obj = read_object(raw)
            self.engine.handle(Watched(kind.kind, verb, obj), self.now)

    def run(self):
        """Run the engine; return its present calls."""
        calls = []
        while new := list(self.engine.run(self.now, 10)):
            self.effects += new
            calls += [one for one in new if isinstance(one, Call)]
            for one in (one for one in new if isinstance(one, Solve)):
                body = msgspec.to_builtins(answer(one.instance))
                self.engine.handle(Answer(one.id, 200, body=body), self.now)
        return calls

    def answer(self, call, code=200, body=None, message=""):
        """Answer a call; return the calls that follow."""
        self.engine.handle(Answer(call.id, code, message=message, body=body), self.now)
        return self.run()

    def catalog(self):
        """Return the catalog of devices of the engine."""
        trackers = self.engine.intake.trackers.values()
        return next(one for one in trackers if isinstance(one, DeviceCatalog))

    def bound(self):
        """Return the nodes that pods were bound to, in order."""
        return [one.node for one in self.effects if isinstance(one, Bind)]

    def messages(self):
        """Return the messages of conditions so far, in order."""
        found = [getattr(one, "condition", None) for one in self.effects]
        return [one.message for one in found if one is not None]
