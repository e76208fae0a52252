"""Convert tree, group and nodes to an instance for the solver, and its answer back.

The only place where Kubernetes' words meet the solver's. Reads columns, changes nothing.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
import numpy as np

from scheduler.base.arrays import IntColumn
from scheduler.framework.groups import PlanningContext
from scheduler.framework.nodes import Nodes
from scheduler.groups.description.rules import LevelConstraint
from scheduler.groups.description.spec import GroupSpec
from scheduler.groups.problem.instance import Instance, Leaf, Level, LevelRule
from scheduler.groups.topology.placement import MemberPlacement, in_order
from scheduler.groups.topology.tree import Topology
from scheduler.objects.pod import Pod
from scheduler.state.podindex import Placed
from scheduler.state.resources import Amounts, counted, pod_requests


class NodeProblem(msgspec.Struct, frozen=True):
    """An instance, and the row and name of the node behind each of its leaves.

    With `is_thin` there are only leaves that the group can use; such a problem yields no advice if
    the group does not fit. `least` are the members that each leaf takes at least: they count as
    fixed there.
    """

    instance: Instance
    rows: tuple[int, ...]
    names: tuple[str, ...]
    is_thin: bool = False
    least: tuple[int, ...] = ()


def node_problem(
    spec: GroupSpec,
    tree: Topology,
    nodes: Nodes,
    slots: IntColumn,
    bound: Sequence[Placed],
    count: int,
    minimum: int = 0,
    *,
    levels_first: bool = False,
    among: Sequence[int] | None = None,
) -> NodeProblem:
    """Return the instance of placing `count` members where `slots` (by row) says there is capacity.

    Bound members are fixed on their nodes; those outside of the tree do not take part. With a
    `minimum`, fixed ones included, fewer than all may be placed; `levels_first` orders the
    objectives then. `among` are the leaves of the tree to use, if not all.
    """
    fixed: dict[str, int] = {}
    for placed in bound:
        fixed[placed.node] = fixed.get(placed.node, 0) + 1
    leaves, rows, names = [], [], []
    inside = 0
    for at, row, free in _places(tree, nodes, slots, fixed, among):
        path, name = tree.leaves[at]
        there = fixed.get(name, 0)
        inside += there
        leaves.append(Leaf((*path, name), free + there, fixed=there))
        rows.append(row)
        names.append(name)
    levels = tuple(Level(name, rule(spec.constraints.get(name))) for name in tree.levels)
    size = count + inside
    least = max(1, inside, minimum) if 0 < minimum < size else 0
    instance = Instance(
        levels,
        tuple(leaves),
        size,
        minimum=least if least < size else 0,
        levels_first=levels_first,
    )
    return NodeProblem(instance, tuple(rows), tuple(names), among is not None)


def _places(
    tree: Topology,
    nodes: Nodes,
    slots: IntColumn,
    fixed: Mapping[str, int],
    among: Sequence[int] | None,
) -> Iterator[tuple[int, int, int]]:
    """Yield the leaves that take or have members: number, row of the node, free slots."""
    known = tree.rows(nodes)
    wanted = np.arange(len(known)) if among is None else np.array(among, dtype=np.intp)
    wanted = wanted[known[wanted] >= 0]
    # A node that was added after the filters ran takes no member in this plan.
    free = np.zeros(int(known.max(initial=-1)) + 1, dtype=np.int64)
    free[: len(slots)] = slots[: len(free)]
    has = free > 0
    has[[row for row in nodes.rows_of(fixed) if row < len(has)]] = True
    for at in wanted[has[known[wanted]]].tolist():
        row = int(known[at])
        yield at, row, int(free[row])


def rule(constraint: LevelConstraint | None) -> LevelRule:
    """Return the solver's rule of a level."""
    return LevelRule() if constraint is None else constraint.for_solver()


def assign(found: NodeProblem, counts: Sequence[int], members: Iterable[Pod]) -> dict[str, str]:
    """Return the node of each member by uid: members in order over leaves in order of their paths.

    If there are fewer places than members, the last members get none.
    """
    leaves = found.instance.leaves
    order = sorted(range(len(leaves)), key=lambda at: leaves[at].path)
    least = found.least or (0,) * len(leaves)
    free = [
        found.names[at] for at in order for _ in range(counts[at] - leaves[at].fixed + least[at])
    ]
    uids = (pod.metadata.uid for pod in in_order(members))
    return dict(zip(uids, free, strict=not found.instance.is_elastic))


def placements_of(tree: Topology, placed: Iterable[Placed]) -> list[MemberPlacement]:
    """Return members with their paths; those on nodes outside of the tree have no path."""
    paths = tree.paths
    return [
        MemberPlacement(one.pod.metadata.name, one.node, paths[one.node])
        for one in placed
        if one.node in paths
    ]


def requests(members: Sequence[Pod]) -> dict[str, Amounts]:
    """Return each member's request by uid; ObjectError for an invalid quantity."""
    found: dict[str, Amounts] = {}
    before = members[0]
    amounts = counted(pod_requests(before))
    for pod in members:
        if pod.spec != before.spec:
            before, amounts = pod, counted(pod_requests(pod))
        found[pod.metadata.uid] = amounts
    return found


def differing_requests(members: Sequence[Pod], requests: Mapping[str, Mapping[str, int]]) -> str:
    """Return how the first member with another request differs, or ''."""
    first = members[0]
    wanted = requests[first.metadata.uid]
    for other in members[1:]:
        got = requests[other.metadata.uid]
        if got is wanted:
            continue
        for resource in sorted({*wanted, *got}):
            if wanted.get(resource, 0) != got.get(resource, 0):
                return (
                    f"members must request the same: {first.metadata.name} asks for "
                    f"{wanted.get(resource, 0)} {resource}, {other.metadata.name} for "
                    f"{got.get(resource, 0)}"
                )
    return ""


def misclassed(spec: GroupSpec, members: Sequence[Pod]) -> str:
    """Return which member names another priority class than its group, or an empty text.

    A group's priority is that of its pods: the API server has admitted no other.
    """
    wanted = spec.priority_class
    for pod in members if wanted else ():
        if pod.spec.priority_class_name != wanted:
            return (
                f"the group's priorityClassName is {wanted!r:.60}, that of {pod.metadata.name} "
                f"{pod.spec.priority_class_name!r:.60}; it counts where all pods name it as well"
            )
    return ""


def lacking(
    spec: GroupSpec,
    context: PlanningContext,
    bound: Sequence[Placed],
    waiting: Iterable[Amounts] = (),
) -> str:
    """Return what the nodes lack of the group's stated total needs, or ''.

    Resources of its own members count as available. Requests of `waiting` members must be free when
    they are placed, possibly by evictions, so they are not needed beforehand.
    """
    for resource, needed in spec.needs.items():
        fixed = sum(one.requests.get(resource, 0) for one in bound)
        if fixed + sum(one.get(resource, 0) for one in waiting) >= needed:
            continue
        free = context.free((resource,))[resource]
        left = int(free[context.nodes.exists].clip(min=0).sum())
        left += fixed
        if left < needed:
            return f"it needs {needed} of {resource} in all, {left} are free"
    return ""
