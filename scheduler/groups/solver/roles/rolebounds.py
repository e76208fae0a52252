"""Lower bounds of the stages of several roles, from free amounts alone.

For each m: the m largest amounts of a resource, with the smallest requests served first, bound the
pods on any m units. The sorted counts of a placement never exceed these prefix sums. Hence the
fewest units, and the largest sum of squares (majorization). The rules of classes tighten both. With
the bounds of scheduler.groups.solver.cpsat.stages they are tight in ordinary cases: a greedy
placement that meets them is optimal.
"""

import numpy as np

from scheduler.groups.problem.answer import NOTHING
from scheduler.groups.problem.classes import PodClass
from scheduler.groups.problem.instance import LevelRule
from scheduler.groups.problem.roles import GroupProblem, served
from scheduler.groups.solver import tree
from scheduler.groups.solver.cpsat import stages
from scheduler.groups.solver.cpsat.stages import Stage
from scheduler.groups.solver.tree import Ints, Tree


def bounds(group: GroupProblem) -> list[int]:
    """Return a lower bound of every stage, the most important first."""
    made = tree.build(group.homogeneous(), with_full=True)
    most = _Most(group, made)
    return [_bound(group, made, most, stage) for stage in stages.of_roles(group, made)]


def _bound(group: GroupProblem, made: Tree, most: "_Most", stage: Stage) -> int:
    if stage.measure == "cost":
        return 0
    if stage.of:
        apart = [_of_class(group, made, group.classes[number], stage) for number in stage.of]
        return NOTHING if NOTHING in apart else sum(apart)
    if stage.measure in ("leaves", "units"):
        units = Stage(stage.level, "units")
        fewest = [_fewest(group, one, stage.level) for one in group.classes]
        known = 1 if stage.measure == "leaves" else stages.bound(made, stage)
        return max(known, most.bound(units), *fewest)
    return max(stages.bound(made, stage), most.bound(stage))


def _of_class(group: GroupProblem, made: Tree, one: PodClass, stage: Stage) -> int:
    """Return a lower bound on one class's contribution to a stage."""
    size = _size(group, one)
    if stage.measure == "units":
        return _fewest(group, one, stage.level)
    if stage.measure == "large":
        return -size * size
    if stage.measure != "squares":
        return NOTHING
    if group.least < group.wanted or not size:
        return int(one.minimum > 0)
    numbers = [*(len(starts) - 1 for starts in made.starts), len(made.leaf)]
    partitions = _rule(one, stage.level).units_per_parent
    units = partitions * numbers[stage.level - 1] if partitions else numbers[stage.level]
    each, more = divmod(size, max(1, min(units, size)))
    return each * size + more * (each + 1)


def _fewest(group: GroupProblem, one: PodClass, level: int) -> int:
    """Return a lower bound of the number of units of a level that a class uses.

    It is 0 or 1 if the number of placed pods is not fixed.
    """
    size = _size(group, one)
    if group.least < group.wanted or not size:
        return int(one.minimum > 0)
    rule = _rule(one, level)
    return max(1, rule.units_per_parent, -(-size // (_largest_count(rule) or size)))


def _size(group: GroupProblem, one: PodClass) -> int:
    return sum(group.roles[role].count for role in one.roles) + sum(one.fixed)


def _rule(one: PodClass, level: int) -> LevelRule:
    return next((own.rule for own in one.rules if own.level == level - 1), LevelRule())


def _largest_count(rule: LevelRule) -> int:
    """Return how many pods a rule allows on one unit, 0 if it sets no limit."""
    return 1 if rule.is_hard_spread else rule.max


class _Most:
    """Upper bounds of the pods that any m units of a level hold."""

    def __init__(self, group: GroupProblem, made: Tree) -> None:
        self._group = group
        self._tree = made
        self._increments: dict[int, Ints] = {}

    def bound(self, stage: Stage) -> int:
        """Return a lower bound on one stage; a trivial one if none is known."""
        if stage.measure == "units":
            reached = np.cumsum(self._of(stage.level)) >= self._tree.least
            return int(reached.argmax()) + 1 if reached.any() else 1
        if stage.measure != "large":
            return NOTHING
        sizes = self._of(stage.level)
        before = np.concatenate(([0], np.cumsum(sizes)[:-1]))
        filled = np.clip(self._tree.size - before, 0, sizes)
        return -int((filled * filled).sum())

    def _of(self, level: int) -> Ints:
        """Return what each further unit adds to the bound of m units, in descending order."""
        if level not in self._increments:
            sums = self._sums(level)
            self._increments[level] = -np.sort(-np.diff(sums, prepend=0))
        return self._increments[level]

    def _sums(self, level: int) -> Ints:
        """Return for m = 1, 2 … an upper bound of the pods on m units, fixed pods included."""
        group, made = self._group, self._tree
        free = np.array(group.free, dtype=np.int64).reshape(len(group.paths), -1).clip(min=0)
        slots = np.array([role.slots for role in group.roles], dtype=np.int64)
        counts = np.array([role.count for role in group.roles], dtype=np.int64)
        caps = _largest(self._by_unit(slots.T[made.leaf], level)).T
        caps = np.minimum(caps, counts[:, None])
        most = caps.sum(axis=0)
        pools = _largest(self._by_unit(free[made.leaf], level))
        for resource in range(pools.shape[1]):
            requests = np.array([role.request[resource] for role in group.roles], dtype=np.int64)
            most = np.minimum(most, served(pools[:, resource], caps, requests))
        most = np.minimum(most, self._by_rules(level, len(most)))
        fixed = _largest(self._by_unit(made.fixed[:, None], level))[:, 0]
        return np.asarray(np.minimum(most + fixed, made.size))

    def _by_rules(self, level: int, units: int) -> Ints:
        """Return for m = 1 to `units` how many pods the rules of classes allow on m units."""
        left = [role.count for role in self._group.roles]
        numbers, total = np.arange(1, units + 1), np.zeros(units, dtype=np.int64)
        for one in self._group.classes:
            largest = _largest_count(_rule(one, level))
            if largest:
                total += np.minimum(numbers * largest, sum(left[role] for role in one.roles))
                for role in one.roles:
                    left[role] = 0
        return total + sum(left)

    def _by_unit(self, columns: Ints, level: int) -> Ints:
        """Return the sums by unit of a level of columns by leaf of the tree."""
        for each in range(self._tree.depth, level, -1):
            starts = self._tree.starts[each - 1]
            total = np.concatenate(
                (np.zeros((1, columns.shape[1]), np.int64), columns.cumsum(axis=0))
            )
            columns = total[starts[1:]] - total[starts[:-1]]
        return columns


def _largest(columns: Ints) -> Ints:
    """Return for each column the sums of its 1, 2 … largest values."""
    return np.asarray(-np.sort(-columns, axis=0)).cumsum(axis=0)
