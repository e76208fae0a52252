"""Random groups of groups in small trees, and the oracle that names every part and tries all its
placements.

Parts with one copy sometimes have their own rules, leaf parts as well as outer ones.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from random import Random

import msgspec
import numpy as np

from scheduler.groups.problem import checker, checklevels
from scheduler.groups.problem import parts as partrecords
from scheduler.groups.problem.classes import ClassRule, PodClass
from scheduler.groups.problem.parts import LikeParts
from scheduler.groups.problem.roles import GroupProblem, Role
from scheduler.groups.solver.roles.result import objective_of
from tests.property.groups import levels, paths
from tests.property.rolegroups import own_rule, rows_of

Counts = tuple[tuple[int, ...], ...]
# With more placements than this of one part, or of all pods, another group is drawn: all are
# enumerated.
MOST_DIVISIONS, MOST_PLACEMENTS = 300, 30_000


def parted(rng: Random) -> GroupProblem:
    """Return a random group with one to four kinds of parts, sometimes nested; some parts may be
    left out.
    """
    while True:
        found = _parted(rng)
        if _is_small(found):
            return found


def _parted(rng: Random) -> GroupProblem:
    depth = rng.choice([2, 2, 3])
    found = paths(rng, depth, 2)[: rng.choice([3, 4])]
    leaves = range(len(found))
    root_level = rng.choice([-1, -1, -1, *range(depth - 1)])
    parts = [LikeParts("root", count=1, level=root_level)]
    sorts = rng.choice([1, 1, 2, 2, 3])
    is_nested = rng.random() < 0.4
    if is_nested:
        parts.append(_around(rng, depth, 0, root_level))
    kinds: list[Role] = []
    for number in range(sorts):
        around = 1 if is_nested and (not number or rng.random() < 0.5) else 0
        parts.append(_own(rng, depth, around, parts[around].level, kinds, len(found)))
    return GroupProblem(
        tuple(_counted(kinds, parts)),
        tuple((rng.randint(0, 9),) for _ in leaves),
        levels(rng, depth, 0.1),
        tuple(found),
        1,
        fixed=tuple(map(sum, zip(*(one.fixed for one in parts if one.fixed), strict=True))),
        parts=tuple(_with_minimum(rng, parts)),
    )


def ruled(rng: Random) -> GroupProblem:
    """Return a group in which at least one part has its own rules, hard ones or preferences."""
    while True:
        group = parted(rng)
        classes = tuple(_ruled(rng, group))
        if classes:
            return msgspec.structs.replace(group, classes=classes)


def _ruled(rng: Random, group: GroupProblem) -> Iterator[PodClass]:
    depth = len(group.levels)
    totals = partrecords.totals(group.parts)
    for number, one in enumerate(group.parts):
        inside = [each for at, each in enumerate(group.parts) if _is_in(group, at, number)]
        kinds = tuple(kind for each in inside for kind in each.roles)
        if totals[number] > 1 or not number or not kinds or rng.random() < 0.3:
            continue
        count = sum(group.roles[kind].count for kind in kinds)
        at = sorted(rng.sample(range(depth), rng.choice([1, 1, 2])))
        fixed = [each.fixed for each in inside if each.fixed]
        yield PodClass(
            one.name,
            kinds,
            rules=tuple(ClassRule(level, own_rule(rng, count)) for level in at),
            fixed=tuple(map(sum, zip(*fixed, strict=True))),
            part=number,
        )


def _around(rng: Random, depth: int, around: int, above: int) -> LikeParts:
    return LikeParts("inner", around, rng.choice([1, 2, 2]), _level(rng, depth, above))


def _own(
    rng: Random, depth: int, around: int, above: int, kinds: list[Role], leaves: int
) -> LikeParts:
    """Return a part with pods; its requests become new kinds."""
    sizes = [rng.choice([1, 1, 2, 3]) for _ in range(rng.choice([1, 1, 2]))]
    numbers = tuple(range(len(kinds), len(kinds) + len(sizes)))
    for _ in sizes:
        slots = tuple(rng.choice([0, 2, 9, 9]) for _ in range(leaves))
        kinds.append(Role(0, (rng.randint(1, 3),), slots))
    is_bound = around == 0 and rng.random() < 0.2
    fixed = [0] * leaves
    for _ in range(rng.choice([1, 1, 2]) if is_bound else 0):
        fixed[rng.randrange(leaves)] += 1
    return LikeParts(
        f"part{numbers[0]}",
        around,
        1 if is_bound else rng.choice([1, 1, 2, 3]),
        _level(rng, depth, above),
        rng.randint(1, sum(sizes) + sum(fixed)),
        numbers,
        tuple(sizes),
        tuple(fixed) if is_bound else (),
        rng.choice([*range(depth), -1, -1, -1, -1, -1, -1]),
    )


def _level(rng: Random, depth: int, above: int) -> int:
    found: int = rng.choice(
        [-1, -1, *range(max(above, 0), depth - 1), *[depth - 1][: rng.random() < 0.2]]
    )
    return found


def _counted(kinds: Sequence[Role], parts: Sequence[LikeParts]) -> Iterator[Role]:
    for number, kind in enumerate(kinds):
        (one,) = (one for one in parts if number in one.roles)
        size = one.sizes[one.roles.index(number)]
        around = parts[one.parent]
        yield msgspec.structs.replace(kind, count=size * one.count * around.count)


def _with_minimum(rng: Random, parts: Sequence[LikeParts]) -> Iterator[LikeParts]:
    """Yield the parts, outer ones with the minimum of inner parts."""
    for number, one in enumerate(parts):
        inside = sum(each.count for each in parts if each.parent == number)
        yield msgspec.structs.replace(one, minimum=rng.randint(1, inside)) if inside else one


def _is_small(group: GroupProblem) -> bool:
    """Return whether each part, and all parts together, have few enough placements."""
    if rows_of([kind.count for kind in group.roles], len(group.paths)) > MOST_PLACEMENTS:
        return False
    divisions = [
        len(_divisions(group, one, range(len(group.paths)))) for one in group.parts if one.roles
    ]
    return max(divisions) <= MOST_DIVISIONS


def best(group: GroupProblem) -> list[int] | None:
    """Return the values of the best of all placements, term by term, None without one."""
    bare = msgspec.structs.replace(group, parts=(), classes=(), minimum=1)
    values = [
        [value for _, _, value in objective_of(group, np.array(counts))]
        for counts in _filled(group, 0, range(len(group.paths)))
        if any(map(any, counts)) and not checker.problems(bare, counts)
    ]
    return min(values, default=None)


def _filled(group: GroupProblem, number: int, leaves: Sequence[int]) -> set[Counts]:
    """Return all placements of one part on these leaves if it is not left out, under its own rules
    as well.
    """
    found = _filled_anyhow(group, number, leaves)
    for one in group.classes:
        if one.part == number:
            found = {counts for counts in found if _keeps(group, one, counts)}
    return found


def _keeps(group: GroupProblem, one: PodClass, counts: Counts) -> bool:
    """Return whether the pods of a part, including bound ones, keep its own rules."""
    fixed = one.fixed or (0,) * len(group.paths)
    pods = [there + sum(row[leaf] for row in counts) for leaf, there in enumerate(fixed)]
    depth = len(group.levels)
    used: list[dict[tuple[str, ...], int]] = [{} for _ in range(depth + 1)]
    for path, many in zip(group.paths, pods, strict=True):
        whole = path + path[-1:] * (depth - len(path))
        for level in range(depth + 1) if many else ():
            used[level][whole[:level]] = used[level].get(whole[:level], 0) + many
    return not any(
        checklevels.level_problems("", own.rule, used[own.level + 1], used[own.level])
        for own in one.rules
    )


def _filled_anyhow(group: GroupProblem, number: int, leaves: Sequence[int]) -> set[Counts]:
    """Return all placements of one part on these leaves, regardless of its own rules."""
    one, found = group.parts[number], set[Counts]()
    below = [at for at, each in enumerate(group.parts) if each.parent == number]
    is_bound = any(_holds(group, at) for at in range(len(group.parts)) if _is_in(group, at, number))
    for unit in _units(group, one.level, leaves):
        if any(
            any(one_of.fixed[leaf] for leaf in range(len(group.paths)) if leaf not in unit)
            for at, one_of in enumerate(group.parts)
            if one_of.fixed and _is_in(group, at, number)
        ):
            continue
        if not below:
            found |= _divisions(group, one, unit)
            continue
        needed = 1 if is_bound else max(1, one.minimum)
        named = [at for at in below for _ in range(group.parts[at].count)]
        found |= _together(group, named, unit, needed)
    return found


def _together(
    group: GroupProblem, named: Sequence[int], unit: Sequence[int], needed: int
) -> set[Counts]:
    """Return the placements of these named parts together in which at least `needed` are placed."""
    options = {at: _filled(group, at, unit) for at in set(named)}
    reached: set[tuple[int, Counts]] = {(0, _nothing(group))}
    for at in named:
        more = {(many + 1, _sum(counts, each)) for many, counts in reached for each in options[at]}
        must_be_in = any(
            _holds(group, each) for each in range(len(group.parts)) if _is_in(group, each, at)
        )
        reached = {
            one for one in (more if must_be_in else reached | more) if _is_possible(group, one[1])
        }
    return {counts for many, counts in reached if many >= needed}


def _divisions(group: GroupProblem, one: LikeParts, unit: Sequence[int]) -> set[Counts]:
    """Return all the pods that a part could have on the leaves of a unit."""
    fixed = sum(one.fixed)
    if any(one.fixed[leaf] for leaf in range(len(group.paths)) if leaf not in unit and one.fixed):
        return set()
    found = set()
    each = [list(_rows(len(group.paths), size, unit)) for size in one.sizes]
    for rows in itertools.product(*each):
        new = sum(map(sum, rows))
        if new + fixed < max(1, one.minimum) and not (fixed and not new):
            continue
        counts = list(_nothing(group))
        for kind, row in zip(one.roles, rows, strict=True):
            counts[kind] = row
        if _is_possible(group, tuple(counts)) and _is_apart(group, one, rows):
            found.add(tuple(counts))
    return found


def _is_apart(group: GroupProblem, one: LikeParts, rows: Sequence[Sequence[int]]) -> bool:
    """Return whether no two of a part's pods share a unit that may have one."""
    if one.apart < 0:
        return True
    units = _units(group, one.apart, range(len(group.paths)))
    each = (*rows, one.fixed) if one.fixed else rows
    return all(sum(row[leaf] for row in each for leaf in unit) <= 1 for unit in units)


