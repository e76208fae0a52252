"""Solve groups with traffic whose cost depends on levels alone: first the leaves, then units.

Without the levels above them, all equal leaves of the cluster are one cell, and CP-SAT proves
bounds in milliseconds. If the placement found fits inside one unit of a level, at no additional
cost, it is optimal. Otherwise the pods are in one unit, and each unit is solved by itself; or they
are in several units, and pay at least the minimum cut between them.
scheduler.groups.solver.roles.heterogeneous calls this before a search over all units. Loaded only
in the solver process.
"""

from collections.abc import Callable

import msgspec
import numpy as np

from scheduler.groups.problem.answer import NOTHING
from scheduler.groups.problem.classes import TrafficCosts
from scheduler.groups.problem.instance import SolveLimits
from scheduler.groups.problem.roles import GroupProblem
from scheduler.groups.solver.cpsat import cells
from scheduler.groups.solver.cpsat.run import MEANINGFUL_S
from scheduler.groups.solver.roles import likeleaves, result
from scheduler.groups.solver.roles.result import KnownLimits
from scheduler.groups.solver.roles.rolebounds import bounds
from scheduler.groups.solver.roles.rolesearch import minimize
from scheduler.groups.solver.traffic.trafficunits import SeveralUnits
from scheduler.groups.solver.tree import Ints

# Shares of the time left: for the leaves alone, and for single units and for several units each.
LEAVES_PART, UNITS_PART = 0.25, 0.25


def best(
    group: GroupProblem, limits: SolveLimits, left_s: Callable[[], float]
) -> KnownLimits | None:
    """Return bounds of a group, with a placement if found; None if leaves give no bound."""
    if not is_bounded_by_leaves(group) or cells.cells(alone := _alone(group)) is None:
        return None
    found = minimize(
        alone, result.RolesResult(None), bounds(alone), (), limits,
        _until(left_s, LEAVES_PART),
    )  # fmt: skip
    if found.counts is None:
        return KnownLimits([], is_none=True) if found.is_proven else None
    least = result.within_gap(found.values, [stage.bound for stage in found.stages])
    dealt = likeleaves.dealt(group, found.counts)
    if dealt is not None and result.valid(group, dealt).values == least:
        return KnownLimits(least, dealt)
    level = result.first_with_several(group)
    if not 0 < level < len(group.levels) or group.least < group.wanted:
        return KnownLimits(least)
    at = [stage.measure for stage in found.stages].index("cost")
    if NOTHING in least[: at + 1]:
        return KnownLimits(least)
    one = _in_one(group, level, least, limits, _until(left_s, UNITS_PART))
    values = None if one.counts is None else result.valid(group, one.counts).values
    several = SeveralUnits(group, level, least, at).best(values, limits, _until(left_s, UNITS_PART))
    known = max(least, min(one.limits, several.limits))
    if -NOTHING in known:
        return KnownLimits([], is_none=True)
    return KnownLimits(known, one.counts if several.counts is None else several.counts)


def is_bounded_by_leaves(group: GroupProblem) -> bool:
    """Return whether all stages and rules concern leaves, except the traffic cost of levels."""
    last = len(group.levels) - 1
    rules = group.apart, group.excluded, group.limits, group.links, group.domains
    others = group.costs.areas, group.parts, *rules
    own = [each for one in group.classes for each in one.rules]
    of_leaves = [group.levels[last].rule, *(each.rule for each in own)]
    return (
        bool(group.traffic)
        and not any(others)
        and all(at in group.unwished for at in range(last))
        and all(each.level == last for each in own)
        # Such a rule refers to the units above the leaves.
        and not any(rule.units_per_parent for rule in of_leaves)
    )


def _alone(group: GroupProblem) -> GroupProblem:
    """Return the group with the last level as its only level."""
    last = len(group.levels) - 1
    classes = (
        msgspec.structs.replace(
            one, rules=tuple(msgspec.structs.replace(each, level=0) for each in one.rules)
        )
        for one in group.classes
    )
    return msgspec.structs.replace(
        group,
        levels=group.levels[last:],
        paths=tuple((f"{leaf}",) for leaf in range(len(group.paths))),
        classes=tuple(classes),
        between=tuple(
            msgspec.structs.replace(rule, level=0) for rule in group.between if rule.level == last
        ),
        costs=TrafficCosts((sum(group.costs.steps[last:]),)),
        unwished=(0,) if last in group.unwished else (),
    )


def _until(left_s: Callable[[], float], part: float) -> Callable[[], float]:
    """Return a clock of the seconds left of a share of the time."""
    end = left_s() * (1 - part)
    return lambda: left_s() - end


def _in_one(
    group: GroupProblem,
    level: int,
    least: list[int],
    limits: SolveLimits,
    left_s: Callable[[], float],
) -> KnownLimits:
    """Return bounds of placements inside one unit of a level, with the best placement if found.

    `least` are the bounds of the leaves alone.
    """
    reached: list[int] | None = None
    counts = None
    known = [[-NOTHING]]  # if no unit takes all pods
    for leaves in _promising(group, level):
        if left_s() < MEANINGFUL_S:
            known.append(least)
            break
        found = best(group.part(leaves.tolist()), limits, left_s)
        if found is not None and found.is_none:
            continue
        known.append(least if found is None else found.limits)
        if found is None or found.counts is None:
            continue
        whole = np.zeros((len(group.roles), len(group.paths)), dtype=np.int64)
        whole[:, leaves] = found.counts
        values = [value for _, _, value in result.objective_of(group, whole)]
        if reached is None or values < reached:
            reached, counts = values, whole
        if reached == least:
            break
    return KnownLimits(min(known), counts)


def _promising(group: GroupProblem, level: int) -> list[Ints]:
    """Return the leaves of each unit that may take all pods, the largest capacity first.

    On the level above the leaves, identical units are listed once.
    """
    fixed, capacity, cells = sum(group.fixed), group.capacity(), likeleaves.numbers(group)
    slots = np.array([role.slots for role in group.roles], dtype=np.int64)
    counts = np.array([role.count for role in group.roles], dtype=np.int64)
    is_flat = level == len(group.levels) - 1
    found: dict[object, Ints] = {}
    for leaves in result.units(group, level):
        if fixed and sum(group.fixed[leaf] for leaf in leaves.tolist()) < fixed:
            continue
        if capacity[leaves].sum() < counts.sum() or (slots[:, leaves].sum(axis=1) < counts).any():
            continue
        like = np.bincount(cells[leaves]).tobytes() if is_flat else int(leaves[0])
        found.setdefault(like, leaves)
    return sorted(found.values(), key=lambda leaves: -int(capacity[leaves].sum()))
