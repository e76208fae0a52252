"""The stages of the objective of unlike members, the most important first, as plain records.

In the order of scheduler.groups.problem.checker.objective: members left out, what each level wants
from the top down (for all pods, then for each class with a rule there, or for all parts with one
together), the cost of traffic, leaves in use.
"""

import msgspec

from scheduler.groups.problem.roles import GroupProblem
from scheduler.groups.solver.cpsat import objective
from scheduler.groups.solver.tree import Tree

ALL: tuple[int, ...] = ()
_MEASURES = {"pack": ("units", "large"), "spread": ("squares",)}


class RolesStage(msgspec.Struct, frozen=True):
    """What is minimised at a level (from 1; 0: nowhere in particular), for ALL pods or the sum of
    these classes.
    """

    level: int
    measure: str
    of: tuple[int, ...] = ALL


def stages(group: GroupProblem, made: Tree) -> list[RolesStage]:
    """Return all stages of a group in its tree."""
    plain = [RolesStage(one.level, one.measure) for one in objective.stages(made)]
    found = [one for one in plain if one.measure == "leftOut"]
    for level in range(1, made.depth + 1):
        if level - 1 not in group.unwished:
            found += [one for one in plain if one.level == level]
        found += _of_classes(group, level)
    if group.traffic:
        found.append(RolesStage(0, "cost"))
    if made.depth - 1 in group.unwished:
        found.append(RolesStage(made.depth, "leaves"))
    return found


def _of_classes(group: GroupProblem, level: int) -> list[RolesStage]:
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
    return [
        RolesStage(level, measure, those) for kind, those in together for measure in _MEASURES[kind]
    ]
