"""Random trees, rules and clusters for the solver, and the slow oracles that try all placements.

`instance` and `preemption` make problems from a seeded source; `best_placement` and `best_victims`
enumerate, and share only the checker with the product.
"""

import itertools
from collections.abc import Iterator
from random import Random

import msgspec

from scheduler.groups.problem import checker
from scheduler.groups.problem.instance import (
    Budget,
    Candidate,
    DomainRule,
    ElasticGroup,
    Instance,
    Leaf,
    Level,
    LevelRule,
    PreemptionInstance,
)
from scheduler.groups.solver.victims import freed
from scheduler.groups.solver.victims.freed import EvictionCapacity


def rule(rng: Random) -> LevelRule:
    """Return a rule: plain, hard, or with some numbers."""
    kind = "pack" if rng.random() < 0.5 else "spread"
    chance = rng.random()
    if chance < 0.5:
        return msgspec.convert({"kind": kind, "hard": chance > 0.35}, LevelRule)
    least = rng.randint(1, 3) if rng.random() < 0.5 else 0
    return msgspec.convert(
        {
            "kind": kind,
            "hard": rng.random() < 0.3,
            "min": least,
            "max": least + rng.randint(0, 3) if least else 0,
            "partitions": rng.choice([0, 0, 2, 3]),
            "factor": rng.choice([1, 1, 2, 3]),
        },
        LevelRule,
    )


def levels(rng: Random, depth: int, share: float) -> tuple[Level, ...]:
    """Return named levels, some of them with a rule beyond a preference."""
    kinds = (LevelRule("pack"), LevelRule("spread"))
    return tuple(
        Level(f"l{at}", rule(rng) if rng.random() < share else rng.choice(kinds))
        for at in range(depth)
    )


def paths(rng: Random, depth: int, widest: int) -> list[tuple[str, ...]]:
    """Return the paths of the leaves of a random tree."""
    found: list[tuple[str, ...]] = [()]
    for _ in range(depth):
        found = [(*path, f"u{at}") for path in found for at in range(rng.randint(1, widest))]
    return found


def instance(rng: Random, *, tiny: bool = False) -> Instance:
    """Return a group in a tree; a tiny one can be enumerated."""
    depth = rng.choice([1, 2, 2, 3] if tiny else [1, 2, 2, 2, 3, 3, 4])
    found = paths(rng, depth, 2 if tiny and depth > 1 else 4 if depth < 3 else 3)[
        : 5 if tiny else 99
    ]
    slots = [rng.choice([0, 1, 2, 2, 3] if tiny else [0, 1, 1, 2, 2, 3, 3, 4, 5, 6]) for _ in found]
    size = rng.randint(1, max(1, min(7 if tiny else 14, sum(slots))))
    fixed = 0
    leaves = []
    share = rng.choice([0.0, 0.0, 0.0, 0.3])
    for path, capacity in zip(found, slots, strict=True):
        here = min(capacity, size - fixed, int(rng.random() < share))
        fixed += here
        leaves.append(Leaf(path, capacity, fixed=here))
    return Instance(levels(rng, depth, 0.7), tuple(leaves), size)


def with_domains(rng: Random, plain: Instance) -> Instance:
    """Return the instance with one or two rules between members over some sets of leaves.

    The sets are random, units of a level or unions of units, or single hosts.
    """
    number = rng.choice([1, 1, 2])
    made = tuple(_domains(rng, plain, f"zone{at}") for at in range(number))
    return msgspec.structs.replace(plain, domains=made)


def _domains(rng: Random, plain: Instance, name: str) -> DomainRule:
    sets: list[list[int]] = [[] for _ in range(rng.randint(1, 3))]
    level = rng.randint(0, len(plain.levels))
    by_unit: dict[tuple[str, ...], list[int]] = {}
    for at, leaf in enumerate(plain.leaves):
        by_unit.setdefault(leaf.path[:level], []).append(at)
        if rng.random() < 0.85:
            rng.choice(sets).append(at)
    chance = rng.random()
    if level and chance < 0.4:
        sets = list(by_unit.values())
    elif level and chance < 0.8:
        sets = [[] for _ in range(rng.randint(1, 3))]
        for unit in by_unit.values():
            if rng.random() < 0.95:
                rng.choice(sets).extend(unit)
    return DomainRule(
        name,
        tuple(tuple(each) for each in sets),
        at_most=rng.choice([0, 0, 1, 2]),
        single=rng.random() < 0.2,
        max_skew=rng.choice([0, 1, 1, 2]),
        existing=tuple(rng.choice([0, 0, 1, 2]) for _ in sets),
        only=rng.random() < 0.3,
    )


