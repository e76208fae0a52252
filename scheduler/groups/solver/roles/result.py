"""Results of solving a group of several roles: pods by role and leaf, with the bounds of stages."""

from collections import defaultdict
from collections.abc import Sequence

import msgspec
import numpy as np

from scheduler.groups.problem import checker
from scheduler.groups.problem.answer import NOTHING, SolvedStage
from scheduler.groups.problem.roles import GroupProblem
from scheduler.groups.solver import tree
from scheduler.groups.solver.roles.subgroups import split
from scheduler.groups.solver.tree import Ints


class RolesResult(msgspec.Struct, frozen=True):
    """The best known placement: pods by role and leaf (None: none known), its stages with bounds.

    Without a placement, `is_proven` states that none exists.
    """

    counts: Ints | None
    stages: tuple[SolvedStage, ...] = ()
    is_proven: bool = False

    @property
    def values(self) -> list[int]:
        """Return the value of every stage, the most important first."""
        return [stage.value for stage in self.stages]


class KnownLimits(msgspec.Struct, frozen=True):
    """Lower bounds of the stages, and a valid placement if one is known.

    Each bound in `limits` holds while all stages before it equal theirs; empty: none is known.
    `is_none`: it is proven that nothing fits.
    """

    limits: list[int]
    counts: Ints | None = None
    is_none: bool = False


def objective_of(group: GroupProblem, counts: Ints) -> list[tuple[str, str, int]]:
    """Return (level, measure, value) of every stage for pods by role and leaf."""
    return checker.objective(group, counts.tolist())


def valid(group: GroupProblem, counts: Ints) -> RolesResult:
    """Return a placement without bounds; a result without a placement if it violates a rule."""
    rows = counts.tolist()
    if checker.problems(group, rows, split(group, rows) if group.parts else ()):
        return RolesResult(None)
    return with_bounds(group, counts)


def with_bounds(group: GroupProblem, counts: Ints, bounds: Sequence[int] = ()) -> RolesResult:
    """Return a placement with its values and these bounds; without bounds no stage is proven."""
    values = objective_of(group, counts)
    stages = tuple(
        SolvedStage(level, measure, value, min(bound, value))
        for (level, measure, value), bound in zip(
            values, bounds or [NOTHING] * len(values), strict=True
        )
    )
    return RolesResult(counts, stages, all(stage.proven for stage in stages))


def better(one: RolesResult, other: RolesResult) -> RolesResult:
    """Return the result with the smaller values, the first one if they are equal."""
    if one.counts is None or (other.counts is not None and other.values < one.values):
        return other
    return one


def within_gap(values: Sequence[int], bounds: Sequence[int]) -> list[int]:
    """Return the bounds up to the first unproven stage; NOTHING for all later stages."""
    open_ones = (
        at for at, (value, bound) in enumerate(zip(values, bounds, strict=True)) if bound < value
    )
    first = next(open_ones, len(values))
    return [bound if at <= first else NOTHING for at, bound in enumerate(bounds)]


def first_with_several(group: GroupProblem) -> int:
    """Return the first level with several usable units, 0 if there is none."""
    capacity = group.capacity()
    usable = [
        at for at in range(len(group.paths)) if capacity[at] or (group.fixed and group.fixed[at])
    ]
    depth = len(group.levels)
    paths = [tree.filled(group.paths[at], depth) for at in usable]
    for level in range(1, depth + 1):
        if len({path[:level] for path in paths}) > 1:
            return level
    return 0


def units(group: GroupProblem, level: int) -> list[Ints]:
    """Return the leaves of each unit of a level in path order; level 0 is the root."""
    by_unit: dict[tuple[str, ...], list[int]] = defaultdict(list)
    depth = len(group.levels)
    for leaf, path in enumerate(group.paths):
        by_unit[tree.filled(path, depth)[:level]].append(leaf)
    return [np.array(by_unit[unit], dtype=np.int64) for unit in sorted(by_unit)]
