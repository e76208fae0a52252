"""The checker of assignments: verifies every rule of a problem and computes every objective value.

The caller commits only assignments that the checker accepts. The checker uses no solver. It counts
with dictionaries and shares no code with the search, so that an error in the search is not repeated
here. `checklevels` checks the rules of levels and leaves, `checkparts` those of parts.
"""

from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction
from math import ceil
from typing import TypeAlias, cast, overload

from scheduler.groups.problem import checklevels, checkparts
from scheduler.groups.problem.checklevels import Path
from scheduler.groups.problem.classes import LinkLimit, PairRule, PathLimit, Traffic
from scheduler.groups.problem.instance import DomainRule, Instance
from scheduler.groups.problem.parts import PlacedPart
from scheduler.groups.problem.roles import GroupProblem

Rows: TypeAlias = Sequence[Sequence[int]]
Values: TypeAlias = list[tuple[str, str, int]]
GRAIN = Fraction(1, 1000)
PARTS = "its groups"  # whose terms are summed


@overload
def problems(problem: Instance, counts: Sequence[int]) -> list[str]: ...
@overload
def problems(
    problem: GroupProblem, counts: Rows, pieces: Sequence[PlacedPart] | None = ()
) -> list[str]: ...
def problems(
    problem: Instance | GroupProblem,
    counts: Sequence[int] | Rows,
    pieces: Sequence[PlacedPart] | None = (),
) -> list[str]:
    """Return the violations of a placement as texts; empty if it is valid.

    `counts` has pods by leaf for one role, and by role and leaf for several. `pieces` are the parts
    that the pods are assigned to; None states that no assignment to parts exists.
    """
    if isinstance(problem, Instance):
        return checklevels.problems(problem, cast("Sequence[int]", counts))
    return _of_roles(problem, cast("Rows", counts), pieces)


@overload
def objective(problem: Instance, counts: Sequence[int]) -> Values: ...
@overload
def objective(problem: GroupProblem, counts: Rows) -> Values: ...
def objective(problem: Instance | GroupProblem, counts: Sequence[int] | Rows) -> Values:
    """Return (level, measure, value) of every stage, the most important first; smaller is
    better.
    """
    if isinstance(problem, Instance):
        return checklevels.objective(problem, cast("Sequence[int]", counts))
    return _roles_objective(problem, cast("Rows", counts))


def _of_roles(group: GroupProblem, counts: Rows, pieces: Sequence[PlacedPart] | None) -> list[str]:
    """Return the violations of a placement of several roles."""
    found = checkparts.problems(group, counts, pieces) if group.parts else []
    for number, (role, row) in enumerate(zip(group.roles, counts, strict=True)):
        if sum(row) > role.count:
            found.append(f"{sum(row)} pods of role {number}, there are {role.count}")
        for leaf, (pods, slots) in enumerate(zip(row, role.slots, strict=True)):
            if not 0 <= pods <= slots:
                found.append(f"leaf {leaf} takes {pods} of {slots} slots of role {number}")
    needs = list(zip(*(role.request for role in group.roles), strict=True))
    for leaf, here in enumerate(zip(*counts, strict=True)):
        if not any(here):
            continue
        for amount, need in zip(group.free[leaf], needs, strict=True):
            used = sum(number * each for number, each in zip(here, need, strict=True))
            if used > max(0, amount):
                found.append(f"leaf {leaf} has {amount}, its pods need {used}")
    for rule in group.apart:
        for leaves in rule.sets:
            first = sum(counts[rule.first][leaf] for leaf in leaves)
            second = sum(counts[rule.second][leaf] for leaf in leaves)
            meets = first > 1 if rule.first == rule.second else first and second
            if meets:
                found.append(f"roles {rule.first} and {rule.second} meet")
    for combination in group.excluded:
        found += [
            f"leaf {leaf} has {combination.counts} of each role, which do not fit together"
            for leaf in combination.leaves
            if all(row[leaf] >= most for row, most in zip(counts, combination.counts, strict=True))
        ]
    for domains in group.domains:
        found += _spread_problems(domains, counts) if domains.asking else []
    fixed = group.fixed or (0,) * len(group.paths)
    homogeneous = _sums([*counts, fixed])
    found += _of_classes(group, counts)
    return found + checklevels.problems(group.homogeneous(), homogeneous)


