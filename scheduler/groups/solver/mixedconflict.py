"""Why a group of unlike members fits nowhere: the smallest set of rules that cannot hold together.

The counterpart of scheduler.groups.solver.conflict, with the rules of classes and between them beside those of
the levels. What pods may not meet for affinity or ports counts as one rule. Called by
scheduler.groups.solver.questions after `infeasible`.
"""

from __future__ import annotations

import msgspec

from scheduler.base.clock import perf_s
from scheduler.groups.solver import conflict, mixed
from scheduler.groups.solver.answer import Advice, Conflict
from scheduler.groups.solver.classes import ClassRule, PairRule, PodClass, TrafficStream, WayLimit
from scheduler.groups.solver.instance import Instance, Level, SolveLimits
from scheduler.groups.solver.kinds import Mixed
from scheduler.groups.solver.parts import ROOT, LikeParts

MEMBERS = Conflict("", "the members' own rules", "")


def explain(group: Mixed, limits: SolveLimits | None = None) -> Advice:
    """Return why the group does not fit; an empty conflict when it does.

    Without any rule, the conflict is the size. As for like members, what is not known in time counts as
    fitting, and `smallest` says so. Other sizes are not looked for: of which class would not be told.
    """
    limits = limits or SolveLimits()
    until = perf_s() + limits.total_s
    rules = frozenset(rules_of(group))
    known: dict[frozenset[Conflict], bool] = {}

    def late() -> bool:
        return perf_s() > until

    def fits(kept: frozenset[Conflict]) -> bool:
        if kept not in known:
            left = SolveLimits(limits.stage_s, max(0.0, until - perf_s()))
            known[kept] = (
                late() or mixed.solve(with_rules(group, kept), left).outcome != "infeasible"
            )
        return known[kept]

    if fits(rules):
        return Advice(())
    if not fits(frozenset()):
        return Advice((Conflict("", "size", str(with_rules(group, frozenset()).least)),))
    return conflict.smallest(rules_of(group), fits, late)


def rules_of(group: Mixed) -> list[Conflict]:
    """Return every rule that could be given up, from the top level down, then those of no level."""
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
    return [*dict.fromkeys(found), *([MEMBERS] if group.apart else [])]


def with_rules(group: Mixed, kept: frozenset[Conflict]) -> Mixed:
    """Return the group with only these rules binding, and nothing wished for that could be left out."""
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
    return msgspec.structs.replace(
        group,
        levels=_bare(group.levels, kept),
        classes=tuple(classes),
        between=tuple(rule for rule in group.between if _named(group, rule) in kept),
        limits=tuple(limit for limit in group.limits if _limit(group, limit) in kept),
        flows=(flows := tuple(flow for flow in group.flows if _flow(group, flow) in kept)),
        links=group.links if flows else (),
        apart=group.apart if MEMBERS in kept else (),
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


def _of_part(group: Mixed, part: LikeParts) -> list[Conflict]:
    """Return what a part asks for that could be given up."""
    found = [_unit_of(group, part)] if part.level >= 0 else []
    found += [_apart(group, part)] if part.apart >= 0 else []
    return found + [Conflict(part.name, "minimum", str(part.minimum))] * (part.minimum > 1)


def _unit_of(group: Mixed, part: LikeParts) -> Conflict:
    level = group.levels[part.level]
    if part.parent == ROOT and level.rule.is_hard_pack:
        # The level states the same: as two rules, neither could be given up alone.
        return Conflict(level.name, "hard", level.rule.kind)
    return Conflict(part.name, "in one", group.levels[part.level].name)


def _apart(group: Mixed, part: LikeParts) -> Conflict:
    return Conflict(part.name, "one pod per", group.levels[part.apart].name)


def _of_level(level: Level) -> list[Conflict]:
    return conflict.rules_of(Instance((level,), (), 0))


def _bare(levels: tuple[Level, ...] | list[Level], kept: frozenset[Conflict]) -> tuple[Level, ...]:
    return conflict.with_rules(Instance(tuple(levels), (), 0), kept).levels


def _level_of(group: Mixed, one: PodClass, each: ClassRule) -> Level:
    """Return a class's rule as that of a level whose name tells of which class it is."""
    return Level(f"{group.levels[each.level].name} of {one.name}", each.rule)


def _limit(group: Mixed, limit: WayLimit) -> Conflict:
    first, second = group.classes[limit.first].name, group.classes[limit.second].name
    return Conflict("", f"network cost from {first} to {second}", f"at most {limit.most}")


def _flow(group: Mixed, flow: TrafficStream) -> Conflict:
    first, second = group.classes[flow.first].name, group.classes[flow.second].name
    return Conflict("", f"bandwidth from {first} to {second}", f"{flow.amount} bit/s")


def _named(group: Mixed, rule: PairRule) -> Conflict:
    first, second = group.classes[rule.first].name, group.classes[rule.second].name
    level = group.levels[rule.level].name
    return Conflict("", f"{first} {rule.relation} {second}", f"at {level}")
