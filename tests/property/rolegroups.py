"""Random groups of heterogeneous members in small trees, and the oracle that tries every
placement.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from math import comb, prod
from random import Random

import msgspec
import numpy as np

from scheduler.groups.problem import checker
from scheduler.groups.problem.classes import (
    ClassRule,
    LinkLimit,
    PairRule,
    PathLimit,
    PodClass,
    Relation,
    Traffic,
    TrafficCosts,
    TrafficStream,
)
from scheduler.groups.problem.instance import Candidate, DomainRule, ElasticGroup, Level, LevelRule
from scheduler.groups.problem.instance import Kind as Wish
from scheduler.groups.problem.roles import Apart, GroupPreemption, GroupProblem, Role
from scheduler.groups.solver.roles.result import objective_of
from scheduler.groups.solver.victims import freed
from tests.property.groups import levels, paths, rule

RELATIONS: tuple[Relation, ...] = ("same", "other", "with", "one")
LARGEST_SPACE = 4_000
Counts = tuple[tuple[int, ...], ...]


def group(rng: Random) -> GroupProblem:
    """Return a group of one to three kinds over at most five leaves, small enough to enumerate."""
    depth = rng.choice([1, 2, 2, 3])
    found = paths(rng, depth, 2 if depth > 1 else 4)[:5]
    resources = rng.choice([1, 2])
    leaves = range(len(found))
    kinds = tuple(
        Role(
            rng.randint(1, 3),
            tuple(rng.randint(0 if at else 1, 3) for at in range(resources)),
            tuple(rng.choice([0, 1, 2, 3, 3]) for _ in leaves),
        )
        for _ in range(rng.choice([1, 2, 2, 3]))
    )
    free = tuple(tuple(rng.randint(-1, 6) for _ in range(resources)) for _ in leaves)
    wanted = sum(kind.count for kind in kinds)
    minimum = wanted if rng.random() < 0.6 else rng.randint(1, wanted)
    fixed = tuple(int(rng.random() < 0.2) for _ in leaves) if rng.random() < 0.3 else ()
    return GroupProblem(
        kinds,
        free,
        levels(rng, depth, 0.6),
        tuple(found),
        minimum,
        _apart(rng, len(kinds), leaves),
        fixed,
        domains=_spreads(rng, len(kinds), leaves),
    )


def partly_bound(rng: Random) -> GroupProblem:
    """Return a group with a bound pod, whose pods must all be in one unit of the first level."""
    made = group(rng)
    top, *below = made.levels
    fixed = [0] * len(made.paths)
    fixed[rng.randrange(len(fixed))] = 1
    levels = (Level(top.name, LevelRule("pack", hard=True)), *below)
    return msgspec.structs.replace(made, levels=levels, fixed=tuple(fixed))


def _apart(rng: Random, kinds: int, leaves: range) -> tuple[Apart, ...]:
    if rng.random() < 0.7:
        return ()
    sets: list[list[int]] = [[] for _ in range(rng.randint(1, len(leaves)))]
    for leaf in leaves:
        rng.choice(sets).append(leaf)
    there = tuple(tuple(one) for one in sets if one)
    return (Apart(there, rng.randrange(kinds), rng.randrange(kinds)),)


def _spreads(rng: Random, kinds: int, leaves: range) -> tuple[DomainRule, ...]:
    """Return rules of topology spread, also with leaves in no domain and domains without leaves."""
    found = []
    for number in range(rng.choice([0, 0, 1, 1, 2])):
        sets: list[list[int]] = [[] for _ in range(rng.randint(1, 3))]
        for leaf in leaves:
            if rng.random() < 0.9:
                rng.choice(sets).append(leaf)
        found.append(
            DomainRule(
                f"spread {number}",
                tuple(map(tuple, sets)),
                max_skew=rng.randint(1, 2),
                existing=tuple(rng.choice([0, 0, 1, 2]) for _ in sets),
                only=True,
                asking=tuple(sorted(rng.sample(range(kinds), rng.randint(1, kinds)))),
                counted=tuple(sorted(rng.sample(range(kinds), rng.randint(1, kinds)))),
            )
        )
    return tuple(found)


def classed(rng: Random) -> GroupProblem:
    """Return a group of two to four classes with random rules, in a tree of two to four levels."""
    depth = rng.choice([2, 2, 3, 4])
    found = paths(rng, depth, 2)[: rng.choice([3, 4, 4, 5])]
    leaves = range(len(found))
    sizes = [rng.choice([1, 1, 2, 2, 3, 4]) for _ in range(rng.choice([2, 2, 3, 3, 4]))]
    while rows_of(sizes, len(found)) > LARGEST_SPACE:
        sizes[sizes.index(max(sizes))] -= 1
    resources = rng.choice([1, 2])
    kinds = tuple(
        Role(
            count,
            tuple(rng.randint(0 if at else 1, 3) for at in range(resources)),
            tuple(rng.choice([0, 1, 2, 4, 4, 4]) for _ in leaves),
        )
        for count in sizes
    )
    free = tuple(tuple(rng.randint(-1, 14) for _ in range(resources)) for _ in leaves)
    wanted = sum(sizes)
    classes = _classes(rng, sizes, len(found), depth)
    fixed = tuple(sum(one.fixed[leaf] for one in classes if one.fixed) for leaf in leaves)
    pairs = [(rng.randrange(len(classes)), rng.randrange(len(classes))) for _ in range(3)]
    areas = rng.randint(1, 3) if rng.random() < 0.5 else 0
    return GroupProblem(
        kinds,
        free,
        levels(rng, depth, 0.1),
        tuple(found),
        wanted if rng.random() < 0.3 else rng.randint(1, wanted),
        _apart(rng, len(kinds), leaves) if rng.random() < 0.3 else (),
        fixed if any(fixed) else (),
        classes=classes,
        between=tuple(
            PairRule(rng.choice(RELATIONS), first, second, rng.randrange(depth))
            for first, second in pairs[: rng.choice([0, 0, 1, 1, 2])]
            if first != second
        ),
        traffic=tuple(Traffic(*pair, rng.randint(0, 3)) for pair in pairs[: rng.choice([0, 1, 2])]),
        costs=TrafficCosts(
            tuple(rng.choice([0, 1, 2]) for _ in range(rng.choice([0, depth - 1, depth, depth]))),
            tuple(rng.randrange(areas) for _ in leaves) if areas else (),
            tuple(tuple(rng.randint(0, 5) for _ in range(areas)) for _ in range(areas)),
        ),
        unwished=tuple(at for at in range(depth) if rng.random() < 0.4),
        domains=_spreads(rng, len(kinds), leaves) if rng.random() < 0.5 else (),
    )


def rows_of(sizes: Sequence[int], leaves: int) -> int:
    """Return the number of placements of up to `sizes` pods of each kind on leaves."""
    return prod(comb(size + leaves, leaves) for size in sizes)


def application(rng: Random) -> GroupProblem:
    """Return workloads with traffic over paths of unequal costs, some of them above the limits of
    dependent workloads.

    Leaves are nodes in up to four zones: cost 0 on one node, 1 in a zone, up to 9 between zones,
    different in each direction; some workloads have fewer pods than they need, some have bound
    pods.
    """
    leaves = range(rng.choice([3, 3, 4, 4, 5]))
    sizes = [rng.choice([1, 1, 2, 2, 3]) for _ in range(rng.choice([2, 3, 3, 4]))]
    while rows_of(sizes, len(leaves)) > LARGEST_SPACE:
        sizes[sizes.index(max(sizes))] -= 1
    resources = rng.choice([1, 2])
    kinds = tuple(
        Role(
            count,
            tuple(rng.randint(0 if at else 1, 3) for at in range(resources)),
            tuple(rng.choice([0, 2, 4, 4, 4]) for _ in leaves),
        )
        for count in sizes
    )
    classes = tuple(
        PodClass(
            f"w{number}",
            (number,),
            rng.randint(1, max(1, count)) + (rng.random() < 0.05),
            fixed=tuple(int(rng.random() < 0.3) for _ in leaves) if rng.random() < 0.3 else (),
        )
        for number, count in enumerate(sizes)
    )
    fixed = tuple(sum(one.fixed[leaf] for one in classes if one.fixed) for leaf in leaves)
    zones = rng.randint(2, 4)
    costs = [
        [1 if here == there else rng.randint(0, 9) for there in range(zones)]
        for here in range(zones)
    ]
    pairs = {(rng.randrange(len(sizes)), rng.randrange(len(sizes))) for _ in range(4)}
    directed = [(one, other) for one in range(zones) for other in range(zones) if one != other]
    links = rng.sample(directed, rng.randint(1, len(directed))) if rng.random() < 0.4 else []
    limits = [(first, second, rng.choice([0, 3, 6, 9])) for first, second in sorted(pairs)]
    return GroupProblem(
        kinds,
        tuple(tuple(rng.randint(0, 12) for _ in range(resources)) for _ in leaves),
        (Level("node"),),
        tuple((f"n{leaf}",) for leaf in leaves),
        sum(sizes) if rng.random() < 0.3 else rng.randint(1, sum(sizes)),
        fixed=fixed if any(fixed) else (),
        classes=classes,
        traffic=tuple(Traffic(*pair, rng.randint(1, 2)) for pair in sorted(pairs)),
        costs=TrafficCosts(
            (1,),
            tuple(rng.randrange(zones) for _ in leaves),
            tuple(
                tuple(0 if here == there else cost - 1 for there, cost in enumerate(row))
                for here, row in enumerate(costs)
            ),
        ),
        unwished=(0,),
        limits=tuple(
            PathLimit(
                first,
                second,
                tuple(
                    tuple(there for there, cost in enumerate(row) if there != here and cost > limit)
                    for here, row in enumerate(costs)
                ),
                limit,
            )
            for first, second, limit in limits
            if rng.random() < 0.6
        ),
        flows=tuple(TrafficStream(*pair, rng.choice([1, 2, 3])) for pair in sorted(pairs)[:2]),
        links=tuple(
            LinkLimit((one,), (other,), rng.randint(0, 4), rng.random() < 0.3)
            for one, other in links
        ),
    )


def _classes(rng: Random, sizes: Sequence[int], leaves: int, depth: int) -> tuple[PodClass, ...]:
    """Return a class of each kind; sometimes the last two kinds are one class."""
    parts: list[tuple[int, ...]] = [(kind,) for kind in range(len(sizes))]
    if len(parts) > 2 and rng.random() < 0.2:
        parts[-2:] = [(len(sizes) - 2, len(sizes) - 1)]
    made = []
    for number, kinds in enumerate(parts):
        count = sum(sizes[kind] for kind in kinds)
        own = rng.sample(range(depth), rng.choice([0, 0, 0, 1, 1, 2]))
        fixed = tuple(int(rng.random() < 0.2) for _ in range(leaves)) if rng.random() < 0.2 else ()
        made.append(
            PodClass(
                f"c{number}",
                kinds,
                rng.choice([0, 0, 0, 1, count]),
                rng.choice([0, 0, 0, count]),
                tuple(ClassRule(level, own_rule(rng, count)) for level in own),
                fixed,
            )
        )
    return tuple(made)


def own_rule(rng: Random, count: int) -> LevelRule:
    """Return a preference, or a rule that a class of this many pods may be able to keep."""
    number = rng.choice([1, 1, count])
    wish: Wish = rng.choice(["pack", "spread"])
    return rng.choice(
        [
            LevelRule(wish),
            LevelRule(wish, hard=True),
            LevelRule(wish, min=1, max=number),
            LevelRule(wish, partitions=min(number, 2)),
            LevelRule(wish, factor=number),
            rule(rng),
        ]
    )


def placements(mixed: GroupProblem) -> Iterator[Counts]:
    """Yield all placements that break no rule."""
    rows = []
    for kind in mixed.roles:
        each = (range(min(kind.count, slots) + 1) for slots in kind.slots)
        rows.append([row for row in itertools.product(*each) if sum(row) <= kind.count])
    for counts in itertools.product(*rows):
        if sum(map(sum, counts)) >= mixed.minimum and not checker.problems(mixed, counts):
            yield counts


def best(mixed: GroupProblem) -> list[int] | None:
    """Return the values of the best of all placements, term by term, None without one."""
    values = (
        [value for _, _, value in objective_of(mixed, np.array(counts))]
        for counts in placements(mixed)
    )
    return min(values, default=None)


def preemption(rng: Random, asked: GroupProblem) -> GroupPreemption:
    """Return a group that may lack capacity, and up to four candidates with the amounts that they
    free.
    """
    leaves = range(len(asked.paths))
    resources = len(asked.free[0])
    candidates = []
    for number in range(rng.randint(1, 4)):
        single = rng.random() < 0.6
        where = [rng.choice(leaves)] if single else rng.sample(leaves, min(2, len(leaves)))
        freed = {leaf: tuple(rng.randint(1, 4) for _ in range(resources)) for leaf in where}
        count = rng.randint(1, 2) if single else 1
        pods = 1 if single else rng.randint(1, 3)
        candidates.append(
            Candidate(f"c{number}", rng.choice([1, 2]), pods, freed, single=single, count=count)
        )
    candidates = _counted(rng, asked, candidates)
    singles = tuple(at for at, one in enumerate(candidates) if one.single)
    pods = sum(candidates[at].count for at in singles)
    if pods < 2 or rng.random() < 0.5:
        return GroupPreemption(asked, tuple(candidates))
    # Pods of one elastic group have the same priority.
    candidates = [
        msgspec.structs.replace(one, priority=1) if one.single else one for one in candidates
    ]
    elastic = (ElasticGroup(singles, rng.randint(1, pods - 1)),)
    return GroupPreemption(asked, tuple(candidates), elastic=elastic)


def _counted(rng: Random, asked: GroupProblem, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the candidates, some of whose pods count in the rules of spread."""
    left = {one.name: list(one.existing) for one in asked.domains}
    found = []
    for one in candidates:
        counted: dict[str, dict[int, int]] = {}
        for name, numbers in left.items():
            at = rng.randrange(len(numbers))
            if numbers[at] >= one.count and rng.random() < 0.5:
                numbers[at] -= one.count
                counted[name] = {at: 1}
        found.append(msgspec.structs.replace(one, counted=counted))
    return found


