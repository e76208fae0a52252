"""The checker of placements agrees with a reference that checks every pod and pair of pods.

All other tests of the solver rely on the checker's verdicts and values. The reference is written
from the definitions of the records; it shares no code with the checker and counts nothing by leaf.
"""

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import ceil
from random import Random
from typing import Any, NamedTuple

import msgspec
import pytest

from scheduler.groups.problem import checker
from scheduler.groups.problem.classes import LinkLimit, PairRule, PathLimit, PodClass, TrafficStream
from scheduler.groups.problem.instance import DomainRule, Instance, Level, LevelRule
from scheduler.groups.problem.roles import GroupProblem, LeafConflict, Role
from tests.property import groups, rolegroups
from tests.property.batches import batches
from tests.property.test_certificates import BATCH

KINDS = (rolegroups.group, rolegroups.classed, rolegroups.application, rolegroups.application)
PLACEMENTS = 30


class Pod(NamedTuple):
    """A pod on a leaf; a bound one has a class, or neither class nor role."""

    leaf: int
    role: int = -1
    of: int = -1

    @property
    def is_new(self) -> bool:
        """Return whether the placement adds the pod."""
        return self.role >= 0


def pods_of(group: GroupProblem, counts: Sequence[Sequence[int]]) -> list[Pod]:
    """Return every pod of a placement, those of classes with the number of their class."""
    class_of = {role: at for at, one in enumerate(group.classes) for role in one.roles}
    pods = [
        Pod(leaf, role, class_of.get(role, -1))
        for role, row in enumerate(counts)
        for leaf, number in enumerate(row)
        for _ in range(number)
    ]
    left = Counter(dict(enumerate(group.fixed)))
    for at, one in enumerate(group.classes):
        bound = [Pod(leaf, -1, at) for leaf, number in enumerate(one.fixed) for _ in range(number)]
        left.subtract(pod.leaf for pod in bound)
        pods += bound
    return pods + [Pod(leaf) for leaf in left.elements()]


def unit(paths: Sequence[tuple[str, ...]], leaf: int, depth: int) -> tuple[str, ...]:
    """Return the unit of a leaf at a depth: 0 for the root, its last name repeated below it."""
    path = list(paths[leaf])
    while len(path) < depth:
        path.append(path[-1])
    return tuple(path[:depth])


def keeps(
    rule: LevelRule, paths: Sequence[tuple[str, ...]], leaves: Sequence[int], level: int
) -> bool:
    """Return whether pods on these leaves keep a rule on the units of a level (from 0)."""
    has_numbers = rule.min > 0 or rule.max > 0 or rule.partitions > 0 or rule.factor > 1
    each = Counter(unit(paths, leaf, level + 1) for leaf in leaves)
    allowed = 1 if rule.hard and not has_numbers and rule.kind == "spread" else rule.max or 10**9
    if not all(rule.min <= n <= allowed and n % rule.factor == 0 for n in each.values()):
        return False
    needed = 1 if rule.hard and not has_numbers and rule.kind == "pack" else rule.partitions
    parents = {unit(paths, leaf, level) for leaf in leaves}
    return not needed or all(
        len({one for one in each if one[:level] == parent}) == needed for parent in parents
    )


def is_valid(group: GroupProblem, counts: Sequence[Sequence[int]]) -> bool:
    """Return whether a placement keeps every rule."""
    pods = pods_of(group, counts)
    new = [pod for pod in pods if pod.is_new]
    by_class = [[pod for pod in pods if pod.of == at] for at in range(len(group.classes))]
    return (
        group.least <= len(new)
        and _fits(group, new)
        and _apart(group, new)
        and not _excluded(group, new)
        and all(_is_spread(rule, new) for rule in group.domains)
        and all(
            keeps(one.rule, group.paths, [pod.leaf for pod in pods], at)
            for at, one in enumerate(group.levels)
        )
        and all(
            one.minimum <= len(own)
            and (not one.maximum or len(own) <= one.maximum or not any(p.is_new for p in own))
            and all(
                keeps(each.rule, group.paths, [pod.leaf for pod in own], each.level)
                for each in one.rules
            )
            for one, own in zip(group.classes, by_class, strict=True)
        )
        and all(_related(group, rule, by_class) for rule in group.between)
        and all(_within(group, limit, by_class) for limit in group.limits)
        and all(_carried(group, link, by_class) for link in group.links)
    )


def _fits(group: GroupProblem, new: Sequence[Pod]) -> bool:
    roles = Counter(pod.role for pod in new)
    places = Counter((pod.role, pod.leaf) for pod in new)
    used: Counter[tuple[int, int]] = Counter()
    for pod in new:
        for resource, amount in enumerate(group.roles[pod.role].request):
            used[pod.leaf, resource] += amount
    return (
        all(n <= group.roles[role].count for role, n in roles.items())
        and all(n <= group.roles[role].slots[leaf] for (role, leaf), n in places.items())
        and all(not n or n <= group.free[leaf][resource] for (leaf, resource), n in used.items())
    )


