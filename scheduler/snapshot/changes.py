"""Hypothetical clusters: a snapshot with nodes added, removed or drained. Pure functions.

Pods of a removed node must be placed again, except those that a DaemonSet or the node itself
created: they are removed with it. Objects that belong to the node (reported zones, load, volumes)
are removed too.
"""

from collections.abc import Collection, Iterator, Mapping
from itertools import count, islice

import msgspec
from msgspec.structs import replace

from scheduler.base.errors import InputError
from scheduler.base.text import did_you_mean
from scheduler.groups.topology.tree import PRESETS
from scheduler.objects.node import Node
from scheduler.objects.pod import Pod
from scheduler.objects.policy import PodDisruptionBudget
from scheduler.objects.selectors import selector_matches
from scheduler.snapshot.snapshot import Snapshot

MAX_ADDED = 10_000
HOSTNAME = "kubernetes.io/hostname"
STAY_WITH_THEIR_NODE = ("DaemonSet", "Node")


class NodeChanges(msgspec.Struct, frozen=True):
    """The changes: `added` as `COUNT=MODEL`, `removed` nodes and racks, `drained` as `LABEL=VALUE`.

    An added node is a copy of its model in the same place of every topology, empty except for
    DaemonSet pods. The model is one of `models`, else a node of the snapshot. Drained nodes stay,
    unschedulable.
    """

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    removed_racks: tuple[str, ...] = ()
    drained: tuple[str, ...] = ()
    models: Mapping[str, Node] = {}


def changed(snapshot: Snapshot, changes: NodeChanges) -> Snapshot:
    """Return the snapshot with these changes; InputError names an impossible one."""
    gone = {_named(snapshot, name).metadata.name for name in changes.removed}
    for rack in changes.removed_racks:
        gone |= _in_rack(snapshot, rack)
    if gone:
        snapshot = _emptied(snapshot, gone)
        left = tuple(node for node in snapshot.nodes if node.metadata.name not in gone)
        snapshot = replace(snapshot, nodes=left)
    for text in changes.drained:
        label, found, value = text.partition("=")
        if not found or not label:
            raise InputError(f"nodes to drain are named as LABEL=VALUE, not {text!r:.80}")
        snapshot = _drained(snapshot, label, value)
    for text in changes.added:
        number, found, name = text.partition("=")
        if not found or not number.isascii() or not number.isdigit():
            raise InputError(f"nodes to add are named as COUNT=NODE, not {text!r:.80}")
        snapshot = with_nodes(snapshot, model_of(snapshot, name, changes.models), int(number[:9]))
    return snapshot


def model_of(snapshot: Snapshot, name: str, models: Mapping[str, Node]) -> Node:
    """Return the model of a node to add.

    InputError if there is neither such a model nor such a node.
    """
    return models[name] if name in models else _named(snapshot, name)


def _named(snapshot: Snapshot, name: str) -> Node:
    for node in snapshot.nodes:
        if node.metadata.name == name:
            return node
    hint = did_you_mean(name, (node.metadata.name for node in snapshot.nodes))
    raise InputError(f"there is no node {name!r:.80}{hint}")


def _in_rack(snapshot: Snapshot, rack: str) -> set[str]:
    """Return the nodes of a rack, by the label that defines racks for groups."""
    carried = {label for node in snapshot.nodes for label in node.metadata.labels}
    label = next((one for one in PRESETS["rack"] if one in carried), None)
    if label is None:
        raise InputError(
            f"no node says in which rack it is, by none of {', '.join(PRESETS['rack'])}"
        )
    racks: dict[str, set[str]] = {}
    for node in snapshot.nodes:
        if label in node.metadata.labels:
            racks.setdefault(node.metadata.labels[label], set()).add(node.metadata.name)
    if rack not in racks:
        raise InputError(f"there is no rack {rack!r:.80} by {label}{did_you_mean(rack, racks)}")
    return racks[rack]


