"""The queueing hints of PodTopologySpread: changes that may make a rejected pod feasible.

Selected pods that are added, deleted or relabelled change the counts; a node matters by its domains
and by whether the pod's policies include it.
"""

from typing import Any

from scheduler.framework import Change, Node, Pod
from scheduler.plugins.spread.constraints import Constraints, SpreadConstraint
from scheduler.plugins.spread.inclusion import Inclusion


def may_help(change: Change, pod: Pod, constraints: Constraints, inclusion: Inclusion) -> bool:
    """Return whether a change may make a rejected pod feasible."""
    if not constraints.items:
        return True  # no constraint rejects it any more
    if change.kind == "Node":
        return _node_helps(change, pod, constraints, inclusion)
    if change.pod.metadata.uid == pod.metadata.uid:
        return _own_change_helps(change, constraints)
    if change.pod.metadata.namespace != pod.metadata.namespace:
        return False
    old, new = change.old, change.new
    before, after = change.before, change.after
    if before is not None and after is not None and before.node != after.node:
        return any(_counts(c, old) or _counts(c, new) for c in constraints.items)
    return any(_counts(c, old) != _counts(c, new) for c in constraints.items)


def _counts(constraint: SpreadConstraint, pod: Pod | None) -> bool:
    return pod is not None and constraint.counts(pod)


def _own_change_helps(change: Change, constraints: Constraints) -> bool:
    old, new = change.old, change.new
    if old is None or new is None or old.metadata.labels != new.metadata.labels:
        return True
    return old.spec.tolerations != new.spec.tolerations and any(
        constraint.honors_taints for constraint in constraints.items
    )


def _node_helps(change: Change, pod: Pod, constraints: Constraints, inclusion: Inclusion) -> bool:
    before, after = (
        None if node is None else _place(node, pod, constraints, inclusion)
        for node in (change.old, change.new)
    )
    return before != after


def _place(
    node: Node, pod: Pod, constraints: Constraints, inclusion: Inclusion
) -> tuple[Any, ...] | None:
    """Return a node's domains and whether they count; None if it lacks a label."""
    labels = node.metadata.labels
    if any(constraint.key not in labels for constraint in constraints.items):
        return None
    return tuple(
        (labels[constraint.key], inclusion.includes(pod, node, constraint))
        for constraint in constraints.items
    )
