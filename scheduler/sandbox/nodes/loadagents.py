"""Agents that report the load of simulated nodes as NodeMetrics, by annotations of nodes and pods.

    trellis.dev/simulate-load: cpu=20% memory=10% use=70% noise=5% every=60s      on a node
    trellis.dev/simulate-use: cpu=90% memory=40%                                  on a pod

A node itself uses `cpu` and `memory` of its allocatable amounts; each running pod uses `use` of its
requests, or the shares in its own annotation. A change of the node's annotation takes effect with
the next report; with `agent=off` there is none. Only nodes with the annotation have an agent.
"""

from collections.abc import Mapping
from typing import Final
from zlib import crc32

from scheduler.objects.plain import read_pod
from scheduler.objects.podclass import priority_class
from scheduler.sandbox.api.status import Object
from scheduler.sandbox.controllers.workqueue import Interest, WorkQueue
from scheduler.sandbox.kinds.kinds import NODES, PODS, Resource
from scheduler.sandbox.nodes.durations import seconds
from scheduler.sandbox.nodes.nodes import SimulatedNodes
from scheduler.sandbox.nodes.podfit import milli, requests_of
from scheduler.sandbox.nodes.podlifecycle import PREFIX
from scheduler.sandbox.store.collection import DELETED, StoreChange
from scheduler.sandbox.store.store import ObjectStore

LOAD: Final = PREFIX + "load"
USE: Final = PREFIX + "use"
SOURCE: Final = "trellis.dev/load-source"
GROUP, VERSION, PLURAL = "slo.koordinator.sh", "v1alpha1", "nodemetrics"
RESOURCES: Final = ("cpu", "memory")
_DEFAULTS: Final = {"use": "70%", "noise": "5%", "every": "60s"}

Words = Mapping[str, str]
Thousandths = dict[str, float]


class LoadAgents:
    """The controller that writes the reports."""

    def __init__(self, store: ObjectStore, nodes: SimulatedNodes) -> None:
        self.work_queue = WorkQueue()
        self._store = store
        self._nodes = nodes
        self._pods: dict[str, dict[str, Object]] = {}
        self._reports: dict[str, int] = {}

    def interests(self) -> list[Interest]:
        """Nodes with their annotation, and the pods that run on them."""
        return [(NODES, self._observe_node), (PODS, self._observe_pod)]

    def act(self, key: str, now: float) -> None:
        """Write the report of one node, and requeue it for the next."""
        stored = self._store.find(NODES, "", key)
        words = words_of(stored.obj, LOAD) if stored is not None else {}
        if stored is None or not words:
            return
        self.work_queue.add_at(key, now + max(seconds(_given(words, "every")) or 60.0, 0.1))
        machine = self._nodes.machines.get(key)
        resource = self._store.kinds.find(GROUP, VERSION, PLURAL)
        silent = machine is None or not machine.alive or words.get("agent") == "off"
        if resource is None or silent:
            return
        count = self._reports[key] = self._reports.get(key, 0) + 1
        self._write(resource, key, self._status(stored.obj, words, count))

    def _write(self, resource: Resource, name: str, status: Object) -> None:
        current = self._store.find(resource, "", name)
        notes = {SOURCE: "a simulated agent"}
        if current is None:
            kind = {"apiVersion": resource.api_version, "kind": resource.kind}
            meta = {"name": name, "annotations": notes}
            current = self._store.create(resource, {**kind, "metadata": meta, "spec": {}})
        elif SOURCE not in (current.obj["metadata"].get("annotations") or {}):
            meta = current.obj["metadata"]
            notes = {**(meta.get("annotations") or {}), **notes}
            named: Object = {**current.obj, "metadata": {**meta, "annotations": notes}}
            current = self._store.update(resource, named)
        self._store.update(resource, {**current.obj, "status": status}, subresource="status")

    def _status(self, node: Object, words: Words, count: int) -> Object:
        name = node["metadata"]["name"]
        offered = node["status"].get("allocatable") or {}
        total: Thousandths = {
            one: milli(offered.get(one, "0")) * percent(words.get(one, "0%")) for one in RESOURCES
        }
        system = dict(total)
        metrics = []
        for pod in self._pods.get(name, {}).values():
            used = use_of(pod, _given(words, "use"))
            metrics.append(_entry(pod, used))
            for one in RESOURCES:
                total[one] += used[one]
        wobble = percent(_given(words, "noise")) * _noise(f"{name}/{count}")
        total["cpu"] *= 1 + wobble
        full = {one: min(total[one], float(milli(offered.get(one, "0")))) for one in RESOURCES}
        return {
            "updateTime": self._store.now(),
            "nodeMetric": {
                "nodeUsage": {"resources": _texts(full)},
                "systemUsage": {"resources": _texts(system)},
            },
            "podsMetric": metrics,
        }

    def _observe_node(self, change: StoreChange) -> None:
        node = change.stored.obj
        name = node["metadata"]["name"]
        if change.type == DELETED:
            self._reports.pop(name, None)
            return
        before = words_of(change.previous.obj, LOAD) if change.previous is not None else {}
        if words_of(node, LOAD) != before:
            self.work_queue.add(name)

    def _observe_pod(self, change: StoreChange) -> None:
        pod = change.stored.obj
        uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName") or ""
        if change.type == DELETED or (pod.get("status") or {}).get("phase") != "Running":
            self._pods.get(node, {}).pop(uid, None)
        else:
            self._pods.setdefault(node, {})[uid] = pod


def words_of(obj: Object, name: str) -> Words:
    """Return the words of an annotation, `key=value` each."""
    text = (obj["metadata"].get("annotations") or {}).get(name) or ""
    return dict(word.partition("=")[::2] for word in text.split())


def use_of(pod: Object, share: str) -> Thousandths:
    """Return the usage of a running pod in thousandths: its own shares of its requests, or
    `share`.
    """
    own = words_of(pod, USE)
    requests = requests_of(pod["spec"])
    return {one: requests.get(one, 0) * percent(own.get(one, share)) for one in RESOURCES}


def percent(text: str) -> float:
    """Return `70%` as 0.7; an invalid text is 0."""
    try:
        return max(0.0, float(text.removesuffix("%")) / 100)
    except ValueError:
        return 0.0


def _given(words: Words, name: str) -> str:
    return words.get(name) or _DEFAULTS[name]


def _noise(text: str) -> float:
    """Return a number in -1..1 that is the same for the same text."""
    return crc32(text.encode()) % 2001 / 1000 - 1


def _entry(pod: Object, used: Thousandths) -> Object:
    meta = pod["metadata"]
    return {
        "namespace": meta["namespace"],
        "name": meta["name"],
        "priority": priority_class(read_pod(pod)),
        "podUsage": {"resources": _texts(used)},
    }


def _texts(used: Thousandths) -> dict[str, str]:
    return {"cpu": f"{round(used['cpu'])}m", "memory": f"{round(used['memory'] / 1000 / 1024)}Ki"}
