"""Clusters that are not there: a snapshot with nodes more or fewer, or emptied. Pure.

Pods of a node that goes are to be placed again, unless a DaemonSet or the node itself made them:
those go with it. What the node alone had (reported zones, load, volumes) goes by its absence.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from scheduler.base.errors import InputError
from scheduler.objects.node import Node
from scheduler.objects.pod import Pod
from scheduler.whatif.snapshot import Snapshot

MAX_ADDED = 10_000
HOSTNAME = "kubernetes.io/hostname"
STAY_WITH_THEIR_NODE = ("DaemonSet", "Node")


class NodeChanges(msgspec.Struct, frozen=True):
    """What is to be different: `added` as `COUNT=NODE`, `removed` by name, `drained` as `LABEL=VALUE`.

    An added node is a copy of an existing one, empty, in the same place of every topology. Drained nodes stay,
    and take nobody.
    """

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    drained: tuple[str, ...] = ()


def changed(snapshot: Snapshot, changes: NodeChanges) -> Snapshot:
    """Return the snapshot with these changes; InputError names one that cannot be made."""
    for name in changes.removed:
        snapshot = _without(snapshot, _named(snapshot, name))
    for text in changes.drained:
        label, found, value = text.partition("=")
        if not found or not label:
            raise InputError(f"nodes to drain are named as LABEL=VALUE, not {text!r:.80}")
        snapshot = _drained(snapshot, label, value)
    for text in changes.added:
        snapshot = _with_copies(snapshot, text)
    return snapshot


def _named(snapshot: Snapshot, name: str) -> Node:
    for node in snapshot.nodes:
        if node.metadata.name == name:
            return node
    raise InputError(f"there is no node {name!r:.80}")


def _without(snapshot: Snapshot, gone: Node) -> Snapshot:
    emptied = _emptied(snapshot, {gone.metadata.name})
    return replace(emptied, nodes=tuple(node for node in emptied.nodes if node is not gone))


def _drained(snapshot: Snapshot, label: str, value: str) -> Snapshot:
    names = {
        node.metadata.name for node in snapshot.nodes if node.metadata.labels.get(label) == value
    }
    if not names:
        raise InputError(f"no node has the label {label}={value}")
    emptied = _emptied(snapshot, names)
    nodes = tuple(
        replace(node, spec=replace(node.spec, unschedulable=True))
        if node.metadata.name in names
        else node
        for node in emptied.nodes
    )
    return replace(emptied, nodes=nodes)


def _emptied(snapshot: Snapshot, names: set[str]) -> Snapshot:
    """Take the pods off these nodes; those that somebody makes anew wait to be placed, before all others."""
    gone = [pod for pod in snapshot.bound if pod.spec.node_name in names]
    if not gone:
        return snapshot
    homeless = tuple(map(_unbound, filter(_comes_back, gone)))
    stay = tuple(pod for pod in snapshot.bound if pod.spec.node_name not in names)
    # Whoever scheduled them before: what is asked is whether there is a place for them.
    given = snapshot.given | {pod.metadata.uid for pod in homeless}
    return replace(snapshot, bound=stay, unbound=(*homeless, *snapshot.unbound), given=given)


def _comes_back(pod: Pod) -> bool:
    owners = {owner.kind for owner in pod.metadata.owner_references}
    return not pod.is_terminating and owners.isdisjoint(STAY_WITH_THEIR_NODE)


def _unbound(pod: Pod) -> Pod:
    status = replace(pod.status, nominated_node_name="", conditions=())
    return replace(pod, spec=replace(pod.spec, node_name=""), status=status)


def _with_copies(snapshot: Snapshot, text: str) -> Snapshot:
    number, found, name = text.partition("=")
    if not found or not number.isascii() or not number.isdigit():
        raise InputError(f"nodes to add are named as COUNT=NODE, not {text!r:.80}")
    if not 1 <= int(number) <= MAX_ADDED:
        raise InputError(f"{number} nodes are not between 1 and {MAX_ADDED}")
    model = _named(snapshot, name)
    taken = {node.metadata.name for node in snapshot.nodes}
    made: list[Node] = []
    at = 0
    while len(made) < int(number):
        at += 1
        new = f"{name}-added-{at}"
        if new not in taken:
            labels = {**model.metadata.labels, HOSTNAME: new}
            meta = replace(
                model.metadata, name=new, uid=f"{model.metadata.uid}-{new}", labels=labels
            )
            made.append(replace(model, metadata=meta))
    return replace(snapshot, nodes=(*snapshot.nodes, *made))
