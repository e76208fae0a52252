"""Tables of the last level: the least cost of n pods on the leaves of one unit, and how they lie.

Without range, partitions and held pods the answer is known: pack fills the largest leaves first,
spread fills like water. Otherwise leaf after leaf is added to the table; only as many leaves as a
group can use take part, the largest ones, because cost depends on the count alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scheduler.solver.costs import NEVER
from scheduler.solver.instance import Rule
from scheduler.solver.tree import Ints, allowed


@dataclass(frozen=True)
class LeafTable:
    """`cost[n]` for n pods under one unit; `steps` are the tables leaf by leaf, when they exist."""

    cost: Ints
    order: Ints
    steps: tuple[Ints, ...] = ()


def by_room(slots: Ints) -> Ints:
    """Return the leaves' positions, the largest first, equal ones in their order."""
    return np.lexsort((np.arange(len(slots)), -slots))


def table(rule: Rule, slots: Ints, held: Ints, unit_cost: Ints, most: int) -> LeafTable:
    """Return the table of one unit for 0 to `most` pods; `unit_cost[k]` is the cost of one leaf."""
    order = by_room(slots)
    if rule.units_per_parent == 0 and rule.min <= 1 and rule.max == 0 and not held.any():
        return LeafTable(_closed(rule, slots[order], unit_cost, most), order)
    least = max(1, rule.min, rule.factor)
    if not held.any():
        order = order[: max(1, most // least)]
    return _stepwise(rule, slots, held, unit_cost, most, order)


def counts(
    rule: Rule, found: LeafTable, slots: Ints, held: Ints, unit_cost: Ints, pods: int
) -> Ints:
    """Return how many pods each leaf takes in a best answer for `pods` (> 0) of one unit."""
    if found.steps:
        return _walk_back(rule, found, slots, held, unit_cost, pods)
    factor = max(1, rule.factor)
    sorted_slots = _limits(rule, slots[found.order]) // factor
    filled = _fill(rule, sorted_slots, pods // factor) * factor
    taken = np.zeros(len(slots), dtype=np.int64)
    taken[found.order] = filled
    return taken


def _limits(rule: Rule, slots: Ints) -> Ints:
    return np.minimum(slots, 1) if rule.is_hard_spread else slots


def _closed(rule: Rule, slots: Ints, unit_cost: Ints, most: int) -> Ints:
    """Return the costs for sorted slots (largest first), by majorisation."""
    factor = max(1, rule.factor)
    room = _limits(rule, slots) // factor
    reach = min(int(room.sum()), most // factor)
    cost = np.full(most + 1, NEVER, dtype=np.int64)
    cost[0] = 0
    if reach:
        costs = unit_cost[::factor]
        steps = _pack(room, costs, reach) if rule.kind == "pack" else _spread(room, costs, reach)
        cost[factor : reach * factor + 1 : factor] = steps
    return cost


def _pack(room: Ints, costs: Ints, reach: int) -> Ints:
    """Return the cost of 1 to `reach` pods, the largest leaves first."""
    ends = np.cumsum(room)
    full = np.concatenate(([0], np.cumsum(costs[room])))
    pods = np.arange(1, reach + 1)
    at = np.searchsorted(ends, pods)
    before = np.concatenate(([0], ends))[at]
    return np.asarray(full[at] + costs[pods - before])


def _spread(room: Ints, costs: Ints, reach: int) -> Ints:
    """Return the cost of 1 to `reach` pods, poured like water."""
    highest = int(room[0])
    leaves = len(room) - np.searchsorted(room[::-1], np.arange(1, highest + 1))
    gains = np.repeat(np.diff(costs[: highest + 1]), leaves)
    return np.asarray(np.cumsum(gains[:reach]))


def _fill(rule: Rule, room: Ints, pods: int) -> Ints:
    """Return the counts on sorted leaves for one number of pods."""
    if rule.kind == "pack":
        before = np.concatenate(([0], np.cumsum(room)[:-1]))
        return np.asarray(np.clip(pods - before, 0, room))
    level = 0
    while int(np.minimum(room, level + 1).sum()) <= pods and level < int(room[0]):
        level += 1
    filled = np.minimum(room, level)
    rest = pods - int(filled.sum())
    filled[np.flatnonzero(room > level)[:rest]] += 1
    return filled


def _options(rule: Rule, slots: int, held: int, most: int) -> list[int]:
    """Return the positive counts that one leaf may take."""
    fits = allowed(rule, min(slots, most))
    return [int(k) for k in np.flatnonzero(fits) if k >= held]


def _stepwise(
    rule: Rule, slots: Ints, held: Ints, unit_cost: Ints, most: int, order: Ints
) -> LeafTable:
    """Add leaf after leaf; row u of a table stands for u used leaves when their number binds."""
    wanted = rule.units_per_parent
    rows = wanted + 1 if wanted else 1
    current = np.full((rows, most + 1), NEVER, dtype=np.int64)
    current[0, 0] = 0
    steps = [current]
    for leaf in order.tolist():
        unused = current if not held[leaf] else np.full_like(current, NEVER)
        after = unused.copy()
        target, source = (after[1:], current[:-1]) if wanted else (after, current)
        for k in _options(rule, int(slots[leaf]), int(held[leaf]), most):
            np.minimum(target[:, k:], source[:, : most + 1 - k] + unit_cost[k], out=target[:, k:])
        after[after > NEVER // 2] = NEVER
        steps.append(after)
        current = after
    cost = current[wanted].copy()
    if not held.any():
        cost[0] = 0
    return LeafTable(cost, order, tuple(steps))


def _walk_back(
    rule: Rule, found: LeafTable, slots: Ints, held: Ints, unit_cost: Ints, pods: int
) -> Ints:
    taken = np.zeros(len(slots), dtype=np.int64)
    row = rule.units_per_parent
    used = 1 if row else 0
    left = pods
    for at in range(len(found.order), 0, -1):
        leaf = int(found.order[at - 1])
        before, value = found.steps[at - 1], found.steps[at][row, left]
        if not held[leaf] and before[row, left] == value:
            continue
        for k in reversed(_options(rule, int(slots[leaf]), int(held[leaf]), left)):
            if row >= used and before[row - used, left - k] + unit_cost[k] == value:
                taken[leaf] = k
                left, row = left - k, row - used
                break
    return taken
