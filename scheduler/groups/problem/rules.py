"""The rules of a problem that a user could give up, and the problem with only some of them.

Each number of a level rule is a rule, and so is each hard type, each rule between members and each
host port; with several roles also each rule of a class, between classes, and of parts. The conflict
search uses them. Removing a rule never makes a placement impossible.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import overload

import msgspec

from scheduler.groups.problem.answer import Conflict
from scheduler.groups.problem.classes import (
    ClassRule,
    PairRule,
    PathLimit,
    PodClass,
    TrafficStream,
)
from scheduler.groups.problem.instance import DomainRule, Instance, Level, LevelRule
from scheduler.groups.problem.parts import ROOT, LikeParts
from scheduler.groups.problem.roles import Apart, GroupProblem, Role

RANGE = frozenset(("min", "max"))


def rules_of(problem: Instance | GroupProblem) -> list[Conflict]:
    """Return all rules that could be given up: by level from the top, then the others."""
    return _of_roles(problem) if isinstance(problem, GroupProblem) else _of_one_role(problem)


@overload
def under(problem: Instance, kept: frozenset[Conflict]) -> Instance: ...
@overload
def under(problem: GroupProblem, kept: frozenset[Conflict]) -> GroupProblem: ...
def under(problem: Instance | GroupProblem, kept: frozenset[Conflict]) -> Instance | GroupProblem:
    """Return the problem with only these rules."""
    if isinstance(problem, GroupProblem):
        return several_roles(problem, kept)
    return one_role(problem, kept)


def one_role(instance: Instance, kept: frozenset[Conflict]) -> Instance:
    """Return the problem of one role with only these rules."""
    names = {(one.level, one.rule) for one in kept}
    levels = []
    for level in instance.levels:
        rule, name = level.rule, level.name
        numbers = {key: n for key, n in rule.numbers().items() if (name, key) in names}
        levels.append(Level(name, LevelRule(rule.kind, (name, "hard") in names, **numbers)))
    between = {one.value for one in kept if one.rule == "between members"}
    return msgspec.structs.replace(
        instance,
        levels=tuple(levels),
        domains=tuple(each for each in instance.domains if each.name in between),
    )


def uncovered(
    problem: Instance | GroupProblem, given_up: Collection[Conflict]
) -> tuple[Conflict, ...]:
    """Return the hard types that become effective if these rules are given up.

    A hard type has no effect beside numbers; giving up the last number makes it effective. In
    users' objects a minimum has no effect without a maximum, and the reverse.
    """
    found = []
    for level in _every_level(problem):
        dropped = {one.rule for one in given_up if one.level == level.name}
        if dropped & RANGE:
            dropped |= RANGE
        if level.rule.hard and level.rule.has_numbers and level.rule.numbers().keys() <= dropped:
            found.append(Conflict(level.name, "hard", level.rule.kind))
    return tuple(found)


def _every_level(problem: Instance | GroupProblem) -> list[Level]:
    """Return the levels and those of classes, each with its rule, under the names used in
    conflicts.
    """
    if isinstance(problem, Instance):
        return list(problem.levels)
    own = [_level_of(problem, one, each) for one in problem.classes for each in one.rules]
    return [*problem.levels, *own]


def _of_one_role(instance: Instance) -> list[Conflict]:
    found = []
    for level in instance.levels:
        rule = level.rule
        found += [Conflict(level.name, key, str(n)) for key, n in rule.numbers().items()]
        if rule.is_hard_pack or rule.is_hard_spread:
            found.append(Conflict(level.name, "hard", rule.kind))
    return found + [_between(each) for each in instance.domains]


def several_roles(group: GroupProblem, kept: frozenset[Conflict]) -> GroupProblem:
    """Return the group with only these rules, and no preference that could be dropped."""
    classes = []
    for one in group.classes:
        own = {rule.rule for rule in kept if rule.level == one.name}
        classes.append(
            msgspec.structs.replace(
                one,
                minimum=one.minimum if "minimum" in own else 0,
                maximum=one.maximum if "maximum" in own else 0,
                rules=tuple(
                    ClassRule(each.level, bare.rule)
                    for each in one.rules
                    for bare in _bare([_level_of(group, one, each)], kept)
                    if _of_level(bare)
                ),
            )
        )
    shared = {at for at, name in group.exclusive if Conflict("", name, "") not in kept}
    return msgspec.structs.replace(
        group,
        roles=tuple(_without(role, shared) for role in group.roles),
        levels=_bare(group.levels, kept),
        classes=tuple(classes),
        between=tuple(rule for rule in group.between if _named(group, rule) in kept),
        limits=tuple(limit for limit in group.limits if _limit(group, limit) in kept),
        flows=(flows := tuple(flow for flow in group.flows if _flow(group, flow) in kept)),
        links=group.links if flows else (),
        apart=tuple(one for one in group.apart if _between(one) in kept),
        domains=tuple(one for one in group.domains if _between(one) in kept),
        traffic=(),
        unwished=tuple(range(len(group.levels))),
        parts=tuple(
            msgspec.structs.replace(
                one,
                minimum=one.minimum
                if Conflict(one.name, "minimum", str(one.minimum)) in kept
                else 1,
                level=one.level if _unit_of(group, one) in kept else -1,
                apart=one.apart if _apart(group, one) in kept else -1,
            )
            for one in group.parts
        ),
    )


def _of_roles(group: GroupProblem) -> list[Conflict]:
    found = []
    for at, level in enumerate(group.levels):
        found += _of_level(level)
        for one in group.classes:
            found += [
                rule
                for each in one.rules
                if each.level == at
                for rule in _of_level(_level_of(group, one, each))
            ]
        found += [_named(group, rule) for rule in group.between if rule.level == at]
    for one in group.classes:
        numbers = {"minimum": one.minimum, "maximum": one.maximum}
        found += [Conflict(one.name, key, str(n)) for key, n in numbers.items() if n > 0]
    found += [_limit(group, limit) for limit in group.limits]
    found += [_flow(group, flow) for flow in group.flows] if group.links else []
    for part in group.parts:
        found += _of_part(group, part)
    found += [Conflict("", name, "") for _, name in group.exclusive]
    found += [*map(_between, group.apart), *map(_between, group.domains)]
    return list(dict.fromkeys(found))


def _without(role: Role, resources: Collection[int]) -> Role:
    """Return roles whose pods do not request some of the resources."""
    if not resources:
        return role
    request = (0 if at in resources else each for at, each in enumerate(role.request))
    return msgspec.structs.replace(role, request=tuple(request))


def _of_part(group: GroupProblem, part: LikeParts) -> list[Conflict]:
    """Return the rules of a part that could be given up."""
    found = [_unit_of(group, part)] if part.level >= 0 else []
    found += [_apart(group, part)] if part.apart >= 0 else []
    return found + [Conflict(part.name, "minimum", str(part.minimum))] * (part.minimum > 1)


def _unit_of(group: GroupProblem, part: LikeParts) -> Conflict:
    level = group.levels[part.level]
    if part.parent == ROOT and level.rule.is_hard_pack:
        # The level has the same rule: if both were listed, neither could be given up alone.
        return Conflict(level.name, "hard", level.rule.kind)
    return Conflict(part.name, "in one", group.levels[part.level].name)


def _apart(group: GroupProblem, part: LikeParts) -> Conflict:
    return Conflict(part.name, "one pod per", group.levels[part.apart].name)


def _of_level(level: Level) -> list[Conflict]:
    return _of_one_role(Instance((level,), (), 0))


def _bare(levels: tuple[Level, ...] | list[Level], kept: frozenset[Conflict]) -> tuple[Level, ...]:
    return one_role(Instance(tuple(levels), (), 0), kept).levels


def _level_of(group: GroupProblem, one: PodClass, each: ClassRule) -> Level:
    """Return the rule of a class as a level whose name contains the name of the class."""
    return Level(f"{group.levels[each.level].name} of {one.name}", each.rule)


def _between(rule: DomainRule | Apart) -> Conflict:
    return Conflict("", "between members", rule.name)


def _limit(group: GroupProblem, limit: PathLimit) -> Conflict:
    first, second = group.classes[limit.first].name, group.classes[limit.second].name
    return Conflict("", f"network cost from {first} to {second}", f"at most {limit.most}")


def _flow(group: GroupProblem, flow: TrafficStream) -> Conflict:
    first, second = group.classes[flow.first].name, group.classes[flow.second].name
    return Conflict("", f"bandwidth from {first} to {second}", f"{flow.amount} bit/s")


def _named(group: GroupProblem, rule: PairRule) -> Conflict:
    first, second = group.classes[rule.first].name, group.classes[rule.second].name
    level = group.levels[rule.level].name
    return Conflict("", f"{first} {rule.relation} {second}", f"at {level}")
