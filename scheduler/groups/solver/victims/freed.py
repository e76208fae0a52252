"""What evictions free: capacity per leaf by resource, and slots for any choice of candidates.

The form of a `PreemptionInstance` that scheduler.groups.solver.victims.search and its model use.
Also verifies, without a solver, that a group fits after its evictions.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Protocol

import msgspec
import numpy as np

from scheduler.base.errors import InputError, StateError
from scheduler.groups.problem.instance import (
    Budget,
    Candidate,
    DomainRule,
    ElasticGroup,
    PreemptionInstance,
)
from scheduler.groups.problem.roles import GroupProblem, Role
from scheduler.groups.solver import tree
from scheduler.groups.solver.cpsat import cells
from scheduler.groups.solver.exact import feasible, layers
from scheduler.groups.solver.tree import Ints, Tree

Choice = Mapping[int, int]  # candidate index -> how many of its evictions are made


class EvictionProblem(Protocol):
    """The candidates for eviction and their budgets, for a group of one role or of several."""

    @property
    def candidates(self) -> tuple[Candidate, ...]: ...
    @property
    def elastic(self) -> tuple[ElasticGroup, ...]: ...
    @property
    def budgets(self) -> tuple[Budget, ...]: ...
    @property
    def forbid(self) -> bool: ...


class EvictionCapacity:
    """Free amounts [leaf, resource], the request of one pod, and what candidates free per leaf."""

    def __init__(self, problem: PreemptionInstance) -> None:
        instance = problem.instance
        self.problem = problem
        self.need = np.array(instance.request or (1,), dtype=np.int64)
        self.fixed = np.array([leaf.fixed for leaf in instance.leaves], dtype=np.int64)
        rows = []
        self._limit = np.full(len(instance.leaves), instance.size, dtype=np.int64)
        for at, leaf in enumerate(instance.leaves):
            if instance.request:
                if leaf.slots >= 0:
                    self._limit[at] = max(0, leaf.slots - leaf.fixed)
                rows.append(leaf.free)
            else:
                rows.append((leaf.slots - leaf.fixed,))
        self.free = np.array(rows, dtype=np.int64).reshape(len(rows), len(self.need))
        for candidate in problem.candidates:
            self._check(candidate)
        self._freed = [
            (
                np.array(list(one.freed), dtype=np.int64),
                np.array(list(one.freed.values()), dtype=np.int64).reshape(-1, len(self.need)),
            )
            for one in problem.candidates
        ]
        # The tree of all leaves usable after all evictions; evictions change only its slots.
        everybody = {i: one.count for i, one in enumerate(problem.candidates)}
        self._shape = layers.of(instance, self.after(everybody))

    def after(self, evicted: Choice) -> Ints:
        """Return the slots of each leaf, fixed pods included, after these evictions."""
        free = self.free.copy()
        for index, times in evicted.items():
            leaves, amounts = self._freed[index]
            free[leaves] += times * amounts
        return self.slots(free) + self.fixed

    def slots(self, free: Ints) -> Ints:
        """Return how many further pods fit into free amounts [leaf, resource]."""
        return self._slots(free, self._limit)

    def slots_at(self, leaf: int, free: Ints) -> Ints:
        """Return how many further pods fit on one leaf, for each row of free amounts."""
        return self._slots(free, np.full(len(free), self._limit[leaf]))

    def _slots(self, free: Ints, limit: Ints) -> Ints:
        is_requested = self.need > 0
        if not is_requested.any():
            return limit.copy()
        fits = (np.maximum(free[:, is_requested], 0) // self.need[is_requested]).min(axis=1)
        return np.asarray(np.minimum(fits, limit))

    def group(self, free: Ints) -> GroupProblem:
        """Return the group as the general problem with these free amounts."""
        instance = self.problem.instance
        slots = tuple(self._limit.tolist())
        role = Role(instance.size - int(self.fixed.sum()), tuple(self.need.tolist()), slots)
        rows = tuple(map(tuple, free.tolist()))
        return msgspec.structs.replace(cells.of_one_role(instance), roles=(role,), free=rows)

    def limit(self, leaf: int) -> int:
        """Return how many pods a leaf takes at most, whatever amounts are free."""
        return int(self._limit[leaf])

    def tree(self, evicted: Choice) -> Tree:
        """Return the tree with the slots after these evictions."""
        return tree.build(self.problem.instance, self.after(evicted))

    @property
    def knows_rules(self) -> bool:
        """Return whether `fits` can decide: all rules over sets are levels of the tree."""
        return self._shape is not None

    def fits(self, evicted: Choice) -> bool:
        """Return whether the group's minimum fits after these evictions; requires `knows_rules`."""
        if self._shape is None:
            raise StateError("rules between members that only a solve can judge")
        shape = self._shape.with_slots(self.after(evicted))
        return feasible.fits(shape.with_rules(self.rules(evicted)))

    def rules(self, evicted: Choice) -> tuple[DomainRule, ...]:
        """Return the rules over sets of leaves with the pods that remain after these evictions."""
        return rules_after(self.problem, self.problem.instance.domains, evicted)

    def _check(self, candidate: Candidate) -> None:
        for leaf, amounts in candidate.freed.items():
            if not 0 <= leaf < len(self.free) or len(amounts) != len(self.need):
                raise InputError(f"what it frees on leaf {leaf} has no place", where=candidate.name)
        if any(not 0 <= each < len(self.problem.budgets) for each in candidate.budgets):
            raise InputError("a budget is not there", where=candidate.name)


