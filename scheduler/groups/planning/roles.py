"""Groups whose members differ: from nodes and members to the solver's `GroupProblem`, and back.

Members of like requests that fit the same nodes are one kind, whatever else their specs say. Host
ports count as a resource of which a node has one; required anti-affinity among members is a rule
between kinds. What these do not say is asked of the filters when an answer is tried. Reads, changes
nothing.
"""

from collections.abc import Hashable, Mapping, Sequence

import msgspec
import numpy as np

from scheduler.base.arrays import BoolColumn, IntColumn, IntMatrix
from scheduler.framework.groups import AssignmentRejection, Fits, PlanningContext
from scheduler.framework.nodes import Nodes
from scheduler.groups.description.classes import ClassesSpec
from scheduler.groups.description.spec import GroupSpec
from scheduler.groups.planning.between import PORT, near, port_name, sets_by_label, term_selects
from scheduler.groups.planning.classsite import SHARED, beside, limits, links, of_classes
from scheduler.groups.planning.planning import rule
from scheduler.groups.problem.instance import Level, LevelRule
from scheduler.groups.problem.roles import Apart, GroupProblem, LeafConflict, Role
from scheduler.groups.topology.placement import in_order
from scheduler.groups.topology.tree import Topology
from scheduler.objects.devices import DeviceClass
from scheduler.objects.pod import Pod
from scheduler.plugins.deviceclasses import class_backed
from scheduler.state.podindex import Placed
from scheduler.state.resources import PODS, Amounts
from scheduler.state.shapes import host_ports


class RoleMembers(msgspec.Struct):
    """Members of one kind; `slots` is how many of them each row takes, and may be lowered.

    `kind`, `shared_domain` and `costs` are those of `Fits`, `of` is the name of their class.
    """

    pods: tuple[Pod, ...]
    request: Amounts
    slots: IntColumn
    evictable: IntColumn
    message: str
    kind: Hashable = ()
    shared_domain: IntColumn | None = None
    of: str = ""
    costs: IntMatrix | None = None


class RoleConflict(msgspec.Struct, frozen=True):
    """So many members of each kind do not fit on a node together, on any of `rows`."""

    counts: tuple[int, ...]
    rows: BoolColumn


class RolesSite(msgspec.Struct, frozen=True):
    """A problem for the solver, and the row and name of the node behind each of its leaves."""

    group: GroupProblem
    resources: tuple[str, ...]
    rows: tuple[int, ...]
    names: tuple[str, ...]


def members(
    context: PlanningContext,
    spec: GroupSpec,
    requests: Mapping[str, Amounts],
    device_classes: Mapping[str, DeviceClass],
) -> list[RoleMembers]:
    """Return the members by kind; an empty list if no claims differ and the group has no classes.

    A device class turns the requests of each container into a claim, so equal sums may be unequal
    claims.
    """
    named = dict.fromkeys(name for amounts in requests.values() for name in amounts)
    claiming = bool(class_backed(device_classes, named)) or any(
        pod.spec.resource_claims for pod in context.members
    )
    if not (spec.has_classes or claiming):
        return []
    first = context.members[0].spec
    if not claiming and spec.classes is None and all(pod.spec == first for pod in context.members):
        return []  # the filters need not be asked for that
    if spec.classes is None:
        return kinds(context.fits_each(), requests)
    # Class by class: of equal specs, filters may say this of one workload's pods and that of
    # another's.
    parts = _by_class(context.members, spec.classes).values()
    each = [found for pods in parts for found in context.fits_each(pods)]
    return kinds(each, requests, spec.classes)


def _by_class(pods: Sequence[Pod], classes: ClassesSpec) -> dict[str, list[Pod]]:
    found: dict[str, list[Pod]] = {}
    for pod in pods:
        found.setdefault(classes.of(pod), []).append(pod)
    return found


def kinds(
    each: Sequence[tuple[Sequence[Pod], Fits]],
    requests: Mapping[str, Amounts],
    classes: ClassesSpec | None = None,
) -> list[RoleMembers]:
    """Return the members by kind, in the order of the first of each."""
    found: list[RoleMembers] = []
    for pods, fits in each:
        of = "" if classes is None else classes.of(pods[0])
        request = asked(pods[0], requests)
        evictable = np.where(fits.evictable, len(pods), 0)
        of_class = (one for one in found if one.of == of)
        same = next((one for one in of_class if _is_same(one, request, pods[0], fits)), None)
        if same is None:
            message = fits.message
            found.append(
                RoleMembers(
                    tuple(pods),
                    request,
                    fits.slots,
                    evictable,
                    message,
                    fits.kind,
                    fits.shared_domain,
                    of,
                    fits.costs,
                )
            )
        else:
            same.pods += tuple(pods)
            same.evictable = np.where(fits.evictable, len(same.pods), 0)
    return found


def asked(pod: Pod, requests: Mapping[str, Amounts]) -> Amounts:
    """Return what a member asks for, its one pod and its host ports included."""
    ports = dict.fromkeys(map(port_name, host_ports(pod)), 1)
    return {**requests[pod.metadata.uid], PODS: 1, **ports}


def _is_same(one: RoleMembers, request: Amounts, pod: Pod, fits: Fits) -> bool:
    return (
        one.request == request
        and one.kind == fits.kind
        and np.array_equal(one.slots, fits.slots)
        and np.array_equal(one.evictable > 0, fits.evictable)
        and not _terms(pod)
        and not _terms(one.pods[0])
    )


