"""Victims for a group of several roles, per unit if all members must be in one unit.

The unit with the least harm is chosen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from scheduler.groups.problem.answer import Outcome
from scheduler.groups.problem.instance import Candidate, ElasticGroup, SolveLimits
from scheduler.groups.problem.roles import GroupAnswer, GroupPreemption, GroupProblem
from scheduler.groups.solver.cpsat import cells
from scheduler.groups.solver.deadline import Deadline
from scheduler.groups.solver.roles import heterogeneous
from scheduler.groups.solver.roles.result import units
from scheduler.groups.solver.roles.subgroups import split
from scheduler.groups.solver.tree import Ints
from scheduler.groups.solver.victims import freed
from scheduler.groups.solver.victims.freed import Choice
from scheduler.groups.solver.victims.search import BEFORE_END, VictimSearch

if TYPE_CHECKING:
    from scheduler.groups.solver.victims.model import EvictionModel, StageDecision, StageTask

MEANINGFUL_S = 0.02


def solve(problem: GroupPreemption, limits: SolveLimits) -> GroupAnswer:
    """Return the evictions with the least harm after which `minimum` pods fit, and where."""
    clock = Deadline(limits.total_s)
    with clock.loading():
        from scheduler.groups.solver.victims.model import EvictionModel
    group = problem.group
    best: tuple[tuple[int, ...], Ints, dict[int, int]] | None = None
    is_proven = True
    for leaves in units(group, _levels_in_one_unit(group)):
        part = _part(problem, leaves.tolist())
        if sum(part.problem.group.fixed) < sum(group.fixed):
            continue  # bound members are in another unit
        left = clock()
        if left < MEANINGFUL_S:
            is_proven = False
            break
        within = msgspec.structs.replace(limits, total_s=left)
        search = VictimSearch(
            part.problem, _SeveralRoles(part.problem, EvictionModel), within, Deadline(left)
        )
        search.run()
        if search.known is None:
            is_proven = is_proven and search.is_infeasible
            continue
        is_proven = is_proven and all(stage.proven for stage in search.stages)
        evicted = {part.origin[index]: times for index, times in search.known.items() if times}
        harm = _harm(problem, evicted)
        if best is not None and harm >= best[0]:
            continue
        left = max((1.0 - BEFORE_END) * left, search.left_s(1.0))
        own = msgspec.structs.replace(limits, total_s=left)
        placed = heterogeneous.solve(_after(part.problem, search.known), own)
        if placed.outcome != "placed":
            is_proven = False
            continue
        counts = np.zeros((len(group.roles), len(group.paths)), dtype=np.int64)
        counts[:, leaves] = placed.counts
        best = harm, counts, evicted
    seconds = round(clock.spent, 6)
    if best is None:
        return GroupAnswer(
            "infeasible" if is_proven else "unknown", optimal=is_proven, seconds=seconds
        )
    rows = tuple(tuple(row) for row in best[1].tolist())
    pieces = tuple(split(group, rows) or ()) if group.parts else ()
    return GroupAnswer("placed", rows, best[2], is_proven, seconds, pieces=pieces)


class _SeveralRoles:
    """The `EvictingGroup` of a group with several roles."""

    def __init__(self, problem: GroupPreemption, model: type[EvictionModel]) -> None:
        self._problem = problem
        self._model = model

    def verdict(self, evicted: Choice, left_s: float) -> Outcome:
        """Return whether the minimum fits after these evictions."""
        if left_s <= 0:
            return "unknown"
        after = _after(self._problem, evicted)
        fits = heterogeneous.fits(after, SolveLimits(), Deadline(left_s), 1.0)
        return "unknown" if fits is None else "placed" if fits else "infeasible"

    def minimise(
        self, task: StageTask, limits: SolveLimits, seconds: float, hint: Choice
    ) -> StageDecision:
        """Decide one stage, with one cell per leaf."""
        gone = {index: self._problem.candidates[index].count for index in task.gone}
        # The model takes the evicted from the rules itself.
        domains = self._problem.group.domains
        after = msgspec.structs.replace(_after(self._problem, gone), domains=domains)
        layout = cells.single_leaves(after, is_emptied=True)
        return self._model(self._problem, task, layout, domains).solve(limits, seconds, hint)

    def is_hopeless(self, evicted: Choice) -> bool:
        """Return whether the capacity after these evictions is below the minimum."""
        return heterogeneous.is_hopeless(_after(self._problem, evicted))


class _Part(msgspec.Struct, frozen=True):
    """A problem restricted to some leaves; `origin` has the original index of each candidate."""

    problem: GroupPreemption
    origin: tuple[int, ...]


def _part(problem: GroupPreemption, leaves: list[int]) -> _Part:
    """Return the problem on these leaves, with the candidates that free something there or count in
    a rule.

    An elastic group keeps all its candidates; those on other leaves free nothing here.
    """
    place = {leaf: at for at, leaf in enumerate(leaves)}
    useful = {
        index
        for index, one in enumerate(problem.candidates)
        if one.counted or not place.keys().isdisjoint(one.freed)
    }
    for group in problem.elastic:
        if not useful.isdisjoint(group.candidates):
            useful.update(group.candidates)
    origin = tuple(sorted(useful))
    number = {index: at for at, index in enumerate(origin)}

    def here(one: Candidate) -> Candidate:
        within = {place[leaf]: free for leaf, free in one.freed.items() if leaf in place}
        return msgspec.structs.replace(one, freed=within)

    elastic = (
        ElasticGroup(tuple(number[index] for index in group.candidates), group.surplus)
        for group in problem.elastic
        if group.candidates[0] in number
    )
    made = msgspec.structs.replace(
        problem,
        group=problem.group.part(leaves),
        candidates=tuple(here(problem.candidates[index]) for index in origin),
        elastic=tuple(elastic),
    )
    return _Part(made, origin)


def _after(problem: GroupPreemption, evicted: Choice) -> GroupProblem:
    """Return the group with the free amounts and the counted pods after these evictions."""
    free = np.array(problem.group.free, dtype=np.int64)
    for index, times in evicted.items():
        for leaf, amounts in problem.candidates[index].freed.items():
            free[leaf] += times * np.array(amounts, dtype=np.int64)
    return msgspec.structs.replace(
        problem.group,
        free=tuple(map(tuple, free.tolist())),
        domains=freed.rules_after(problem, problem.group.domains, evicted),
    )


def _harm(problem: GroupPreemption, evicted: Choice) -> tuple[int, ...]:
    """Return the harm of evictions as a sortable tuple: violations, pods by priority, groups.

    Priorities are in descending order.
    """
    priorities = sorted({one.priority for one in problem.candidates}, reverse=True)
    pods = (freed.pods(problem, evicted, priority) for priority in priorities)
    return (freed.violations(problem, evicted), *pods, freed.groups(problem, evicted))


def _levels_in_one_unit(group: GroupProblem) -> int:
    """Return how many levels from the top require all pods in one unit."""
    found = 0
    for level in group.levels[:-1]:
        if not level.rule.is_hard_pack:
            break
        found += 1
    return found