def rules_after(
    problem: EvictionProblem, domains: tuple[DomainRule, ...], evicted: Choice
) -> tuple[DomainRule, ...]:
    """Return rules over sets of leaves with the evicted pods removed from `existing`."""
    gone: Counter[tuple[str, int]] = Counter()
    for index, times in evicted.items():
        for name, sets in problem.candidates[index].counted.items():
            for number, pods in sets.items():
                gone[name, number] += times * pods
    if not gone:
        return domains
    return tuple(
        msgspec.structs.replace(
            one,
            existing=tuple(number - gone[one.name, at] for at, number in enumerate(one.existing)),
        )
        for one in domains
    )


def violations(problem: EvictionProblem, evicted: Choice) -> int:
    """Return how many evicted pods exceed what their budgets allow, summed over budgets."""
    gone = [0] * len(problem.budgets)
    for index, times in evicted.items():
        for budget, pods in problem.candidates[index].budgets.items():
            gone[budget] += times * pods
    return sum(max(0, n - each.allowed) for n, each in zip(gone, problem.budgets, strict=True))


def pods(problem: EvictionProblem, evicted: Choice, priority: int) -> int:
    """Return the number of evicted pods of one priority."""
    return sum(
        times * problem.candidates[index].pods
        for index, times in evicted.items()
        if problem.candidates[index].priority == priority
    )


def stranded(problem: EvictionProblem, evicted: Choice) -> int:
    """Return the number of evicted pods that fit no other node."""
    return sum(times * problem.candidates[index].stranded for index, times in evicted.items())


def groups(problem: EvictionProblem, evicted: Choice) -> int:
    """Return the number of groups that lose pods; a single pod counts as a group.

    An elastic group that stays at or above its minimum does not count.
    """
    own = {index for group in problem.elastic for index in group.candidates}
    singles = sum(
        times * problem.candidates[index].groups
        for index, times in evicted.items()
        if index not in own
    )
    return singles + sum(is_ended(group, evicted) for group in problem.elastic)


def is_ended(group: ElasticGroup, evicted: Choice) -> bool:
    """Return whether an elastic group loses more than its surplus."""
    return sum(evicted.get(index, 0) for index in group.candidates) > group.surplus


def closed(problem: EvictionProblem, evicted: Choice) -> dict[int, int]:
    """Return the evictions plus all pods of elastic groups that lose more than their surplus."""
    found = dict(evicted)
    for group in problem.elastic:
        if is_ended(group, found):
            found |= {index: problem.candidates[index].count for index in group.candidates}
    return found
