"""The exact program: the best placement of like pods in a tree, by tables added unit by unit.

Polynomial because the costs of units add up: f_v(n) is the least cost of n pods under v. It serves as
oracle, as hint and as the answer when time is short. It does not know rules over sets of leaves
(`Domains`) nor preemption. Of equally good answers it gives the one in which the unit whose name comes
first holds the most pods, from the top level down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from scheduler.base.errors import StateError
from scheduler.solver import leafcosts, minplus
from scheduler.solver.costs import NEVER, Scale
from scheduler.solver.instance import Instance
from scheduler.solver.tree import Ints, Tree, allowed

Late = Callable[[], bool]


def separable(instance: Instance) -> bool:
    """Return whether the exact program covers the instance."""
    return not instance.domains


def work(tree: Tree) -> int:
    """Return about how many sums the program makes; some 300 million a second on one core."""
    total = 0
    for level in range(1, tree.depth):
        most = np.minimum(tree.room[level - 1], tree.size)
        own = np.minimum(tree.room[level], tree.size)
        fold = max(1, tree.rule(level).partitions)
        total += fold * int((most[tree.parents(level)] * own).sum())
    rule = tree.rule(tree.depth)
    if not leafcosts.is_closed(tree):
        choices = int(allowed(rule, tree.size).sum())
        most = np.minimum(tree.room[tree.depth - 1], tree.size)
        leaves = np.minimum(np.diff(tree.starts[tree.depth - 1]), most)
        total += max(1, rule.units_per_parent) * choices * int((most * leaves).sum())
    return total


class Exact:
    """The tables of one tree; made once, then asked for the best answer."""

    def __init__(self, tree: Tree, scale: Scale, late: Late) -> None:
        self._tree = tree
        self._scale = scale
        self._late = late
        self._leaves = leafcosts.tables(tree, scale.unit_costs(tree.depth)[self._last_word])
        self._space = minplus.workspace(tree.size)
        self._steps: dict[tuple[int, int], list[list[Ints]]] = {}
        self._used: dict[tuple[int, int], Ints] = {}

    @property
    def _last_word(self) -> int:
        return self._scale.word_of(self._tree.depth)

    def root(self) -> Ints | None:
        """Return the root's table, None when it is too late."""
        tree = self._tree
        for level in range(tree.depth - 1, 0, -1):
            fits = allowed(tree.rule(level), tree.size)
            fits[0] = True
            costs = self._scale.unit_costs(level)
            for unit in range(tree.units(level)):
                if self._late():
                    return None
                table = self._table(level, unit)
                length = table.shape[1]
                possible = fits[:length] & (table[0] < NEVER // 2)
                self._used[level, unit] = np.where(possible, table + costs[:, :length], NEVER)
        return self._table(0, 0)

    def counts(self) -> Ints:
        """Return the pods on each leaf of the tree for the whole group; `root` was called before."""
        taken = np.zeros(len(self._tree.slots), dtype=np.int64)
        self._place(0, 0, self._tree.size, taken)
        return taken

    def _table(self, level: int, unit: int) -> Ints:
        """Return the least costs of what is below a unit."""
        if level == self._tree.depth - 1:
            return self._above_leaves(unit)
        tree, wanted = self._tree, self._tree.rule(level + 1).units_per_parent
        most = int(min(tree.room[level][unit], tree.size))
        first, last = tree.starts[level][unit : unit + 2].tolist()
        words = self._scale.words
        acc = [minplus.empty(words)] + [minplus.never(words, 0)] * wanted
        steps = self._steps[level, unit] = [acc]
        for child in range(last - 1, first - 1, -1):
            acc = _added(acc, self._used[level + 1, child], most, self._space)
            steps.append(acc)
        table = acc[wanted].copy()
        table[:, :1] = acc[0][:, :1]
        return np.asarray(table)

    def _above_leaves(self, unit: int) -> Ints:
        cost = self._leaves.of(unit)
        table = np.full((self._scale.words, len(cost)), NEVER, dtype=np.int64)
        table[:, cost < NEVER // 2] = 0
        table[self._last_word] = np.minimum(cost, NEVER)
        return table

    def _place(self, level: int, unit: int, pods: int, taken: Ints) -> None:
        if level == self._tree.depth - 1:
            leaves, counts = self._leaves.counts(unit, pods)
            taken[leaves] = counts
            return
        for child, share in self._shares(level, unit, pods):
            self._place(level + 1, child, share, taken)

    def _shares(self, level: int, unit: int, pods: int) -> Iterator[tuple[int, int]]:
        """Yield the children that take pods, the first names as many as a best answer allows."""
        steps = self._steps[level, unit]
        row = wanted = self._tree.rule(level + 1).units_per_parent
        first = int(self._tree.starts[level][unit])
        for at in range(len(steps) - 1, 0, -1):
            child = first + len(steps) - 1 - at
            before = steps[at - 1]
            with_it = before[row - 1] if wanted and row else before[row]
            cost = steps[at][row][:, pods]
            share = _share(self._used[level + 1, child], (with_it, before[row]), cost, pods)
            if share:
                yield child, share
                pods -= share
                row -= 1 if wanted else 0


def _added(acc: list[Ints], child: Ints, most: int, space: Ints) -> list[Ints]:
    """Return the tables with one more child; table u stands for u used children when that binds."""
    if len(acc) == 1:
        return [minplus.merge(acc[0], child, most, space)]
    used = child.copy()
    used[:, 0] = NEVER
    is_forced = bool(child[0, 0] > NEVER // 2)
    unused = [minplus.never(len(child), 0)] * len(acc) if is_forced else acc
    more = (minplus.merge(table, used, most, space) for table in acc[:-1])
    return unused[:1] + [minplus.least(*both) for both in zip(unused[1:], more, strict=True)]


def _share(child: Ints, rests: tuple[Ints, Ints], cost: Ints, pods: int) -> int:
    """Return the largest count of a child with which the rest still reaches the best cost.

    `rests` are the tables of the rest when the child is used and when it is not.
    """
    rest, alone = rests
    least = max(1, pods + 1 - rest.shape[1])
    most = min(pods, child.shape[1] - 1)
    shares = np.arange(least, most + 1)
    sums = child[:, shares] + rest[:, pods - shares]
    reached = np.flatnonzero((sums == cost[:, None]).all(axis=0))
    if len(reached):
        return int(shares[reached[-1]])
    if pods < alone.shape[1] and np.array_equal(child[:, 0] + alone[:, pods], cost):
        return 0
    raise StateError("the exact program cannot retrace its own answer")


def program(tree: Tree, scale: Scale, late: Late = lambda: False) -> Ints | None:
    """Return the pods per leaf of the tree in a best placement.

    An empty array says that there is no placement, None that `late` said so first.
    """
    if int(tree.room[0][0]) < tree.size:
        return np.zeros(0, dtype=np.int64)
    tables = Exact(tree, scale, late)
    root = tables.root()
    if root is None:
        return None
    if root.shape[1] <= tree.size or root[0, tree.size] > NEVER // 2:
        return np.zeros(0, dtype=np.int64)
    return tables.counts()
