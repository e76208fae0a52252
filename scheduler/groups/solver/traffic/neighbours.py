"""Greedy placements that keep members with traffic close: each pod goes where it costs least.

Placements grow from several leaves; single pods are then moved while that lowers the cost. One of
the starts is the order of the pods, so no result costs more than placing pods one by one.
scheduler.groups.solver.roles.heterogeneous calls it and checks the rules.
"""

from collections.abc import Iterator, Sequence
from random import Random

import numpy as np
from numpy.typing import NDArray

from scheduler.groups.problem.roles import GroupProblem
from scheduler.groups.solver import tree
from scheduler.groups.solver.roles import descent
from scheduler.groups.solver.tree import Ints

# Limits for all starts together: MOST_SUMS sums take about 0.3 s.
MOST_SUMS, MOST_STARTS, MOST_ROUNDS, MOST_TRIALS = 20_000_000, 24, 8, 300
# The number of cheapest placements that are improved by removing and placing pods again.
MOST_TRIED = 3
SLACK = 0.2  # a worse placement within this share of the first one's cost is continued at first
MOST_DENSE = 200  # up to so many leaves the costs of all pairs are stored


def near_by(group: GroupProblem) -> Iterator[Ints]:
    """Yield placements that keep members with traffic close, from several starts.

    For a group above MOST_SUMS yield only the placement that fills unit after unit.
    """
    filled = descent.unit_by_unit(group)
    yield filled
    costs = TrafficPrices(group)
    pods, leaves = group.wanted, len(group.paths)
    many = MOST_SUMS // max(1, pods * leaves * (len(group.costs.steps) + len(group.classes)))
    if not many:
        return
    found = [_put_right(group, costs, filled.copy())]
    starts, orders = _starts(group)[: min(many, MOST_STARTS)], (costs.order(), _by_size(group))
    grown = (_grown(group, costs, start, order) for start in starts for order in orders)
    found += [_put_right(group, costs, counts) for counts in grown]
    yield from found
    # The roles in their order and in reverse; the first pod chooses the leaf to start from.
    listed = range(len(group.roles))
    for order in (listed, listed[::-1]):
        yield _put_right(group, costs, _grown(group, costs, None, order))
    whole = {counts.tobytes(): counts for counts in found if int(counts.sum()) == pods}
    for counts in sorted(whole.values(), key=costs.of)[:MOST_TRIED]:
        yield _tried_anew(group, costs, counts, min(MOST_TRIALS, many))


