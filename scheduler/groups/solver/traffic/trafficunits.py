"""Solve groups with traffic whose pods are in several units of a level.

Traffic between the pods of one unit and all others costs the steps of the levels between them. Its
minimum, given the number m of pods in the fullest unit, follows from the traffic graph. An m whose
bound exceeds a known placement needs no search. Otherwise CP-SAT solves a small problem of two
units: the fullest one, and all others merged into one. Its solution is a placement if the pods of
the merged unit fit one real unit. Called by scheduler.groups.solver.traffic.trafficleaves. Loaded
only in the solver process.
"""

from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from scheduler.groups.problem.answer import NOTHING
from scheduler.groups.problem.classes import TrafficCosts
from scheduler.groups.problem.instance import Level, SolveLimits
from scheduler.groups.problem.roles import GroupProblem
from scheduler.groups.solver.cpsat.run import MEANINGFUL_S
from scheduler.groups.solver.roles import likeleaves, result
from scheduler.groups.solver.roles.result import KnownLimits
from scheduler.groups.solver.roles.rolebounds import bounds
from scheduler.groups.solver.roles.rolesearch import minimize
from scheduler.groups.solver.traffic.leastcut import least_cuts
from scheduler.groups.solver.tree import Ints


class SeveralUnits:
    """The placements of a group in more than one unit of a level.

    `least` are the bounds of the leaves alone; `at` is the index of the cost stage.
    """

    def __init__(self, group: GroupProblem, level: int, least: Sequence[int], at: int) -> None:
        self._group = group
        self._least, self._at = list(least), at
        last = len(group.levels) - 1
        self._steps = sum(group.costs.steps[level - 1 : last]), sum(group.costs.steps[last:])
        fixed = np.array(group.fixed or (0,) * len(group.paths), dtype=np.int64)
        self._units = result.units(group, level)
        self._pods = group.wanted + int(fixed.sum())
        capacity = group.capacity() + fixed
        self._most = [min(int(capacity[leaves].sum()), self._pods) for leaves in self._units]
        self._apart = _apart(group, self._pods)

    def limits(self, fewest: int, most: int) -> list[int]:
        """Return lower bounds of the stages for placements whose fullest unit has `fewest` to
        `most` pods.

        The cost bound is -NOTHING, above every cost, if the range is empty.
        """
        apart = self._apart[max(1, fewest) : min(most, self._pods - 1) + 1]
        if not len(apart):
            return [*self._least[: self._at], -NOTHING]
        if self._least[self._at] == NOTHING:
            return self._least
        cost = self._least[self._at] + self._steps[0] * int(apart.min())
        return [*self._least[: self._at], cost, *(NOTHING for _ in self._least[self._at + 1 :])]

    def best(
        self, values: list[int] | None, limits: SolveLimits, left_s: Callable[[], float]
    ) -> KnownLimits:
        """Return bounds of placements in several units, with the best one if it beats `values`.

        The fullest unit's number of pods is tried from the largest possible downwards, while
        smaller numbers may be as good and one other unit has capacity for the rest.
        """
        counts = None
        second, largest = sorted([0, *self._most])[-2:]
        last, width = max(1, self._pods - second), 1
        while True:
            fewest = max(last, largest + 1 - width)
            if values is not None:
                as_good = (m for m in range(1, largest + 1) if self.limits(m, m) <= values)
                fewest = max(last, min(as_good, default=largest + 1))
            known = [self.limits(1, fewest - 1)]
            for number in self._promising(fewest):
                own = self.limits(fewest, self._most[number])
                if -NOTHING in own or (values is not None and own > values):
                    known.append(own)
                    continue
                found = self._fullest(number, fewest, limits, left_s)
                known.append(found.limits or own)
                if found.counts is not None:
                    reached = [one[2] for one in result.objective_of(self._group, found.counts)]
                    if values is None or reached < values:
                        values, counts = reached, found.counts
            is_over = left_s() < MEANINGFUL_S or fewest == last
            if is_over or (values is not None and known[0] > values):
                return KnownLimits(min(known), counts)
            width *= 2

    def _promising(self, fewest: int) -> list[int]:
        """Return the units with capacity for `fewest` pods, the largest first."""
        found = (number for number, most in enumerate(self._most) if most >= fewest)
        return sorted(found, key=lambda number: -self._most[number])

    def _fullest(
        self, number: int, fewest: int, limits: SolveLimits, left_s: Callable[[], float]
    ) -> KnownLimits:
        """Return the best placement with at least `fewest` pods in one unit.

        If it does not fit real units, return the bounds of the problem with all other units merged;
        no bounds if the time limit is reached.
        """
        if left_s() < MEANINGFUL_S:
            return KnownLimits([])
        group, leaves = self._group, self._units[number]
        two = self._in_two(set(leaves.tolist()))
        own = tuple(self.limits(fewest, self._most[number]))
        found = minimize(
            two, result.RolesResult(None), bounds(two), own, limits, left_s, fullest=fewest
        )
        if found.counts is None:
            return KnownLimits([*own[: self._at], -NOTHING] if found.is_proven else [])
        least = result.within_gap(found.values, [stage.bound for stage in found.stages])
        others = np.setdiff1d(np.arange(len(group.paths)), leaves)
        counts = np.zeros_like(found.counts)
        for those in (leaves, others):
            dealt = likeleaves.dealt(group.part(those.tolist()), found.counts[:, those])
            if dealt is None:
                return KnownLimits(least)
            counts[:, those] = dealt
        return KnownLimits(least, result.valid(group, counts).counts)

    def _in_two(self, own: set[int]) -> GroupProblem:
        """Return the group with the leaves `own` as one unit and all others as a second one."""
        group, last = self._group, len(self._group.levels) - 1
        classes = (
            msgspec.structs.replace(
                one, rules=tuple(msgspec.structs.replace(each, level=1) for each in one.rules)
            )
            for one in group.classes
        )
        return msgspec.structs.replace(
            group,
            levels=(Level("unit"), group.levels[last]),
            paths=tuple(("0" if at in own else "1", f"{at}") for at in range(len(group.paths))),
            classes=tuple(classes),
            between=tuple(
                msgspec.structs.replace(rule, level=1)
                for rule in group.between
                if rule.level == last
            ),
            costs=TrafficCosts(self._steps),
            unwished=(0, 1) if last in group.unwished else (0,),
        )


def _apart(group: GroupProblem, pods: int) -> Ints:
    """Return [m]: the minimum traffic between units if the fullest has m pods, for m < `pods`."""
    many = len(group.classes)
    weights = np.zeros((many, many), dtype=np.int64)
    for one in group.traffic:
        weights[one.first, one.second] += one.weight
    sizes = np.array(
        [
            sum(group.roles[role].count for role in one.roles) + sum(one.fixed)
            for one in group.classes
        ],
        dtype=np.int64,
    )
    if sizes.sum() < pods:
        return np.zeros(
            max(1, pods), dtype=np.int64
        )  # some pods are in no class and have no traffic
    cuts = least_cuts(weights + weights.T, sizes)
    found = np.zeros(max(1, pods), dtype=np.int64)
    cheapest = np.inf  # the least cut per pod of a unit with up to m pods
    for m in range(1, pods):
        cheapest = min(cheapest, cuts[m] / m)
        # The sum of cuts over all units counts each pair of units twice.
        found[m] = max(int(cuts[m]), int(np.ceil(pods * cheapest / 2 - 1e-6)))
    return found
