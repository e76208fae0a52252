"""What must hold, one class each: every rule builds its rows into the model and nothing else.

`ALL` is the list that scheduler.groups.solver.cpsat.histogram builds, in this order. A rule that an
instance does not have adds nothing.
"""

from typing import Any, Protocol

from scheduler.groups.problem.instance import DomainRule
from scheduler.groups.solver.cpsat.variables import Variables
from scheduler.groups.solver.tree import allowed


class ModelConstraint(Protocol):
    """Something that must hold in every answer."""

    def build(self, model: Variables) -> None:
        """Add the rows."""


class Sums:
    """Pods add up: those of the children to the parent's, the root's to the group."""

    def build(self, model: Variables) -> None:
        """Add one row for each inner unit."""
        tree, last = model.tree, model.tree.depth - 1
        for level in range(last):
            starts = tree.starts[level]
            for unit, pods in enumerate(model.pods[level]):
                children = model.pods[level + 1][starts[unit] : starts[unit + 1]]
                model.cp.add(sum(children) == pods)
        below = by_parent(model)
        for unit, pods in enumerate(model.pods[last]):
            model.cp.add(sum(one.pods for one in below[unit]) == pods)


class UnitUse:
    """A used unit holds at least what its rule asks for and at most what fits; an unused one
    nothing.
    """

    def build(self, model: Variables) -> None:
        """Add kmin * y <= x <= room * y for each inner unit."""
        for level in range(1, model.tree.depth):
            fits = allowed(model.tree.rule(level), model.tree.size)
            least = int(fits.argmax()) if fits.any() else model.tree.size + 1
            for unit, pods in enumerate(model.pods[level]):
                used = model.used[level][unit]
                model.cp.add(pods <= int(model.tree.room[level][unit]) * used)
                model.cp.add(pods >= least * used)


class LeafRoom:
    """Leaves hold what fits: at most as many take k pods or more as have k slots.

    The rows are scaled by the parent's use, the most valuable tightening, except for pack below
    spread, where it was measured to hinder.
    """

    def build(self, model: Variables) -> None:
        """Add one nested row for each class and count."""
        last = model.tree.depth - 1
        rule = model.tree.rule(model.tree.depth)
        above = model.tree.rule(last).kind if last else "pack"
        scaled = last > 0 and not (rule.kind == "pack" and above == "spread")
        for one in model.classes:
            used = model.used[last][one.parent] if scaled else 1
            taken = list(one.taken.items())
            for at, (k, _) in enumerate(taken):
                rest = sum(var for _, var in taken[at:])
                model.cp.add(rest <= one.least[k] * used)


class HeldPods:
    """Pods that are already there stay: every leaf that holds some takes as many or more."""

    def build(self, model: Variables) -> None:
        """Use all leaves of the classes with held pods."""
        for one in model.classes:
            if one.held:
                model.cp.add(one.used == len(one.positions))


class Partitions:
    """Under each used parent just so many units are used: partitions, or one for hard pack."""

    def build(self, model: Variables) -> None:
        """Add one row for each parent of a level with such a rule."""
        tree = model.tree
        for level in range(1, tree.depth):
            wanted = tree.rule(level).units_per_parent
            if wanted:
                starts = tree.starts[level - 1]
                for unit, used in enumerate(model.used[level - 1]):
                    children = model.used[level][starts[unit] : starts[unit + 1]]
                    model.cp.add(sum(children) == wanted * used)
        wanted = tree.rule(tree.depth).units_per_parent
        if wanted:
            below = by_parent(model)
            for unit, used in enumerate(model.used[tree.depth - 1]):
                model.cp.add(sum(one.used for one in below[unit]) == wanted * used)


class DomainConstraint:
    """Rules between members over sets of leaves: at most so many, all in one, skew."""

    def build(self, model: Variables) -> None:
        """Add the rows of each `DomainRule`."""
        held = [leaf.held for leaf in model.instance.leaves]
        for number, domains in enumerate(model.instance.domains):
            pods: list[Any] = [0] * len(domains.sets)
            for one in model.classes:
                for rule, each in one.sets:
                    if rule == number:
                        pods[each] = pods[each] + one.pods
            stood = [sum(held[leaf] for leaf in leaves) for leaves in domains.sets]
            if domains.at_most:
                for each, here in zip(pods, stood, strict=True):
                    model.cp.add(each <= max(domains.at_most, here))
            if domains.only:
                model.cp.add(sum(pods) - sum(stood) == model.pods[0][0] - sum(held))
            if domains.single:
                _single(model, pods)
            if domains.max_skew:
                before = domains.existing or (0,) * len(pods)
                leaving = (model.leaving.get((number, each), 0) for each in range(len(pods)))
                left = [old - gone for old, gone in zip(before, leaving, strict=True)]
                _skew(model, domains, (pods, left, stood))


def _single(model: Variables, pods: list[Any]) -> None:
    chosen = [model.cp.new_bool_var("") for _ in pods]
    model.cp.add_at_most_one(chosen)
    for each, is_chosen in zip(pods, chosen, strict=True):
        model.cp.add(each <= model.tree.size * is_chosen)


def _skew(
    model: Variables, domains: DomainRule, counts: tuple[list[Any], list[Any], list[int]]
) -> None:
    """A set that takes further pods may be at most `max_skew` above the least of all sets.

    `counts` are by set: the group's pods, others that are there, and those of the group's that are
    held.
    """
    pods, before, stood = counts
    highest = model.tree.size + max(domains.existing, default=0)
    lowest = model.cp.new_int_var(0, highest, "")
    for old, new, here in zip(before, pods, stood, strict=True):
        takes = model.cp.new_bool_var("")
        model.cp.add(new <= here + model.tree.size * takes)
        model.cp.add(lowest <= old + new)
        over = old + new - lowest - domains.max_skew
        model.cp.add(over <= 0).only_enforce_if(takes)


def by_parent(model: Variables) -> list[list[Any]]:
    """Return the leaf classes of each unit of the level above the leaves."""
    found: list[list[Any]] = [[] for _ in range(model.tree.units(model.tree.depth - 1))]
    for one in model.classes:
        found[one.parent].append(one)
    return found


ALL: tuple[ModelConstraint, ...] = (
    Sums(),
    UnitUse(),
    LeafRoom(),
    HeldPods(),
    Partitions(),
    DomainConstraint(),
)
