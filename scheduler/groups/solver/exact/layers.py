"""Rules over sets of leaves as levels of the tree, so that the exact program can handle them.

If all sets of a rule are unions of whole sibling units below one parent each, every set becomes a
unit of a new level between the two. The rule becomes a mask of allowed counts. Skew depends on the
minimum over all sets; each possible minimum is one mask, and all are tried. The new levels are
`bare`: they have no stage, and counts of used units per parent skip them. Pure functions; callers
use CP-SAT for rules of another form.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import msgspec
import numpy as np

from scheduler.groups.problem.instance import DomainRule, Instance, Level
from scheduler.groups.solver import tree
from scheduler.groups.solver.tree import Bools, Ints, Tree

MOST_RULES = 3  # the rules are tried in every order: 6 orders of three rules

# level -> [unit, pods]: the allowed counts of a unit, up to the largest capacity of the level
Masks: TypeAlias = Mapping[int, Bools]


@dataclass(frozen=True)
class Layer:
    """One rule as a level: `units` has the unit of each of its sets, -1 for an empty set."""

    level: int
    domains: DomainRule
    units: tuple[int, ...]


@dataclass(frozen=True)
class Layers:
    """A tree with a bare level for each rule over sets of leaves."""

    tree: Tree
    layers: tuple[Layer, ...] = ()

    def with_slots(self, slots: Ints) -> "Layers":
        """Return the same layers over a tree with other slots per leaf of the instance."""
        return replace(self, tree=self.tree.with_slots(slots))

    def with_rules(self, domains: Sequence[DomainRule]) -> "Layers":
        """Return these layers with other rules of the same names and sets; their `existing` counts
        may differ.
        """
        by_name = {one.name: one for one in domains}
        layers = (replace(one, domains=by_name[one.domains.name]) for one in self.layers)
        return replace(self, layers=tuple(layers))

    def choices(self, least: int | None = None) -> Iterator[Masks]:
        """Yield masks of the allowed counts of the bare levels; a placement is valid if at least
        one mask allows it.

        Masks under which no size from `least` (default: the group's minimum) to the group's size is
        possible are skipped.
        """
        least = self.tree.least if least is None else least
        masks = [list(self._masks(layer, least)) for layer in self.layers]
        for some in itertools.product(*masks):
            yield {layer.level: mask for layer, mask in zip(self.layers, some, strict=True)}

    def _masks(self, layer: Layer, least: int) -> Iterator[Bools]:
        made, domains = self.tree, layer.domains
        number = made.units(layer.level)
        capacity, fixed = self._sums(layer.level, made.slots), self._sums(layer.level, made.fixed)
        capacity = np.minimum(capacity, made.size)
        counts = np.arange(int(capacity.max()) + 1)
        units = np.array(layer.units, dtype=np.int64)
        there = np.flatnonzero(units >= 0)
        own = units[there]
        before = np.array(domains.existing or (0,) * len(units), dtype=np.int64)
        free = np.ones((number, len(counts)), dtype=np.bool_)
        if domains.at_most:
            free[own] = counts <= np.maximum(domains.at_most, fixed[own])[:, None]
        is_own = np.zeros(number, dtype=np.bool_)
        is_own[own] = True
        left_over = int(capacity[~is_own].sum())
        alone_ones = own.tolist() if domains.single else []
        for alone in alone_ones or [None]:
            mask = free.copy()
            if alone is not None:
                mask[own[own != alone], 1:] = False
            if not domains.max_skew:
                yield mask
                continue
            absent = int(before[units < 0].min(initial=made.size + int(before.max(initial=0))))
            total = before[there][:, None] + counts
            highest = min(absent, int((before[there] + capacity[own]).min(initial=absent)))
            for lowest in range(highest + 1):
                fits = total >= lowest
                fits &= (counts <= fixed[own][:, None]) | (total <= lowest + domains.max_skew)
                fits &= mask[own] & (counts <= capacity[own][:, None])
                if not fits.any(axis=1).all():
                    continue
                fewest = int(fits.argmax(axis=1).sum())
                most = int((counts[-1] - fits[:, ::-1].argmax(axis=1)).sum()) + left_over
                if fewest <= made.size and most >= least:
                    mask_of_own = mask.copy()
                    mask_of_own[own] = fits
                    yield mask_of_own

    def _sums(self, level: int, numbers: Ints) -> Ints:
        """Return the sums of a column of leaves by unit of a level."""
        for each in range(self.tree.depth, level, -1):
            starts = self.tree.starts[each - 1]
            total = np.concatenate(([0], np.cumsum(numbers)))
            numbers = total[starts[1:]] - total[starts[:-1]]
        return numbers


def of(instance: Instance, slots: Ints | None = None) -> Layers | None:
    """Return the tree with the instance's rules as levels; None if a rule has another form.

    `slots` overrides the capacity of the leaves.
    """
    made = tree.build(instance, slots)
    if not instance.domains or not len(made.leaf):
        return Layers(made)
    if len(instance.domains) > MOST_RULES:
        return None
    usable = made.leaf.tolist()
    for order in itertools.permutations(range(len(instance.domains))):
        paths: dict[int, tuple[str, ...]] | None
        depth = made.depth
        paths = {at: tree.filled(instance.leaves[at].path, depth) for at in usable}
        levels = list(instance.levels)
        bare: list[int] = []  # per level the index of its rule, -1 for a level of the instance
        owners = [-1] * depth
        for number in order:
            found = _inserted(paths, instance.domains[number], len(owners))
            if found is None:
                break
            paths, above = found
            levels.insert(above, Level(f"between members {number}"))
            owners.insert(above, number)
            bare.append(number)
        if len(bare) == len(instance.domains):
            return _made(instance, slots, paths, levels, owners)
    return None


def _inserted(
    paths: Mapping[int, tuple[str, ...]], domains: DomainRule, depth: int
) -> tuple[dict[int, tuple[str, ...]], int] | None:
    """Return the paths with one more name above the units that form sets, and its depth."""
    set_of: dict[int, int] = {}
    for number, leaves in enumerate(domains.sets):
        for leaf in leaves:
            if leaf in paths and set_of.setdefault(leaf, number) != number:
                return None
    owner: dict[tuple[str, ...], int] = {}
    for level in range(1, depth + 1):
        owner = {}
        if all(
            owner.setdefault(path[:level], set_of.get(leaf, -1)) == set_of.get(leaf, -1)
            for leaf, path in paths.items()
        ):
            break
    parent: dict[int, tuple[str, ...]] = {}
    first: dict[int, tuple[str, ...]] = {}
    for unit, number in owner.items():
        if number >= 0 and parent.setdefault(number, unit[:-1]) != unit[:-1]:
            return None
        first[number] = min(first.get(number, unit), unit)
    place = {number: at for at, number in enumerate(sorted(first, key=first.__getitem__))}
    names = {number: f"{at:06}/{number}" for number, at in place.items()}
    above = level - 1
    return {
        leaf: (*path[:above], names[set_of.get(leaf, -1)], *path[above:])
        for leaf, path in paths.items()
    }, above


def _made(
    instance: Instance,
    slots: Ints | None,
    paths: Mapping[int, tuple[str, ...]],
    levels: list[Level],
    owners: list[int],
) -> Layers:
    leaves = tuple(
        leaf if at not in paths else msgspec.structs.replace(leaf, path=paths[at])
        for at, leaf in enumerate(instance.leaves)
    )
    leaves = tuple(
        leaf if at in paths else msgspec.structs.replace(leaf, path=(f"//{at}",))
        for at, leaf in enumerate(leaves)
    )
    wider = msgspec.structs.replace(instance, levels=tuple(levels), leaves=leaves)
    bare = tuple(at + 1 for at, owner in enumerate(owners) if owner >= 0)
    made = replace(tree.build(wider, slots), bare=bare)
    found = []
    for level in bare:
        domains = instance.domains[owners[level - 1]]
        unit_of = np.arange(len(made.leaf))
        for each in range(made.depth, level, -1):
            unit_of = made.parents(each)[unit_of]
        by_leaf = dict(zip(made.leaf.tolist(), unit_of.tolist(), strict=True))
        units = (
            next((by_leaf[leaf] for leaf in leaves_of if leaf in by_leaf), -1)
            for leaves_of in domains.sets
        )
        found.append(Layer(level, domains, tuple(units)))
    return Layers(made, tuple(found))
