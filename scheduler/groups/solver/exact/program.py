"""The exact program: the best placement of identical pods in a tree, by dynamic programming.

Costs of units add up: f_v(n), the least cost of n pods below v, follows from those of v's children,
in polynomial time. Rules over sets of leaves are levels of the tree
(scheduler.groups.solver.exact.layers). It does no preemption. Of equally good placements it returns
the one with the most pods in the units with the first names, from the top level down.
"""

from collections.abc import Callable, Iterator

import numpy as np

from scheduler.base.errors import StateError
from scheduler.groups.solver.costs import NEVER, StageScale
from scheduler.groups.solver.exact import leafcosts, minplus
from scheduler.groups.solver.exact.layers import Layers, Masks
from scheduler.groups.solver.tree import Bools, Ints, Tree, allowed

MERGE = 20_000  # the overhead of merging one child, in sums

Late = Callable[[float], bool]  # called with the finished share of the work, 0 to 1


def work(tree: Tree) -> list[int]:
    """Return an estimate of the program's sums by level from the root.

    It computes 300 to 600 million sums a second.
    """
    found = []
    for level in range(1, tree.depth):
        most = np.minimum(tree.capacity[level - 1], tree.size)
        own = np.minimum(tree.capacity[level], tree.size)
        fold = max(1, tree.used_below(level - 1))
        found.append(fold * int((most[tree.parents(level)] * own + MERGE).sum()))
    rule = tree.rule(tree.depth)
    total = len(tree.slots)
    if not leafcosts.is_closed(tree):
        choices = int(allowed(rule, tree.size).sum())
        most = np.minimum(tree.capacity[tree.depth - 1], tree.size)
        leaves = np.minimum(np.diff(tree.starts[tree.depth - 1]), most)
        total += max(1, rule.units_per_parent) * choices * int((most * leaves).sum())
    return [*found, total]


