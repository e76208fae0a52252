"""The tree of a cluster by its labels: regions, zones, racks, nodes, with capacity and members.

Called by `trellis topology`. Works on a `Snapshot` alone; the levels are the labels that nodes
have, from the top, or those of a named tree. Amounts are CPU in milli and whole units of everything
else.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec

from scheduler.base.errors import ObjectError
from scheduler.base.text import in_natural_order
from scheduler.framework.groups import title
from scheduler.groups.sources.registry import group_of
from scheduler.groups.topology import hypernodes
from scheduler.groups.topology.tree import PRESETS, Topology, from_config_map
from scheduler.groups.topology.trees import CONFIG_MAP, KINDS, KUEUE_KINDS
from scheduler.objects.groups.appgroup import GROUP_LABEL as APP_GROUP_LABEL
from scheduler.objects.kinds import HYPER_NODE
from scheduler.objects.network import NetworkTopology
from scheduler.objects.node import Node
from scheduler.objects.pod import Pod
from scheduler.snapshot.snapshot import Snapshot
from scheduler.state.resources import amounts, is_extended, pod_requests

# The unit of nodes without the label of their level.
NOWHERE: Final = ""
# Taints by which Kubernetes keeps new pods off: not ready, unreachable, under pressure, cordoned.
OF_NODE_STATE: Final = "node.kubernetes.io/"
_ALWAYS_SHOWN: Final = ("cpu", "memory")


class UnitCapacity(msgspec.Struct, frozen=True):
    """The requested and the allocatable amount of one resource."""

    requested: int
    allocatable: int


class TreeUnit(msgspec.Struct, frozen=True, rename="camel"):
    """A part of the cluster: the whole, a unit of a level, or a node.

    `level` is the label that defines it (`node` for a node), `groups` counts the placed members by
    `namespace/name`. `closed` counts unschedulable nodes: cordoned, or with a taint
    that Kubernetes sets for the state of the node.
    """

    level: str
    name: str
    nodes: int
    closed: int
    pods: int
    capacity: dict[str, UnitCapacity] = msgspec.field(name="room")
    groups: dict[str, int]
    children: "tuple[TreeUnit, ...]" = ()


class ListedPath(msgspec.Struct, frozen=True, rename="camel"):
    """A network path between two units, as listed in a NetworkTopology.

    `capacity` and `allocated` are quantities in bit/s, None where unknown.
    """

    topology: str
    level: str
    origin: str
    destination: str
    cost: int | None
    capacity: int | float | str | None
    allocated: int | float | str | None


class NamedTree(msgspec.Struct, frozen=True, rename="camel"):
    """A tree that groups can name; `path` are the units above each node, by its name."""

    name: str
    source: str
    levels: tuple[str, ...]
    path: dict[str, tuple[str, ...]]


def named_trees(snapshot: Snapshot) -> list[NamedTree]:
    """Return the valid trees of topology ConfigMaps, HyperNodes and Kueue's Topologies, by name."""
    found: dict[str, NamedTree] = {}
    with suppress(ObjectError):
        made = hyper_tree(snapshot)
        if made is not None:
            found[made.name] = _named_tree(made)
    for kind, obj in sorted(snapshot.objects, key=_in_order):
        meta = obj.metadata
        if kind == CONFIG_MAP:
            try:
                made = from_config_map(obj.data or {}, f"ConfigMap {meta.namespace}/{meta.name}")
            except ObjectError:
                continue
            named = _named_tree(made)
        elif kind in KUEUE_KINDS:
            path = {
                node.metadata.name: tuple(node.metadata.labels[one] for one in obj.labels)
                for node in snapshot.nodes
                if all(one in node.metadata.labels for one in obj.labels)
            }
            named = NamedTree(meta.name, "Topology of Kueue", obj.labels, path)
        else:
            continue
        found.setdefault(named.name, named)
    return [found[name] for name in in_natural_order(found)]


def hyper_tree(snapshot: Snapshot) -> Topology | None:
    """Return the tree of Volcano's HyperNodes, None without any; ObjectError names a fault."""
    found = {obj.metadata.name: obj for kind, obj in snapshot.objects if kind == HYPER_NODE.kind}
    labels = {node.metadata.name: node.metadata.labels for node in snapshot.nodes}
    return hypernodes.HyperNodes().tree(found, labels) if found else None


def _named_tree(made: Topology) -> NamedTree:
    return NamedTree(made.name, made.source, made.levels[:-1], dict(made.paths))


def _in_order(one: tuple[str, Any]) -> tuple[int, str]:
    """Return the sort key: ConfigMaps before Kueue's Topologies, newer versions of those before
    older ones.
    """
    kind, obj = one
    rank = KINDS.index(kind) if kind in KINDS else len(KINDS)
    return rank, f"{obj.metadata.namespace}/{obj.metadata.name}"


