"""What a group of heterogeneous members could be at best if its pods were homogeneous, and that
placement with its own pods.

Were they homogeneous, each taking as little as the least of them, every placement of the group
would still be one. So what the exact program finds for them, in milliseconds, bounds the stages
that speak of all pods, as long as those before them are as good. Mostly the pods themselves can
stand like that: then nothing is better, and there is nothing to search for. Called by
scheduler.groups.solver.roles.heterogeneous before CP-SAT is.
"""

from collections.abc import Sequence
from math import lcm

import msgspec
import numpy as np

from scheduler.groups.problem import parts
from scheduler.groups.problem.instance import Instance, Level, SolveLimits
from scheduler.groups.problem.parts import WholePart
from scheduler.groups.problem.roles import GroupProblem
from scheduler.groups.solver import solve
from scheduler.groups.solver.cpsat.stages import ALL, Stage
from scheduler.groups.solver.tree import Ints, filled

# It has this part of the time that is left.
PART = 0.25
_OF_ALL = ("leftOut", "units", "large", "squares")


class RelaxedBest(msgspec.Struct, frozen=True):
    """The best values of the first stages for homogeneous pods, and the group's own pods like
    that, if found.

    A value is a lower limit while all before it are as good as theirs. Nothing at all fits if
    `is_none`.
    """

    values: tuple[int, ...] = ()
    counts: Ints | None = None
    is_none: bool = False


def best(
    group: GroupProblem, stages: Sequence[Stage], limits: SolveLimits, left_s: float
) -> RelaxedBest:
    """Return the bounds proven for a group with these stages; none if the time is too short."""
    if group.unwished:
        return RelaxedBest()  # what is not wished for comes into it
    least = SolveLimits(limits.stage_s, left_s * PART, limits.workers)
    whole = parts.whole(group.parts, len(group.roles)) if group.parts else None
    asked = group.homogeneous() if whole is None else _by_the(sum(whole.sizes), whole.depth, group)
    answer = solve.solve(asked, least, "Exact")
    if not answer.optimal:
        return RelaxedBest()
    if answer.outcome != "placed":
        return RelaxedBest(is_none=True)
    of_all = [one.of == ALL and one.measure in _OF_ALL for one in stages]
    leading = of_all.index(False) if False in of_all else len(stages)
    values = tuple(stage.value for stage in answer.stages[:leading])
    fixed = np.array(group.fixed or (0,) * len(group.paths), dtype=np.int64)
    totals = np.array(answer.counts, dtype=np.int64) - fixed
    own = _own(group, totals) if whole is None else _wholes(group, whole, totals)
    return RelaxedBest(values, own)


def _by_the(size: int, depth: int, group: GroupProblem) -> Instance:
    """Return the group as if its pods were homogeneous, with so many of them together in a unit or
    none.
    """
    found = group.homogeneous()
    level = found.levels[depth - 1]
    rule = msgspec.structs.replace(level.rule, factor=lcm(size, max(1, level.rule.factor)))
    levels = (*found.levels[: depth - 1], Level(level.name, rule), *found.levels[depth:])
    return msgspec.structs.replace(found, levels=levels)


def _wholes(group: GroupProblem, whole: WholePart, totals: Ints) -> Ints | None:
    """Return pods of each role so that each unit has those of its parts, None where that is not
    found.
    """
    units: dict[tuple[str, ...], list[int]] = {}
    for leaf, path in enumerate(group.paths):
        if totals[leaf]:
            units.setdefault(filled(path, len(group.levels))[: whole.depth], []).append(leaf)
    counts = np.zeros((len(group.roles), len(totals)), dtype=np.int64)
    for leaves in units.values():
        many = int(totals[leaves].sum()) // sum(whole.sizes)
        part = group.part(leaves)
        roles = (
            msgspec.structs.replace(role, count=many * size)
            for role, size in zip(part.roles, whole.sizes, strict=True)
        )
        own = _own(msgspec.structs.replace(part, roles=tuple(roles)), totals[leaves])
        if own is None:
            return None
        counts[:, leaves] = own
    return counts


def _own(group: GroupProblem, totals: Ints) -> Ints | None:
    """Return pods of each role so that every leaf has its number, None where that is not found.

    The largest first, each where most is left beside what the others of its leaf take at least.
    """
    requests = np.array([role.request for role in group.roles], dtype=np.int64)
    free = np.array(group.free, dtype=np.int64).clip(min=0)
    smallest, left = requests.min(axis=0), totals.copy()
    scale = np.maximum(free.max(axis=0, initial=1), 1)
    counts = np.zeros((len(group.roles), len(totals)), dtype=np.int64)
    for number in np.argsort(-(requests / scale).max(axis=1, initial=0), kind="stable").tolist():
        role, more = group.roles[number], requests[number] - smallest
        slots = np.array(role.slots, dtype=np.int64)
        wanted = min(role.count, int(left.sum()))
        while wanted:
            left_free = free - left[:, None] * smallest
            fits = (left > 0) & (slots > counts[number]) & (left_free >= more).all(axis=1)
            open_ones = np.flatnonzero(fits)
            if not len(open_ones):
                break
            leaf = int(
                open_ones[int((left_free[open_ones] / scale).min(axis=1, initial=1).argmax())]
            )
            most = min(wanted, int(left[leaf]), int(slots[leaf] - counts[number, leaf]))
            if more.any():
                most = min(most, int((left_free[leaf][more > 0] // more[more > 0]).min()))
            counts[number, leaf] += most
            free[leaf] -= most * requests[number]
            left[leaf] -= most
            wanted -= most
    return None if left.any() else counts
