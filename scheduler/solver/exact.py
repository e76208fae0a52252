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
from scheduler.solver.leafcosts import LeafTable
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
    if rule.units_per_parent or rule.min > 1 or rule.max or tree.held.any():
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
        self._costs = {level: scale.unit_costs(level) for level in range(1, tree.depth + 1)}
        self._leaf_tables: dict[bytes, LeafTable] = {}
        self._steps: dict[tuple[int, int], list[list[Ints]]] = {}
        self._tables: dict[tuple[int, int], Ints] = {}

    def root(self) -> Ints | None:
        """Return the root's table, None when it is too late."""
        tree = self._tree
        for level in range(tree.depth - 1, -1, -1):
            for unit in range(tree.units(level)):
                if self._late():
                    return None
                self._tables[level, unit] = self._table(level, unit)
        return self._tables[0, 0]

    def counts(self) -> Ints:
        """Return the pods on each leaf of the tree for the whole group; `root` was called before."""
        taken = np.zeros(len(self._tree.slots), dtype=np.int64)
        self._place(0, 0, self._tree.size, taken)
        return taken

    def _table(self, level: int, unit: int) -> Ints:
        if level == self._tree.depth - 1:
            return self._above_leaves(unit)
        tree, rule = self._tree, self._tree.rule(level + 1)
        most = int(min(tree.room[level][unit], tree.size))
        first, last = tree.starts[level][unit : unit + 2].tolist()
        wanted = rule.units_per_parent
        words = self._scale.words
        acc = [minplus.empty(words, 0)] + [minplus.never(words, 0)] * wanted
        steps = [acc]
        for child in range(last - 1, first - 1, -1):
            acc = _added(acc, self._used(level + 1, child), most)
            steps.append(acc)
        self._steps[level, unit] = steps
        table = acc[wanted].copy()
        if wanted:
            table[:, :1] = acc[0][:, :1]
        return table

    def _used(self, level: int, unit: int) -> Ints:
        """Return a unit's table with its own cost and only with the counts that it may hold."""
        table = self._tables[level, unit]
        pods = table.shape[1] - 1
        fits = allowed(self._tree.rule(level), pods)
        fits[0] = True
        fits &= table[0] < NEVER // 2
        return np.where(fits, table + self._costs[level][:, : pods + 1], NEVER)

    def _above_leaves(self, unit: int) -> Ints:
        found = self._leaf_table(unit)
        word = self._scale.word_of(self._tree.depth)
        table = np.zeros((self._scale.words, len(found.cost)), dtype=np.int64)
        table[word] = found.cost
        table[:, table[word] > NEVER // 2] = NEVER
        return table

    def _leaf_table(self, unit: int) -> LeafTable:
        """Return the table of a unit's leaves; units with the same room share one."""
        tree = self._tree
        here = self._leaves(unit)
        slots, held = tree.slots[here], tree.held[here]
        most = int(min(tree.room[tree.depth - 1][unit], tree.size))
        cost = self._leaf_costs()
        if held.any():
            return leafcosts.table(tree.rule(tree.depth), slots, held, cost, most)
        key = np.sort(slots).tobytes()
        found = self._leaf_tables.get(key)
        if found is None:
            found = leafcosts.table(tree.rule(tree.depth), slots, held, cost, most)
            self._leaf_tables[key] = found
        return LeafTable(found.cost, leafcosts.by_room(slots)[: len(found.order)], found.steps)

    def _leaf_costs(self) -> Ints:
        depth = self._tree.depth
        return np.asarray(self._costs[depth][self._scale.word_of(depth)])

    def _leaves(self, unit: int) -> slice:
        first, last = self._tree.starts[self._tree.depth - 1][unit : unit + 2].tolist()
        return slice(first, last)

    def _place(self, level: int, unit: int, pods: int, taken: Ints) -> None:
        if level == self._tree.depth - 1:
            here = self._leaves(unit)
            taken[here] = leafcosts.counts(
                self._tree.rule(self._tree.depth),
                self._leaf_table(unit),
                self._tree.slots[here],
                self._tree.held[here],
                self._leaf_costs(),
                pods,
            )
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
            table = self._used(level + 1, child)
            share = _share(table, steps[at - 1], steps[at][row], row if wanted else -1, pods)
            if share:
                yield child, share
                pods -= share
                row -= 1 if wanted else 0


def _added(acc: list[Ints], child: Ints, most: int) -> list[Ints]:
    """Return the tables with one more child; table u stands for u used children when that binds."""
    if len(acc) == 1:
        return [minplus.merge(acc[0], child, most)]
    used = child.copy()
    used[:, 0] = NEVER
    is_forced = bool(child[0, 0] > NEVER // 2)
    after = []
    for row, table in enumerate(acc):
        unused = np.full_like(table, NEVER) if is_forced else table
        more = minplus.merge(acc[row - 1], used, most) if row else unused
        after.append(minplus.least(unused, more))
    return after


def _share(child: Ints, before: list[Ints], after: Ints, row: int, pods: int) -> int:
    """Return the largest count of a child with which the rest still reaches the best cost."""
    for share in range(min(pods, child.shape[1] - 1), -1, -1):
        if child[0, share] > NEVER // 2:
            continue
        rest = before[0] if row < 0 else before[row - (1 if share else 0)]
        if row == 0 and share:
            continue
        left = pods - share
        if left < rest.shape[1] and np.array_equal(child[:, share] + rest[:, left], after[:, pods]):
            return share
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