class TrafficPrices:
    """The traffic cost of one more pod of a class, by leaf."""

    def __init__(self, group: GroupProblem) -> None:
        self._group = group
        depth, many = len(group.levels), len(group.classes)
        paths = [tree.filled(path, depth) for path in group.paths]
        self._levels: list[tuple[int, Ints]] = []
        for level, step in enumerate(group.costs.steps, 1):
            units: dict[tuple[str, ...], int] = {}
            found = [units.setdefault(path[:level], len(units)) for path in paths]
            if step:
                self._levels.append((step, np.array(found, dtype=np.int64)))
        self.weights = np.zeros((many, many), dtype=np.int64)
        for each in group.traffic:
            self.weights[each.first, each.second] += each.weight
        self._areas = np.array(group.costs.areas, dtype=np.int64)
        self._matrix = np.array(group.costs.matrix, dtype=np.int64)
        self._fixed = np.array(
            [one.fixed or (0,) * len(paths) for one in group.classes], dtype=np.int64
        ).reshape(many, len(paths))
        self.class_of = [-1] * len(group.roles)
        self.of_classes = np.zeros((many, len(group.roles)), dtype=np.int64)
        for number, one in enumerate(group.classes):
            for role in one.roles:
                self.class_of[role] = number
                self.of_classes[number, role] = 1
        self.between = self._between() if len(paths) <= MOST_DENSE else None

    def more(self, number: int, counts: Ints) -> Ints:
        """Return by leaf the added cost of one more pod of a class, given `counts` by role and
        leaf.
        """
        leaves = counts.shape[1]
        found = np.zeros(leaves, dtype=np.int64)
        if number < 0:
            return found
        there = self._fixed + self.of_classes @ counts
        if self.between is not None:
            to, of = self.weights[number] @ there, self.weights[:, number] @ there
            return np.asarray(self.between @ to + self.between.T @ of).astype(np.int64)
        both = self.weights[number] + self.weights[:, number]
        traffic = both @ there
        for step, units in self._levels:
            inside = np.bincount(units, weights=traffic)
            found += step * (int(traffic.sum()) - inside[units].astype(np.int64))
        if len(self._areas):
            size = len(self._matrix)
            to, of = self.weights[number] @ there, self.weights[:, number] @ there
            sums = [np.bincount(self._areas, weights=one, minlength=size) for one in (to, of)]
            price = self._matrix @ sums[0] + self._matrix.T @ sums[1]
            found += price[self._areas].astype(np.int64)
        return found

    def _between(self) -> NDArray[np.float64]:
        """Return [from, to] the cost of a pair by leaves: floats with integer values, so sums are
        exact.
        """
        size = self._fixed.shape[1]
        found = np.zeros((size, size))
        for step, units in self._levels:
            found += step * (units[:, None] != units[None, :])
        if len(self._areas):
            found += self._matrix[np.ix_(self._areas, self._areas)]
        return found

    def of(self, counts: Ints) -> int:
        """Return twice the cost of a placement, without the constant part."""
        return sum(
            int(counts[role] @ self.more(number, counts))
            for role, number in enumerate(self.class_of)
        )

    def order(self) -> list[int]:
        """Return the roles such that each has traffic with earlier ones, the most first."""
        group, weights = self._group, self.weights + self.weights.T
        sizes = np.array([sum(group.roles[k].count for k in one.roles) for one in group.classes])
        busy = weights @ sizes
        left, found = set(range(len(group.classes))), list[int]()
        while left:
            near = {one: int(sum(weights[one, other] for other in found)) for one in left}
            first = max(left, key=lambda one: (near[one], int(busy[one]), -one))
            found.append(first)
            left.remove(first)
        roles = [role for one in found for role in group.classes[one].roles]
        return roles + [role for role, own in enumerate(self.class_of) if own < 0]


def _starts(group: GroupProblem) -> list[int]:
    """Return leaves to start from: the largest of each unit and area, largest units first."""
    capacity, depth = group.capacity(), len(group.levels)
    found: dict[int, int] = {}
    for level in range(depth):
        units: dict[tuple[str, ...], list[int]] = {}
        for leaf, path in enumerate(group.paths):
            units.setdefault(tree.filled(path, depth)[:level], []).append(leaf)
        for those in units.values():
            best = max(those, key=lambda leaf: int(capacity[leaf]))
            found.setdefault(best, int(capacity[those].sum()))
    for area in sorted(set(group.costs.areas)):
        those = [leaf for leaf, one in enumerate(group.costs.areas) if one == area]
        best = max(those, key=lambda leaf: int(capacity[leaf]))
        found[best] = max(found.get(best, 0), int(capacity[those].sum()))
    return sorted(found, key=lambda leaf: (-found[leaf], leaf))


class _FreeCapacity:
    """The free amounts and slots of the leaves while pods are placed."""

    def __init__(self, group: GroupProblem, counts: Ints) -> None:
        self._requests = np.array([role.request for role in group.roles], dtype=np.int64)
        self._slots = np.array([role.slots for role in group.roles], dtype=np.int64)
        self.counts = counts
        self._free = np.array(group.free, dtype=np.int64) - counts.T @ self._requests

    def takes(self, role: int) -> NDArray[np.bool_]:
        """Return which leaves have capacity for one more pod of a role."""
        is_requested = self._requests[role] > 0
        fits = (self._free[:, is_requested] >= self._requests[role][is_requested]).all(axis=1)
        return np.asarray(fits & (self._slots[role] > self.counts[role]))

    def put(self, role: int, leaf: int, number: int) -> None:
        """Add pods of a role to a leaf; remove them if the number is negative."""
        self.counts[role, leaf] += number
        self._free[leaf] -= number * self._requests[role]

    @property
    def amounts(self) -> Ints:
        """Return by leaf the free capacity as one number, to compare leaves."""
        return np.asarray(self._free.sum(axis=1))