def elastic(rng: Random, plain: Instance) -> Instance:
    """Return the instance with a minimum, its members or its levels first."""
    fixed = sum(leaf.fixed for leaf in plain.leaves)
    return msgspec.structs.replace(
        plain,
        size=plain.size + rng.randint(0, 2),
        minimum=rng.randint(max(1, fixed), plain.size),
        levels_first=rng.random() < 0.4,
    )


def placements(
    problem: Instance,
) -> Iterator[tuple[tuple[int, ...], list[tuple[str, str, int]]]]:
    """Yield every placement, as counts by leaf, with its stages: level, measure, value."""
    for counts in itertools.product(
        *(range(leaf.fixed, leaf.slots + 1) for leaf in problem.leaves)
    ):
        if problem.least <= sum(counts) <= problem.size and not checker.problems(problem, counts):
            yield counts, checker.objective(problem, counts)


def best_placement(problem: Instance) -> list[int] | None:
    """Return the values of the best placement by trying all; None without one."""
    found = ([value for _, _, value in stages] for _, stages in placements(problem))
    return min(found, default=None)


def preemption(rng: Random, *, tiny: bool = False) -> PreemptionInstance:
    """Return a nearly full cluster with groups and single pods, and a group to place.

    A tiny one has rules between members, and its placements can be enumerated.
    """
    depth = rng.choice([1, 2, 2] if tiny else [1, 2, 2, 2, 3])
    found = paths(rng, depth, 2 if tiny and depth > 1 else 3)
    kinds = rng.choice([1, 1, 2])
    free = [[rng.randint(3, 6) for _ in range(kinds)] for _ in found]
    budgets = rng.choice([0, 0, 1, 2])
    candidates = []
    for at in range(rng.randint(3, 8)):
        made = _candidate(rng, at, free, budgets)
        if made is not None:
            candidates.append(made)
    for amounts in free:
        if rng.random() < 0.5:
            amounts[:] = [have - rng.randint(0, max(0, have)) for have in amounts]
    leaves = tuple(Leaf(path, -1, tuple(have)) for path, have in zip(found, free, strict=True))
    request = tuple(rng.randint(1, 2) for _ in range(kinds))
    size = rng.randint(2, 5 if tiny else 10)
    group = Instance(levels(rng, depth, 0.35), leaves, size, request)
    if tiny:
        group = with_domains(rng, group)
        if rng.random() < 0.3:
            group = elastic(rng, group)
        uncounted = {rule.name: list(rule.existing) for rule in group.domains}
        candidates = [_counting(rng, one, uncounted) for one in candidates]
    allowed = tuple(Budget(f"b{at}", rng.randint(0, 3)) for at in range(budgets))
    forbid = rng.random() < 0.3
    ends = tuple(_elastic(rng, candidates))
    if rng.random() < 0.5:
        candidates = [
            msgspec.structs.replace(one, stranded=rng.randint(0, one.pods)) for one in candidates
        ]
    return PreemptionInstance(group, tuple(candidates), allowed, forbid, ends)


def _elastic(rng: Random, candidates: list[Candidate]) -> Iterator[ElasticGroup]:
    """Yield elastic groups of some of the single pods, each of one priority."""
    for priority in sorted({one.priority for one in candidates}):
        own = [
            index
            for index, one in enumerate(candidates)
            if one.single and one.priority == priority and rng.random() < 0.8
        ]
        pods = sum(candidates[index].count for index in own)
        if pods > 1 and rng.random() < 0.7:
            yield ElasticGroup(tuple(own), rng.randint(1, pods - 1))


