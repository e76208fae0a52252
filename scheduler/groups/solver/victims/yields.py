"""The capacity of each leaf as a sum of terms over the candidates that are evicted from it.

What several groups free on a leaf is not additive: two halves of a member's request free one slot
only together. Up to EXACT_GROUPS candidates on a leaf are exact, with terms for joint evictions.
More are an upper bound, and the leaf is listed as inexact. Used by
scheduler.groups.solver.victims.tightening.
"""

import itertools
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from scheduler.groups.solver.tree import Ints, Tree, floors
from scheduler.groups.solver.victims.freed import Choice, EvictionCapacity

Group = tuple[int, ...]
Term = tuple[int, Group]  # a gain in pods, and the candidates that must all be evicted for it
EXACT_GROUPS = 3


class Yields:
    """The capacity of every leaf in pods that its rule allows: free now, and added by evictions."""

    def __init__(
        self, capacity: EvictionCapacity, tree: Tree, decided: Sequence[int], gone: Sequence[int]
    ) -> None:
        self._capacity = capacity
        self._tree = tree
        self._candidates = capacity.problem.candidates
        self._floor = floors(tree.rule(tree.depth), tree.size).tolist()
        self.base: Ints = capacity.free.copy()
        for index in gone:
            for leaf, amounts in self._candidates[index].freed.items():
                freed = np.array(amounts, dtype=np.int64)
                self.base[leaf] += self._candidates[index].count * freed
        self._need = [(at, need) for at, need in enumerate(capacity.need.tolist()) if need > 0]
        on_leaf: dict[int, list[int]] = defaultdict(list)
        for index in decided:
            for leaf in self._candidates[index].freed:
                on_leaf[leaf].append(index)
        self.now: dict[int, int] = {}
        self.terms: dict[int, list[Term]] = {}
        self.upper: dict[int, list[Term]] = {}  # terms of single candidates, an upper bound
        self.inexact: set[int] = set()
        whole = np.minimum(capacity.slots(self.base) + capacity.fixed, tree.size)
        now = np.array(self._floor)[whole].tolist()
        for leaf in tree.leaf.tolist():
            self.now[leaf] = now[leaf]
            if leaf not in on_leaf:
                self.upper[leaf] = self.terms[leaf] = []
                continue
            self.upper[leaf] = self._upper(leaf, on_leaf.get(leaf, []))
            self.terms[leaf] = self._terms(leaf, on_leaf.get(leaf, []))

    def capacity_at(self, leaf: int, evicted: Choice) -> int:
        """Return how many pods a leaf holds after these evictions, under its rule."""
        free = self.base[leaf].tolist()
        for index, times in evicted.items():
            amounts = self._candidates[index].freed.get(leaf)
            if amounts is not None:
                free = [have + times * more for have, more in zip(free, amounts, strict=True)]
        fits = min((max(0, free[at]) // need for at, need in self._need), default=self._tree.size)
        whole = min(fits, self._capacity.limit(leaf)) + int(self._capacity.fixed[leaf])
        return int(self._floor[min(whole, self._tree.size)])

    def modelled_capacity(self, leaf: int, evicted: Choice) -> int:
        """Return the capacity of a leaf after these evictions by the terms of the model."""
        total = self.now[leaf]
        for gain, group in self.terms[leaf]:
            total += gain * int(np.prod([evicted.get(index, 0) for index in group]))
        return total

    def _terms(self, leaf: int, indices: list[int]) -> list[Term]:
        if not indices:
            return []
        if len(indices) > EXACT_GROUPS or any(self._candidates[i].count > 1 for i in indices):
            self.inexact.add(leaf)
            return self.upper[leaf]
        gains: dict[Group, int] = {(): self.now[leaf]}
        for number in range(1, len(indices) + 1):
            for group in itertools.combinations(indices, number):
                below = sum(gain for other, gain in gains.items() if set(other) < set(group))
                gains[group] = self.capacity_at(leaf, dict.fromkeys(group, 1)) - below
        return [(gain, group) for group, gain in gains.items() if group and gain]

    def _upper(self, leaf: int, indices: list[int]) -> list[Term]:
        """Return for each candidate an upper bound of the slots that its eviction frees."""
        rule = self._tree.rule(self._tree.depth)
        everybody = {index: self._candidates[index].count for index in indices}
        most = self.capacity_at(leaf, everybody) - self.now[leaf]
        found: list[Term] = []
        tightest = min(
            self._need, key=lambda one: max(0, int(self.base[leaf, one[0]])) // one[1], default=None
        )
        for index in indices:
            gain = most
            if tightest is not None and rule.min <= 1:
                at, need = tightest
                alone = -(-self._candidates[index].freed[leaf][at] // need)
                gain = min(gain, -(-alone // rule.factor) * rule.factor)
            if gain > 0:
                found.append((gain, (index,)))
        return found
