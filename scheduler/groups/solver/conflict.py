"""Why a group fits nowhere: the smallest set of rules that cannot hold together, and what would help.

Every number of a rule and every hard type counts as one rule that could be given up; so does each
`Domains`. Called after a solve has said `infeasible`. The search is exact; when time is over the set is
one from which nothing can be left out, and says that a smaller one may exist.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence

import msgspec
import numpy as np

from scheduler.base.clock import perf_s
from scheduler.groups.solver import exact, feasible, fold, layers, solve, tree
from scheduler.groups.solver.answer import Advice, Conflict
from scheduler.groups.solver.instance import Instance, Level, LevelRule, SolveLimits

LARGEST_LOOK = 4096
Fits = Callable[[frozenset["Conflict"]], bool]


def explain(instance: Instance, limits: SolveLimits | None = None) -> Advice:
    """Return why the group does not fit; an empty conflict when it does.

    When time is over, what is not known to conflict counts as fitting: the set may then be larger
    than it had to be. An elastic group fits when any of its sizes does.
    """
    until = perf_s() + (limits or SolveLimits()).total_s
    rules = frozenset(rules_of(instance))
    made = tree.build(instance)
    bare = with_rules(instance, frozenset()).fixed(_look(instance))
    free = int(tree.build(bare).slots.sum())
    known: dict[frozenset[Conflict], bool] = {}

    def late() -> bool:
        return perf_s() > until

    def fits(kept: frozenset[Conflict]) -> bool:
        if kept not in known:
            known[kept] = late() or _fits(with_rules(instance, kept), until)
        return known[kept]

    if fits(rules):
        return Advice((), free=free)
    smaller, larger = _sizes(instance, rules, late)
    if int(made.slots.sum()) < instance.least or not fits(frozenset()):
        return Advice((Conflict("", "size", str(instance.least)),), smaller, larger, free)
    found = smallest(rules_of(instance), fits, late)
    return msgspec.structs.replace(found, smaller=smaller, larger=larger, free=free)


def smallest(ordered: Sequence[Conflict], fits: Fits, late: Callable[[], bool]) -> Advice:
    """Return a smallest set of rules that does not fit, and a smallest one to give up, in this order.

    All of them do not fit together, none of them do.
    """
    rules = frozenset(ordered)
    order = {one: at for at, one in enumerate(ordered)}
    found, is_smallest = _smallest(rules, fits, late)
    marked = tuple(
        msgspec.structs.replace(one, fits_without=not late() and fits(rules - {one}))
        for one in sorted(found, key=order.__getitem__)
    )
    given_up = sorted(_least_given_up(rules, fits, late), key=order.__getitem__)
    return Advice(marked, smallest=is_smallest and not late(), give_up=tuple(given_up))


def rules_of(instance: Instance) -> list[Conflict]:
    """Return every rule that could be given up, from the top level down."""
    found = []
    for level in instance.levels:
        rule = level.rule
        numbers = {"min": rule.min, "max": rule.max, "partitions": rule.partitions}
        found += [Conflict(level.name, key, str(n)) for key, n in numbers.items() if n > 0]
        if rule.factor > 1:
            found.append(Conflict(level.name, "factor", str(rule.factor)))
        if rule.is_hard_pack or rule.is_hard_spread:
            found.append(Conflict(level.name, "hard", rule.kind))
    return found + [Conflict("", "between members", each.name) for each in instance.domains]


def with_rules(instance: Instance, kept: frozenset[Conflict]) -> Instance:
    """Return the instance with only these rules binding."""
    names = {(one.level, one.rule) for one in kept}
    levels = []
    for level in instance.levels:
        rule, name = level.rule, level.name
        levels.append(
            Level(
                name,
                LevelRule(
                    rule.kind,
                    (name, "hard") in names,
                    rule.min if (name, "min") in names else 0,
                    rule.max if (name, "max") in names else 0,
                    rule.partitions if (name, "partitions") in names else 0,
                    rule.factor if (name, "factor") in names else 1,
                ),
            )
        )
    between = {one.value for one in kept if one.rule == "between members"}
    return msgspec.structs.replace(
        instance,
        levels=tuple(levels),
        domains=tuple(each for each in instance.domains if each.name in between),
    )


def message(advice: Advice, size: int, least: int = 0) -> str:
    """Say in one sentence or two what is in the way and what would help.

    Of an elastic group of up to `size` pods `least` have to fit; 0 stands for all.
    """
    least = least or size
    if not advice.conflict:
        return f"the group of {size} fits"
    enough = "all fit" if least == size else f"at least {least} fit{'s' * (least == 1)}"
    if advice.conflict[0].rule == "size":
        helps = [f"the nodes have room for {advice.free}"]
    else:
        helps = [reasons(advice, enough)]
    near = [str(n) for n in (advice.smaller, advice.larger) if n]
    if near:
        helps.append(f"a group of {' or '.join(near)} would fit")
    return f"{_pods(size, least)}: {'; '.join(helps)}"


def reasons(advice: Advice, enough: str) -> str:
    """Say which rules cannot hold together and without which `enough`; nothing of a lack of room."""
    rules = [one for one in advice.conflict if one.rule != "size"]
    if not rules:
        return ""
    names = " and ".join(_name(one) for one in rules)
    text = f"{names} cannot hold" + " together" * (len(rules) > 1)
    alone = [_name(one) for one in rules if one.fits_without]
    if alone:
        return f"{text}; without {' or '.join(alone)} {enough}"
    if advice.give_up:
        return f"{text}; without {' and '.join(_name(one) for one in advice.give_up)} {enough}"
    return text


def _pods(size: int, least: int) -> str:
    """Say that not enough of a group's pods fit."""
    if least < size:
        return (
            f"none of {size} pods fits" if least == 1 else f"fewer than {least} of {size} pods fit"
        )
    return "1 pod does not fit" if size == 1 else f"{size} pods do not fit"


