"""An engine beside a sandbox's simulated kubelets, in one process, with a clock that a test moves.

The API server between them is left out: changes of the store become events, binds become writes.
"""

from collections import Counter, deque
from typing import Any

import msgspec

from scheduler.base.clock import ManualClock
from scheduler.config import load
from scheduler.engine.effects import Answer, Bind, Evict, Record, Watched
from scheduler.engine.engine import Engine
from scheduler.framework.registry import Registry
from scheduler.intree import IN_TREE
from scheduler.objects.kinds import BY_KIND
from scheduler.objects.plain import plain_data
from scheduler.sandbox.controllers.workqueue import ControllerLoop
from scheduler.sandbox.kinds.kinds import NODES, PODS, Resource
from scheduler.sandbox.nodes.kubelet import Kubelets
from scheduler.sandbox.nodes.nodes import SimulatedNodes
from scheduler.sandbox.nodes.shape import ClusterShape, NodeGroup, nodes_of
from scheduler.sandbox.nodes.topologyagents import GROUP, NUMA, PLURAL, VERSION, TopologyAgents
from scheduler.sandbox.start import new_store
from scheduler.sandbox.store.collection import DELETED, StoreChange
from scheduler.sandbox.store.store import Deletion

Object = dict[str, Any]
START = 1_700_000_000.0
NAME = "NodeResourceTopologyMatch"
ERROR = "TopologyAffinityError"
PLUGINS = ("PrioritySort", "NodeResourcesFit", NAME, "DefaultPreemption", "DefaultBinder")

# Nodes are filled one after the other, which leads soonest into zones that are full.
PACKING = {
    "type": "MostAllocated",
    "resources": [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}],
}