def _apart(group: GroupProblem, new: Sequence[Pod]) -> bool:
    return not any(
        {one.role, other.role} == {rule.first, rule.second}
        and any(one.leaf in leaves and other.leaf in leaves for leaves in rule.sets)
        for rule in group.apart
        for one, other in itertools.combinations(new, 2)
    )


def _excluded(group: GroupProblem, new: Sequence[Pod]) -> bool:
    there = Counter((pod.role, pod.leaf) for pod in new)
    return any(
        any(there[role, leaf] for role in range(len(group.roles)))
        and all(there[role, leaf] >= number for role, number in enumerate(one.counts))
        for one in group.excluded
        for leaf in one.leaves
    )


def _is_spread(rule: DomainRule, new: Sequence[Pod]) -> bool:
    """Return whether every pod with the rule is in a domain, and in none with too many pods."""
    domains_of = {pod: [at for at, one in enumerate(rule.sets) if pod.leaf in one] for pod in new}
    totals = Counter(dict(enumerate(rule.existing)))
    totals.update(at for pod in new if pod.role in rule.counted for at in domains_of[pod])
    lowest = min(totals[at] for at in range(len(rule.sets)))
    return all(
        domains_of[pod] and all(totals[at] - lowest <= rule.max_skew for at in domains_of[pod])
        for pod in new
        if pod.role in rule.asking
    )


def _related(group: GroupProblem, rule: PairRule, by_class: Sequence[Sequence[Pod]]) -> bool:
    first, second = (
        [unit(group.paths, pod.leaf, rule.level + 1) for pod in by_class[at]]
        for at in (rule.first, rule.second)
    )
    return {
        "same": len({*first, *second}) <= 1,
        "other": not {*first} & {*second},
        "with": {*first} <= {*second},
        "one": sorted(first) == sorted({*second}),
    }[rule.relation]


def _within(group: GroupProblem, limit: PathLimit, by_class: Sequence[Sequence[Pod]]) -> bool:
    areas = group.costs.areas
    return not any(
        (one.is_new or other.is_new) and areas[other.leaf] in limit.beyond[areas[one.leaf]]
        for one in by_class[limit.first]
        for other in by_class[limit.second]
    )


def _carried(group: GroupProblem, link: LinkLimit, by_class: Sequence[Sequence[Pod]]) -> bool:
    bound = [[pod for pod in own if not pod.is_new] for own in by_class]
    now, before = _load(group, link, by_class), _load(group, link, bound)
    return now <= max(link.headroom, before)


def _load(group: GroupProblem, link: LinkLimit, by_class: Sequence[Sequence[Pod]]) -> int:
    """Return the traffic over a link: every pod sends an equal share to every receiver."""
    areas, total = group.costs.areas, 0
    for origins, targets in [(link.origins, link.targets), (link.targets, link.origins)]:
        shares = [
            Fraction(flow.amount, len(by_class[flow.second]))
            for flow in group.flows
            for one in by_class[flow.first]
            for other in by_class[flow.second]
            if areas[one.leaf] in origins and areas[other.leaf] in targets
        ]
        total += ceil(sum(shares) - Fraction(1, 1000))
        if not link.is_shared:
            break
    return total


def values(group: GroupProblem, counts: Sequence[Sequence[int]]) -> Iterator[int]:
    """Yield the value of every stage, the most important first."""
    pods = pods_of(group, counts)
    bound = sum(not pod.is_new for pod in pods)
    wanted = sum(role.count for role in group.roles)
    if group.least < wanted:
        yield wanted + bound - len(pods)
    for at, level in enumerate(group.levels):
        if at not in group.unwished:
            yield from _preferred(level.rule, group.paths, [pod.leaf for pod in pods], at)
        for number, one in enumerate(group.classes):
            own = [pod for pod in pods if pod.of == number]
            for each in one.rules:
                if each.level == at:
                    yield from _preferred(each.rule, group.paths, [pod.leaf for pod in own], at)
    if group.traffic:
        yield sum(
            one.weight * _path(group, pods[here].leaf, pods[there].leaf)
            for one in group.traffic
            for here, there in itertools.permutations(range(len(pods)), 2)
            if pods[here].of == one.first and pods[there].of == one.second
        )
    if len(group.levels) - 1 in group.unwished:
        yield len({pod.leaf for pod in pods})


