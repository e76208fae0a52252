"""An engine with the default profile beside a small API server with storage, and a manual clock.

It knows nothing of scheduling: it stores objects whole, refuses stale versions as kube-apiserver
does, and sends events to the engine only on demand. The volume controller and the provisioner are
three lines each, called by the tests.
"""

import json
from typing import Any

import msgspec

from scheduler.config import load
from scheduler.engine.effects import Answer, Bind, Call, SetStatus, Watched
from scheduler.engine.engine import Engine
from scheduler.framework.registry import Registry
from scheduler.intree import IN_TREE
from scheduler.objects.kinds import BY_KIND
from scheduler.objects.plain import plain_data, read_as
from scheduler.testing import node
from tests.unit.plugins.storage import HOST, ZONE

START = 1_800_000_000.0
STALE = (
    "Operation cannot be fulfilled on {}: the object has been modified; please apply your changes "
    "to the latest version and try again"
)


class VolumeApi:
    """Objects by kind and key, and the engine that schedules on them."""

    def __init__(self, *raws: Any, args: dict[str, Any] | None = None) -> None:
        config = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [
                {
                    "schedulerName": "default-scheduler",
                    "pluginConfig": [{"name": "VolumeBinding", "args": args or {}}],
                }
            ],
        }
        registry = Registry(IN_TREE)
        loaded = load(json.dumps(config), file="test", registry=registry)
        self.engine = Engine(loaded.profiles, registry)
        self.now = START
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self.effects: list[Any] = []
        self.calls: list[tuple[str, str]] = []
        self.binds: list[tuple[str, str]] = []
        self.statuses: list[SetStatus] = []
        self.before_put: Any = None
        self._version = 100
        for name, zone in (("a", "x"), ("b", "y")):
            self.put(node(name, labels={HOST: name, ZONE: zone}))
        for raw in raws:
            self.put(raw)

    # The API server.

    def put(self, raw: Any, *, tell: bool = True) -> dict[str, Any]:
        """Create or update an object. With `tell` the engine gets the event at once, otherwise
        never.
        """
        stored: dict[str, Any] = plain_data(raw)
        self._version += 1
        meta = stored["metadata"]
        meta["resourceVersion"] = str(self._version)
        kind = BY_KIND[stored["kind"]]
        obj = read_as(kind, stored)
        meta["uid"] = obj.metadata.uid
        self.objects[kind.kind, self.key(stored)] = stored
        if tell:
            self.tell(kind.kind, self.key(stored))
        return stored

    def tell(self, kind: str, key: str) -> None:
        """Send the current version of an object to the watch."""
        obj = read_as(BY_KIND[kind], self.objects[kind, key])
        self.engine.handle(Watched(kind, "MODIFIED", obj), self.now)

    def remove(self, kind: str, key: str) -> None:
        """Delete an object; the watch sends the event at once."""
        obj = read_as(BY_KIND[kind], self.objects.pop((kind, key)))
        self.engine.handle(Watched(kind, "DELETED", obj), self.now)

    def get(self, kind: str, key: str) -> dict[str, Any]:
        """Return an object as it is stored."""
        return self.objects[kind, key]

    @staticmethod
    def key(raw: dict[str, Any]) -> str:
        """Return `namespace/name` or `name`."""
        meta = raw["metadata"]
        return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else meta["name"]

    # The scheduler's surroundings.

    def run(self, *, answer: bool = True) -> None:
        """Run the engine until it has no more requests.

        Perform its calls, or leave them unanswered.
        """
        for _ in range(50):
            effects = self.engine.run(self.now, 5)
            self.effects += effects
            if not effects:
                return
            for effect in effects:
                if isinstance(effect, SetStatus):
                    self.statuses.append(effect)
                elif isinstance(effect, Bind):
                    self.binds.append((effect.name, effect.node))
                    self.engine.handle(Answer(effect.id, 201), self.now)
                elif isinstance(effect, Call) and answer:
                    self.engine.handle(self.perform(effect), self.now)
        raise AssertionError("the engine does not come to rest")

    def perform(self, call: Call) -> Answer:
        """Answer a request as kube-apiserver does; the watch gets no event."""
        self.calls.append((call.method, call.path))
        *_, plural, name = call.path.split("/")
        kind = next(kind for kind in BY_KIND.values() if kind.plural == plural)
        key = f"default/{name}" if kind.namespaced else name
        stored = self.objects.get((kind.kind, key))
        if call.method == "PUT" and self.before_put is not None:
            before, self.before_put = self.before_put, None
            before()
            stored = self.objects.get((kind.kind, key))
        if stored is None:
            return Answer(call.id, 404, "NotFound", f'{plural} "{name}" not found')
        if call.method == "GET":
            return Answer(call.id, 200, body=json.loads(json.dumps(stored)))
        body = json.loads(msgspec.json.encode(call.body))
        if body["metadata"]["resourceVersion"] != stored["metadata"]["resourceVersion"]:
            return Answer(call.id, 409, "Conflict", STALE.format(f'{plural} "{name}"'))
        return Answer(call.id, 200, body=self.put(body, tell=False))

    def pass_time(self, seconds: float) -> None:
        """Advance the clock."""
        self.now += seconds

    def message(self) -> tuple[str, str]:
        """Return reason and text of the last condition."""
        conditions = [one.condition for one in self.statuses if one.condition is not None]
        return conditions[-1].reason, conditions[-1].message

    # The volume controller and a provisioner.

    def bind(self, claim: str, volume: str) -> None:
        """Bind a claim and the volume whose claimRef names it; the watch sends the event."""
        stored = self.get("PersistentVolume", volume)
        assert claim == stored["spec"]["claimRef"]["name"]
        self.put(stored | {"status": {"phase": "Bound"}})
        bound = self.get("PersistentVolumeClaim", f"default/{claim}")
        bound["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] = "yes"
        self.put(bound | {"spec": bound["spec"] | {"volumeName": volume}})

    def provision(self, claim: str, made: dict[str, Any]) -> None:
        """Create a volume for a claim that was sent to a node, and bind them."""
        self.put(made)
        self.bind(claim, made["metadata"]["name"])
