"""The greedy descent of chic-sched, for comparison and as the solver `Greedy`.

It visits the children of a unit by free capacity, largest first for pack, smallest first for
spread; equal ones by name. It gives each a count within its rule's range. It does not revisit a
unit that failed, and it counts units without capacity. It can fail where a placement exists.
"""

import numpy as np

from scheduler.groups.problem.instance import LevelRule
from scheduler.groups.solver.tree import Ints, Tree


def place(tree: Tree) -> Ints | None:
    """Return the pods per leaf of the tree, None if the descent does not place the group.

    For an elastic group it tries the number of pods that the capacity allows, then the minimum.
    """
    free = [tree.slots]
    for level in range(tree.depth - 1, -1, -1):
        total = np.concatenate(([0], np.cumsum(free[0])))
        starts = tree.starts[level]
        free.insert(0, np.asarray(total[starts[1:]] - total[starts[:-1]]))
    taken = np.zeros(len(tree.slots), dtype=np.int64)
    for pods in dict.fromkeys((min(tree.size, int(free[0][0])), tree.least)):
        taken[:] = 0
        if pods >= tree.least and _descend(tree, free, 0, 0, pods, taken) == pods:
            return taken
    return None


def _descend(tree: Tree, free: list[Ints], level: int, unit: int, pods: int, taken: Ints) -> int:
    """Place up to `pods` pods below a unit; return how many were placed."""
    if level == tree.depth:
        taken[unit] = pods
        return pods
    rule = tree.rule(level + 1)
    first, last = tree.starts[level][unit : unit + 2].tolist()
    children = _order(tree, level, rule, free[level + 1], (first, last))
    left, parts = pods, rule.partitions if not rule.hard else 0
    siblings = len(children)
    for at, child in enumerate(children):
        if left == 0:
            break
        least, wanted, most = _range(rule, left, siblings - at, parts)
        fits = int(free[level + 1][child])
        if fits < least or most < least:
            continue
        before = taken.copy()
        offered = min(fits, most, wanted)
        offered -= 0 if rule.hard else offered % rule.factor
        share = _descend(tree, free, level + 1, child, offered, taken)
        if least <= share <= most and _is_multiple(rule, share):
            left -= share
            parts -= 1 if parts else 0
        else:
            taken[:] = before
    if rule.partitions and not rule.hard and parts:
        return 0
    return pods - left


def _order(tree: Tree, level: int, rule: LevelRule, free: Ints, span: tuple[int, int]) -> list[int]:
    """Return the children in the order of their visit; with partitions only as many as the rule
    uses.
    """
    children = np.arange(*span)
    sign = -1 if rule.kind == "pack" else 1
    ordered: list[int] = children[np.lexsort((children, sign * free[children]))].tolist()
    if rule.partitions and not rule.hard:
        from_end = level > 0 and tree.rule(level).kind == "spread"
        return ordered[-rule.partitions :] if from_end else ordered[: rule.partitions]
    return ordered


def _range(rule: LevelRule, pods: int, siblings: int, parts: int) -> tuple[int, int, int]:
    """Return the minimum, the desired and the maximum number of pods of the next unit."""
    if rule.hard:
        return (pods, pods, pods) if rule.kind == "pack" else (1, 1, 1)
    even = -(-pods // max(1, parts or siblings))
    wanted = even if rule.kind == "spread" else pods - max(0, parts - 1)
    least, most = 1, pods
    if rule.min > 0 and rule.max > 0:
        least, most = rule.min, min(rule.max, pods)
        wanted = min(max(wanted, least), most)
    if rule.factor > 1:
        least = -(-least // rule.factor) * rule.factor
        most, wanted = most // rule.factor * rule.factor, wanted // rule.factor * rule.factor
        wanted = max(wanted, min(least, most))
    return least, wanted, most


def _is_multiple(rule: LevelRule, share: int) -> bool:
    return rule.hard or share % rule.factor == 0
