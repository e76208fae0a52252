"""Nodes that groups use last: avoided nodes, and standby nodes for lost members.

Labels and conditions of nodes decide, by arguments of the plugin. A group is planned without them
first, and with more of them only if that fails: the result is the best on the first sufficient set.
Pure.
"""

import msgspec

from scheduler.framework.nodes import Nodes
from scheduler.framework.status import Status
from scheduler.groups.args import ClusterTopologyPlacementGroupArgs
from scheduler.groups.planning import messages
from scheduler.groups.planning.task import GroupTask

_NO_CONDITIONS: frozenset[str] = frozenset()


def passes(task: GroupTask, args: ClusterTopologyPlacementGroupArgs) -> list[GroupTask]:
    """Return the tasks to try in order, each with fewer forbidden nodes; in most cases only the
    task itself.

    First without standby and avoided nodes; then, for a group with bound members, with standby
    nodes; at last, for every group, with avoided nodes.
    """
    nodes = task.context.nodes
    avoided, standby = _carried(nodes, args.avoid_label), _carried(nodes, args.label_of_standby)
    conditions = _present(nodes, args.avoided_conditions)
    kept, none = () if task.bound else standby, _NO_CONDITIONS
    choices = dict.fromkeys(
        (((*avoided, *standby), conditions), ((*avoided, *kept), conditions), (kept, none))
    )
    return [_without(task, *one) if any(one) else task for one in choices]


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


def _present(nodes: Nodes, conditions: frozenset[str]) -> frozenset[str]:
    """Return the conditions if any node is in one of them."""
    is_there = bool(conditions) and bool(nodes.in_condition(conditions)[nodes.exists].any())
    return conditions if is_there else _NO_CONDITIONS


def _without(task: GroupTask, labels: tuple[str, ...], conditions: frozenset[str]) -> GroupTask:
    part = msgspec.structs.replace(task, forbidden=labels, forbidden_conditions=conditions)
    roles = [
        msgspec.structs.replace(
            one, slots=part.allowed(one.slots), evictable=part.allowed(one.evictable)
        )
        for one in task.roles
    ]
    return msgspec.structs.replace(part, roles=roles)
