"""One stage of the victim search for a group of one role: a relaxed model, refined as needed.

Called by scheduler.groups.solver.victims.onerole; loaded only in the solver process.
"""

from __future__ import annotations

from scheduler.base.clock import perf_s
from scheduler.groups.problem.instance import SolveLimits
from scheduler.groups.solver.victims.freed import Choice, EvictionCapacity, closed
from scheduler.groups.solver.victims.model import StageDecision, StageTask
from scheduler.groups.solver.victims.tightening import OneRoleModel
from scheduler.groups.solver.victims.yields import Yields


def minimise(
    capacity: EvictionCapacity,
    task: StageTask,
    limits: SolveLimits,
    seconds: float,
    hint: Choice | None = None,
) -> StageDecision:
    """Run one stage in at most `seconds`.

    The relaxed model merges the leaves of a unit, so it may overestimate what evictions free on one
    leaf. If its evictions do not suffice, the overestimated leaves become single leaves and the
    stage runs again. Meanwhile they are extended until they suffice, so that a result exists at the
    time limit.
    """
    until = perf_s() + seconds
    everybody = {
        index: capacity.problem.candidates[index].count for index in task.decided + task.gone
    }
    tree = capacity.tree(everybody)
    yields = Yields(capacity, tree, task.decided, task.gone)
    gone = {index: everybody[index] for index in task.gone}
    alone = set(tree.leaf[tree.fixed > 0].tolist())
    best: dict[int, int] | None = None
    bound = 0
    while not capacity.problem.instance.domains and perf_s() < until:
        found = OneRoleModel(capacity, task, tree, yields, alone).solve(
            limits, until - perf_s(), hint
        )
        bound = max(bound, found.bound)
        if found.chosen is None:
            return StageDecision(best, bound, found.is_infeasible)
        if capacity.fits(found.chosen | gone):
            return StageDecision(_better(task, best, found.chosen), bound)
        if task.weights is not None and not task.frozen and task.violations is None:
            whole = completed(capacity, task, found.chosen, until)
            best = best if whole is None else _better(task, best, whole)
            hint = best or hint
        leaves = yields.inexact - alone
        chosen = found.chosen
        wrong = {
            leaf
            for leaf in leaves
            if yields.modelled_capacity(leaf, chosen) > yields.capacity_at(leaf, chosen)
        }
        if not wrong:
            break
        alone |= wrong
    if perf_s() < until:
        found = OneRoleModel(capacity, task, tree, yields, None).solve(
            limits, until - perf_s(), hint
        )
        bound = max(bound, found.bound)
        if found.chosen is not None:
            best = _better(task, best, found.chosen)
        elif found.is_infeasible and best is None:
            return StageDecision(None, 0, is_infeasible=True)
    return StageDecision(best, bound)


def completed(
    capacity: EvictionCapacity, task: StageTask, chosen: Choice, until: float
) -> dict[int, int] | None:
    """Extend evictions that do not suffice until they do, then drop those that are not needed.

    Return None if all candidates do not suffice. After `until` nothing is dropped any more.
    """
    candidates, weights = capacity.problem.candidates, task.weights or {}
    gone = {index: candidates[index].count for index in task.gone}
    leaves = {leaf for index in chosen for leaf in candidates[index].freed}
    others = [index for index in task.decided if chosen.get(index, 0) < candidates[index].count]
    others.sort(key=lambda i: (leaves.isdisjoint(candidates[i].freed), weights.get(i, 0), i))

    def with_first(number: int) -> dict[int, int]:
        return {**chosen, **{index: candidates[index].count for index in others[:number]}}

    low, high = 0, len(others)
    while low < high:
        middle = (low + high) // 2
        if capacity.fits(gone | with_first(middle)):
            high = middle
        else:
            low = middle + 1
    kept = with_first(high)
    if not capacity.fits(gone | kept):
        return None
    for index in sorted(kept, key=lambda i: (-weights.get(i, 0), i)):
        while kept.get(index, 0) and perf_s() < until:
            fewer = {other: n - (other == index) for other, n in kept.items()}
            if not capacity.fits(gone | fewer):
                break
            kept = fewer
    return closed(capacity.problem, {index: times for index, times in kept.items() if times})


def _better(
    task: StageTask, first: dict[int, int] | None, second: dict[int, int]
) -> dict[int, int]:
    weights = task.weights
    if first is None or weights is None:
        return second

    def cost(some: Choice) -> int:
        return sum(weights.get(index, 0) * times for index, times in some.items())

    return first if cost(first) < cost(second) else second
