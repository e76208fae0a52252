"""A greedy descent for several roles, without search; optimal if capacity is ample.

scheduler.groups.solver.roles.heterogeneous calls it and checks the result against the rules.
"""

from collections import defaultdict
from collections.abc import Sequence

import msgspec
import numpy as np

from scheduler.groups.problem.instance import DomainRule
from scheduler.groups.problem.roles import GroupProblem
from scheduler.groups.solver import tree
from scheduler.groups.solver.tree import Bools, Ints


def unit_by_unit(group: GroupProblem) -> Ints:
    """Fill unit after unit, the largest capacity first, on the level that costs most to cross.

    Members with traffic are then in one unit as far as its capacity allows.
    """
    steps = group.costs.steps[: len(group.levels) - 1]
    level = 1 + max(range(len(steps)), key=steps.__getitem__, default=0)
    units: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for leaf, path in enumerate(group.paths):
        units[tree.filled(path, len(group.levels))[:level]].append(leaf)
    capacity = group.capacity()
    left = [role.count for role in group.roles]
    counts = np.zeros((len(group.roles), len(group.paths)), dtype=np.int64)
    for leaves in sorted(units.values(), key=lambda those: -int(capacity[those].sum())):
        if not any(left):
            break
        part = group.part(leaves)
        roles = (
            msgspec.structs.replace(role, count=count)
            for role, count in zip(part.roles, left, strict=True)
        )
        found = descent(msgspec.structs.replace(part, roles=tuple(roles)), is_filling=False)
        counts[:, leaves] = found
        left = [n - int(placed) for n, placed in zip(left, found.sum(axis=1), strict=True)]
    return counts


def descent(group: GroupProblem, *, is_filling: bool) -> Ints:
    """Place pods one by one, the largest first, of equal ones those with the most traffic.

    With `is_filling` each goes to the fullest leaf that takes it, which leaves the most capacity
    elsewhere. Otherwise it goes to the emptiest used leaf, or to an unused one if none takes it.
    """
    free = np.array(group.free, dtype=np.int64)
    scale = np.maximum(free.max(axis=0, initial=1), 1)
    counts = np.zeros((len(group.roles), len(free)), dtype=np.int64)
    banned = np.zeros((len(group.roles), len(free)), dtype=np.bool_)
    sets = [_set_of(rule.sets, len(free)) for rule in group.apart]
    spreads = [_Spread(rule, counts) for rule in group.domains if rule.asking]
    excluded = [(np.array(one.leaves), np.array(one.counts)) for one in group.excluded]
    sizes = [float((np.array(role.request) / scale).max(initial=0)) for role in group.roles]
    traffic = _traffic(group)
    for number in sorted(range(len(group.roles)), key=lambda at: (-sizes[at], -traffic[at], at)):
        role = group.roles[number]
        request = np.array(role.request, dtype=np.int64)
        slots = np.array(role.slots, dtype=np.int64)
        requested = np.flatnonzero(request)
        rules = [
            (rule.second if number == rule.first else rule.first, found)
            for rule, found in zip(group.apart, sets, strict=True)
            if number in (rule.first, rule.second)
        ]
        own_spreads = [one for one in spreads if number in one.rule.asking]
        left = role.count
        while left:
            fits = ~banned[number] & (slots > counts[number])
            fits &= (free[:, requested] >= request[requested]).all(axis=1)
            for those, limit in excluded:
                after = counts[:, those]
                after[number] += 1
                fits[those] &= (after < limit[:, None]).any(axis=0)
            for spread in own_spreads:
                fits &= spread.takes(number)
            open_ones = np.flatnonzero(fits)
            if not len(open_ones):
                break
            capacity = (free[open_ones] / scale).sum(axis=1)
            if not is_filling:
                in_use = counts[:, open_ones].any(axis=0)
                capacity = -capacity - in_use * (1 + capacity.max())
            leaf = int(open_ones[int(capacity.argmin())])
            # The leaf stays the best: it takes all pods that fit, unless a rule counts them.
            most = min(left, int(slots[leaf] - counts[number, leaf]))
            if len(requested):
                most = min(most, int((free[leaf, requested] // request[requested]).min()))
            is_counted = excluded or own_spreads or any(other == number for other, _ in rules)
            most = 1 if is_counted else most
            counts[number, leaf] += most
            free[leaf] -= most * request
            left -= most
            for other, found in rules:
                if found[leaf] >= 0:
                    banned[other] |= found == found[leaf]
    return counts


class _Spread:
    """A rule of topology spread during a descent; `counts` are those by role and leaf, as they
    grow.
    """

    def __init__(self, rule: DomainRule, counts: Ints) -> None:
        self.rule = rule
        self._counts = counts
        self._set_of = _set_of(rule.sets, counts.shape[1])
        self._inside = self._set_of >= 0

    def takes(self, role: int) -> Bools:
        """Return the leaves where one more pod of an asking role keeps the skew."""
        rule, inside = self.rule, self._inside
        if not inside.any():
            return inside
        pods = np.array(rule.existing, dtype=np.int64)
        placed = self._counts[list(rule.counted)].sum(axis=0)
        np.add.at(pods, self._set_of[inside], placed[inside])
        fits = pods + (role in rule.counted) - pods.min() <= rule.max_skew
        return np.asarray(inside & fits[self._set_of])


def _set_of(sets: Sequence[Sequence[int]], leaves: int) -> Ints:
    found = np.full(leaves, -1, dtype=np.int64)
    for number, one in enumerate(sets):
        found[list(one)] = number
    return found


def _traffic(group: GroupProblem) -> list[int]:
    """Return by role the traffic of one pod with all other pods."""
    found = [0] * len(group.roles)
    sizes = [sum(group.roles[role].count for role in one.roles) for one in group.classes]
    for traffic in group.traffic:
        for one, other in ((traffic.first, traffic.second), (traffic.second, traffic.first)):
            for role in group.classes[one].roles:
                found[role] += traffic.weight * sizes[other]
    return found
