"""Small instances for the solver's tests, written as trees of slots."""

from collections.abc import Mapping
from typing import Any

from scheduler.groups.problem.instance import Instance, Leaf, Level, LevelRule

KEP_A = {
    "rack-0": {"node-0": 5, "node-1": 1, "node-2": 2},
    "rack-1": {"node-3": 2, "node-4": 2, "node-5": 2},
    "rack-2": {"node-6": 0, "node-7": 2, "node-8": 3},
}


def leaves(tree: Mapping[str, Any], above: tuple[str, ...] = ()) -> tuple[Leaf, ...]:
    """Return the leaves of a tree of names; a number is a leaf's slots."""
    found: list[Leaf] = []
    for name, below in tree.items():
        path = (*above, name)
        found += [Leaf(path, below)] if isinstance(below, int) else leaves(below, path)
    return tuple(found)


def group(tree: Mapping[str, Any], size: int, **rules: LevelRule) -> Instance:
    """Return a group in a tree; `rules` name the levels from the top down."""
    levels = tuple(Level(name, rule) for name, rule in rules.items())
    return Instance(levels, leaves(tree), size)


def placed(instance: Instance, counts: tuple[int, ...]) -> dict[str, int]:
    """Return the pods on each used leaf by its name."""
    pairs = zip(instance.leaves, counts, strict=True)
    return {leaf.path[-1]: number for leaf, number in pairs if number}
