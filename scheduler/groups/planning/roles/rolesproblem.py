"""The problem of placing several roles: from nodes and roles to `GroupProblem`, and back.

Host ports count as a resource of which a node has one; required anti-affinity and hard topology
spread among members are rules between roles. What these do not state is checked by the filters when
an answer is tried. Reads, changes nothing.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np

from scheduler.base.arrays import BoolColumn, IdColumn, IntColumn
from scheduler.framework.groups import AssignmentRejection, PlanningContext
from scheduler.framework.nodes import Nodes
from scheduler.groups.description.spec import GroupSpec
from scheduler.groups.planning.between import PORT, near, sets_by_label, term_selects
from scheduler.groups.planning.classproblem import SHARED, beside, limits, links, of_classes
from scheduler.groups.planning.planning import rule
from scheduler.groups.planning.roles import rolespread
from scheduler.groups.planning.roles.roles import RoleMembers
from scheduler.groups.problem.instance import Level, LevelRule
from scheduler.groups.problem.roles import Apart, GroupProblem, LeafConflict, Role
from scheduler.groups.topology.placement import in_order
from scheduler.groups.topology.tree import Topology
from scheduler.state.podindex import Placed


class RoleConflict(msgspec.Struct, frozen=True):
    """A number of members per role that do not fit on a node together, on any of `rows`."""

    counts: tuple[int, ...]
    rows: BoolColumn


class RolesProblem(msgspec.Struct, frozen=True):
    """A problem for the solver, and the row and name of the node behind each of its leaves.

    `counted` has, by uid and by rule of topology spread, the number of the domain of each placed
    pod.
    """

    group: GroupProblem
    resources: tuple[str, ...]
    rows: tuple[int, ...]
    names: tuple[str, ...]
    counted: Mapping[str, Mapping[str, int]]


def roles_problem(
    spec: GroupSpec,
    tree: Topology,
    context: PlanningContext,
    members: Sequence[RoleMembers],
    bound: Sequence[Placed],
    least: int,
    *,
    placed: Iterable[Placed],
    evicting: bool = False,
    learnt: Sequence[RoleConflict] = (),
) -> RolesProblem:
    """Return the problem of placing at least `least` of these members, beside the placed pods.

    With `evicting` the rows are those that could take members if other pods were evicted.
    """
    where = _leaves(tree, context, members, bound, evicting=evicting)
    slots = [one.evictable if evicting else one.slots for one in members]
    found = tuple(
        Role(
            len(one.pods),
            tuple(one.request.get(r, 0) for r in where.resources),
            tuple(min(len(one.pods), int(taken[row])) for row in where.rows),
        )
        for one, taken in zip(members, slots, strict=True)
    )
    levels = tuple(Level(name, rule(spec.constraints.get(name))) for name in tree.levels)
    levels = (*(Level(name, LevelRule("pack", hard=True)) for name in where.above), *levels)
    excluded = tuple(
        LeafConflict(tuple(at for at, row in enumerate(where.rows) if one.rows[row]), one.counts)
        for one in learnt
    )
    network = None
    if spec.by_network and where.rows:
        network = context.network_paths(np.array(where.rows, dtype=np.intp))
    classes = of_classes(spec, [one.of for one in members], levels, bound, where.names, network)
    spreads = rolespread.rules([one.pods[0] for one in members], context.nodes, where.rows, placed)
    flows, narrow = links(spec, network, classes[0], [one.count for one in found])
    problem = GroupProblem(
        found,
        where.free,
        levels,
        where.paths,
        least,
        _apart(members, context.nodes, where.rows),
        where.fixed,
        excluded,
        *classes,
        limits=limits(spec, network),
        flows=flows,
        links=narrow,
        exclusive=tuple((at, name) for at, name in enumerate(where.resources) if PORT in name),
        domains=tuple(one.rule for one in spreads),
    )
    counted: dict[str, dict[str, int]] = {}
    for one in spreads:
        for uid, at in one.counted.items():
            counted.setdefault(uid, {})[one.rule.name] = at
    return RolesProblem(problem, where.resources, where.rows, where.names, counted)


class _Leaves(msgspec.Struct, frozen=True):
    """The nodes that may take a member or have one, as leaves of the tree.

    `above` are the names of levels over those of the tree, of domains that members share. `fixed`
    is how many bound members each leaf has, empty if none has any.
    """

    resources: tuple[str, ...]
    above: tuple[str, ...]
    paths: tuple[tuple[str, ...], ...]
    free: tuple[tuple[int, ...], ...]
    rows: tuple[int, ...]
    names: tuple[str, ...]
    fixed: tuple[int, ...]


def _leaves(
    tree: Topology,
    context: PlanningContext,
    members: Sequence[RoleMembers],
    bound: Sequence[Placed],
    *,
    evicting: bool,
) -> _Leaves:
    """Return the leaves of the problem, in the order of the tree."""
    nodes = context.nodes
    resources = tuple(sorted({name for one in members for name in one.request}))
    columns = context.free(r for r in resources if PORT not in r)
    fixed = Counter(placed.node for placed in bound)
    above = _shared(tree, nodes, members)
    slots = [one.evictable if evicting else one.slots for one in members]
    known = min(map(len, slots))  # a node that joined since takes no member in this plan
    leaves: list[tuple[tuple[str, ...], tuple[int, ...], int, str]] = []
    for path, name in tree.leaves:
        row = nodes.row(name)
        if row is None or row >= known:
            continue
        if name in fixed or any(one[row] > 0 for one in slots):
            around = (*(f"{int(ids[row])}" for _, ids in above), *path, name)
            free = tuple(int(columns[r][row]) if r in columns else 1 for r in resources)
            leaves.append((around, free, row, name))
    paths, free_of, rows, names = zip(*leaves, strict=True) if leaves else ((), (), (), ())
    there = tuple(fixed[name] for name in names)
    return _Leaves(
        resources,
        tuple(name for name, _ in above),
        paths,
        free_of,
        rows,
        names,
        there if any(there) else (),
    )


def _shared(
    tree: Topology, nodes: Nodes, members: Sequence[RoleMembers]
) -> list[tuple[str, IntColumn | IdColumn]]:
    """Return, as levels, the domains that must contain all members: names, and ids by row.

    Required affinity among members comes first, then the domains of shared claims.
    """
    found: list[tuple[str, IntColumn | IdColumn]] = []
    inside = [row for _, name in tree.leaves if (row := nodes.row(name)) is not None]
    key = near([pod for one in members for pod in one.pods], nodes, inside)
    if key:
        found.append((f"affinity by {key}", nodes.label_ids(key)))
    domain = members[0].shared_domain
    if domain is not None and all(one.shared_domain is not None for one in members):
        found.append((SHARED, domain))
    return found


def _apart(members: Sequence[RoleMembers], nodes: Nodes, rows: Sequence[int]) -> tuple[Apart, ...]:
    """Return which roles must not share a domain, by the required anti-affinity of one to the
    other.
    """
    found = []
    for number, one in enumerate(members):
        pod = one.pods[0]
        affinity = pod.spec.affinity
        anti = None if affinity is None else affinity.pod_anti_affinity
        for term in () if anti is None else anti.required:
            sets = tuple(sets_by_label(nodes, rows, term.topology_key).values())
            found += [
                Apart(sets, number, other, f"anti-affinity by {term.topology_key}")
                for other, those in enumerate(members)
                if term_selects(term, pod, those.pods[0])
            ]
    return tuple(found)


def assign(
    found: RolesProblem, members: Sequence[RoleMembers], counts: Sequence[Sequence[int]]
) -> dict[str, str]:
    """Return the node of each member by uid; those without a place have none.

    If a role must be `with` another, the first members of the other one get the places beside it.
    """
    nodes: dict[str, str] = {}
    first = beside(found.group, counts)
    for number, (one, taken) in enumerate(zip(members, counts, strict=True)):
        order = sorted(range(len(taken)), key=lambda at: at not in first.get(number, ()))
        free = [found.names[at] for at in order for _ in range(taken[at])]
        uids = (pod.metadata.uid for pod in in_order(one.pods))
        nodes |= dict(zip(uids, free, strict=False))
    return nodes


def role_conflict(members: Sequence[RoleMembers], rejection: AssignmentRejection) -> RoleConflict:
    """Return the roles that a rejection excludes from sharing a node."""
    uids = {pod.metadata.uid for pod in rejection.conflict}
    counts = tuple(sum(pod.metadata.uid in uids for pod in one.pods) for one in members)
    assert rejection.rows is not None  # noqa: S101 - a conflict always has its rows
    return RoleConflict(counts, rejection.rows)
