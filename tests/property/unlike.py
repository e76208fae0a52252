"""Random groups of unlike members in small trees, and the oracle that tries every placement."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from random import Random

import msgspec
import numpy as np

from scheduler.solver import check
from scheduler.solver.instance import Candidate
from scheduler.solver.kinds import Apart, Kind, Mixed, MixedPreemption
from scheduler.solver.mixed import objective_of
from tests.property.groups import levels, paths

Counts = tuple[tuple[int, ...], ...]


def group(rng: Random) -> Mixed:
    """Return a group of one to three kinds over at most five leaves, small enough to enumerate."""
    depth = rng.choice([1, 2, 2, 3])
    found = paths(rng, depth, 2 if depth > 1 else 4)[:5]
    resources = rng.choice([1, 2])
    leaves = range(len(found))
    kinds = tuple(
        Kind(
            rng.randint(1, 3),
            tuple(rng.randint(0 if at else 1, 3) for at in range(resources)),
            tuple(rng.choice([0, 1, 2, 3, 3]) for _ in leaves),
        )
        for _ in range(rng.choice([1, 2, 2, 3]))
    )
    free = tuple(tuple(rng.randint(-1, 6) for _ in range(resources)) for _ in leaves)
    wanted = sum(kind.count for kind in kinds)
    minimum = wanted if rng.random() < 0.6 else rng.randint(1, wanted)
    held = tuple(int(rng.random() < 0.2) for _ in leaves) if rng.random() < 0.3 else ()
    return Mixed(
        kinds,
        free,
        levels(rng, depth, 0.6),
        tuple(found),
        minimum,
        _apart(rng, len(kinds), leaves),
        held,
    )


def _apart(rng: Random, kinds: int, leaves: range) -> tuple[Apart, ...]:
    if rng.random() < 0.7:
        return ()
    sets: list[list[int]] = [[] for _ in range(rng.randint(1, len(leaves)))]
    for leaf in leaves:
        rng.choice(sets).append(leaf)
    there = tuple(tuple(one) for one in sets if one)
    return (Apart(there, rng.randrange(kinds), rng.randrange(kinds)),)


def placements(mixed: Mixed) -> Iterator[Counts]:
    """Yield every way to place pods that breaks no rule."""
    rows = []
    for kind in mixed.kinds:
        each = (range(min(kind.count, slots) + 1) for slots in kind.slots)
        rows.append([row for row in itertools.product(*each) if sum(row) <= kind.count])
    for counts in itertools.product(*rows):
        if sum(map(sum, counts)) >= mixed.minimum and not check.problems_of_kinds(mixed, counts):
            yield counts


def best(mixed: Mixed) -> list[int] | None:
    """Return the values of the best placement of all, None when there is none."""
    values = (
        [value for _, _, value in objective_of(mixed, np.array(counts))]
        for counts in placements(mixed)
    )
    return min(values, default=None)


def preemption(rng: Random) -> MixedPreemption:
    """Return a group that may lack room, and up to four candidates with what they would free."""
    asked = group(rng)
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
    return MixedPreemption(asked, tuple(candidates))


def least_harm(problem: MixedPreemption) -> tuple[int, ...] | None:
    """Return the least harm of all ways to make room: pods by priority, then evictions; None without one."""
    best = None
    counts = [range(one.count + 1) for one in problem.candidates]
    priorities = sorted({one.priority for one in problem.candidates}, reverse=True)
    for gone in itertools.product(*counts):
        chosen = list(zip(gone, problem.candidates, strict=True))
        by_priority = (
            sum(n * one.pods for n, one in chosen if one.priority == each) for each in priorities
        )
        harm = (*by_priority, sum(gone))
        if best is not None and harm >= best:
            continue
        free = [list(row) for row in problem.group.free]
        for n, one in chosen:
            for leaf, amounts in one.freed.items():
                free[leaf] = [
                    have + n * more for have, more in zip(free[leaf], amounts, strict=True)
                ]
        emptied = msgspec.structs.replace(problem.group, free=tuple(map(tuple, free)))
        if next(placements(emptied), None) is not None:
            best = harm
    return best