def _preferred(
    rule: LevelRule, paths: Sequence[tuple[str, ...]], leaves: Sequence[int], level: int
) -> Iterator[int]:
    units = [unit(paths, leaf, level + 1) for leaf in leaves]
    together = sum(one == other for one in units for other in units)
    if rule.kind == "pack":
        yield len({*units})
        yield -together
    else:
        yield together


def _path(group: GroupProblem, here: int, there: int) -> int:
    """Return the cost of a pair of pods on two leaves."""
    costs = group.costs
    crossed = sum(
        step
        for level, step in enumerate(costs.steps)
        if unit(group.paths, here, level + 1) != unit(group.paths, there, level + 1)
    )
    return crossed + (costs.matrix[costs.areas[here]][costs.areas[there]] if costs.areas else 0)


def with_one_sort(rng: Random, group: GroupProblem, *, only_links: bool = False) -> GroupProblem:
    """Return a group with one kind of its rules, which then determines its placements."""
    plain: dict[str, Any] = {
        "roles": tuple(
            Role(one.count, one.request, (9,) * len(group.paths)) for one in group.roles
        ),
        "free": tuple((99,) * len(amounts) for amounts in group.free),
        "levels": tuple(Level(level.name) for level in group.levels),
        "minimum": 1,
        "classes": tuple(PodClass(one.name, one.roles, fixed=one.fixed) for one in group.classes),
        **dict.fromkeys(("apart", "between", "domains", "excluded", "limits", "links"), ()),
    }
    sorts = [name for name in plain if getattr(group, name) not in ((), plain[name])]
    if only_links:
        del plain["links"]
    elif sorts:
        del plain[rng.choice(sorts)]
    return msgspec.structs.replace(group, **plain)


def random_counts(rng: Random, group: GroupProblem) -> tuple[tuple[int, ...], ...]:
    """Return each pod on a random leaf, left out, or, rarely, one too many."""
    leaves = len(group.paths)
    rows = [[0] * leaves for _ in group.roles]
    for row, role in zip(rows, group.roles, strict=True):
        for _ in range(role.count + (rng.random() < 0.03)):
            if rng.random() < 0.8:
                row[rng.randrange(leaves)] += 1
    return tuple(map(tuple, rows))


def with_links(rng: Random, group: GroupProblem, counts: Sequence[Sequence[int]]) -> GroupProblem:
    """Return a group with traffic over random links, with just enough headroom or 1 too little."""
    areas, classes = sorted({*group.costs.areas}), range(len(group.classes))
    if len(areas) < 2:
        return msgspec.structs.replace(group, links=(), flows=())
    flows = tuple(
        TrafficStream(rng.choice(classes), rng.choice(classes), rng.choice([1, 2, 3, 5]))
        for _ in range(rng.choice([1, 2]))
    )
    asked = msgspec.structs.replace(group, flows=flows)
    pods = pods_of(group, counts)
    by_class = [[pod for pod in pods if pod.of == at] for at in classes]
    links = []
    for _ in range(rng.choice([1, 2])):
        origins = tuple(rng.sample(areas, rng.randint(1, len(areas) - 1)))
        targets = tuple(area for area in areas if area not in origins)
        link = LinkLimit(origins, targets, 0, rng.random() < 0.3)
        load = _load(asked, link, by_class)
        links.append(msgspec.structs.replace(link, headroom=max(0, load - (rng.random() < 0.5))))
    return msgspec.structs.replace(asked, links=tuple(links))


@pytest.mark.parametrize("batch", batches(50, 2_000))
def test_the_checker_agrees_with_a_look_at_every_pod(batch):
    """Each random placement of each random group has the same verdict and the same values."""
    verdicts = Counter[bool]()
    for number in range(BATCH):
        rng = Random(f"checker {batch}/{number}")
        group = KINDS[number % len(KINDS)](rng)
        excluded = LeafConflict(
            tuple(rng.sample(range(len(group.paths)), 2 if len(group.paths) > 2 else 1)),
            tuple(rng.choice([0, 1, 1, 2]) for _ in group.roles),
        )
        if any(excluded.counts):
            group = msgspec.structs.replace(group, excluded=(excluded,))
        for _ in range(PLACEMENTS):
            has_links = len({*group.costs.areas}) > 1 and rng.random() < 0.5
            is_whole = rng.random() < 0.3
            asked = group if is_whole else with_one_sort(rng, group, only_links=has_links)
            counts = random_counts(rng, asked)
            if has_links:
                asked = with_links(rng, asked, counts)
            expected = is_valid(asked, counts)
            verdicts[expected] += 1

            assert expected == (not checker.problems(asked, counts)), (asked, counts)
            if expected:
                found = [value for _, _, value in checker.objective(asked, counts)]
                assert list(values(asked, counts)) == found, (asked, counts)
    assert min(verdicts.values()) > PLACEMENTS * BATCH // 5


