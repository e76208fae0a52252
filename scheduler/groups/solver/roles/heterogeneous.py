"""The entry point for groups of several roles, each with its own request.

The rules of levels hold for all pods together, those of classes (scheduler.groups.problem.classes)
for the pods of the class. `solve` places the most pods, then prefers by levels from the top, as for
one role. It proves that no better placement exists or reports which stage is not proven. A greedy
descent finds the easy placements; scheduler.groups.solver.roles.rolesearch improves and proves.
Called by scheduler.groups.solver.questions.
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np

from scheduler.base.clock import perf_s
from scheduler.base.errors import StateError
from scheduler.groups.problem import checker
from scheduler.groups.problem.instance import LevelRule, SolveLimits
from scheduler.groups.problem.parts import PlacedPart
from scheduler.groups.problem.roles import GroupAnswer, GroupProblem
from scheduler.groups.solver import tree
from scheduler.groups.solver.cpsat import stages
from scheduler.groups.solver.deadline import Deadline
from scheduler.groups.solver.roles import descent, linkflows, relaxation
from scheduler.groups.solver.roles.result import (
    KnownLimits,
    RolesResult,
    better,
    first_with_several,
    units,
    valid,
    with_bounds,
    within_gap,
)
from scheduler.groups.solver.roles.rolebounds import bounds
from scheduler.groups.solver.roles.subgroups import split
from scheduler.groups.solver.traffic import neighbours
from scheduler.groups.solver.tree import Ints

MEANINGFUL_S = 0.02
# The share of the time left that the traffic bound may use.
PAID_PART = 0.5
Rows: TypeAlias = tuple[tuple[int, ...], ...]


def solve(group: GroupProblem, limits: SolveLimits) -> GroupAnswer:
    """Return the best placement, or a proof that fewer than `minimum` pods fit."""
    started = perf_s()
    found = _best(group, limits, Deadline(limits.total_s))
    if found.counts is None:
        outcome: Literal["infeasible", "unknown"] = "infeasible" if found.is_proven else "unknown"
        return GroupAnswer(outcome, optimal=found.is_proven, seconds=_since(started))
    counts, pieces = _checked(group, found.counts)
    is_proven = all(stage.proven for stage in found.stages)
    return GroupAnswer(
        "placed", counts, {}, is_proven, _since(started), stages=found.stages, pieces=pieces
    )


def fits(group: GroupProblem, limits: SolveLimits, left_s: Deadline, part: float) -> bool | None:
    """Return whether the minimum fits; None if undecided within `part` of the time left."""
    if is_hopeless(group):
        return False
    if group.links and not linkflows.parts_of(group):
        return None
    if any(_guess(group, is_filling=one).counts is not None for one in (True, False)):
        return True
    with left_s.loading():
        from scheduler.groups.solver.roles import rolesearch
    return rolesearch.exists(group, limits, part * left_s())


def _checked(group: GroupProblem, found: Ints) -> tuple[Rows, tuple[PlacedPart, ...]]:
    """Return a placement's rows and its parts. Raises StateError if the placement is invalid."""
    rows = tuple(tuple(row) for row in found.tolist())
    pieces = split(group, rows) if group.parts else []
    wrong = checker.problems(group, rows, pieces)
    if wrong or pieces is None:
        raise StateError(f"a wrong answer for several roles: {'; '.join(wrong[:3])}")
    return rows, tuple(pieces)


def _best(group: GroupProblem, limits: SolveLimits, left_s: Deadline) -> RolesResult:
    """Return the best placement: in one unit if that is preferred and possible, else anywhere."""
    if is_hopeless(group):
        return RolesResult(None, is_proven=True)
    if group.links and not linkflows.parts_of(group):
        return RolesResult(None)
    level = first_with_several(group)
    rule = group.levels[level - 1].rule if level else LevelRule("spread")
    best = RolesResult(None)
    is_wished = rule.is_hard_pack or (rule.kind == "pack" and level - 1 not in group.unwished)
    if is_wished and rule.units_per_parent <= 1 and level < len(group.levels):
        best = _in_one_unit(group, level, limits, left_s)
        is_whole = best.counts is not None and int(best.counts.sum()) == group.wanted
        if rule.is_hard_pack or (is_whole and best.is_proven):
            return best
    elif _is_free_together(group, level):
        best = _in_one_unit(group, level, limits, left_s)
        if best.counts is not None and best.is_proven and best.values[0] == 0:
            return best  # a placement without traffic cost is in one unit, so this is optimal
    known = bounds(group)
    guess, least = best, KnownLimits([])
    if guess.counts is None:
        guess = better(_guess(group, is_filling=True), _guess(group, is_filling=False))
        if guess.values != known:
            least = _by_leaves(group, limits, left_s)
        if least.is_none:
            return RolesResult(None, is_proven=True)
        if least.counts is not None:
            guess = better(guess, valid(group, least.counts))
        if guess.counts is not None and guess.values == least.limits:
            return with_bounds(group, guess.counts, least.limits)
        for near in neighbours.near_by(group) if group.traffic and guess.values != known else ():
            guess = better(guess, valid(group, near))
            if guess.values in (known, least.limits):
                break
    if guess.counts is not None and guess.values in (known, least.limits):
        return with_bounds(group, guess.counts, guess.values)
    if left_s() < MEANINGFUL_S:
        if guess.counts is None:
            return guess
        limits_known = max(least.limits, within_gap(guess.values, known))
        return with_bounds(group, guess.counts, within_gap(guess.values, limits_known))
    known = _paid(group, guess, known, limits, left_s)
    if guess.counts is not None and guess.values == known:
        return with_bounds(group, guess.counts, known)
    made = tree.build(group.homogeneous(), with_full=True)
    relaxed = relaxation.best(group, stages.of_roles(group, made), limits, left_s())
    if relaxed.is_none:
        return RolesResult(None, is_proven=True)
    if relaxed.counts is not None:
        own = valid(group, relaxed.counts)
        guess = better(guess, own)
        if own.counts is not None and tuple(own.values) == relaxed.values:
            return with_bounds(group, own.counts, relaxed.values)
    # Bounds, each valid while the stages before it equal theirs.
    least_of_all = max(relaxed.values, tuple(least.limits))
    with left_s.loading():
        from scheduler.groups.solver.roles import rolesearch
    return rolesearch.minimize(group, guess, known, least_of_all, limits, left_s)