def _by_size(group: GroupProblem) -> list[int]:
    """Return the roles by request, the largest first: small pods fit into the rest."""
    free = np.array(group.free, dtype=np.int64)
    scale = np.maximum(free.max(axis=0, initial=1), 1)
    sizes = [float((np.array(role.request) / scale).max(initial=0)) for role in group.roles]
    return sorted(range(len(sizes)), key=lambda role: (-sizes[role], role))


def _grown(
    group: GroupProblem, costs: TrafficPrices, start: int | None, order: Sequence[int]
) -> Ints:
    """Place pod after pod where it costs least; of equal leaves, on the one with most capacity."""
    left = _FreeCapacity(group, np.zeros((len(group.roles), len(group.paths)), dtype=np.int64))
    is_first = True
    for role in order:
        for _ in range(group.roles[role].count):
            if is_first and start is not None and left.takes(role)[start]:
                left.put(role, start, 1)
            elif not _put_cheap(costs, left, role):
                break
            is_first = False
    return left.counts


def _tried_anew(group: GroupProblem, costs: TrafficPrices, counts: Ints, trials: int) -> Ints:
    """Return the best of several tries that remove some pods and place them again.

    A try removes a few pods anywhere, all pods of a leaf, or all of an area. The search continues
    from its result if that costs less or not much more; the tolerance falls with each try.
    """
    rng = Random(len(group.paths))  # noqa: S311 - deterministic per group
    at, here = counts, costs.of(counts)
    best, least = at, here
    slack = max(0, here) * SLACK
    areas = group.costs.areas or range(len(group.paths))
    for trial in range(trials):
        left = _FreeCapacity(group, at.copy())
        there = [(int(role), int(leaf)) for role, leaf in zip(*np.nonzero(at), strict=True)]
        taken = rng.sample(there, rng.randint(1, min(len(there), 4)))
        if trial % 3:
            unit = range(len(areas)) if trial % 3 == 1 else areas
            taken = [one for one in there if unit[one[1]] == unit[taken[0][1]]]
        pods = [role for role, leaf in taken for _ in range(int(at[role, leaf]))]
        for role, leaf in taken:
            left.put(role, leaf, -int(at[role, leaf]))
        rng.shuffle(pods)
        if all(_put_cheap(costs, left, role) for role in pods):
            found = costs.of(left.counts)
            if found <= here + slack * (1 - trial / trials):
                at, here = left.counts, found
            if found < least:
                best, least = left.counts, found
    return _put_right(group, costs, best.copy())


def _put_cheap(costs: TrafficPrices, left: _FreeCapacity, role: int) -> bool:
    """Place a pod where it costs least, of equal leaves on the one with most capacity.

    Return False if no leaf has capacity for it.
    """
    open_ones = np.flatnonzero(left.takes(role))
    if not len(open_ones):
        return False
    more = costs.more(costs.class_of[role], left.counts)[open_ones]
    cheap = open_ones[more == more.min()]
    left.put(role, int(cheap[int(left.amounts[cheap].argmax())]), 1)
    return True


def _put_right(group: GroupProblem, costs: TrafficPrices, counts: Ints) -> Ints:
    """Move single pods to leaves where they cost less, until no move lowers the cost."""
    left = _FreeCapacity(group, counts)
    for _ in range(MOST_ROUNDS):
        moved = False
        for role in range(len(group.roles)):
            moved |= _move(costs, left, role, np.flatnonzero(counts[role]).tolist())
        if not moved:
            break
    return left.counts


def _move(costs: TrafficPrices, left: _FreeCapacity, role: int, leaves: Sequence[int]) -> bool:
    """Move pods of a role from these leaves to cheaper ones; return whether any was moved."""
    moved = False
    for leaf in leaves:
        left.put(role, leaf, -1)
        more = costs.more(costs.class_of[role], left.counts)
        open_ones = np.flatnonzero(left.takes(role))
        best = int(open_ones[int(more[open_ones].argmin())])
        best = best if more[best] < more[leaf] else leaf
        moved |= best != leaf
        left.put(role, best, 1)
    return moved
