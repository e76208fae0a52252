"""The variables of the CP-SAT model: pods and use of inner units, a histogram of the leaves below
each.

Leaves under one parent are interchangeable: t[k] counts how many of them take exactly k pods, so
ten thousand leaves need a few thousand numbers. Leaves that a rule tells apart (held pods, sets of
`Domains`) stand in classes of their own. Loaded only where solving happens.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from ortools.sat.python import cp_model

from scheduler.groups.problem.instance import Instance
from scheduler.groups.solver.tree import Bools, Ints, Tree, allowed


@dataclass(frozen=True)
class LeafClass:
    """Like leaves under one parent: their positions, held pods, sets they are in, and t by
    count.
    """

    parent: int
    positions: Ints
    held: int
    sets: tuple[tuple[int, int], ...]
    least: dict[int, int]
    taken: dict[int, Any] = field(default_factory=dict)

    @property
    def pods(self) -> Any:
        """Return the pods on the class, as an expression."""
        return sum(k * var for k, var in self.taken.items())

    @property
    def used(self) -> Any:
        """Return the used leaves of the class, as an expression."""
        return sum(self.taken.values())


@dataclass(frozen=True)
class Variables:
    """The model under construction and its variables; constraints and objectives add to it.

    `leaving` has how many of the existing pods leave each (rule, set) of the instance's `Domains`.
    """

    cp: cp_model.CpModel
    instance: Instance
    tree: Tree
    pods: tuple[tuple[Any, ...], ...]
    used: tuple[tuple[Any, ...], ...]
    classes: tuple[LeafClass, ...]
    leaving: Mapping[tuple[int, int], Any] = field(default_factory=dict)


def make(instance: Instance, tree: Tree, left_out: Bools | None = None) -> Variables:
    """Return a model with variables and no constraint yet; `pods[l][u]`, `used[l][u]`, root first.

    The leaves in `left_out` get no histogram: the caller has other variables for them.
    """
    cp = cp_model.CpModel()
    is_fixed = tree.least == tree.size
    total = tree.size if is_fixed else cp.new_int_var(tree.least, tree.size, "placed")
    pods: list[tuple[Any, ...]] = [(total,)]
    used: list[tuple[Any, ...]] = [(1,)]
    for level in range(1, tree.depth):
        fits = allowed(tree.rule(level), tree.size)
        pods.append(
            tuple(
                cp.new_int_var_from_domain(domain(fits, int(room)), f"x{level}_{unit}")
                for unit, room in enumerate(tree.room[level])
            )
        )
        used.append(tuple(cp.new_bool_var(f"y{level}_{unit}") for unit in range(tree.units(level))))
    return Variables(
        cp, instance, tree, tuple(pods), tuple(used), _classes(cp, instance, tree, left_out)
    )


def domain(fits: Bools, room: int) -> Any:
    """Return 0 and the allowed counts up to `room` as a domain."""
    counts = [0, *np.flatnonzero(fits[: room + 1]).tolist()]
    return cp_model.Domain.from_values(counts)


def _classes(
    cp: cp_model.CpModel, instance: Instance, tree: Tree, left_out: Bools | None
) -> tuple[LeafClass, ...]:
    sets_of = memberships(instance)
    grouped: dict[tuple[int, int, tuple[tuple[int, int], ...]], list[int]] = defaultdict(list)
    parents = tree.parents(tree.depth).tolist()
    for position, (row, held) in enumerate(
        zip(tree.leaf.tolist(), tree.held.tolist(), strict=True)
    ):
        if left_out is None or not left_out[position]:
            grouped[parents[position], held, sets_of.get(row, ())].append(position)
    fits = allowed(tree.rule(tree.depth), tree.size)
    found = []
    for number, ((parent, held, sets), positions) in enumerate(sorted(grouped.items())):
        room = tree.room[tree.depth][positions]
        counts = [k for k in np.flatnonzero(fits[: int(room.max()) + 1]).tolist() if k >= held]
        at_least = {k: int((room >= k).sum()) for k in counts}
        made = LeafClass(parent, np.array(positions), held, sets, at_least)
        for k in counts:
            most = min(at_least[k], tree.size // k)
            made.taken[k] = cp.new_int_var(0, most, f"t{number}_{k}")
        found.append(made)
    return tuple(found)


def memberships(instance: Instance) -> dict[int, tuple[tuple[int, int], ...]]:
    """Return for each leaf in sets of `Domains` the (rule, set) pairs."""
    found: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for rule, domains in enumerate(instance.domains):
        for number, leaves in enumerate(domains.sets):
            for leaf in leaves:
                found[leaf].append((rule, number))
    return {leaf: tuple(sets) for leaf, sets in found.items()}