def _by_leaves(group: GroupProblem, limits: SolveLimits, left_s: Deadline) -> KnownLimits:
    """Return the bounds of a group with traffic that follow from leaves without units.

    Uses a share of the time left.
    """
    if not group.traffic or group.costs.areas:
        return KnownLimits([])
    with left_s.loading():
        from scheduler.groups.solver.traffic import trafficleaves
    return trafficleaves.best(group, limits, left_s) or KnownLimits([])


def _paid(
    group: GroupProblem,
    guess: RolesResult,
    bounds: Sequence[int],
    limits: SolveLimits,
    left_s: Deadline,
) -> list[int]:
    """Return the stage bounds with a tightened traffic bound.

    Uses at most PAID_PART of the time left. If costs depend on levels alone it changes nothing: the
    patterns of equal leaves prove these as fast.
    """
    if not group.costs.areas:
        return list(bounds)
    at = next((at for at, one in enumerate(guess.stages) if one.measure == "cost"), -1)
    if at < 0 or guess.counts is None or int(guess.counts.sum()) < group.wanted:
        return list(bounds)
    with left_s.loading():
        from scheduler.groups.solver.traffic import trafficbound
    reserved = left_s() * (1 - PAID_PART)
    paid = trafficbound.least(group, guess.values[at], limits, lambda: left_s() - reserved)
    return [*bounds[:at], max(bounds[at], paid), *bounds[at + 1 :]]


def _is_free_together(group: GroupProblem, level: int) -> bool:
    """Return whether traffic is free inside a unit of `level`, costs between units, and is the
    first objective.

    Requires that all pods are placed and that the traffic graph is connected.
    """
    steps, classes = group.costs.steps, group.classes
    if not group.traffic or group.costs.areas or not 0 < level < len(group.levels):
        return False
    is_first = all(at in group.unwished for at in range(len(group.levels)))
    is_first = is_first and not any(one.rules for one in classes) and group.least == group.wanted
    if not is_first or not sum(steps[:level]) or any(steps[level:]):
        return False
    pods = [sum(group.roles[role].count for role in one.roles) + sum(one.fixed) for one in classes]
    there = {number for number, count in enumerate(pods) if count}
    reached, at = set[int](), [min(there, default=0)]
    while at:
        reached.add(one := at.pop())
        pairs = ({each.first, each.second} for each in group.traffic if each.weight)
        at += {other for pair in pairs if one in pair for other in pair & there} - reached
    of_classes = sum(len(one.roles) for one in classes)
    return reached >= there and of_classes == len(group.roles)


def _in_one_unit(
    group: GroupProblem, level: int, limits: SolveLimits, left_s: Deadline
) -> RolesResult:
    """Return the best placement with all pods in one unit of a level.

    Units are tried in the order of their bounds, so most need no search.
    """
    parts = [(leaves, group.part(leaves.tolist())) for leaves in units(group, level)]
    fixed = sum(group.fixed)
    parts = [
        (leaves, part)
        for leaves, part in parts
        if sum(part.fixed) == fixed and not is_hopeless(part)
    ]
    ordered = sorted(
        ((bounds(part), at) for at, (_, part) in enumerate(parts)), key=lambda pair: pair
    )
    best, is_proven = RolesResult(None), True
    known = {at: least for least, at in ordered}
    for least, at in ordered:
        if best.counts is not None and best.values <= least:
            break
        if left_s() < MEANINGFUL_S:
            is_proven = False
            break
        leaves, part = parts[at]
        found = _best(part, limits, left_s)
        if found.counts is None:
            is_proven = is_proven and found.is_proven
            if found.is_proven:
                del known[at]  # proven infeasible: its bound does not limit the best
            continue
        known[at] = [stage.bound for stage in found.stages]
        if best.counts is None or found.values < best.values:
            counts = np.zeros((len(group.roles), len(group.paths)), dtype=np.int64)
            counts[:, leaves] = found.counts
            best = RolesResult(counts, found.stages)
    if best.counts is None:
        return RolesResult(None, is_proven=is_proven)
    return with_bounds(group, best.counts, within_gap(best.values, min(known.values())))


def is_hopeless(group: GroupProblem) -> bool:
    """Return whether the capacity of all leaves together is below the minimum."""
    capacity = group.capacity()
    least = group.least
    if int(capacity.sum()) < least:
        return True
    if least < group.wanted:
        return False
    free = np.array(group.free, dtype=np.int64).clip(min=0).sum(axis=0)
    requests = np.array([role.request for role in group.roles], dtype=np.int64)
    counts = np.array([role.count for role in group.roles], dtype=np.int64)
    slots = np.array([role.slots for role in group.roles], dtype=np.int64)
    return bool(((counts @ requests) > free).any() or (slots.sum(axis=1) < counts).any())


def _guess(group: GroupProblem, *, is_filling: bool) -> RolesResult:
    """Return the placement of a greedy descent, without bounds; nothing if it violates a rule."""
    return valid(group, descent.descent(group, is_filling=is_filling))


def _since(started: float) -> float:
    return round(perf_s() - started, 6)
