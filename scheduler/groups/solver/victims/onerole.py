"""Victims for a group of one role: the exact program decides feasibility, CP-SAT the stages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from scheduler.groups.problem.answer import Outcome, SolvedVictims, SolverAnswer
from scheduler.groups.problem.instance import Leaf, PreemptionInstance, SolveLimits
from scheduler.groups.solver import solve as placing
from scheduler.groups.solver import tree
from scheduler.groups.solver.deadline import Deadline
from scheduler.groups.solver.exact import fold
from scheduler.groups.solver.victims import freed
from scheduler.groups.solver.victims.bundles import Bundles
from scheduler.groups.solver.victims.freed import Choice, EvictionCapacity
from scheduler.groups.solver.victims.search import BEFORE_END, VictimSearch

if TYPE_CHECKING:
    from scheduler.groups.solver.victims.model import StageDecision, StageTask


def solve(problem: PreemptionInstance, limits: SolveLimits | None = None) -> SolvedVictims:
    """Return the best victims and the placement after their eviction.

    `infeasible` if the group does not fit even after all evictions, or not without violating a
    budget where that is forbidden. Raises InputError if the problem contradicts itself.
    """
    limits = limits or SolveLimits()
    clock = Deadline(limits.total_s)
    tree.check(problem.instance)
    bundles = Bundles(msgspec.structs.replace(problem, instance=fold.folded(problem.instance)))
    group = _OneRole(problem, bundles.problem, limits)
    search = VictimSearch(bundles.problem, group, limits, clock)
    search.run()
    if search.known is None:
        return SolvedVictims(search.outcome, seconds=round(clock.spent, 6))
    # The placement after the evictions gets its share of time even near the limit.
    left = max((1.0 - BEFORE_END) * limits.total_s, search.left_s(1.0))
    placement = group.placed(search.known, left)
    return SolvedVictims(
        "placed" if placement.outcome == "placed" else "unknown",
        bundles.unpacked(search.known),
        bundles.all_stages(search.stages),
        placement,
        round(clock.spent, 6),
    )


class _OneRole:
    """The `EvictingGroup` of a group with one role; its candidates are bundles."""

    def __init__(
        self, original: PreemptionInstance, problem: PreemptionInstance, limits: SolveLimits
    ) -> None:
        self._original = original.instance
        self._problem = problem
        self._limits = limits
        self._capacity = EvictionCapacity(problem)

    def verdict(self, evicted: Choice, left_s: float) -> Outcome:
        """Return whether the group fits after these evictions."""
        if self._capacity.knows_rules:
            return "placed" if self._capacity.fits(evicted) else "infeasible"
        return self.placed(evicted, left_s).outcome if left_s > 0 else "unknown"

    def minimise(
        self, task: StageTask, limits: SolveLimits, seconds: float, hint: Choice
    ) -> StageDecision:
        """Decide one stage, with relaxed models first."""
        from scheduler.groups.solver.victims.stage import minimise

        return minimise(self._capacity, task, limits, seconds, hint)

    def is_hopeless(self, evicted: Choice) -> bool:
        """Return whether the capacity after these evictions is below the minimum."""
        shape = self._capacity.tree(evicted)
        return not len(shape.slots) or int(shape.capacity[0][0]) < shape.least

    def placed(self, evicted: Choice, left_s: float) -> SolverAnswer:
        """Return the placement after these evictions."""
        slots = self._capacity.after(evicted).tolist()
        leaves = tuple(
            Leaf(leaf.path, fits, fixed=leaf.fixed)
            for leaf, fits in zip(self._original.leaves, slots, strict=True)
        )
        rules = freed.rules_after(self._problem, self._original.domains, evicted)
        after = msgspec.structs.replace(self._original, leaves=leaves, request=(), domains=rules)
        return placing.solve(after, msgspec.structs.replace(self._limits, total_s=left_s))
