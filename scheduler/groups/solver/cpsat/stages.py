"""The stages of the objective, the most important first, as plain records, and limits of their
values.

In the order of scheduler.groups.problem.checker.objective: members left out, what each level asks
for from the top down (for all pods, then for each class with a rule there, or for all parts with
one together), the cost of traffic, leaves in use. Each is minimised and frozen before the next.
"""

import msgspec
import numpy as np

from scheduler.groups.problem.roles import GroupProblem
from scheduler.groups.solver.tree import Tree

ALL: tuple[int, ...] = ()
_MEASURES = {"pack": ("units", "large"), "spread": ("squares",)}


class Stage(msgspec.Struct, frozen=True):
    """What is minimised at a level (from 1; 0 for the whole tree), for ALL pods or the sum over
    these classes.
    """

    level: int
    measure: str
    of: tuple[int, ...] = ALL


LEFT_OUT = Stage(0, "leftOut")


def of_one_role(tree: Tree) -> list[Stage]:
    """Return the stages of a group with one role."""
    found = [
        Stage(level, measure)
        for level in range(1, tree.depth + 1)
        for measure in _MEASURES[tree.rule(level).kind]
    ]
    if tree.least == tree.size:
        return found
    return [*found, LEFT_OUT] if tree.levels_first else [LEFT_OUT, *found]


def of_roles(group: GroupProblem, tree: Tree) -> list[Stage]:
    """Return the stages of a group with several roles in its tree."""
    plain = of_one_role(tree)
    found = [one for one in plain if one == LEFT_OUT]
    for level in range(1, tree.depth + 1):
        if level - 1 not in group.unwished:
            found += [one for one in plain if one.level == level]
        found += _of_classes(group, level)
    if group.traffic:
        found.append(Stage(0, "cost"))
    if tree.depth - 1 in group.unwished:
        found.append(Stage(tree.depth, "leaves"))
    return found


def _of_classes(group: GroupProblem, level: int) -> list[Stage]:
    kinds = [
        (number, own.rule.kind)
        for number, one in enumerate(group.classes)
        for own in one.rules
        if own.level == level - 1
    ]
    together: list[tuple[str, tuple[int, ...]]] = [(kind, (number,)) for number, kind in kinds]
    if group.parts:
        each = [(kind, tuple(at for at, its in kinds if its == kind)) for kind in _MEASURES]
        together = [(kind, those) for kind, those in each if those]
    return [Stage(level, measure, those) for kind, those in together for measure in _MEASURES[kind]]


def bound(tree: Tree, stage: Stage) -> int:
    """Return a lower limit of a stage of all pods that follows from the capacities alone."""
    level = stage.level
    if stage.measure == "leftOut":
        return 0
    capacity = np.sort(tree.room[level])[::-1]
    if stage.measure == "units":
        fewest = np.searchsorted(np.cumsum(capacity), tree.least) + 1
        return max(int(fewest), tree.rule(level).units_per_parent, 1)
    if stage.measure == "large":
        before = np.concatenate(([0], np.cumsum(capacity)[:-1]))
        filled = np.clip(tree.size - before, 0, capacity)
        return -int((filled * filled).sum())
    units = tree.rule(level).partitions if level == 1 else 0
    units = units or int((capacity > 0).sum())
    share, rest = divmod(tree.least, max(1, units))
    return rest * (share + 1) ** 2 + (units - rest) * share**2