def _drained(snapshot: Snapshot, label: str, value: str) -> Snapshot:
    names = {
        node.metadata.name for node in snapshot.nodes if node.metadata.labels.get(label) == value
    }
    if not names:
        raise InputError(f"no node has the label {label}={value}")
    emptied = _emptied(snapshot, names)
    blocked = blocked_drains(snapshot, names)
    nodes = tuple(
        replace(node, spec=replace(node.spec, unschedulable=True))
        if node.metadata.name in names
        else node
        for node in emptied.nodes
    )
    return replace(emptied, nodes=nodes, notices=(*emptied.notices, *blocked))


def blocked_drains(snapshot: Snapshot, names: Collection[str]) -> Iterator[str]:
    """Yield a sentence for each budget that allows fewer disruptions than a drain of these nodes
    needs.
    """
    gone = [pod for pod in snapshot.bound if pod.spec.node_name in names and _comes_back(pod)]
    for kind, budget in snapshot.objects:
        if kind != PodDisruptionBudget.__name__:
            continue
        meta, allowed = budget.metadata, budget.status.disruptions_allowed
        own = [
            pod
            for pod in gone
            if pod.metadata.namespace == meta.namespace
            and selector_matches(budget.spec.selector, pod.metadata.labels)
        ]
        if len(own) > allowed:
            pods = (
                "1 pod of these nodes is"
                if len(own) == 1
                else f"{len(own)} pods of these nodes are"
            )
            disruptions = "1 disruption" if allowed == 1 else f"{allowed} disruptions"
            yield (
                f"a real drain would block: the PodDisruptionBudget {meta.namespace}/{meta.name} "
                f"allows {disruptions} at the moment, {pods} protected by it"
            )


def _emptied(snapshot: Snapshot, names: set[str]) -> Snapshot:
    """Remove the pods from these nodes.

    Pods that a controller recreates become pending, first in order.
    """
    gone = [pod for pod in snapshot.bound if pod.spec.node_name in names]
    if not gone:
        return snapshot
    homeless = tuple(map(_unbound, filter(_comes_back, gone)))
    stay = tuple(pod for pod in snapshot.bound if pod.spec.node_name not in names)
    # Of any scheduler: the question is whether a node exists for them.
    given = snapshot.given | {pod.metadata.uid for pod in homeless}
    return replace(snapshot, bound=stay, unbound=(*homeless, *snapshot.unbound), given=given)


def _comes_back(pod: Pod) -> bool:
    owners = {owner.kind for owner in pod.metadata.owner_references}
    return not pod.is_terminating and owners.isdisjoint(STAY_WITH_THEIR_NODE)


def _unbound(pod: Pod) -> Pod:
    status = replace(pod.status, nominated_node_name="", conditions=())
    return replace(pod, spec=replace(pod.spec, node_name=""), status=status)


def with_nodes(snapshot: Snapshot, model: Node, number: int) -> Snapshot:
    """Return the snapshot with 1 to 10,000 copies of a node, empty except for DaemonSet pods."""
    if not 1 <= number <= MAX_ADDED:
        raise InputError(f"{number} nodes are not between 1 and {MAX_ADDED}")
    name = model.metadata.name
    taken = {node.metadata.name for node in snapshot.nodes}
    names = (new for at in count(1) if (new := f"{name}-added-{at}") not in taken)
    made = tuple(_copy(model, new) for new in islice(names, number))
    daemons = [pod for one in snapshot.daemons for node in made if (pod := one.pod_on(node))]
    waiting = [pod for pod in daemons if not pod.spec.node_name]
    return replace(
        snapshot,
        nodes=(*snapshot.nodes, *made),
        bound=(*snapshot.bound, *(pod for pod in daemons if pod.spec.node_name)),
        unbound=(*snapshot.unbound, *waiting),
        given=snapshot.given | {pod.metadata.uid for pod in waiting},
    )


def _copy(model: Node, name: str) -> Node:
    labels = {**model.metadata.labels, HOSTNAME: name}
    meta = replace(model.metadata, name=name, uid=f"{model.metadata.uid}-{name}", labels=labels)
    return replace(model, metadata=meta)