class Exact:
    """The tables of one tree: `root` for each choice of masks, then `counts` for the best.

    A unit's table is a list of rows of costs by pods. A bare unit has one row per number of used
    units below it if that number is restricted; every other unit has one row.
    """

    def __init__(self, layers: Layers, scale: StageScale, late: Late) -> None:
        self._tree = tree = layers.tree
        self._scale = scale
        self._late = late
        *above, leaves = work(tree)
        self._done, self._all = leaves, max(1, leaves + sum(above))
        self._leaves = leafcosts.tables(tree, scale.unit_costs(tree.depth)[self._last_word])
        self._space = minplus.workspace(tree.size)
        self._steps: dict[tuple[int, int], list[list[Ints]]] = {}
        self._used: dict[tuple[int, int], list[Ints]] = {}
        self._made_from = tree.depth  # tables of this level and below are valid for all choices
        self._needless: dict[int, Bools] = {}
        if tree.depth > 1 and not tree.bare:
            self._needless[tree.depth - 1] = self._leaves.needless(tree.parents(tree.depth - 1))

    @property
    def _last_word(self) -> int:
        return self._scale.word_of(self._tree.depth)

    def root(self, masks: Masks) -> Ints | None:
        """Return the root's table under one choice of masks, None after the deadline."""
        tree = self._tree
        for level in range(self._made_from - 1, 0, -1):
            fits = allowed(tree.rule(level), tree.size)
            fits[0] = True
            costs = self._scale.unit_costs(level)
            for unit in self._needed(level, 0, tree.units(level)):
                rows = self._table(level, unit)
                if rows is None:
                    return None
                here = fits
                if level in masks:
                    mask = masks[level][unit]
                    here = fits[: len(mask)] & mask
                self._used[level, unit] = [_among(row, here, costs) for row in rows]
        # Tables below the lowest bare level do not depend on the choice.
        self._made_from = min(self._made_from, 1 + max(tree.bare, default=0))
        table = self._table(0, 0)
        return None if table is None else table[0]

    def counts(self, pods: int) -> Ints:
        """Return the pods on each leaf in an optimum of `pods` pods; call `root` first."""
        taken = np.zeros(len(self._tree.slots), dtype=np.int64)
        self._place(0, 0, pods, self._tree.used_below(0), taken)
        return taken

    def _table(self, level: int, unit: int) -> list[Ints] | None:
        """Return the least costs of the units below a unit; None after the deadline."""
        tree, wanted = self._tree, self._tree.used_below(level)
        if level == tree.depth - 1:
            rows = self._above_leaves(unit)
        else:
            most = int(min(tree.capacity[level][unit], tree.size))
            first, last = tree.starts[level][unit : unit + 2].tolist()
            words = self._scale.words
            acc = [minplus.empty(words)] + [minplus.never(words, 0)] * wanted
            steps = self._steps[level, unit] = [acc]
            is_bare = level + 1 in tree.bare
            for child in reversed(self._needed(level + 1, first, last)):
                if self._is_late(level, most, child):
                    return None
                tables = self._used[level + 1, child]
                if is_bare and wanted:
                    acc = _joined(acc, tables, most, self._space)
                else:
                    acc = _added(acc, tables[0], most, self._space)
                steps.append(acc)
            rows = acc
        if level in tree.bare or not wanted:
            return rows
        table = rows[wanted].copy()
        table[:, :1] = rows[0][:, :1]
        return [table]

    def _needed(self, level: int, first: int, last: int) -> list[int]:
        """Return the units from `first` to `last` - 1 without redundant ones."""
        needless = self._needless.get(level)
        if needless is None:
            return list(range(first, last))
        return [first + at for at in np.flatnonzero(~needless[first:last]).tolist()]

    def _is_late(self, level: int, most: int, child: int) -> bool:
        own = int(min(self._tree.capacity[level + 1][child], self._tree.size))
        self._done += max(1, self._tree.used_below(level)) * (most * own + MERGE)
        return self._late(self._done / self._all)

    def _above_leaves(self, unit: int) -> list[Ints]:
        rows = self._leaves.rows(unit)
        return [self._in_words(cost) for cost in rows]

    def _in_words(self, cost: Ints) -> Ints:
        table = np.full((self._scale.words, len(cost)), NEVER, dtype=np.int64)
        table[:, cost < NEVER] = 0
        table[self._last_word] = cost
        return table

    def _place(self, level: int, unit: int, pods: int, used: int, taken: Ints) -> None:
        """Write into `taken` an optimum of `pods` pods below a unit, in `used` units if set."""
        tree = self._tree
        if level == tree.depth - 1:
            leaves, counts = self._leaves.counts(unit, pods, used)
            taken[leaves] = counts
            return
        below = tree.used_below(level + 1) if level + 1 < tree.depth else 0
        is_bare = level + 1 in tree.bare
        for child, share, row in self._shares(level, unit, pods, used):
            self._place(level + 1, child, share, row if is_bare else below, taken)

    def _shares(self, level: int, unit: int, pods: int, row: int) -> Iterator[tuple[int, int, int]]:
        """Yield (child, pods, used units) of an optimum; the first names take as many as possible.

        The used units of a child are 0 unless it is bare and their number is restricted.
        """
        steps = self._steps[level, unit]
        wanted = self._tree.used_below(level)
        is_bare = level + 1 in self._tree.bare
        children = self._needed(level + 1, *self._tree.starts[level][unit : unit + 2].tolist())
        for at, child in zip(range(len(steps) - 1, 0, -1), children, strict=True):
            tables, before = self._used[level + 1, child], steps[at - 1]
            cost = steps[at][row][:, pods]
            if is_bare and wanted:
                choices = [(table, before[row - s], s) for s, table in enumerate(tables[: row + 1])]
            elif wanted and row:
                choices = [(tables[0], before[row - 1], 1)]
            else:
                choices = [(tables[0], before[row], 0)]
            share, used = _share(choices, (tables[0], before[row]), cost, pods)
            if share:
                yield child, share, used
                pods -= share
                row -= used