def _spread_problems(rule: DomainRule, counts: Rows) -> list[str]:
    """Return where pods of the asking roles break a rule of topology spread."""
    inside: dict[int, int] = {}
    for number, leaves in enumerate(rule.sets):
        inside |= dict.fromkeys(leaves, number)
    pods = list(rule.existing) or [0] * len(rule.sets)
    for role in rule.counted:
        for leaf, number in inside.items():
            pods[number] += counts[role][leaf]
    found = []
    for role in rule.asking:
        for leaf in (leaf for leaf, here in enumerate(counts[role]) if here):
            if leaf not in inside:
                found.append(f"{rule.name}: role {role} is outside of all domains")
            elif pods[inside[leaf]] - min(pods) > rule.max_skew:
                found.append(f"{rule.name}: skew above {rule.max_skew} for role {role}")
    return found


def _roles_objective(group: GroupProblem, counts: Rows) -> Values:
    """Return (level, measure, value) of every stage of several roles, the most important first.

    The order: members left out; for each level from the top, the stages of all pods, then of each
    class with a rule there (of a group with parts: summed over the parts); the cost of traffic; the
    number of used leaves if the last level has no preference.
    """
    fixed = group.fixed or (0,) * len(group.paths)
    homogeneous = group.homogeneous()
    pods = _sums([*counts, fixed])
    found = [("", "leftOut", homogeneous.size - sum(pods))] if homogeneous.is_elastic else []
    for at, level in enumerate(group.levels):
        if at not in group.unwished:
            found += checklevels.level_values(level.name, level.rule, _units(group, pods, at + 1))
        of_classes = []
        for number, one in enumerate(group.classes):
            for each in (each for each in one.rules if each.level == at):
                used = _units(group, _pods(group, counts, number), at + 1)
                name = PARTS if group.parts else one.name
                of_classes += checklevels.level_values(f"{level.name} of {name}", each.rule, used)
        found += _summed(of_classes) if group.parts else of_classes
    if group.traffic:
        found.append(("", "cost", sum(_cost(group, counts, one) for one in group.traffic)))
    last = len(group.levels)
    if last - 1 in group.unwished:
        found.append(("", "leaves", len(_units(group, pods, last))))
    return found


def _summed(terms: Sequence[tuple[str, str, int]]) -> list[tuple[str, str, int]]:
    """Return the sum of the terms of each measure."""
    return [
        (terms[0][0], measure, sum(value for _, one, value in terms if one == measure))
        for measures in checklevels.MEASURES.values()
        for measure in measures
        if any(one == measure for _, one, _ in terms)
    ]


def _of_classes(group: GroupProblem, counts: Rows) -> list[str]:
    """Return the violations of the rules of classes and between classes."""
    found = []
    for number, one in enumerate(group.classes):
        pods = _pods(group, counts, number)
        placed = sum(sum(counts[role]) for role in one.roles)
        if sum(pods) < one.minimum:
            found.append(f"{sum(pods)} pods of {one.name}, at least {one.minimum} are needed")
        if one.maximum and placed and sum(pods) > one.maximum:
            found.append(f"{sum(pods)} pods of {one.name}, at most {one.maximum} are allowed")
        for each in one.rules:
            above, used = _units(group, pods, each.level), _units(group, pods, each.level + 1)
            name = f"{one.name} on {group.levels[each.level].name}"
            found += checklevels.level_problems(name, each.rule, used, above)
    for rule in group.between:
        found += _between(group, counts, rule)
    for limit in group.limits:
        found += _limit(group, counts, limit)
    if group.links:
        found += _too_much(group, counts)
    return found


def _pods(group: GroupProblem, counts: Rows, number: int) -> list[int]:
    """Return the pods of a class on each leaf, fixed ones included."""
    one = group.classes[number]
    return _sums([*(counts[role] for role in one.roles), one.fixed or (0,) * len(group.paths)])


def _sums(rows: Rows) -> list[int]:
    """Return the sum of rows, leaf by leaf."""
    return [sum(column) for column in zip(*rows, strict=True)]


def _units(group: GroupProblem, pods: Sequence[int], level: int) -> dict[Path, int]:
    """Return the used units of a level (0: the root) with their pods."""
    found: dict[Path, int] = defaultdict(int)
    for path, number in zip(group.paths, pods, strict=True):
        if number:
            whole = path + path[-1:] * (len(group.levels) - len(path))
            found[whole[:level]] += number
    return found


