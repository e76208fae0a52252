"""A group's classes → the solver's classes, and solved places → members.

Names become numbers: classes by their order, levels by their place in the tree. Pure.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np

from scheduler.framework.together import AreaPaths
from scheduler.groups.description.classes import ClassesSpec
from scheduler.groups.description.spec import GroupSpec
from scheduler.groups.planning.planning import rule
from scheduler.groups.problem.classes import (
    ClassRule,
    LinkLimit,
    PairRule,
    PathLimit,
    PodClass,
    Traffic,
    TrafficCosts,
    TrafficStream,
)
from scheduler.groups.problem.instance import Level
from scheduler.groups.problem.roles import GroupProblem
from scheduler.state.podindex import Placed

# The level above all others, where members share claims: separation on it has no network cost.
SHARED = "shared claims"
# The largest cost of a path, so that sums over all pairs stay inside 64 bits.
DEAREST = 10**9
# The arguments of `GroupProblem` for classes, in the order of its fields.
Parts: TypeAlias = tuple[
    tuple[PodClass, ...], tuple[PairRule, ...], tuple[Traffic, ...], TrafficCosts, tuple[int, ...]
]


def of_classes(
    spec: GroupSpec,
    of: Sequence[str],
    levels: Sequence[Level],
    bound: Sequence[Placed],
    names: Sequence[str],
    network: AreaPaths | None = None,
) -> Parts:
    """Return the rules of a group's classes for leaves of these names in a tree of these levels.

    `of` is the class of each role, `network` has the paths between the leaves. With traffic, levels
    without a rule have no preference: costs decide there.
    """
    described = spec.classes
    if described is None:
        return (), (), (), TrafficCosts(), ()
    at = {level.name: number for number, level in enumerate(levels)}
    number = {one.name: place for place, one in enumerate(described.classes)}
    fixed = _fixed(described, bound, names)
    classes = tuple(
        PodClass(
            one.name,
            tuple(role for role, name in enumerate(of) if name == one.name),
            one.min,
            one.max,
            tuple(ClassRule(at[level], rule(own)) for level, own in one.constraints.items()),
            fixed.get(one.name, ()),
        )
        for one in described.classes
    )
    between = tuple(
        PairRule(one.rule, number[one.first], number[one.second], at[one.level])
        for one in described.between
    )
    traffic = tuple(
        Traffic(number[one.first], number[one.second], one.weight) for one in described.traffic
    )
    if spec.by_network:
        costs = TrafficCosts() if network is None else _between_nodes(network, len(levels))
        return classes, between, traffic if costs.areas else (), costs, tuple(range(len(levels)))
    if not traffic:
        return classes, between, (), TrafficCosts(), ()
    steps = tuple(_step(described, level.name) for level in levels)
    free = tuple(place for name, place in at.items() if name not in spec.constraints)
    return classes, between, traffic, TrafficCosts(steps), free


def limits(spec: GroupSpec, network: AreaPaths | None) -> tuple[PathLimit, ...]:
    """Return the limits of an application on path costs between classes, without limits that no
    path exceeds.
    """
    described = spec.classes
    if described is None or network is None:
        return ()
    number = {one.name: place for place, one in enumerate(described.classes)}
    beyond: dict[int, tuple[tuple[int, ...], ...]] = {}
    found = []
    for one in described.limits:
        if one.most not in beyond:
            # A path of unknown cost is neither within nor beyond the limit.
            rows = (np.flatnonzero(row > one.most) for row in network.prices)
            beyond[one.most] = tuple(tuple(row.tolist()) for row in rows)
        if any(beyond[one.most]):
            ends = number[one.first], number[one.second]
            found.append(PathLimit(*ends, beyond[one.most], one.most))
    return tuple(found)


def links(
    spec: GroupSpec, network: AreaPaths | None, classes: Sequence[PodClass], counts: Sequence[int]
) -> tuple[tuple[TrafficStream, ...], tuple[LinkLimit, ...]]:
    """Return the flows of an application, and the links that could be too narrow for them.

    `counts` is how many pods there are to place of each role.
    """
    described = spec.classes
    if described is None or network is None or not described.flows:
        return (), ()
    number = {one.name: place for place, one in enumerate(described.classes)}
    flows = tuple(
        TrafficStream(number[one.first], number[one.second], one.amount) for one in described.flows
    )
    pods = [sum(counts[role] for role in one.roles) + sum(one.fixed) for one in classes]
    most = sum(flow.amount * pods[flow.first] + 1 for flow in flows)
    found = tuple(
        LinkLimit(one.origins, one.targets, one.headroom, one.is_shared)
        for one in network.links
        if one.headroom < most * (1 + one.is_shared)
    )
    return (flows, found) if found else ((), ())


def _between_nodes(network: AreaPaths, depth: int) -> TrafficCosts:
    """Return costs by area for pods on different nodes; on one node traffic is free.

    The minimum cost over all pairs of nodes moves to the level of nodes; areas keep the rest.
    """
    costs = np.minimum(network.costs, DEAREST).astype(np.int64)
    near = int(costs.diagonal().min(initial=DEAREST))
    steps = (0,) * (depth - 1) + (near,)
    return TrafficCosts(
        steps, tuple(network.areas.tolist()), tuple(map(tuple, (costs - near).tolist()))
    )


def beside(group: GroupProblem, counts: Sequence[Sequence[int]]) -> Mapping[int, frozenset[int]]:
    """Return, for roles that others must be `with`, the leaves of the units that contain those
    others.
    """
    found: dict[int, frozenset[int]] = {}
    for one in group.between:
        if one.relation != "with":
            continue
        depth = one.level + 1
        first = group.classes[one.first]
        units = {
            path[:depth]
            for leaf, path in enumerate(group.paths)
            if any(counts[role][leaf] for role in first.roles)
            or (first.fixed and first.fixed[leaf])
        }
        leaves = frozenset(at for at, path in enumerate(group.paths) if path[:depth] in units)
        found |= dict.fromkeys(group.classes[one.second].roles, leaves)
    return found


def _step(described: ClassesSpec, level: str) -> int:
    """Return the cost of two pods that are apart at a level; 1 if the group states no costs."""
    return described.costs.get(level, 0) if described.costs else int(level != SHARED)


def _fixed(
    described: ClassesSpec, bound: Sequence[Placed], names: Sequence[str]
) -> dict[str, tuple[int, ...]]:
    """Return by class its number of bound pods on each leaf, only for classes that have any."""
    place = {name: leaf for leaf, name in enumerate(names)}
    found: dict[str, list[int]] = {}
    for one in bound:
        if (leaf := place.get(one.node)) is not None:
            counts = found.setdefault(described.of(one.pod), [0] * len(names))
            counts[leaf] += 1
    return {name: tuple(counts) for name, counts in found.items()}