def _among(table: Ints, fits: Bools, costs: Ints) -> Ints:
    """Return a table plus the costs of the unit itself; counts that it may not hold are NEVER."""
    length = table.shape[1]
    possible = fits[:length] & (table[0] < NEVER // 2)
    return np.where(possible, table + costs[:, :length], NEVER)


def _added(acc: list[Ints], child: Ints, most: int, space: Ints) -> list[Ints]:
    """Return the tables with one more child; row u is for u used children if that is restricted."""
    if len(acc) == 1:
        return [minplus.merge(acc[0], child, most, space)]
    used = child.copy()
    used[:, 0] = NEVER
    is_forced = bool(child[0, 0] > NEVER // 2)
    unused = [minplus.never(len(child), 0)] * len(acc) if is_forced else acc
    more = (minplus.merge(table, used, most, space) for table in acc[:-1])
    return unused[:1] + [minplus.least(*both) for both in zip(unused[1:], more, strict=True)]


def _joined(acc: list[Ints], child: list[Ints], most: int, space: Ints) -> list[Ints]:
    """Return the tables with one more bare child, whose used units add to those of the others."""
    found = []
    for row in range(len(acc)):
        choices = [
            minplus.merge(acc[row - used], table, most, space)
            for used, table in enumerate(child[: row + 1])
        ]
        best = choices[0]
        for choice in choices[1:]:
            best = minplus.least(best, choice)
        found.append(best)
    return found


def _share(
    choices: list[tuple[Ints, Ints, int]], unused: tuple[Ints, Ints], cost: Ints, pods: int
) -> tuple[int, int]:
    """Return the largest count of a child, and its used units, with which the total is optimal.

    `choices` are (the child's table, the table of the rest, used units of the child); `unused` are
    both tables for a child without pods.
    """
    found = (0, 0)
    for child, rest, used in choices:
        least = max(1, pods + 1 - rest.shape[1])
        shares = np.arange(least, min(pods, child.shape[1] - 1) + 1)
        sums = child[:, shares] + rest[:, pods - shares]
        reached = np.flatnonzero((sums == cost[:, None]).all(axis=0))
        if len(reached) and int(shares[reached[-1]]) > found[0]:
            found = (int(shares[reached[-1]]), used)
    if found[0]:
        return found
    child, alone = unused
    if pods < alone.shape[1] and np.array_equal(child[:, 0] + alone[:, pods], cost):
        return 0, 0
    raise StateError("the exact program cannot retrace its own answer")


def program(layers: Layers, scale: StageScale, late: Late = lambda _: False) -> Ints | None:
    """Return the pods per leaf of the tree in a best placement.

    The array is empty if no placement exists; the result is None if `late` returned true first.
    """
    tree = layers.tree
    nothing = np.zeros(0, dtype=np.int64)
    if int(tree.capacity[0][0]) < tree.least:
        return nothing
    tables = Exact(layers, scale, late)
    best: tuple[list[int], list[int], Ints] | None = None
    for masks in layers.choices():
        root = tables.root(masks)
        if root is None:
            return None
        found = _best(tree, scale, root)
        if found is None or (best is not None and found[1] > best[0]):
            continue
        counts = tables.counts(found[0])
        chosen = (found[1], (-counts).tolist(), counts)
        if best is None or chosen[:2] < best[:2]:
            best = chosen
    return nothing if best is None else best[2]


def _best(tree: Tree, scale: StageScale, root: Ints) -> tuple[int, list[int]] | None:
    """Return the best number of pods and the values of all stages; None if none is possible."""
    pods = np.flatnonzero(root[0] < NEVER // 2)
    pods = pods[pods >= tree.least]
    if not len(pods):
        return None
    values = scale.stages(root[:, pods], pods)
    if tree.least < tree.size:
        left_out = tree.size - pods
        values = [*values, left_out] if tree.levels_first else [left_out, *values]
    first = int(np.lexsort(values[::-1])[0])
    return int(pods[first]), [int(value[first]) for value in values]
