"""Rules that speak of labels, as Kueue's annotations do, as rules for the levels of the tree that
has them. Pure.
"""

from msgspec.structs import replace

from scheduler.base.errors import ObjectError
from scheduler.groups.description.rules import LevelConstraint
from scheduler.groups.description.spec import GroupSpec
from scheduler.groups.topology.tree import Topology


def resolved(spec: GroupSpec, tree: Topology) -> GroupSpec:
    """Return a group with its label rule as rules for levels; ObjectError on slices that are not
    nested.

    One unit of a level implies one unit of each level above it. A preferred level needs no rule:
    few units, from the top down, are preferred anyway.
    """
    rule = spec.labels
    if rule is None:
        return spec
    rules: dict[str, LevelConstraint] = {}
    if rule.required:
        depth = tree.levels.index(tree.aliases[rule.required])
        rules = {level: LevelConstraint("pack", hard=True) for level in tree.levels[: depth + 1]}
    if rule.slices:
        level = tree.aliases[rule.slices]
        if level in rules:
            raise ObjectError(f"slices by {rule.slices} are not inside one unit of {rule.required}")
        rules[level] = LevelConstraint("pack", factor=rule.slice_size)
    return replace(spec, constraints=rules)
