"""Bound a group of several roles by its homogeneous relaxation, and place its own pods likewise.

In the relaxation every pod requests the minimum over all roles, so each placement of the group is
one of the relaxation. The exact program solves it in milliseconds. Its values bound the stages of
all pods, each while the stages before it equal theirs. If the group's own pods fit the same counts
per leaf, that placement is optimal and no search is needed.
scheduler.groups.solver.roles.heterogeneous calls this before CP-SAT.
"""

import itertools
from collections.abc import Sequence
from math import lcm

import msgspec
import numpy as np

from scheduler.groups.problem import parts
from scheduler.groups.problem.checklevels import MEASURES
from scheduler.groups.problem.instance import Instance, Level, SolveLimits
from scheduler.groups.problem.parts import WholePart
from scheduler.groups.problem.roles import GroupProblem
from scheduler.groups.solver import solve
from scheduler.groups.solver.cpsat.stages import ALL, Stage
from scheduler.groups.solver.tree import Ints, filled

# The share of the time left that the relaxation may use.
PART = 0.25
_OF_ALL = ("leftOut", *itertools.chain.from_iterable(MEASURES.values()))


class RelaxedBest(msgspec.Struct, frozen=True):
    """The optimum of the relaxation: the values of the first stages, and own pods at its counts.

    A value is a lower bound while all earlier stages equal theirs. `counts` is None if no such
    placement was found. `is_none`: it is proven that nothing fits.
    """

    values: tuple[int, ...] = ()
    counts: Ints | None = None
    is_none: bool = False


def best(
    group: GroupProblem, stages: Sequence[Stage], limits: SolveLimits, left_s: float
) -> RelaxedBest:
    """Return the bounds of these stages by the relaxation; no values if the time is too short."""
    if group.unwished:
        return RelaxedBest()  # the relaxation has stages for levels without a preference
    least = SolveLimits(limits.stage_s, left_s * PART, limits.workers)
    whole = parts.whole(group.parts, len(group.roles)) if group.parts else None
    relaxed = (
        group.homogeneous() if whole is None else _by_the(sum(whole.sizes), whole.depth, group)
    )
    answer = solve.solve(relaxed, least, "Exact")
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
    """Return the homogeneous relaxation with a multiple of `size` pods in each unit at `depth`."""
    found = group.homogeneous()
    level = found.levels[depth - 1]
    rule = msgspec.structs.replace(level.rule, factor=lcm(size, level.rule.factor))
    levels = (*found.levels[: depth - 1], Level(level.name, rule), *found.levels[depth:])
    return msgspec.structs.replace(found, levels=levels)


def _wholes(group: GroupProblem, whole: WholePart, totals: Ints) -> Ints | None:
    """Return pods by role and leaf such that each unit has whole parts; None if not found.

    `totals` has the pods by leaf, `whole` the parts.
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
    """Return pods by role and leaf with the given totals by leaf; None if not found.

    Roles are placed by size, the largest first. Each goes to the leaf with the most capacity left,
    after the minimum that the other pods of the leaf request.
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