def levels_of(nodes: Iterable[Node], wanted: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the labels that divide these nodes, from the top: those `wanted`, else the usual ones.

    The usual ones are the presets for group placement, of each level the first that nodes have.
    """
    carried = {label for node in nodes for label in node.metadata.labels}
    if wanted:
        return tuple(label for label in wanted if label in carried)
    usual = ([one for one in labels if one in carried] for labels in PRESETS.values())
    return tuple(labels[0] for labels in usual if labels)


def preset_label(nodes: Iterable[Node], level: str) -> str:
    """Return the first label known for a level (region, zone, block, rack) that all nodes carry, or
    ''.
    """
    known = list(nodes)
    labels = PRESETS.get(level, ())
    return next((one for one in labels if all(one in n.metadata.labels for n in known)), "")


class LastTree:
    """The last tree of a cluster, and from which objects each of its nodes was counted."""

    def __init__(self) -> None:
        self.leaves: dict[str, tuple[Node, list[Pod], tuple[str, ...], TreeUnit]] = {}
        self.root: TreeUnit | None = None


def tree(
    snapshot: Snapshot,
    levels: Sequence[str],
    last: LastTree | None = None,
    named: NamedTree | None = None,
) -> TreeUnit:
    """Return the cluster as a tree, by labels or as `named`.

    Children in the natural order of their names, nodes without a unit last. `last` is replaced by
    this tree; nodes with the same pods, and units of the same nodes, are taken over as they are.
    """
    last = last or LastTree()
    pods: dict[str, list[Pod]] = {}
    for pod in snapshot.bound:
        pods.setdefault(pod.spec.node_name, []).append(pod)
    names = _resources(snapshot)
    leaves = {}
    for node in snapshot.nodes:
        name = node.metadata.name
        own = pods.get(name, [])
        known = last.leaves.get(name)
        # Objects are not changed but replaced.
        if known is None or known[0] is not node or known[1] != own or known[2] != names:
            known = (node, own, names, _leaf(node, own, names))
        leaves[name] = known
    last.leaves = leaves
    if named is None:
        paths = {
            node.metadata.name: tuple(node.metadata.labels.get(one, NOWHERE) for one in levels)
            for node in snapshot.nodes
        }
    else:
        levels, paths = named.levels, named.path
    units = {name: known[3] for name, known in leaves.items()}
    last.root = _unit("cluster", "", list(snapshot.nodes), levels, 0, paths, units, last.root)
    return last.root


def listed_paths(snapshot: Snapshot) -> list[ListedPath]:
    """Return the paths that NetworkTopologies list: the user's tables, else the calculated ones."""
    found = []
    for kind, topology in snapshot.objects:
        if kind != "NetworkTopology" or not isinstance(topology, NetworkTopology):
            continue
        meta = topology.metadata
        for weights in topology.spec.weights or topology.status.weights:
            for level in weights.levels:
                found += [
                    ListedPath(
                        f"{meta.namespace}/{meta.name} {weights.name}",
                        level.topology_key,
                        origin.origin,
                        path.destination,
                        path.network_cost,
                        path.bandwidth_capacity,
                        path.bandwidth_allocated,
                    )
                    for origin in level.origins
                    for path in origin.paths
                ]
    return found


def _unit(
    level: str,
    name: str,
    nodes: list[Node],
    levels: Sequence[str],
    depth: int,
    paths: Mapping[str, tuple[str, ...]],
    leaves: Mapping[str, TreeUnit],
    before: TreeUnit | None,
) -> TreeUnit:
    if depth < len(levels):
        parts: dict[str, list[Node]] = {}
        for node in nodes:
            path = paths.get(node.metadata.name)
            parts.setdefault(NOWHERE if path is None else path[depth], []).append(node)
        in_order = [one for one in in_natural_order(parts) if one != NOWHERE]
        in_order += [NOWHERE] * (NOWHERE in parts)
        known = {} if before is None else {child.name: child for child in before.children}
        children = tuple(
            _unit(levels[depth], one, parts[one], levels, depth + 1, paths, leaves, known.get(one))
            for one in in_order
        )
    else:
        names = in_natural_order(node.metadata.name for node in nodes)
        children = tuple(leaves[one] for one in names)
    if before is not None and (before.level, before.children) == (level, children):
        return before
    return _sum(level, name, children)


def _sum(level: str, name: str, children: tuple[TreeUnit, ...]) -> TreeUnit:
    requested: dict[str, int] = {}
    offered: dict[str, int] = {}
    groups: Counter[str] = Counter()
    for child in children:
        if child.groups:
            groups.update(child.groups)
        for resource, own in child.capacity.items():
            requested[resource] = requested.get(resource, 0) + own.requested
            offered[resource] = offered.get(resource, 0) + own.allocatable
    capacity = {name: UnitCapacity(requested[name], offered[name]) for name in requested}
    return TreeUnit(
        level,
        name,
        sum(child.nodes for child in children),
        sum(child.closed for child in children),
        sum(child.pods for child in children),
        capacity,
        _in_name_order(groups),
        children,
    )


def _leaf(node: Node, pods: list[Pod], names: Sequence[str]) -> TreeUnit:
    offered = amounts(node.status.allocatable)
    requested: Counter[str] = Counter()
    groups: Counter[str] = Counter()
    for pod in pods:
        requested.update(pod_requests(pod, use_status=True))
        if group := group_name(pod):
            groups[group] += 1
    capacity = {
        name: UnitCapacity(requested[name], offered[name]) for name in names if name in offered
    }
    # Taints of an administrator dedicate a node to pods that tolerate them, such as GPU nodes.
    closed = node.spec.unschedulable or any(
        taint.effect in ("NoSchedule", "NoExecute") and taint.key.startswith(OF_NODE_STATE)
        for taint in node.spec.taints
    )
    return TreeUnit(
        "node", node.metadata.name, 1, int(closed), len(pods), capacity, _in_name_order(groups)
    )


def _in_name_order(groups: Mapping[str, int]) -> dict[str, int]:
    return {name: groups[name] for name in in_natural_order(groups)}


def _resources(snapshot: Snapshot) -> tuple[str, ...]:
    """Return the resources to show: CPU, memory, and allocatable devices."""
    offered = {name for node in snapshot.nodes for name in node.status.allocatable}
    return (*_ALWAYS_SHOWN, *sorted(name for name in offered if is_extended(name)))


def group_name(pod: Pod) -> str:
    """Return the name of the group that a pod is placed with, else its application, if any."""
    if group := group_of(pod):
        return title(group)
    application = pod.metadata.labels.get(APP_GROUP_LABEL, "")
    return f"{pod.metadata.namespace}/{application}" if application else ""