def _counting(rng: Random, one: Candidate, uncounted: dict[str, list[int]]) -> Candidate:
    """Return a candidate some of whose pods count in rules between members."""
    counted: dict[str, dict[int, int]] = {}
    for name, left in uncounted.items():
        for number, pods in enumerate(left):
            if pods >= one.count and rng.random() < 0.3:
                counted.setdefault(name, {})[number] = 1
                left[number] -= one.count
    return msgspec.structs.replace(one, counted=counted)


def _candidate(rng: Random, at: int, free: list[list[int]], budgets: int) -> Candidate | None:
    """Use capacity for one group, or for some identical single pods of one leaf."""
    kinds = len(free[0])
    per = tuple(rng.randint(0 if kinds > 1 else 1, 2) for _ in range(kinds))
    single = rng.random() < 0.3
    count = rng.randint(1, 3) if single else 1
    freed: dict[int, tuple[int, ...]] = {}
    pods = 0
    for _ in range(1 if single else rng.randint(1, 5)):
        leaf = rng.randrange(len(free))
        if all(have >= count * need for have, need in zip(free[leaf], per, strict=True)):
            free[leaf] = [have - count * need for have, need in zip(free[leaf], per, strict=True)]
            before = freed.get(leaf, (0,) * kinds)
            freed[leaf] = tuple(a + b for a, b in zip(before, per, strict=True))
            pods += 1
    if not pods:
        return None
    covered = {each: rng.randint(1, pods) for each in range(budgets) if rng.random() < 0.5}
    return Candidate(f"g{at}", rng.randrange(3), pods, freed, single, count, covered)


def harm(problem: PreemptionInstance, evicted: freed.Choice) -> tuple[int, ...]:
    """Return the harm of an answer, in the order of importance."""
    priorities = sorted({one.priority for one in problem.candidates}, reverse=True)
    pods = (freed.pods(problem, evicted, priority) for priority in priorities)
    found = [freed.violations(problem, evicted), *pods]
    if any(one.stranded for one in problem.candidates):
        found.append(freed.stranded(problem, evicted))
    return (*found, freed.groups(problem, evicted))


def best_victims(problem: PreemptionInstance) -> tuple[int, ...] | None:
    """Return the least harm by trying every set; None if no set suffices."""
    freed_by = EvictionCapacity(problem)
    best: tuple[int, ...] | None = None
    for times in itertools.product(*(range(one.count + 1) for one in problem.candidates)):
        evicted = {index: n for index, n in enumerate(times) if n}
        cost = harm(problem, evicted)
        if evicted != freed.closed(problem, evicted):
            continue  # an elastic group loses its surplus, or all
        if (best is None or cost < best) and not (problem.forbid and cost[0]):
            fits = (
                freed_by.fits(evicted) if not problem.instance.domains else _fits(problem, evicted)
            )
            best = cost if fits else best
    return best


def _fits(problem: PreemptionInstance, evicted: freed.Choice) -> bool:
    """Return whether any placement is valid after these evictions: for tiny problems."""
    return any(True for _ in placements(after(problem, evicted)))


def after(problem: PreemptionInstance, evicted: freed.Choice) -> Instance:
    """Return the group's instance after these evictions.

    Slots are the pods that fit the free amounts.
    """
    free = [list(leaf.free) for leaf in problem.instance.leaves]
    for index, times in evicted.items():
        for leaf, amounts in problem.candidates[index].freed.items():
            free[leaf] = [
                have + times * more for have, more in zip(free[leaf], amounts, strict=True)
            ]
    size, request = problem.instance.size, problem.instance.request
    leaves = tuple(
        msgspec.structs.replace(
            leaf,
            free=tuple(amounts),
            slots=min([size, *(max(0, a) // n for a, n in zip(amounts, request, strict=True))]),
        )
        for leaf, amounts in zip(problem.instance.leaves, free, strict=True)
    )
    rules = []
    for one in problem.instance.domains:
        existing = list(one.existing)
        for index, times in evicted.items():
            for number, pods in problem.candidates[index].counted.get(one.name, {}).items():
                existing[number] -= times * pods
        rules.append(msgspec.structs.replace(one, existing=tuple(existing)))
    return msgspec.structs.replace(problem.instance, leaves=leaves, domains=tuple(rules))