def _name(one: Conflict) -> str:
    if one.rule == "hard":
        return f"{one.level} hard {one.value}"
    return f"{one.level} {one.rule} {one.value}".strip()


def _fits(instance: Instance, until: float) -> bool:
    instance = fold.folded(instance)
    parts = fold.by_domain(instance)
    if parts is not None:
        return any(_fits(part, until) for part in parts)
    layered = layers.of(instance)
    if layered is not None:
        return feasible.fits(layered)
    from scheduler.groups.solver import cpsat

    made = tree.build(instance)
    return cpsat.exists(instance, made, SolveLimits(), until - perf_s())


def fits_soon(instance: Instance) -> bool | None:
    """Return whether the group fits where that is decided in milliseconds, None where it is not."""
    parts = fold.by_domain(fold.folded(instance))
    instances = [fold.folded(instance)] if parts is None else parts
    unknown = False
    for part in instances:
        layered = None if len(part.leaves) > solve.QUICK_LEAVES else layers.of(part)
        if layered is None or sum(exact.work(layered.tree)) > solve.QUICK_SUMS:
            unknown = True
        elif feasible.fits(layered):
            return True
    return None if unknown else False


def _sizes(
    instance: Instance, rules: frozenset[Conflict], late: Callable[[], bool]
) -> tuple[int, int]:
    """Return the nearest sizes that fit under all rules; 0 when there is none or nobody knows."""
    largest = with_rules(instance, rules).fixed(_look(instance))
    layered = layers.of(fold.folded(largest))
    bits = None if layered is None else feasible.sizes(layered, late)
    if bits is None:
        return 0, 0
    sizes = np.flatnonzero(np.array([int(bit) for bit in bin(bits)[:1:-1]]))
    held = sum(leaf.held for leaf in instance.leaves)
    below = sizes[(sizes < instance.least) & (sizes >= max(1, held))]
    above = sizes[sizes > instance.size]
    return (int(below[-1]) if len(below) else 0), (int(above[0]) if len(above) else 0)


def _look(instance: Instance) -> int:
    """Return the largest size that is looked at: none fits beyond the room of all leaves."""
    most = tree.build(instance.fixed(max(LARGEST_LOOK, instance.size)))
    return max(instance.size, min(LARGEST_LOOK, int(most.slots.sum())))


def _smallest(
    rules: frozenset[Conflict], fits: Fits, late: Callable[[], bool]
) -> tuple[frozenset[Conflict], bool]:
    """Return a smallest set that does not fit: first any one that cannot lose a rule, then fewer."""
    found = rules
    for one in sorted(rules, key=str):
        if not fits(found - {one}):
            found -= {one}
    for number in range(1, len(found)):
        for some in _subsets(rules, number):
            if late():
                return found, False
            if not fits(some):
                return some, True
    return found, True


def _least_given_up(
    rules: frozenset[Conflict], fits: Fits, late: Callable[[], bool]
) -> frozenset[Conflict]:
    """Return a smallest set of rules without which the group fits; all of them when time is over."""
    for number in range(1, len(rules)):
        for some in _subsets(rules, number):
            if late():
                return rules
            if fits(rules - some):
                return some
    return rules


def _subsets(rules: frozenset[Conflict], number: int) -> Iterable[frozenset[Conflict]]:
    return (frozenset(some) for some in itertools.combinations(sorted(rules, key=str), number))
