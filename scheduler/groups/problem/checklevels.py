"""Checks of the rules of levels and leaves for pod counts by leaf; part of `checker`."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from scheduler.groups.problem.instance import DomainRule, Instance, Kind, Leaf, LevelRule

Path = tuple[str, ...]
# The measures of a level by the preference of its rule, the most important first.
MEASURES: Final[Mapping[Kind, tuple[str, ...]]] = {
    "pack": ("units", "large"),
    "spread": ("squares",),
}


def problems(instance: Instance, counts: Sequence[int]) -> list[str]:
    """Return the violations of a placement as texts; empty if it is valid. `counts` is by leaf."""
    if len(counts) != len(instance.leaves):
        return [f"{len(counts)} counts for {len(instance.leaves)} leaves"]
    found = []
    if not instance.least <= sum(counts) <= instance.size:
        found.append(f"{sum(counts)} of {instance.size} pods are placed")
    for leaf, pods in zip(instance.leaves, counts, strict=True):
        if pods or leaf.fixed:
            found += _leaf_problems(instance, leaf, pods)
    by_level = units(instance, counts)
    for depth, level in enumerate(instance.levels):
        parents: dict[Path, int] = by_level[depth - 1] if depth else {(): sum(counts)}
        found += level_problems(level.name, level.rule, by_level[depth], parents)
    for domains in instance.domains:
        fixed = [leaf.fixed for leaf in instance.leaves]
        found += _domain_problems(domains, counts, fixed)
    return found


def units(instance: Instance, counts: Sequence[int]) -> list[dict[Path, int]]:
    """Return for each level the pods of its used units, by the path of the unit."""
    depth = len(instance.levels)
    by_level: list[dict[Path, int]] = [defaultdict(int) for _ in range(depth)]
    for leaf, pods in zip(instance.leaves, counts, strict=True):
        if pods:
            path = leaf.path + leaf.path[-1:] * (depth - len(leaf.path))
            for length in range(1, depth + 1):
                by_level[length - 1][path[:length]] += pods
    return by_level


def objective(instance: Instance, counts: Sequence[int]) -> list[tuple[str, str, int]]:
    """Return (level, measure, value) of every stage, the most important first; smaller is
    better.
    """
    found = []
    for level, used in zip(instance.levels, units(instance, counts), strict=True):
        found += level_values(level.name, level.rule, used)
    if not instance.is_elastic:
        return found
    left_out = ("", "leftOut", instance.size - sum(counts))
    return [*found, left_out] if instance.levels_first else [left_out, *found]


def level_values(
    name: str, rule: LevelRule, used: Mapping[Path, int]
) -> list[tuple[str, str, int]]:
    """Return (level, measure, value) of the stages of one level."""
    return [(name, measure, _value(measure, used.values())) for measure in MEASURES[rule.kind]]


def _value(measure: str, counts: Collection[int]) -> int:
    """Return the value of a measure for the pods of the used units."""
    if measure == "units":
        return len(counts)
    squares = sum(pods * pods for pods in counts)
    return -squares if measure == "large" else squares


def _leaf_problems(instance: Instance, leaf: Leaf, pods: int) -> list[str]:
    where = "/".join(leaf.path)
    found = []
    if pods < leaf.fixed:
        found.append(f"{where} releases bound pods")
    if leaf.slots >= 0 and pods > max(leaf.slots, leaf.fixed):
        found.append(f"{where} takes {pods} of {leaf.slots} slots")
    new = pods - leaf.fixed
    for need, free in zip(instance.request, leaf.free, strict=bool(leaf.free)):
        if new > 0 and need > 0 and new * need > free:
            found.append(f"{where} has {free}, {new} pods need {new * need}")
    if not leaf.free and leaf.slots < 0 and pods:
        found.append(f"the free capacity of {where} is unknown")
    return found


def level_problems(
    name: str, rule: LevelRule, used: dict[Path, int], parents: dict[Path, int]
) -> list[str]:
    """Return the violations of a level's rule as texts.

    `used` has the pods by path of the level's used units, `parents` those of the level above.
    """
    found = []
    for path, pods in used.items():
        where = f"{name} {'/'.join(path)}"
        if pods < rule.min or (rule.max > 0 and pods > rule.max):
            found.append(f"{where} holds {pods}, not {rule.min} to {rule.max}")
        if pods % rule.factor:
            found.append(f"{where} holds {pods}, no multiple of {rule.factor}")
        if rule.is_hard_spread and pods > 1:
            found.append(f"{where} holds {pods}, one is allowed")
    if rule.units_per_parent:
        for parent in parents:
            below = sum(1 for path in used if path[:-1] == parent)
            if below != rule.units_per_parent:
                where = "/".join(parent) or "the root"
                found.append(f"{below} units of {name} in {where}, not {rule.units_per_parent}")
    return found


def _domain_problems(domains: DomainRule, counts: Sequence[int], fixed: Sequence[int]) -> list[str]:
    pods = [sum(counts[leaf] for leaf in leaves) for leaves in domains.sets]
    stood = [sum(fixed[leaf] for leaf in leaves) for leaves in domains.sets]
    takes = [n > before for n, before in zip(pods, stood, strict=True)]
    found = []
    if domains.at_most:
        most = max((n for n, new in zip(pods, takes, strict=True) if new), default=0)
        if most > domains.at_most:
            found.append(f"{domains.name}: {most} pods in one domain, {domains.at_most} allowed")
    if domains.single and sum(1 for each in pods if each) > 1:
        found.append(f"{domains.name}: pods in more than one domain")
    if domains.max_skew:
        before = domains.existing or (0,) * len(pods)
        after = [old + new for old, new in zip(before, pods, strict=True)]
        lowest = min(after, default=0)
        if any(
            new and total - lowest > domains.max_skew
            for new, total in zip(takes, after, strict=True)
        ):
            found.append(f"{domains.name}: skew above {domains.max_skew}")
    inside = {leaf for leaves in domains.sets for leaf in leaves}
    if domains.only and any(
        counts[at] > fixed[at] for at in range(len(counts)) if at not in inside
    ):
        found.append(f"{domains.name}: pods outside of all domains")
    return found
