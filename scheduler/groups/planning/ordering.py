"""Members of a plan in the order of their index: neighbours in the tree, with the fewest crossings
of each level.

How many members of each role go to which node is decided before and stays. Members that are bound
keep their places.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from scheduler.framework.groups import MemberOrder
from scheduler.groups.description.indexes import has_indexes, order_of
from scheduler.groups.planning.task import GroupTask
from scheduler.groups.problem.ranking import Position, ranked
from scheduler.groups.sources import registry as sources
from scheduler.objects.pod import Pod


def ordered(
    task: GroupTask, nodes: Mapping[str, str]
) -> tuple[dict[str, str], tuple[MemberOrder, ...]]:
    """Return the node of each member by uid, and the orders: one for each subgroup with indexes."""
    found, orders = dict(nodes), []
    rule = task.spec.labels
    if task.bound and rule is not None and rule.slices:
        return found, ()  # lost members of a slice are placed with the other members of it
    roles = _roles(task)
    groups: dict[str, list[Pod]] = {}
    for pod in (*task.context.members, *(one.pod for one in task.bound)):
        groups.setdefault(sources.group_of(pod) if task.shapes else "", []).append(pod)
    bound = {one.pod.metadata.uid: one.node for one in task.bound}
    for members in groups.values():
        there = [one for one in members if one.metadata.uid in {**bound, **found}]
        if len(there) > 1 and has_indexes(there):
            orders.append(_in_order(task, there, bound, roles, found))
    return found, tuple(orders)


def _roles(task: GroupTask) -> dict[str, int]:
    return {pod.metadata.uid: number for number, one in enumerate(task.roles) for pod in one.pods}


def _in_order(
    task: GroupTask,
    members: Sequence[Pod],
    bound: Mapping[str, str],
    roles: Mapping[str, int],
    nodes: dict[str, str],
) -> MemberOrder:
    """Assign members of one order to the nodes that they have together; `nodes` is changed."""
    paths = task.tree.paths
    nowhere = ("",) * (len(task.tree.levels) - 1)
    pods = sorted(members, key=order_of)
    names = list(
        dict.fromkeys(bound.get(one.metadata.uid) or nodes[one.metadata.uid] for one in pods)
    )
    leaf = {name: number for number, name in enumerate(names)}
    positions, free = [], Counter[tuple[int, int]]()
    for pod in pods:
        uid = pod.metadata.uid
        role = roles.get(uid, 0)
        if uid in bound:
            positions.append(Position(role, leaf[bound[uid]]))
        else:
            positions.append(Position(role))
            free[leaf[nodes[uid]], role] += 1
    found = ranked(positions, free, [(*paths.get(name, nowhere), name) for name in names])
    for pod, at in zip(pods, found.leaves, strict=True):
        if pod.metadata.uid not in bound:
            nodes[pod.metadata.uid] = names[at]
    levels = task.tree.levels
    return MemberOrder(
        tuple((pod.metadata.name, names[at]) for pod, at in zip(pods, found.leaves, strict=True)),
        dict(zip(levels, found.crossings, strict=True)),
        dict(zip(levels, found.bound, strict=True)),
    )