def fits(group: GroupProblem) -> bool:
    """Return whether there is any placement."""
    return next(placements(group), None) is not None


def least_harm(
    problem: GroupPreemption, fits: Callable[[GroupProblem], bool] = fits
) -> tuple[int, ...] | None:
    """Return the least harm of all sets of evictions: pods by priority, then evictions.

    None without one.
    """
    best = None
    counts = [range(one.count + 1) for one in problem.candidates]
    priorities = sorted({one.priority for one in problem.candidates}, reverse=True)
    for gone in itertools.product(*counts):
        chosen = list(zip(gone, problem.candidates, strict=True))
        by_priority = (
            sum(n * one.pods for n, one in chosen if one.priority == each) for each in priorities
        )
        evicted = dict(enumerate(gone))
        if evicted != freed.closed(problem, evicted):
            continue  # an elastic group loses its surplus, or all
        harm = (*by_priority, freed.groups(problem, evicted))
        if best is not None and harm >= best:
            continue
        free = [list(row) for row in problem.group.free]
        existing = {one.name: list(one.existing) for one in problem.group.domains}
        for n, one in chosen:
            for name, numbers in one.counted.items():
                for at, pods in numbers.items():
                    existing[name][at] -= n * pods
            for leaf, amounts in one.freed.items():
                free[leaf] = [
                    have + n * more for have, more in zip(free[leaf], amounts, strict=True)
                ]
        emptied = msgspec.structs.replace(
            problem.group,
            free=tuple(map(tuple, free)),
            domains=tuple(
                msgspec.structs.replace(one, existing=tuple(existing[one.name]))
                for one in problem.group.domains
            ),
        )
        if fits(emptied):
            best = harm
    return best