def site(
    spec: GroupSpec,
    tree: Topology,
    context: PlanningContext,
    members: Sequence[RoleMembers],
    bound: Sequence[Placed],
    least: int,
    *,
    evicting: bool = False,
    learnt: Sequence[RoleConflict] = (),
) -> RolesSite:
    """Return the problem of placing at least `least` of these members.

    `evicting` asks where they could be if others went: of those that cannot ever, filters have said
    so.
    """
    resources = tuple(sorted({name for one in members for name in one.request}))
    nodes = context.nodes
    fixed: dict[str, int] = {}
    for placed in bound:
        fixed[placed.node] = fixed.get(placed.node, 0) + 1
    paths, free, rows, names = [], [], [], []
    shared_domain = members[0].shared_domain
    if any(one.shared_domain is None for one in members):
        shared_domain = None
    inside = [row for _, name in tree.leaves if (row := nodes.row(name)) is not None]
    key = near([pod for one in members for pod in one.pods], nodes, inside)
    together = nodes.label_ids(key) if key else None
    columns = context.free(r for r in resources if PORT not in r)
    places = [one.evictable if evicting else one.slots for one in members]
    known = min(map(len, places))  # a node that joined since takes no member in this plan
    for path, name in tree.leaves:
        row = nodes.row(name)
        if (
            row is None
            or row >= known
            or (name not in fixed and not any(one[row] > 0 for one in places))
        ):
            continue
        # Who shares something goes where it can be used in common: a level above all others.
        above = tuple(f"{int(ids[row])}" for ids in (together, shared_domain) if ids is not None)
        paths.append((*above, *path, name))
        free.append(tuple(int(columns[r][row]) if r in columns else 1 for r in resources))
        rows.append(row)
        names.append(name)
    found = tuple(
        Role(
            len(one.pods),
            tuple(one.request.get(r, 0) for r in resources),
            tuple(min(len(one.pods), int(slots[row])) for row in rows),
        )
        for one, slots in zip(members, places, strict=True)
    )
    levels = tuple(Level(name, rule(spec.constraints.get(name))) for name in tree.levels)
    there = tuple(fixed.get(name, 0) for name in names)
    apart = _apart(members, nodes, rows)
    excluded = tuple(
        LeafConflict(tuple(at for at, row in enumerate(rows) if one.rows[row]), one.counts)
        for one in learnt
    )
    if shared_domain is not None:
        levels = (Level(SHARED, LevelRule("pack", hard=True)), *levels)
    if together is not None:
        levels = (Level(f"affinity by {key}", LevelRule("pack", hard=True)), *levels)
    network = None
    if spec.by_network and rows:
        network = context.network_paths(np.array(rows, dtype=np.intp))
    classes = of_classes(spec, [one.of for one in members], levels, bound, names, network)
    flows, narrow = links(spec, network, classes[0], [one.count for one in found])
    problem = GroupProblem(
        found,
        tuple(free),
        levels,
        tuple(paths),
        least,
        apart,
        there if any(there) else (),
        excluded,
        *classes,
        limits=limits(spec, network),
        flows=flows,
        links=narrow,
        exclusive=tuple((at, name) for at, name in enumerate(resources) if PORT in name),
    )
    return RolesSite(problem, resources, tuple(rows), tuple(names))


def assign(
    found: RolesSite, members: Sequence[RoleMembers], counts: Sequence[Sequence[int]]
) -> dict[str, str]:
    """Return the node of each member by uid; those without a place have none.

    Where some stand `with` others, the first of those others are handed the places beside them.
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
    """Return what a rejection says of members that cannot be on one node together."""
    uids = {pod.metadata.uid for pod in rejection.conflict}
    counts = tuple(sum(pod.metadata.uid in uids for pod in one.pods) for one in members)
    assert rejection.rows is not None  # noqa: S101 - a conflict comes with its rows
    return RoleConflict(counts, rejection.rows)


def learn(
    members: Sequence[RoleMembers],
    nodes: Mapping[str, str],
    live: Nodes,
    rejection: AssignmentRejection,
) -> None:
    """Lower what the row takes of the kind whose member did not fit where it was put."""
    uid = rejection.pod.metadata.uid  # the pod itself may have changed while the solver worked
    wrong = next(one for one in members if any(pod.metadata.uid == uid for pod in one.pods))
    row = live.row(rejection.node)
    if row is None or row >= len(wrong.slots):
        return
    there = sum(nodes.get(pod.metadata.uid) == rejection.node for pod in wrong.pods)
    most = np.full(len(wrong.slots), len(wrong.pods))
    most[row] = max(0, there - 1)
    wrong.slots = np.minimum(wrong.slots, most)
    wrong.evictable = np.minimum(wrong.evictable, most)


def _terms(pod: Pod) -> bool:
    affinity = pod.spec.affinity
    return affinity is not None and affinity.pod_anti_affinity is not None


def _apart(members: Sequence[RoleMembers], nodes: Nodes, rows: Sequence[int]) -> tuple[Apart, ...]:
    """Return which kinds may not meet, by the required anti-affinity of one to the other."""
    found = []
    for number, one in enumerate(members):
        pod = one.pods[0]
        affinity = pod.spec.affinity
        anti = None if affinity is None else affinity.pod_anti_affinity
        for term in () if anti is None else anti.required:
            sets = tuple(sets_by_label(nodes, rows, term.topology_key).values())
            found += [
                Apart(sets, number, other)
                for other, those in enumerate(members)
                if term_selects(term, pod, those.pods[0])
            ]
    return tuple(found)