def _rows(leaves: int, size: int, unit: Sequence[int]) -> Iterator[tuple[int, ...]]:
    each = (range(size + 1) if leaf in unit else range(1) for leaf in range(leaves))
    return (row for row in itertools.product(*each) if sum(row) <= size)


def _is_possible(group: GroupProblem, counts: Counts) -> bool:
    """Return whether the leaves have capacity for these pods."""
    for kind, row in zip(group.roles, counts, strict=True):
        if any(pods > slots for pods, slots in zip(row, kind.slots, strict=True)):
            return False
    requests = [kind.request[0] for kind in group.roles]
    return all(
        sum(row[leaf] * need for row, need in zip(counts, requests, strict=True)) <= free
        for leaf, (free,) in enumerate(group.free)
    )


def _units(group: GroupProblem, level: int, leaves: Sequence[int]) -> list[list[int]]:
    """Return these leaves by unit of a level, all of them at -1."""
    depth, found = len(group.levels), dict[tuple[str, ...], list[int]]()
    for leaf in leaves:
        path = group.paths[leaf]
        whole = path + path[-1:] * (depth - len(path))
        found.setdefault(whole[: level + 1], []).append(leaf)
    return list(found.values())


def _holds(group: GroupProblem, number: int) -> bool:
    return any(group.parts[number].fixed)


def _is_in(group: GroupProblem, number: int, around: int) -> bool:
    while number not in (around, -1):
        number = group.parts[number].parent
    return number == around


def _nothing(group: GroupProblem) -> Counts:
    return ((0,) * len(group.paths),) * len(group.roles)


def _sum(one: Counts, other: Counts) -> Counts:
    return tuple(
        tuple(a + b for a, b in zip(*rows, strict=True)) for rows in zip(one, other, strict=True)
    )
