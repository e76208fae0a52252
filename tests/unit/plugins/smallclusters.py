"""Random small clusters full of labels, to compare spread and affinity with slow references.

A `SmallCluster` keeps everything twice: in a scene with a plugin, changed step by step so that
trackers have to follow, and in plain dictionaries for the reference.
"""

from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Any

import msgspec

from scheduler.framework.plugin import Plugin
from scheduler.objects.plain import read_node, read_object, read_pod
from scheduler.state.change import Change
from scheduler.testing import node, pod
from scheduler.testing.scene import Scene

Manifest = dict[str, Any]
Spec = Callable[[Random], Manifest]

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
KEYS = (HOSTNAME, ZONE, "rack")
TAINTS = [
    {"key": "k", "value": "v", "effect": "NoSchedule"},
    {"key": "k", "value": "v", "effect": "PreferNoSchedule"},
]
NODES = ("n0", "n1", "n2", "n3", "n4")
FOUNDING = 17  # this number of moves of a history fills the cluster at the start
PODS = {f"e{number}": ("default", "other")[number % 2] for number in range(7)}


class Move(msgspec.Struct, frozen=True):
    """One change: `raw` is stored under its name; without it the stored object is dropped."""

    kind: str
    name: str
    raw: Any = None


class SmallCluster:
    """A cluster in a scene, and the same cluster in plain dictionaries of manifests."""

    def __init__(self, plugin: type[Plugin[Any]], args: Mapping[str, Any] | None = None) -> None:
        self.scene = Scene(plugin, args)
        self.nodes: dict[str, Manifest] = {}
        self.pods: dict[str, Manifest] = {}
        self.objects: dict[str, Manifest] = {}

    def do(self, move: Move) -> Change:
        """Apply a move on both sides and update the trackers."""
        return self.scene.follow(self._do(move))

    def of(self, kind: str) -> list[Manifest]:
        """Return the objects of a kind."""
        return [raw for raw in self.objects.values() if raw["kind"] == kind]

    def placed(self) -> list[tuple[Manifest, Manifest]]:
        """Return the pods on existing nodes, each with its node."""
        return [
            (raw, self.nodes[raw["spec"]["nodeName"]])
            for raw in self.pods.values()
            if raw["spec"]["nodeName"] in self.nodes
        ]

    def _do(self, move: Move) -> Change:
        cluster, name = self.scene.cluster, move.name
        if move.kind == "node":
            _keep(self.nodes, move)
            return cluster.put_node(read_node(move.raw)) if move.raw else cluster.drop_node(name)
        if move.kind == "pod":
            _keep(self.pods, move)
            uid = f"Pod/{PODS[name]}/{name}"
            return cluster.put_pod(read_pod(move.raw)) if move.raw else cluster.drop_pod(uid)
        before = self.objects.get(name)
        _keep(self.objects, move)
        if move.raw:
            kind, obj = read_object(move.raw)
            return cluster.put_object(kind.kind, obj)
        if before is None:
            return Change("", "none")
        kind, obj = read_object(before)
        return cluster.drop_object(kind.kind, obj)


def _keep(objects: dict[str, Manifest], move: Move) -> None:
    if move.raw:
        objects[move.name] = move.raw
    else:
        objects.pop(move.name, None)


# Values of the objects: few, so that selectors match now and then. They are drawn from a seeded
# source rather than by hypothesis' own strategies: a cluster has hundreds of choices, and those
# cost fifty times as much as the comparison.


def labels(random: Random) -> dict[str, str]:
    """Return labels of a pod."""
    found = {"app": random.choice("xxy"), "ver": random.choice("12")}
    return {key: value for key, value in found.items() if random.random() < 0.8}


def expression(random: Random) -> Manifest:
    """Return an expression of a label selector."""
    key, operator = random.choice(["app", "ver"]), random.choice(["In", "NotIn", "Exists", "No"])
    if operator == "Exists":
        return {"key": key, "operator": "Exists"}
    if operator == "No":
        return {"key": key, "operator": "DoesNotExist"}
    values = random.choice([["x"], ["x", "y"], ["1"], ["2", "x"]])
    return {"key": key, "operator": operator, "values": values}


