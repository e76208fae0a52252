"""Nodes that groups take last: those that are to be avoided, and spare ones for members that were
lost.

Node labels say which they are, arguments of the plugin which labels. A group is planned without
them first, and with more of them only where that does not work: what is found then is the best of
what was asked for. Pure.
"""

import msgspec

from scheduler.framework.nodes import Nodes
from scheduler.framework.status import Status
from scheduler.groups.args import ClusterTopologyPlacementGroupArgs
from scheduler.groups.planning import messages
from scheduler.groups.planning.task import GroupTask


def passes(task: GroupTask, args: ClusterTopologyPlacementGroupArgs) -> list[GroupTask]:
    """Return the task with the nodes that it may not use, fewer each time; mostly just as it is.

    Without spare nodes and those to be avoided; a group of which members stand then has the spare
    ones, and at last every group those to be avoided.
    """
    nodes = task.context.nodes
    avoided, spare = _carried(nodes, args.avoid_label), _carried(nodes, args.spare_label)
    kept = () if task.bound else spare
    choices = dict.fromkeys(((*avoided, *spare), (*avoided, *kept), kept))
    return [_without(task, labels) if labels else task for labels in choices]


def with_forbidden(refusal: Status, task: GroupTask) -> Status:
    """Return the refusal with the labels of the nodes that the task may not use."""
    if not task.forbidden:
        return refusal
    labels = " and ".join(task.forbidden)
    text = messages.sentences(
        refusal.message, f"nodes with the label {labels} are kept for members that get lost"
    )
    return msgspec.structs.replace(refusal, reasons=(text,))


def _carried(nodes: Nodes, label: str) -> tuple[str, ...]:
    """Return the label if any node carries it."""
    is_there = bool(label) and bool((nodes.label_ids(label)[nodes.exists] >= 0).any())
    return (label,) if is_there else ()


def _without(task: GroupTask, labels: tuple[str, ...]) -> GroupTask:
    part = msgspec.structs.replace(task, forbidden=labels)
    kinds = [
        msgspec.structs.replace(
            one, slots=part.allowed(one.slots), evictable=part.allowed(one.evictable)
        )
        for one in task.kinds
    ]
    return msgspec.structs.replace(part, kinds=kinds)
