"""The stages of the objective of unlike members, the most important first, as plain records.

In the order of scheduler.solver.checkkinds.objective: members left out, what each level wants from the top
down (for all pods, then for each class with a rule there), the cost of traffic, leaves in use.
"""

import msgspec

from scheduler.solver import objective
from scheduler.solver.instance import Rule
from scheduler.solver.kinds import Mixed
from scheduler.solver.tree import Tree

ALL = -1


class Stage(msgspec.Struct, frozen=True):
    """What is minimised at a level (from 1; 0: nowhere in particular), for one class or ALL pods."""

    level: int
    measure: str
    of: int = ALL


def stages(group: Mixed, made: Tree) -> list[Stage]:
    """Return all stages of a group in its tree."""
    plain = [Stage(one.level, one.measure) for one in objective.stages(made)]
    found = [one for one in plain if one.measure == "leftOut"]
    for level in range(1, made.depth + 1):
        if level - 1 not in group.unwished:
            found += [one for one in plain if one.level == level]
        for number, each in enumerate(group.classes):
            for own in each.rules:
                if own.level == level - 1:
                    found += _of_class(level, own.rule, number)
    if group.traffic:
        found.append(Stage(0, "cost"))
    if made.depth - 1 in group.unwished:
        found.append(Stage(made.depth, "leaves"))
    return found


def _of_class(level: int, rule: Rule, number: int) -> list[Stage]:
    measures = ("units", "large") if rule.kind == "pack" else ("squares",)
    return [Stage(level, measure, number) for measure in measures]