def selector(random: Random) -> Manifest | None:
    """Return a label selector, or none."""
    kind = random.randrange(10)
    if kind == 0:
        return None
    if kind == 1:
        return {}
    if kind < 7:
        return {"matchLabels": {"app": "x"}}
    return {"matchLabels": labels(random), "matchExpressions": [expression(random)]}


def some(random: Random, choices: Mapping[str, Any], chance: float = 0.25) -> Manifest:
    """Return some of the fields, each with one of its values."""
    return {
        name: random.choice(values) for name, values in choices.items() if random.random() < chance
    }


def node_move(random: Random, name: str = "") -> Move:
    """A node is put with some labels and taints, or dropped."""
    if not name and random.random() < 0.3:
        return Move("node", random.choice(NODES))
    name = name or random.choice(NODES)
    own = {HOSTNAME: name} if random.random() < 0.9 else {}
    choices = {ZONE: ["z0", "z0", "z1", "z1", ""], "rack": ["r0", "r1"], "disk": ["ssd"]}
    found = own | some(random, choices, 0.85)
    taints = [random.choice(TAINTS)] if random.random() < 0.3 else []
    return Move("node", name, node(name, labels=found, taints=taints))


def pod_move(random: Random, spec: Spec) -> Move:
    """A pod is put on a node (or moved, changed, marked for deletion), or dropped."""
    name = random.choice(sorted(PODS))
    if random.random() < 0.25:
        return Move("pod", name)
    raw = pod(
        name,
        namespace=PODS[name],
        node_name=random.choice(NODES),
        labels=labels(random),
        spec=spec(random),
    )
    if random.random() < 0.2:
        raw["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return Move("pod", name, raw)


def other_pod_move(random: Random, cluster: SmallCluster, spec: Spec | None = None) -> Move:
    """Return the removal of an existing pod or the addition of a missing one."""
    name = random.choice(sorted(PODS))
    if name in cluster.pods:
        return Move("pod", name)
    while (move := pod_move(random, spec or no_spec)).raw is None:
        pass
    raw = move.raw
    raw["metadata"] |= {"name": name, "namespace": PODS[name]}
    return Move("pod", name, raw)


def namespace_move(random: Random) -> Move:
    """Return the addition, relabelling or removal of a namespace."""
    name = random.choice(["default", "other"])
    if random.random() < 0.2:
        return Move("object", f"Namespace {name}")
    meta = {"name": name, "labels": some(random, {"team": ["a", "b"]}, 0.8)}
    return Move("object", f"Namespace {name}", {"kind": "Namespace", "metadata": meta})


def owner_move(random: Random) -> Move:
    """Return the addition, change of selector or removal of a service or controller."""
    kind = random.choice(["Service", "Service", "ReplicaSet", "ReplicationController"])
    name = random.choice(["o0", "o1"])
    if random.random() < 0.2:
        return Move("object", f"{kind} {name}")
    pairs = labels(random)
    selected = {"matchLabels": pairs} if kind == "ReplicaSet" else pairs
    meta = {"name": name, "namespace": "default"}
    raw = {"kind": kind, "metadata": meta, "spec": {"selector": selected}}
    return Move("object", f"{kind} {name}", raw)


def history(random: Random, spec: Spec, other: Callable[[Random], Move]) -> Iterator[Move]:
    """Yield moves; the first add all nodes and some pods, so that the cluster is well filled."""
    for name in NODES:
        yield node_move(random, name)
    for _ in range(FOUNDING - len(NODES) - 8):
        yield other(random)
    for _ in range(8):
        yield pod_move(random, spec)
    for _ in range(20):
        kind = random.randrange(6)
        if kind < 3:
            yield pod_move(random, spec)
        else:
            yield node_move(random) if kind < 5 else other(random)


def no_spec(_random: Random) -> Manifest:
    """Add nothing to a placed pod's spec."""
    return {}