class NumaCluster:
    """Nodes by number of zones; `args` are the arguments of the plugin."""

    def __init__(
        self,
        args: Object,
        zones: list[int],
        *,
        cpus_per_zone: int = 4,
        settings: str = "policy=single-numa-node scope=pod report-after=30s",
    ) -> None:
        self.clock = ManualClock(START)
        self.store = new_store(self.clock, seed=1)
        nodes = SimulatedNodes(self.store)
        agents = TopologyAgents(self.store, nodes)
        kubelets = Kubelets(self.store, nodes, pods_changed=agents.changed)
        self.machines = nodes.machines
        self.turns = ControllerLoop(self.store, [nodes, agents, kubelets], strict=True)
        registry = Registry(IN_TREE)
        profiles = load(_configuration(args), file="test", registry=registry).profiles
        self.engine = Engine(profiles, registry)
        self.decisions: list[Any] = []
        self.warnings: list[Record] = []
        self.engine.observation.on_decision = lambda _q, made: self.decisions.append(made)
        self._events: deque[Watched] = deque()
        self.store.listen(self._listen)
        groups = [
            _group(number, count, cpus_per_zone, settings) for number, count in enumerate(zones)
        ]
        for node in nodes_of(ClusterShape(nodes=groups), self.store.now()):
            self.store.create(NODES, node)
        self.settle()

    def create(self, pod: Object) -> None:
        """Create a pod."""
        self.store.create(PODS, pod, pod["metadata"]["namespace"])

    def delete(self, name: str) -> None:
        """Delete a pod of the default namespace at once."""
        self.store.delete(PODS, "default", name, Deletion(grace_period_s=0))

    def write(self, name: str, report: Object) -> None:
        """Write a node's report as another client, in place of its agent."""
        machine = self.machines[name]
        machine.numa = None
        resource = self._reports()
        stored = self.store.find(resource, "", name)
        if stored is None:
            self.store.create(resource, {"metadata": {"name": name}, **report})
        else:
            meta = {"metadata": stored.obj["metadata"]}
            self.store.update(resource, {"zones": [], **report, **meta})

    def report(self, name: str) -> Object:
        """Return a node's report."""
        found: Object = self.store.get(self._reports(), "", name).obj
        return found

    def remove(self, name: str) -> None:
        """Delete a node's report."""
        self.store.delete(self._reports(), "", name)

    def bound(self, name: str) -> str | None:
        """Return the node that a pod is bound to."""
        node: str | None = self.store.get(PODS, "default", name).obj["spec"].get("nodeName")
        return node

    def _reports(self) -> Resource:
        resource = self.store.kinds.find(GROUP, VERSION, PLURAL)
        assert resource is not None
        return resource

    def tick(self, seconds: float) -> None:
        """Move the clock, stopping at every due time."""
        end = self.clock.now() + seconds
        while True:
            self.settle()
            due = [self.turns.next_due(), self.engine.next_wakeup()]
            first = min((time for time in due if time is not None), default=None)
            if first is None or first > end:
                break
            self.clock.set(max(first, self.clock.now() + 0.001))
        self.clock.set(end)
        self.settle()

    def settle(self) -> None:
        """Do all that is due now."""
        while True:
            self.turns.tick()
            while self._events:
                self.engine.handle(self._events.popleft(), self.clock.now())
            effects = self.engine.run(self.clock.now(), 64)
            for effect in effects:
                self._carry_out(effect)
            if not effects and not self._events:
                return

    def _carry_out(self, effect: Any) -> None:
        if isinstance(effect, Bind):
            old = self.store.get(PODS, effect.namespace, effect.name)
            new = {**old.obj, "spec": {**old.obj["spec"], "nodeName": effect.node}}
            self.store.replace(PODS, old, new)
            self.engine.handle(Answer(effect.id, 201), self.clock.now())
        elif isinstance(effect, Record) and effect.kind == "Node":
            self.warnings.append(effect)
        elif isinstance(effect, Evict):
            self.store.delete(PODS, effect.namespace, effect.name, Deletion(grace_period_s=0))
            self.engine.handle(Answer(effect.id, 200), self.clock.now())

    def _listen(self, resource: Resource, change: StoreChange) -> None:
        kind = BY_KIND.get(resource.kind)
        if kind is None or kind.group != resource.group or kind.version != resource.version:
            return
        obj = msgspec.convert(plain_data(change.stored.obj), kind.struct)
        verb = change.type
        if kind.kind == "Pod" and obj.is_finished:
            verb = DELETED
        self._events.append(Watched(kind.kind, verb, obj))

    # What became of it.

    def reasons(self) -> Counter[str]:
        """Count the pods by the reason in their status, else by phase."""
        found: Counter[str] = Counter()
        for stored in self.store.list(PODS):
            status = stored.obj.get("status") or {}
            found[status.get("reason") or status.get("phase") or "Pending"] += 1
        return found

    def zones(self) -> list[Any]:
        """Return the zones of all machines."""
        return [zone for name in self.machines for zone in self._numa(name).aligner.zones]

    def used(self, resource: str) -> float:
        """Return the share of a resource in all zones that pods hold."""
        zones = self.zones()
        free = sum(zone.free[resource] for zone in zones)
        return float(1 - free / sum(zone.capacity[resource] for zone in zones))

    def report_after(self, name: str, seconds: float) -> None:
        """Set the reporting delay of a node's agent."""
        self._numa(name).report_after_s = seconds

    def _numa(self, name: str) -> Any:
        return self.machines[name].numa


def guaranteed(name: str, cpus: int, **more: Any) -> Object:
    """Return a Guaranteed pod with 1 GiB per CPU."""
    amounts = {"cpu": str(cpus), "memory": f"{cpus}Gi"}
    spec = {
        "schedulerName": "trellis",
        "containers": [
            {"name": "main", "image": "app", "resources": {"requests": amounts, "limits": amounts}}
        ],
        **more,
    }
    return {"metadata": {"namespace": "default", "name": name}, "spec": spec}


def _group(number: int, zones: int, cpus_per_zone: int, settings: str) -> NodeGroup:
    return NodeGroup(
        name=f"n{number:03}",
        cpu=zones * cpus_per_zone,
        memory=f"{zones * cpus_per_zone * 2}Gi",
        annotations={NUMA: f"zones={zones} {settings}"},
    )


def _configuration(args: Object) -> str:
    profile = {
        "schedulerName": "trellis",
        "plugins": {
            "multiPoint": {
                "enabled": [{"name": name} for name in PLUGINS],
                "disabled": [{"name": "*"}],
            }
        },
        "pluginConfig": [
            {"name": NAME, "args": args},
            {"name": "NodeResourcesFit", "args": {"scoringStrategy": PACKING}},
        ],
    }
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    }
    return msgspec.json.encode(document).decode()
