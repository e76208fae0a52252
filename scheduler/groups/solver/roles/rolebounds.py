"""What no placement of heterogeneous members can be better than, stage by stage, from amounts
alone.

For every number m of units: no m units hold more pods than the m largest amounts of any one
resource allow when the smallest requests are served first. Sorted counts of a placement never
exceed these prefix sums, so neither does what follows from them: how few units may do, and how
large the sum of squares may be (majorization). What classes allow and need on a unit by their own
rules limits both as well. Together with the bounds of scheduler.groups.solver.cpsat.stages these
are tight in ordinary cases, and a descent that meets them needs no proof.
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
    """Return a lower limit of every stage, the most important first."""
    made = tree.build(group.homogeneous(), with_full=True)
    most = _Most(group, made)
    return [_bound(group, made, most, stage) for stage in stages.of_roles(group, made)]


def _bound(group: GroupProblem, made: Tree, most: "_Most", stage: Stage) -> int:
    if stage.measure == "cost":
        return 0
    if stage.of:
        return sum(_of_class(group, made, group.classes[number], stage) for number in stage.of)
    if stage.measure in ("leaves", "units"):
        units = Stage(stage.level, "units")
        apart = [_fewest(group, one, stage.level) for one in group.classes]
        known = 1 if stage.measure == "leaves" else stages.bound(made, stage)
        return max(known, most.bound(units), *apart)
    return max(stages.bound(made, stage), most.bound(stage))


def _of_class(group: GroupProblem, made: Tree, one: PodClass, stage: Stage) -> int:
    """Return a lower bound on one class's contribution to a stage."""
    size = _size(group, one)
    if stage.measure == "units":
        return _fewest(group, one, stage.level)
    if stage.measure == "large":
        return -size * size
    if group.least < group.wanted or not size:
        return int(one.minimum > 0)
    numbers = [*(len(starts) - 1 for starts in made.starts), len(made.leaf)]
    partitions = _rule(one, stage.level).units_per_parent
    units = partitions * numbers[stage.level - 1] if partitions else numbers[stage.level]
    each, more = divmod(size, max(1, min(units, size)))
    return each * size + more * (each + 1)


def _fewest(group: GroupProblem, one: PodClass, level: int) -> int:
    """Return in how many units of a level a class is at least: how many are placed may be open, and
    then none.
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
    """Return how many pods a rule allows on one unit, 0 for any number."""
    return 1 if rule.is_hard_spread else rule.max


class _Most:
    """How many pods any m units of a level hold at most, by level."""

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
        """Return what each further unit adds to the most that so many hold, the largest first."""
        if level not in self._increments:
            sums = self._sums(level)
            self._increments[level] = -np.sort(-np.diff(sums, prepend=0))
        return self._increments[level]

    def _sums(self, level: int) -> Ints:
        """Return for m = 1, 2 … the most pods that m units hold, fixed ones included."""
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
        """Return how many pods 1, 2 … units take by what classes allow there."""
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
        """Return the sums of a level's units, of columns by leaf of the tree."""
        for each in range(self._tree.depth, level, -1):
            starts = self._tree.starts[each - 1]
            total = np.concatenate(
                (np.zeros((1, columns.shape[1]), np.int64), columns.cumsum(axis=0))
            )
            columns = total[starts[1:]] - total[starts[:-1]]
        return columns


def _largest(columns: Ints) -> Ints:
    """Return the sums of the 1, 2 … largest of each column."""
    return np.asarray(-np.sort(-columns, axis=0)).cumsum(axis=0)
