"""The tree of Volcano's HyperNodes, and the rules about their tiers.

Tiers are levels, `tier-2` above `tier-1`. A node without a HyperNode of a tier is a unit of its own
there, and so is a HyperNode without a parent. HyperNodes that form no tree are rejected by name.
Reads, changes nothing; called by `trees`, and by `deciding` for the rules.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from scheduler.base.errors import ObjectError
from scheduler.groups.description.rules import LevelConstraint
from scheduler.groups.description.spec import GroupSpec
from scheduler.groups.topology.tree import DEEPEST, NODE, Topology
from scheduler.objects.groups.volcano import HyperNode, HyperNodeMember
from scheduler.objects.selectors import selector_matches

# The name by which groups refer to this tree.
NAME = "hypernodes"
LEVEL = "tier-{}"
MOST = 20_000
LARGEST_TIER = 1_000_000
LONGEST_PATTERN = 253
_DIGITS = 10
# Matching time is polynomial in the length of a node name; its degree is the number of repeats.
MOST_REPEATS = 3
_QUANTIFIED = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|(\))?([*+]|\{\d*,\})")
Labels = Mapping[str, str]


class HyperNodes:
    """Builds the tree; caches the node names that each pattern matches until the nodes change."""

    def __init__(self) -> None:
        self._names: tuple[str, ...] = ()
        self._matching: dict[str, frozenset[str]] = {}

    def tree(self, found: Mapping[str, HyperNode], nodes: Mapping[str, Labels]) -> Topology:
        """Return the tree of these HyperNodes over nodes with these labels; ObjectError if they do
        not form a tree.
        """
        if len(found) > MOST:
            raise ObjectError(f"{len(found)} HyperNodes are more than {MOST}")
        names = tuple(nodes)
        if names != self._names:
            self._names, self._matching = names, {}
        tiers = {name: _tier(one) for name, one in found.items()}
        levels = sorted(set(tiers.values()), reverse=True)
        if len(levels) >= DEEPEST:
            raise ObjectError(
                f"the HyperNodes have {len(levels)} tiers, {DEEPEST - 1} are the most"
            )
        above = _above(found, tiers)
        paths: dict[str, dict[int, str]] = {}
        for name, within in self._within(found, nodes).items():
            lowest = min(within, key=lambda one: (tiers[one], one))
            path = _upwards(lowest, above)
            astray = next((one for one in within if one not in path), "")
            if astray:
                raise ObjectError(
                    f"the HyperNodes are no tree: the node {name} is in {lowest} and in "
                    f"{astray}, of which neither is "
                    "in the other"
                )
            paths[name] = {tiers[one]: one for one in path}
        leaves = sorted((_filled(name, path, levels, found), name) for name, path in paths.items())
        return Topology(
            NAME,
            "HyperNodes",
            (*(LEVEL.format(tier) for tier in levels), NODE),
            tuple(leaves),
            _called(found, tiers),
        )

    def _within(
        self, found: Mapping[str, HyperNode], nodes: Mapping[str, Labels]
    ) -> dict[str, list[str]]:
        """Return the HyperNodes that list each node as a direct member, by node."""
        within: dict[str, list[str]] = {}
        for name in sorted(found):
            for member in found[name].spec.members:
                if member.type == NODE_TYPE:
                    for node in self._nodes(name, member, nodes):
                        own = within.setdefault(node, [])
                        if name not in own:
                            own.append(name)
        return within

    def _nodes(
        self, name: str, member: HyperNodeMember, nodes: Mapping[str, Labels]
    ) -> Iterable[str]:
        _check(name, member)
        selector = member.selector
        if selector.exact_match is not None:
            return (selector.exact_match.name,) if selector.exact_match.name in nodes else ()
        if selector.regex_match is not None:
            return self._matches(name, selector.regex_match.pattern)
        return [one for one, own in nodes.items() if selector_matches(selector.label_match, own)]

    def _matches(self, name: str, pattern: str) -> frozenset[str]:
        known = self._matching.get(pattern)
        if known is None:
            matches = _compiled(name, pattern)
            known = frozenset(one for one in self._names if matches.search(one))
            self._matching[pattern] = known
        return known


NODE_TYPE, HYPER_NODE_TYPE = "Node", "HyperNode"


def add_outside_nodes(tree: Topology, nodes: Iterable[str]) -> Topology:
    """Return the tree with each node outside of all HyperNodes as a unit of its own in every
    tier.
    """
    paths, depth = tree.paths, len(tree.levels) - 1
    more = [((name,) * depth, name) for name in nodes if name not in paths]
    return replace(tree, leaves=tuple(sorted((*tree.leaves, *more)))) if more else tree


def resolved(spec: GroupSpec, tree: Topology) -> GroupSpec:
    """Return the group with its tier rule converted to level rules; ObjectError if it allows no
    tier.
    """
    rule = spec.tiers
    if rule is None:
        return spec
    inner = tree.levels[:-1]
    tiers = [int(level.rpartition("-")[2]) for level in inner]
    if not tiers:
        raise ObjectError("spec.networkTopology: there is no HyperNode")
    where = "spec.networkTopology.highestTierAllowed"
    highest = rule.highest
    if rule.name:
        where = "spec.networkTopology.highestTierName"
        level = tree.aliases.get(rule.name)
        if level is None:
            known = ", ".join(sorted(tree.aliases)) or "none"
            raise ObjectError(f"{where}: no tier is called {rule.name!r:.60} (there are: {known})")
        highest = tiers[inner.index(level)]
    if highest is None or highest < tiers[-1]:
        raise ObjectError(f"{where}: {highest} is below the lowest tier, {tiers[-1]}")
    if highest > tiers[0]:
        return spec  # Volcano: a tier above all others contains all nodes
    lowest = next(at for at, tier in enumerate(tiers) if tier <= highest)
    rules = {level: LevelConstraint("pack", hard=True) for level in inner[: lowest + 1]}
    return replace(spec, constraints=rules)


def _tier(obj: HyperNode) -> int:
    text = str(obj.spec.tier)
    is_number = len(text) < _DIGITS and text.isascii() and text.isdecimal()
    if not is_number or int(text) > LARGEST_TIER:
        raise ObjectError(
            f"HyperNode {obj.metadata.name}: spec.tier: {text!r:.60} is no number up to "
            f"{LARGEST_TIER}"
        )
    return int(text)


def _above(found: Mapping[str, HyperNode], tiers: Mapping[str, int]) -> dict[str, str]:
    """Return the parent of each HyperNode, by name; ObjectError if one has two."""
    above: dict[str, str] = {}
    for name in sorted(found):
        for member in found[name].spec.members:
            if member.type == NODE_TYPE:
                continue
            for below in _hyper_nodes(name, member, found):
                if tiers[below] >= tiers[name]:
                    raise ObjectError(
                        f"HyperNode {name}: its member {below} is of tier {tiers[below]}, "
                        "which is not below its "
                        f"own, {tiers[name]}"
                    )
                if above.setdefault(below, name) != name:
                    raise ObjectError(
                        f"the HyperNodes are no tree: {below} is in {above[below]} and in {name}"
                    )
    return above


def _hyper_nodes(
    name: str, member: HyperNodeMember, found: Mapping[str, HyperNode]
) -> Sequence[str]:
    _check(name, member)
    selector = member.selector
    if selector.label_match is not None:
        raise ObjectError(f"HyperNode {name}: labelMatch is for members of type Node")
    if selector.exact_match is not None:
        return (selector.exact_match.name,) if selector.exact_match.name in found else ()
    assert selector.regex_match is not None  # noqa: S101 - exactly one of them is set
    matches = _compiled(name, selector.regex_match.pattern)
    return [one for one in found if matches.search(one)]


def _check(name: str, member: HyperNodeMember) -> None:
    if member.type not in (NODE_TYPE, HYPER_NODE_TYPE):
        raise ObjectError(
            f"HyperNode {name}: a member's type is Node or HyperNode, not {member.type!r:.60}"
        )
    one = member.selector
    given = sum(part is not None for part in (one.exact_match, one.regex_match, one.label_match))
    if given != 1:
        text = f"HyperNode {name}: a member has one of exactMatch, regexMatch and labelMatch"
        raise ObjectError(text)


def _compiled(name: str, pattern: str) -> re.Pattern[str]:
    where = f"HyperNode {name}: regexMatch.pattern {pattern!r:.60}"
    if len(pattern) > LONGEST_PATTERN:
        raise ObjectError(f"{where} is longer than {LONGEST_PATTERN} characters")
    repeats = [found for found in _QUANTIFIED.finditer(pattern) if found[2]]
    if any(found[1] for found in repeats) or len(repeats) > MOST_REPEATS:
        raise ObjectError(
            f"{where} is refused: it repeats a group without end, or has more than "
            f"{MOST_REPEATS} parts that "
            "are repeated so"
        )
    try:
        return re.compile(pattern, re.ASCII)
    except re.error as error:
        raise ObjectError(f"{where} cannot be read: {error}") from error


def _upwards(name: str, above: Mapping[str, str]) -> list[str]:
    """Return a HyperNode and its ancestors, innermost first; tiers increase, so the loop ends."""
    found = [name]
    while name in above:
        name = above[name]
        found.append(name)
    return found


def _filled(
    node: str, path: Mapping[int, str], levels: Sequence[int], found: Mapping[str, HyperNode]
) -> tuple[str, ...]:
    """Return the node's units from the top tier; a missing tier repeats the unit below it."""
    filled: list[str] = []
    unit = node if node not in found else f"{node} (node)"
    for tier in reversed(levels):
        unit = path.get(tier, unit)
        filled.append(unit)
    return tuple(reversed(filled))


def _called(found: Mapping[str, HyperNode], tiers: Mapping[str, int]) -> dict[str, str]:
    """Return the level of each tier name; names shared by several tiers are left out."""
    called: dict[str, set[int]] = {}
    for name, one in found.items():
        if one.spec.tier_name:
            called.setdefault(one.spec.tier_name, set()).add(tiers[name])
    return {name: LEVEL.format(*those) for name, those in called.items() if len(those) == 1}
