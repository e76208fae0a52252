"""The relaxed model of a victim search stage for one role, and rows that tighten its bound.

Leaves with candidates are merged per unit, until a solution shows that a merged leaf was
overestimated. Implied rows state how much capacity the evictions have to free; without them the
solver proves little. Loaded only in the solver process.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from scheduler.groups.solver.costs import NEVER
from scheduler.groups.solver.cpsat import cells
from scheduler.groups.solver.tree import Bools, Tree
from scheduler.groups.solver.victims.covers import Covers
from scheduler.groups.solver.victims.freed import EvictionCapacity
from scheduler.groups.solver.victims.model import EvictionModel, StageTask
from scheduler.groups.solver.victims.yields import Group, Term, Yields


class OneRoleModel:
    """The model of one stage for one role; `alone` are the leaves that are not merged.

    None for `alone`: no leaf is merged.
    """

    def __init__(
        self,
        capacity: EvictionCapacity,
        task: StageTask,
        tree: Tree,
        yields: Yields,
        alone: set[int] | None,
    ) -> None:
        self._tree, self._yields = tree, yields
        self._candidates = capacity.problem.candidates
        self._rows: list[int] = tree.leaf.tolist()
        self._together: dict[tuple[int, ...], Any] = {}
        touched = {leaf for leaf, terms in yields.terms.items() if terms}
        own = touched if alone is None else alone
        is_alone = np.array([leaf in own for leaf in self._rows], dtype=np.bool_)
        sums = () if alone is None else _by_unit(tree, ~is_alone)
        layout = cells.mixed(capacity.group(yields.base), tree, is_alone, sums)
        self._model = EvictionModel(
            capacity.problem, task, layout, capacity.problem.instance.domains
        )
        self.solve = self._model.solve
        self._limit_sums(layout)
        self._implied()

    def _term(self, group: tuple[int, ...]) -> Any:
        """Return a variable that is 1 if all candidates of a group are evicted."""
        if len(group) == 1:
            return self._model.choice[group[0]]
        if group not in self._together:
            both = self._model.cp.new_bool_var("")
            choices = [self._model.choice[index] for index in group]
            for one in choices:
                self._model.cp.add(both <= one)
            self._model.cp.add(both >= sum(choices) - len(group) + 1)
            self._together[group] = both
        return self._together[group]

    def _gained(self, leaves: Iterable[int], terms: dict[int, list[Term]]) -> dict[Group, int]:
        """Return how much capacity on `leaves` is freed by evicting each set of candidates."""
        gains: dict[Group, int] = defaultdict(int)
        for leaf in leaves:
            for gain, group in terms[leaf]:
                gains[group] += gain
        return gains

    def _sum(self, gains: dict[Group, int], most: int) -> Any:
        """Return the sum of gains as an expression; each gain counts up to `most`."""
        return sum(min(most, gain) * self._term(group) for group, gain in gains.items() if gain)

    def _limit_sums(self, layout: cells.Layout) -> None:
        """Limit the pods of merged leaves to their free capacity plus what evictions free."""
        tree, last = self._tree, self._tree.depth - 1
        for number, cell in enumerate(layout.cells):
            if not cell.is_sum:
                continue
            now = sum(self._yields.now[leaf] for leaf in cell.leaves)
            in_use = self._model.group.used[last][self._model.group.parents[number]]
            gained = self._sum(self._gained(cell.leaves, self._yields.terms), tree.size)
            self._model.cp.add(self._model.group.cells[number].pods <= now * in_use + gained)

    def _implied(self) -> None:
        """Limit the pods of each unit to its free capacity plus what evictions free there."""
        tree = self._tree
        unit_of = np.arange(len(self._rows))
        for level in range(tree.depth - 1, -1, -1):
            unit_of = tree.parents(level + 1)[unit_of]
            below: list[list[int]] = [[] for _ in range(tree.units(level))]
            for leaf, unit in zip(self._rows, unit_of.tolist(), strict=True):
                below[unit].append(leaf)
            free = [sum(self._yields.now[leaf] for leaf in leaves) for leaves in below]
            gained = [self._gained(leaves, self._yields.upper) for leaves in below]
            for unit, pods in enumerate(self._model.group.pods[level]):
                used, most = self._model.group.used[level][unit], int(tree.capacity[level][unit])
                self._model.cp.add(free[unit] * used + self._sum(gained[unit], most) >= pods)
            if level <= 1:
                self._covered(level, free, gained)

    def _covered(self, level: int, free: list[int], gained: list[dict[Group, int]]) -> None:
        """Bound the objective by the cost of freeing enough capacity in the units that take the
        group.

        Level 0 is the root. On level 1 the rule states how many units are used; every such set of
        units has its own bound.
        """
        weights, tree = self._model.task.weights, self._tree
        together = tree.rule(1).units_per_parent if level else 1
        if weights is None or together == 0:
            return
        counts = {index: one.count for index, one in enumerate(self._candidates)}
        covers = Covers([{who[0]: gain for who, gain in one.items()} for one in gained], counts)
        sets = covers.sets(together, tree.size)
        needed = tree.least - np.array(free, dtype=np.int64)[sets].sum(axis=1)
        used = self._model.group.used[level]

        def rows(these: Bools) -> Iterator[list[Any]]:
            return (
                [used[unit] for unit in units] if level else [] for units in sets[these].tolist()
            )

        open_ones = np.ones(len(sets), dtype=np.bool_)
        least = np.zeros(len(sets), dtype=np.int64)
        for kept, value in (*self._model.task.frozen, (weights, NEVER - 1)):
            least[open_ones] = covers.least(sets[open_ones], needed[open_ones], kept)
            open_ones &= least <= value
        for all_used in rows(~open_ones):
            self._model.cp.add_bool_or([~one for one in all_used])
        for all_used, cost in zip(rows(open_ones), least[open_ones].tolist(), strict=True):
            self._model.cp.add(self._model.goal >= cost).only_enforce_if(all_used)


def _by_unit(tree: Tree, among: Bools) -> list[list[int]]:
    """Return the positions of these leaves, grouped by the unit above them."""
    starts = tree.starts[tree.depth - 1].tolist()
    units = ([at for at in range(*ends) if among[at]] for ends in itertools.pairwise(starts))
    return [positions for positions in units if positions]
