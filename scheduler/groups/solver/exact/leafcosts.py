"""Cost tables of the last level: the least cost of n pods on the leaves of one unit.

Computed for all units above the leaves at once. Without range, partitions and fixed pods the
optimum is known: pack fills the largest leaves first, spread fills all evenly. Otherwise leaves are
added to the tables one by one, the largest first and no more than a group can use, because costs
depend on counts alone.
"""

from dataclasses import dataclass

import numpy as np

from scheduler.groups.problem.instance import LevelRule
from scheduler.groups.solver.costs import NEVER, measures
from scheduler.groups.solver.tree import Bools, Ints, Tree, allowed

# The measures for which the optimum fills the largest leaves first, or all leaves evenly.
_FILLED = (("units", "large"), ("pairs",))


@dataclass(frozen=True)
class LeafTables:
    """`cost[u, n]` is the least cost of n pods under unit u, for n up to `most[u]`, or NEVER.

    `order` has the leaves by unit, then by capacity, the largest first. `steps`, if the tables were
    computed leaf by leaf, has one table [unit, used leaves, pods] per leaf.
    """

    tree: Tree
    unit_cost: Ints
    most: Ints
    cost: Ints
    order: Ints
    steps: tuple[Ints, ...] = ()

    def needless(self, parents: Ints) -> Bools:
        """Return which units are redundant because of earlier identical siblings.

        A group of n pods uses at most n units; of identical ones those with the first names.
        """
        kind = np.unique(self.cost, axis=0, return_inverse=True)[1].reshape(-1)
        kind = kind * (int(parents.max(initial=0)) + 1) + parents
        order = np.argsort(kind, kind="stable")
        first = np.searchsorted(kind[order], kind[order], side="left")
        nth = np.empty(len(kind), dtype=np.int64)
        nth[order] = np.arange(len(kind)) - first
        may_be_empty = self.cost[:, 0] == 0
        return np.asarray(may_be_empty & (nth >= self.tree.size))

    def of(self, unit: int) -> Ints:
        """Return the costs of one unit by pods."""
        return self.cost[unit, : int(self.most[unit]) + 1]

    def rows(self, unit: int) -> list[Ints]:
        """Return the costs of one unit, one row per number of used leaves if that is restricted."""
        wanted = self.tree.used_below(self.tree.depth - 1)
        if not wanted:
            return [self.of(unit)]
        length = int(self.most[unit]) + 1
        return [self.steps[-1][unit, row, :length] for row in range(wanted + 1)]

    def counts(self, unit: int, pods: int, used: int) -> tuple[Ints, Ints]:
        """Return a unit's leaves and their pods in an optimum of `pods` (> 0) pods.

        `used` is the required number of leaves with pods, 0 for any number.
        """
        first, last = self.tree.starts[self.tree.depth - 1][unit : unit + 2].tolist()
        leaves = self.order[first:last]
        rule = self.tree.rule(self.tree.depth)
        if self.steps:
            return leaves, self._walk_back(unit, leaves, pods, used)
        factor = rule.factor
        capacity = _limits(rule, self.tree.slots[leaves]) // factor
        return leaves, _fill(rule, capacity, pods // factor) * factor

    def _walk_back(self, unit: int, leaves: Ints, pods: int, row: int) -> Ints:
        tree, rule = self.tree, self.tree.rule(self.tree.depth)
        taken = np.zeros(len(leaves), dtype=np.int64)
        used = 1 if rule.units_per_parent else 0
        left = pods
        for at in range(min(len(leaves), len(self.steps) - 1) - 1, -1, -1):
            leaf = int(leaves[at])
            fixed = int(tree.fixed[leaf])
            before, value = self.steps[at][unit], self.steps[at + 1][unit, row, left]
            if not fixed and before[row, left] == value:
                continue
            for k in reversed(_options(rule, int(tree.slots[leaf]), fixed, left)):
                if row >= used and before[row - used, left - k] + self.unit_cost[k] == value:
                    taken[at] = k
                    left, row = left - k, row - used
                    break
        return taken


def tables(tree: Tree, unit_cost: Ints) -> LeafTables:
    """Return the tables of all units above the leaves; `unit_cost[k]` is the cost of one leaf."""
    rule = tree.rule(tree.depth)
    most = np.minimum(tree.capacity[tree.depth - 1], tree.size)
    units = tree.parents(tree.depth)
    order = np.lexsort((-tree.slots, units))
    if is_closed(tree):
        return LeafTables(tree, unit_cost, most, _closed(tree, order, unit_cost, most), order)
    steps = _stepwise(tree, order, unit_cost, most)
    cost = steps[-1][:, rule.units_per_parent].copy()
    cost[~_have_fixed(tree), 0] = 0
    return LeafTables(tree, unit_cost, most, cost, order, steps)


def is_closed(tree: Tree) -> bool:
    """Return whether the costs of the last level follow from a formula, without a step per leaf."""
    # For other measures the optimum need not fill leaves by capacity or evenly.
    if tuple(name for name, _ in measures(tree, tree.depth)) not in _FILLED:
        return False
    rule = tree.rule(tree.depth)
    is_plain = rule.units_per_parent == 0 and rule.min <= 1
    return is_plain and rule.numbers().keys() <= {"min", "factor"} and not tree.fixed.any()


def _have_fixed(tree: Tree) -> Bools:
    starts = tree.starts[tree.depth - 1]
    before = np.concatenate(([0], np.cumsum(tree.fixed)))
    return np.asarray(before[starts[1:]] > before[starts[:-1]])


def _limits(rule: LevelRule, slots: Ints) -> Ints:
    return np.minimum(slots, 1) if rule.is_hard_spread else slots


def _closed(tree: Tree, order: Ints, unit_cost: Ints, most: Ints) -> Ints:
    """Return the costs by a formula: leaves are filled in a fixed order (majorization)."""
    rule = tree.rule(tree.depth)
    factor = rule.factor
    widths = np.diff(tree.starts[tree.depth - 1])
    capacity = _limits(rule, tree.slots[order]) // factor
    if rule.kind == "pack":
        runs = _cut(widths, capacity, most // factor)
        nth = _within(runs)
    else:
        highest = max(1, int(capacity.max()))
        leaves = _above(np.repeat(np.arange(len(most)), widths), capacity, highest)
        widths = np.full(len(most), highest)
        runs = _cut(widths, leaves.ravel(), most // factor)
        nth = np.repeat(np.tile(np.arange(highest), len(most)), runs)
    units = np.repeat(np.repeat(np.arange(len(most)), widths), runs)
    leaves_by_unit = np.bincount(units, minlength=len(most))
    gained = np.concatenate(([0], np.cumsum(np.diff(unit_cost[::factor])[nth])))
    first = np.repeat(gained[np.cumsum(leaves_by_unit) - leaves_by_unit], leaves_by_unit)
    cost = np.full((len(most), int(most.max()) + 1), NEVER, dtype=np.int64)
    cost[:, 0] = 0
    cost[units, (_within(leaves_by_unit) + 1) * factor] = gained[1:] - first
    return cost


def _within(runs: Ints) -> Ints:
    """Return the position of each step within its run; `widths` has the lengths of the runs."""
    return np.asarray(np.arange(int(runs.sum())) - np.repeat(np.cumsum(runs) - runs, runs))


def _above(units: Ints, capacity: Ints, highest: int) -> Ints:
    """Return [unit, k]: how many leaves of a unit have capacity for more than k pods.

    k runs from 0 to `highest` - 1.
    """
    number = int(units[-1]) + 1
    cells = np.bincount(units * (highest + 1) + capacity, minlength=number * (highest + 1))
    exactly = cells.reshape(number, highest + 1)
    return np.asarray(np.cumsum(exactly[:, :0:-1], axis=1)[:, ::-1])


def _cut(widths: Ints, runs: Ints, most: Ints) -> Ints:
    """Return the steps of each unit, `widths` of them, cut after `most` steps."""
    ends = np.cumsum(runs)
    first = np.cumsum(widths) - widths
    base = np.repeat(np.concatenate(([0], ends))[first], widths)
    limit = np.repeat(most, widths)
    return np.asarray(np.minimum(ends - base, limit) - np.minimum(ends - runs - base, limit))


def _fill(rule: LevelRule, capacity: Ints, pods: int) -> Ints:
    """Return the counts on leaves, sorted by capacity, for a number of pods."""
    if rule.kind == "pack":
        before = np.concatenate(([0], np.cumsum(capacity)[:-1]))
        return np.asarray(np.clip(pods - before, 0, capacity))
    level = 0
    while int(np.minimum(capacity, level + 1).sum()) <= pods and level < int(capacity[0]):
        level += 1
    filled = np.minimum(capacity, level)
    rest = pods - int(filled.sum())
    filled[np.flatnonzero(capacity > level)[:rest]] += 1
    return filled


def _options(rule: LevelRule, slots: int, fixed: int, most: int) -> list[int]:
    """Return the positive counts that one leaf may take."""
    fits = allowed(rule, min(slots, most))
    return [int(k) for k in np.flatnonzero(fits) if k >= fixed]


def _stepwise(tree: Tree, order: Ints, unit_cost: Ints, most: Ints) -> tuple[Ints, ...]:
    """Return the tables after each leaf, the largest leaf of every unit first.

    Row u is for u used leaves if their number is restricted.
    """
    rule = tree.rule(tree.depth)
    starts = tree.starts[tree.depth - 1]
    wanted = rule.units_per_parent
    current = np.full((len(most), wanted + 1, int(most.max()) + 1), NEVER, dtype=np.int64)
    current[:, 0, 0] = 0
    steps = [current]
    widths = np.diff(starts)
    useful = np.maximum(1, most // max(rule.min, rule.factor))
    widths = np.where(_have_fixed(tree), widths, np.minimum(widths, useful))
    counts = _options(rule, int(tree.slots.max()), 0, current.shape[2] - 1)
    for at in range(int(widths.max())):
        has_leaf = at < widths
        leaf = order[np.where(has_leaf, starts[:-1] + at, 0)]
        slots, fixed = tree.slots[leaf] * has_leaf, tree.fixed[leaf] * has_leaf
        after = current.copy()
        after[fixed > 0] = NEVER
        target, source = (after[:, 1:], current[:, :-1]) if wanted else (after, current)
        for k in counts:
            fits = (k <= slots) & (k >= fixed)
            if not fits.any():
                continue
            these = slice(None) if fits.all() else np.flatnonzero(fits)
            more = source[these, :, : source.shape[2] - k] + unit_cost[k]
            target[these, :, k:] = np.minimum(target[these, :, k:], more)
        after[after > NEVER // 2] = NEVER
        steps.append(after)
        current = after
    return tuple(steps)