def _between(group: GroupProblem, counts: Rows, rule: PairRule) -> list[str]:
    first = _units(group, _pods(group, counts, rule.first), rule.level + 1)
    second = _units(group, _pods(group, counts, rule.second), rule.level + 1)
    name = group.levels[rule.level].name
    one, other = group.classes[rule.first].name, group.classes[rule.second].name
    if rule.relation == "same" and len({*first, *second}) > 1:
        return [f"{one} and {other} are in several units of {name}"]
    if rule.relation == "other" and first.keys() & second.keys():
        return [f"{one} and {other} meet in a unit of {name}"]
    if rule.relation == "with" and not first.keys() <= second.keys():
        return [f"{one} stands in a unit of {name} without {other}"]
    if rule.relation == "one" and first != dict.fromkeys(second, 1):
        return [f"not one pod of {one} in each unit of {name} with {other}"]
    return []


def _limit(group: GroupProblem, counts: Rows, limit: PathLimit) -> list[str]:
    """Return the pairs of areas where a placed pod exceeds the path limit to a pod of the other
    class.
    """
    first, second = group.classes[limit.first], group.classes[limit.second]
    ends = (
        (_placed(group, counts, limit.first), _areas(group, _pods(group, counts, limit.second))),
        (_areas(group, _pods(group, counts, limit.first)), _placed(group, counts, limit.second)),
    )
    return [
        f"{first.name} in area {here} is out of reach of {second.name} in area {there}"
        for ones, others in ends
        for here in sorted(ones)
        for there in sorted(others)
        if there in limit.beyond[here]
    ]


def _too_much(group: GroupProblem, counts: Rows) -> list[str]:
    """Return the overloaded links that the placement loads further.

    A link is overloaded if its traffic exceeds its headroom. A link that the fixed pods overload
    already is valid while its traffic does not grow.
    """
    empty = [[0] * len(group.paths) for _ in group.roles]
    before, now = (_classes_by_area(group, rows) for rows in (empty, counts))
    found = []
    for link in group.links:
        carried = _carried(group, now, link)
        if carried > link.headroom and carried > _carried(group, before, link):
            ends = f"from {link.origins} to {link.targets}"
            found.append(f"{carried} over the link {ends}, which has headroom for {link.headroom}")
    return found


def _classes_by_area(group: GroupProblem, counts: Rows) -> list[dict[int, int]]:
    """Return the pods of each class by area, fixed ones included."""
    return [_by_area(group, _pods(group, counts, at)) for at in range(len(group.classes))]


def _by_area(group: GroupProblem, pods: Sequence[int]) -> dict[int, int]:
    """Return the pods of each area that has any; empty if no leaf has an area."""
    found: dict[int, int] = defaultdict(int)
    for area, number in zip(group.costs.areas, pods, strict=False):
        if number:
            found[area] += number
    return found


def _carried(group: GroupProblem, pods: Sequence[dict[int, int]], link: LinkLimit) -> int:
    """Return the traffic over a link in whole units, each direction rounded up."""
    directions = [(link.origins, link.targets), *([(link.targets, link.origins)] * link.is_shared)]
    total = 0
    for origins, targets in directions:
        sent = Fraction(0)
        for one in group.flows:
            sending = sum(pods[one.first].get(area, 0) for area in origins)
            taking = sum(pods[one.second].get(area, 0) for area in targets)
            if sending and taking:
                sent += Fraction(one.amount * sending * taking, sum(pods[one.second].values()))
        total += ceil(sent - GRAIN)
    return total


def _placed(group: GroupProblem, counts: Rows, number: int) -> set[int]:
    """Return the areas where the placement puts new pods of a class."""
    return _areas(group, _sums([counts[role] for role in group.classes[number].roles]))


def _areas(group: GroupProblem, pods: Sequence[int]) -> set[int]:
    return set(_by_area(group, pods))


def _cost(group: GroupProblem, counts: Rows, traffic: Traffic) -> int:
    """Return the cost of the traffic of all pairs of pods.

    A pair whose units of a level differ costs the step of that level, and a pair of areas its entry
    of the matrix. A pod is no pair with itself.
    """
    costs, total = group.costs, 0
    first, second = (_pods(group, counts, one) for one in (traffic.first, traffic.second))
    pairs = sum(first) * sum(second)
    for level, step in enumerate(costs.steps, 1):
        here, there = _units(group, first, level), _units(group, second, level)
        total += step * (pairs - sum(pods * there.get(unit, 0) for unit, pods in here.items()))
    if costs.areas:
        sending, taking = _by_area(group, first), _by_area(group, second)
        for area, pods in sending.items():
            row = costs.matrix[area]
            total += pods * sum(others * row[other] for other, others in taking.items())
            if traffic.first == traffic.second:
                total -= pods * row[area]
    return total * traffic.weight
