"""A sandbox without a server: store, simulated nodes, controllers, and a clock that a test
moves.
"""

from collections.abc import Sequence
from typing import Any

import yaml

from scheduler.base.clock import ManualClock
from scheduler.sandbox.controllers.collector import Collector
from scheduler.sandbox.controllers.workqueue import Controller, ControllerLoop
from scheduler.sandbox.kinds.kinds import NODES, PODS, RELEASES, Resource
from scheduler.sandbox.nodes.kubelet import Kubelets
from scheduler.sandbox.nodes.nodes import SimulatedNodes
from scheduler.sandbox.nodes.podlifecycle import SimulatedPace
from scheduler.sandbox.nodes.shape import nodes_of, plain_shape
from scheduler.sandbox.start import new_store

Object = dict[str, Any]
START = 1_700_000_000.0


class SimulatedCluster:
    """`bind=True` places every new pod on a node by itself, as a scheduler would."""

    def __init__(
        self,
        *,
        nodes: int = 3,
        actors: Sequence[Any] = (),
        bind: bool = True,
        pace: SimulatedPace | None = None,
        lazy: bool = False,
        release: str = RELEASES[0],
    ) -> None:
        self.clock = ManualClock(START)
        self.store = new_store(self.clock, seed=1, with_crds=False, release=release)
        self.nodes = SimulatedNodes(self.store)
        self.kubelets = Kubelets(self.store, self.nodes, pace, lazy=lazy)
        made: list[Controller] = [self.nodes, self.kubelets]
        made += [actor(self.store) for actor in actors]
        self.collector = Collector(self.store, lambda: None)
        self.turns = ControllerLoop(self.store, made, strict=True)
        self.bind = bind
        self.bound = 0
        for node in nodes_of(plain_shape(nodes), self.store.now()):
            self.store.create(NODES, node)
        self.tick()

    def tick(self, seconds: float = 0.0) -> None:
        """Move the clock, stopping at every due time."""
        end = self.clock.now() + seconds
        while True:
            self.settle()
            due = self.turns.next_due()
            if due is None or due > end:
                break
            self.clock.set(max(due, self.clock.now()))
        self.clock.set(end)
        self.settle()

    def settle(self) -> None:
        """Do all that is due now, bindings included."""
        while True:
            self.turns.tick()
            moved = self.collector.step()
            if not (self.bind and self._bind_all()) and not moved:
                break

    def _bind_all(self) -> int:
        waiting = [pod for pod in self.pods() if not pod["spec"].get("nodeName")]
        count = 0
        for pod in waiting:
            name = self._node_for(pod)
            if name and "deletionTimestamp" not in pod["metadata"]:
                self.place(pod, name)
                count += 1
        return count

    def _node_for(self, pod: Object) -> str:
        wanted = (pod["spec"].get("affinity") or {}).get("nodeAffinity")
        if wanted:
            term = wanted["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"][0]
            return str(term["matchFields"][0]["values"][0])
        names = [s.name for s in self.store.list(NODES) if not s.obj["spec"].get("unschedulable")]
        self.bound += 1
        return names[self.bound % len(names)] if names else ""

    def place(self, pod: Object, node: str) -> None:
        """Bind a pod."""
        meta = pod["metadata"]
        old = self.store.get(PODS, meta["namespace"], meta["name"])
        new = {**old.obj, "spec": {**old.obj["spec"], "nodeName": node}}
        self.store.replace(PODS, old, new)

    def apply(self, resource: Resource, text: str, namespace: str = "default") -> Object:
        """Create an object from YAML and run all controllers until they are idle."""
        stored = self.store.create(resource, yaml.safe_load(text), namespace)
        self.settle()
        return stored.obj

    def edit(self, resource: Resource, name: str, namespace: str = "default", **spec: Any) -> None:
        """Change fields of a spec, without settling."""
        self.store.change(
            resource,
            namespace if resource.namespaced else "",
            name,
            lambda obj: {**obj, "spec": {**obj["spec"], **spec}},
        )

    def annotate(self, resource: Resource, name: str, namespace: str = "", **notes: str) -> None:
        """Set `trellis.dev/simulate-…` annotations.

        Underscores stand for dashes, "" removes one.
        """

        def edit(obj: Object) -> Object:
            annotations = dict(obj["metadata"].get("annotations") or {})
            for key, text in notes.items():
                annotations["trellis.dev/simulate-" + key.replace("_", "-")] = text
            return {**obj, "metadata": {**obj["metadata"], "annotations": annotations}}

        self.store.change(resource, namespace, name, edit)

    def get(self, resource: Resource, name: str, namespace: str = "default") -> Object:
        """Return the current object."""
        return self.store.get(resource, namespace if resource.namespaced else "", name).obj

    def pods(self, namespace: str = "default") -> list[Object]:
        """Return all pods, by name."""
        return [stored.obj for stored in self.store.list(PODS, namespace)]

    def names(self, namespace: str = "default") -> list[str]:
        """The names of all pods."""
        return [pod["metadata"]["name"] for pod in self.pods(namespace)]

    def phases(self, namespace: str = "default") -> list[str]:
        """The phases of all pods, by name."""
        return [pod["status"]["phase"] for pod in self.pods(namespace)]