def one_role(rng: Random) -> Instance:
    """Return a group with one role: slots or amounts, rules of levels, and rules over sets."""
    made = groups.instance(rng, tiny=True)
    if rng.random() < 0.6:
        made = groups.with_domains(rng, made)
    if rng.random() < 0.3:
        made = groups.elastic(rng, made)
    if rng.random() < 0.5:
        levels = tuple(Level(level.name) for level in made.levels)
        made = msgspec.structs.replace(made, levels=levels)
    if rng.random() < 0.4:
        leaves = tuple(
            msgspec.structs.replace(
                leaf, free=tuple(rng.randint(-1, 6) for _ in range(2)), slots=rng.choice([-1, 3, 9])
            )
            for leaf in made.leaves
        )
        request = (rng.randint(1, 3), rng.randint(0, 2))
        made = msgspec.structs.replace(made, leaves=leaves, request=request)
    return made


def is_valid_for_one(instance: Instance, counts: Sequence[int]) -> bool:
    """Return whether a placement of one role keeps every rule; `counts` include fixed pods."""
    leaves = [leaf for leaf, number in enumerate(counts) for _ in range(number)]
    paths = [leaf.path for leaf in instance.leaves]
    return (
        (instance.minimum or instance.size) <= len(leaves) <= instance.size
        and all(map(_takes, itertools.repeat(instance), range(len(paths)), counts))
        and all(keeps(one.rule, paths, leaves, at) for at, one in enumerate(instance.levels))
        and all(_keeps_domains(instance, one, counts) for one in instance.domains)
    )


def _takes(instance: Instance, at: int, pods: int) -> bool:
    leaf = instance.leaves[at]
    new = pods - leaf.fixed
    if new <= 0:
        return new == 0
    has_slots = leaf.slots < 0 or pods <= leaf.slots
    amounts = zip(instance.request, leaf.free, strict=True) if leaf.free else ()
    return has_slots and all(not need or need * new <= free for need, free in amounts)


def _keeps_domains(instance: Instance, rule: DomainRule, counts: Sequence[int]) -> bool:
    fixed = [leaf.fixed for leaf in instance.leaves]
    pods, new = [], []
    for leaves in rule.sets:
        pods.append(sum(counts[leaf] for leaf in leaves))
        new.append(pods[-1] - sum(fixed[leaf] for leaf in leaves))
    others = rule.existing or [0] * len(pods)
    totals = [own + more for own, more in zip(pods, others, strict=True)]
    outside = {*range(len(counts))} - {leaf for leaves in rule.sets for leaf in leaves}
    return (
        not (rule.only and any(counts[leaf] > fixed[leaf] for leaf in outside))
        and not (rule.single and sum(n > 0 for n in pods) > 1)
        and all(
            not (rule.at_most and own > rule.at_most)
            and not (rule.max_skew and total - min(totals) > rule.max_skew)
            for own, total, more in zip(pods, totals, new, strict=True)
            if more > 0
        )
    )


def values_for_one(instance: Instance, counts: Sequence[int]) -> list[int]:
    """Return the value of every stage of one role, the most important first."""
    leaves = [leaf for leaf, number in enumerate(counts) for _ in range(number)]
    paths = [leaf.path for leaf in instance.leaves]
    by_level = [
        value
        for at, level in enumerate(instance.levels)
        for value in _preferred(level.rule, paths, leaves, at)
    ]
    if (instance.minimum or instance.size) == instance.size:
        return by_level
    left_out = [instance.size - len(leaves)]
    return [*by_level, *left_out] if instance.levels_first else [*left_out, *by_level]


@pytest.mark.parametrize("batch", batches(50, 2_000))
def test_the_checker_agrees_with_a_look_at_every_pod_of_one_role(batch):
    """Each random placement of a group with one role has the same verdict and the same values."""
    verdicts = Counter[bool]()
    for number in range(8 * BATCH):
        rng = Random(f"checker of one {batch}/{number}")
        asked = one_role(rng)
        for _ in range(PLACEMENTS):
            counts = [leaf.fixed - (rng.random() < 0.01) for leaf in asked.leaves]
            counts = [max(0, number) for number in counts]
            for _ in range(max(0, asked.size - sum(counts) + (rng.random() < 0.05))):
                counts[rng.randrange(len(counts))] += (
                    asked.least == asked.size or rng.random() < 0.8
                )
            expected = is_valid_for_one(asked, counts)
            verdicts[expected] += 1

            assert expected == (not checker.problems(asked, counts)), (asked, counts)
            if expected:
                found = [value for _, _, value in checker.objective(asked, counts)]
                assert values_for_one(asked, counts) == found, (asked, counts)
    assert min(verdicts.values()) > 8 * PLACEMENTS * BATCH // 10
