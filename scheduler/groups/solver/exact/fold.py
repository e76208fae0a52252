"""Fold rules over sets of leaves into slots and level rules, where the tree can express them.

At most n pods per host is a limit of a leaf; a limit per domain is a level rule if the domains are
units of a level; all pods in one domain is one problem per domain.
scheduler.groups.solver.exact.layers or CP-SAT handles the other rules. Folding keeps the set of
placements. It happens before solving; the checker gets the original instance.
"""

import msgspec

from scheduler.groups.problem.instance import DomainRule, Instance, Leaf, LevelRule
from scheduler.groups.solver.tree import slots_of


def folded(instance: Instance) -> Instance:
    """Return an instance with the same placements and fewer rules over sets of leaves."""
    for domains in instance.domains:
        instance = _without_outside(instance, domains)
    kept = []
    for domains in instance.domains:
        changed = _limited(instance, domains)
        if changed is None:
            kept.append(domains)
        else:
            instance = changed
    return msgspec.structs.replace(instance, domains=tuple(kept))


def by_domain(instance: Instance) -> list[Instance] | None:
    """Return one instance per domain that may take all members; None without such a rule.

    The placements of the instance are those of all returned instances together.
    """
    for at, domains in enumerate(instance.domains):
        if domains.single and domains.only and not _holds_outside(instance, domains):
            others = instance.domains[:at] + instance.domains[at + 1 :]
            rest = domains.max_skew > 0 or domains.at_most > 0
            if rest:
                others += (msgspec.structs.replace(domains, single=False),)
            plain = msgspec.structs.replace(instance, domains=others)
            capacity = [_capacity(leaf, instance) for leaf in instance.leaves]
            fixed = {at for at, leaf in enumerate(instance.leaves) if leaf.fixed}
            return [
                _inside(plain, frozenset(leaves))
                for leaves in domains.sets
                if sum(capacity[leaf] for leaf in leaves) >= instance.least and fixed <= {*leaves}
            ]
    return None


def by_unit(instance: Instance) -> list[tuple[Instance, tuple[int, ...]]]:
    """Return one instance per unit of the first level with several units, with only its leaves.

    Return nothing unless that level packs and a unit may take the whole group: then, if the group
    fits one of them, its best placement is the best of these. Units without capacity for the whole
    group are omitted.
    """
    usable = [
        at for at, leaf in enumerate(instance.leaves) if leaf.fixed or _capacity(leaf, instance)
    ]
    for level, one in enumerate(instance.levels[:-1], start=1):
        units: dict[tuple[str, ...], list[int]] = {}
        for at in usable:
            units.setdefault(instance.leaves[at].path[:level], []).append(at)
        if len(units) < 2:
            continue
        if one.rule.kind != "pack" or one.rule.units_per_parent > 1:
            return []
        fixed = {at for at in usable if instance.leaves[at].fixed}
        return [
            (_only(instance, tuple(leaves)), tuple(leaves))
            for _, leaves in sorted(units.items())
            if fixed <= {*leaves}
            and sum(_capacity(instance.leaves[at], instance) for at in leaves) >= instance.size
        ]
    return []


def _only(instance: Instance, leaves: tuple[int, ...]) -> Instance:
    """Return the instance restricted to these leaves."""
    place = {leaf: at for at, leaf in enumerate(leaves)}
    domains = tuple(
        msgspec.structs.replace(
            one,
            sets=tuple(tuple(place[leaf] for leaf in each if leaf in place) for each in one.sets),
        )
        for one in instance.domains
    )
    found = tuple(instance.leaves[at] for at in leaves)
    return msgspec.structs.replace(instance, leaves=found, domains=domains)


def _capacity(leaf: Leaf, instance: Instance) -> int:
    return slots_of(leaf, instance.request if leaf.free else ())


def _inside(instance: Instance, inside: frozenset[int]) -> Instance:
    """Return the instance with capacity on these leaves only; other leaves stay, without slots."""
    leaves = tuple(
        leaf if at in inside else _capped(leaf, 0) for at, leaf in enumerate(instance.leaves)
    )
    return msgspec.structs.replace(instance, leaves=leaves)


def _without_outside(instance: Instance, domains: DomainRule) -> Instance:
    """Return the instance without capacity on leaves that an `only` rule forbids."""
    if not domains.only:
        return instance
    return _inside(instance, frozenset(leaf for leaves in domains.sets for leaf in leaves))


def _limited(instance: Instance, domains: DomainRule) -> Instance | None:
    """Return the instance with a limit per domain as slots or level rule; None if impossible.

    Leaves that the rule forbids have no capacity.
    """
    if domains.single or domains.max_skew:
        return None
    if domains.at_most <= 0:
        return instance
    alone = {leaves[0] for leaves in domains.sets if len(leaves) == 1}
    wide = [frozenset(leaves) for leaves in domains.sets if len(leaves) > 1]
    if any(sum(instance.leaves[leaf].fixed for leaf in each) > domains.at_most for each in wide):
        return None
    leaves = tuple(
        _capped(leaf, domains.at_most) if at in alone else leaf
        for at, leaf in enumerate(instance.leaves)
    )
    instance = msgspec.structs.replace(instance, leaves=leaves)
    return _as_level(instance, wide, alone, domains.at_most) if wide else instance


def _holds_outside(instance: Instance, domains: DomainRule) -> bool:
    """Return whether pods are fixed on a leaf that is in no set."""
    inside = {leaf for leaves in domains.sets for leaf in leaves}
    return any(leaf.fixed and at not in inside for at, leaf in enumerate(instance.leaves))


def _as_level(
    instance: Instance, wide: list[frozenset[int]], alone: set[int], at_most: int
) -> Instance | None:
    """Return the instance with the limit as the rule of the level whose units are the sets."""
    depth = len(instance.levels)
    wanted = set(wide) | {frozenset((leaf,)) for leaf in alone}
    for level in range(depth - 1):
        units: dict[tuple[str, ...], set[int]] = {}
        for at, leaf in enumerate(instance.leaves):
            path = leaf.path + leaf.path[-1:] * (depth - len(leaf.path))
            units.setdefault(path[: level + 1], set()).add(at)
        if {frozenset(unit) for unit in units.values()} == wanted:
            rule = instance.levels[level].rule
            if rule.hard:
                return None
            most = min(rule.max, at_most) if rule.max > 0 else at_most
            return _with_rule(instance, level, msgspec.structs.replace(rule, max=most))
    return None


def _with_rule(instance: Instance, level: int, rule: LevelRule) -> Instance:
    changed = msgspec.structs.replace(instance.levels[level], rule=rule)
    levels = (*instance.levels[:level], changed, *instance.levels[level + 1 :])
    return msgspec.structs.replace(instance, levels=levels)


def _capped(leaf: Leaf, most: int) -> Leaf:
    """Return the leaf with capacity for `most` pods, or for its fixed pods if they are more."""
    limit = max(most, leaf.fixed)
    return Leaf(
        leaf.path, limit if leaf.slots < 0 else min(leaf.slots, limit), leaf.free, leaf.fixed
    )
