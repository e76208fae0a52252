"""Solve a group of one role with the CP-SAT model.

Called if the exact program does not cover the rules or exceeds its time. Loaded only in the solver
process.
"""

from collections.abc import Callable

import msgspec
import numpy as np

from scheduler.groups.problem import checker
from scheduler.groups.problem.instance import Instance, SolveLimits
from scheduler.groups.solver.cpsat import cells, run, stages
from scheduler.groups.solver.cpsat.model import GroupModel
from scheduler.groups.solver.roles.result import RolesResult
from scheduler.groups.solver.tree import Ints, Tree


def program(
    instance: Instance,
    tree: Tree,
    limits: SolveLimits,
    left_s: Callable[[], float],
    known: Ints | None = None,
) -> RolesResult:
    """Return the best placement by leaf of the instance, fixed pods included.

    `known` is a placement to start from.
    """
    if _is_hopeless(tree):
        return RolesResult(None, is_proven=True)
    fixed = np.array([leaf.fixed for leaf in instance.leaves], dtype=np.int64)
    model = GroupModel(cells.one_role(instance, tree))
    narrow(model)

    def values(counts: Ints) -> list[tuple[str, str, int]]:
        return checker.objective(instance, (counts[0] + fixed).tolist())

    ordered = stages.of_one_role(tree)
    bounds = [stages.bound(tree, stage) for stage in ordered]
    start = None if known is None else (known - fixed).reshape(1, -1)
    found = run.minimize(model, ordered, values, start, bounds, limits, left_s)
    if found.counts is None:
        return found
    return msgspec.structs.replace(found, counts=found.counts[0] + fixed)


def exists(instance: Instance, tree: Tree, limits: SolveLimits, seconds: float) -> bool | None:
    """Return whether a placement exists, None if the time limit is reached first."""
    if _is_hopeless(tree):
        return False
    return run.exists(GroupModel(cells.one_role(instance, tree)), limits, seconds)


def _is_hopeless(tree: Tree) -> bool:
    return int(tree.capacity[0][0]) < tree.least


def narrow(model: GroupModel) -> None:
    """Limit the counts of the top level to an even share, where only capacity restricts them."""
    tree = model.tree
    if tree.least < tree.size or tree.depth < 2 or tree.rule(1).kind != "spread":
        return
    if any(rule.has_numbers or rule.is_hard_pack for rule in tree.rules) or model.group.domains:
        return
    if tree.fixed.any() or int(tree.capacity[1].sum()) < tree.size:
        return
    level = 0
    while int(np.minimum(tree.capacity[1], level + 1).sum()) <= tree.size and level < tree.size:
        level += 1
    for pods, capacity in zip(model.pods[1], tree.capacity[1].tolist(), strict=True):
        model.cp.add(pods >= min(capacity, level))
        model.cp.add(pods <= min(capacity, level + 1))
