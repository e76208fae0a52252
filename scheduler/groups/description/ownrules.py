"""The level rules of the groups in a group of groups: the unit that contains each of them, and its
other rules.

A group that must be in one unit of the level directly below its parent's unit is simply in that
unit, as with a topology key. A group of pods may require all its pods on different units: identical
groups of that sort can still be counted. Further rules bind single groups. Pure.
"""

from collections.abc import Mapping, Sequence

import msgspec

from scheduler.groups.description.rules import LevelConstraint
from scheduler.groups.description.spec import GroupNode
from scheduler.groups.planning.planning import rule
from scheduler.groups.problem.instance import LevelRule


class OwnRules(msgspec.Struct, frozen=True):
    """One group's own rules.

    All pods of the group are in one unit of `level` ("": the level of the group around it). Every
    unit of `apart` ("": no level) has at most one of its pods. `rules` are all others.
    """

    level: str = ""
    apart: str = ""
    rules: Mapping[str, LevelRule] = {}


def by_group(
    root: GroupNode, levels: Sequence[str], of_all: Mapping[str, LevelConstraint]
) -> dict[str, OwnRules]:
    """Return the own rules of each group of a tree by key; `of_all` are the rules of the root."""
    all_rules = {level: rule(one) for level, one in of_all.items()}
    found: dict[str, OwnRules] = {}
    _look(root, levels, _packed(all_rules, levels, 0), found)
    return found


def _look(node: GroupNode, levels: Sequence[str], depth: int, found: dict[str, OwnRules]) -> None:
    """Record the rules of a group that is in one unit of each of so many levels, and of those in
    it.
    """
    if node.key_label:
        depth = max(depth, levels.index(node.key_label) + 1)
        found[node.key] = OwnRules(node.key_label)
    else:
        rules = {level: rule(one) for level, one in node.constraints.items()}
        down = _packed(rules, levels, depth)
        given = set(levels[:down])
        others = {
            level: rules[level]
            for level in levels
            if level in rules and not (level in given and rules[level].is_hard_pack)
        }
        spread = [level for level, one in others.items() if one.is_hard_spread]
        if node.is_composite:
            spread = []
        found[node.key] = OwnRules(
            levels[down - 1] if down > depth else "",
            spread[0] if spread else "",
            {level: one for level, one in others.items() if level not in spread},
        )
        depth = down
    for one in node.groups:
        _look(one, levels, depth, found)


def _packed(rules: Mapping[str, LevelRule], levels: Sequence[str], depth: int) -> int:
    """Return the number of levels on which a group is in one unit each, given that it is in one
    unit on each of the first `depth`.
    """
    while depth < len(levels) and rules.get(levels[depth], LevelRule()).is_hard_pack:
        depth += 1
    return depth
