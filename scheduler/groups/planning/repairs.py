"""Repairs of a group whose bound members break rules: placements are judged by their changes.

Lost members leave units that break a rule: a slice of two with one pod, a unit below its minimum.
Changed labels leave others: two racks where one is allowed. Such units would exclude replacements
from all other units. `mended` returns the same problem in which they break no rule, so that a
placement may complete them or leave them unchanged, and breaks no rule that holds. Pure.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from scheduler.groups.description.spec import GroupSpec
from scheduler.groups.planning import planning
from scheduler.groups.planning.planning import NodeProblem
from scheduler.groups.problem.instance import Instance, Leaf, LevelRule
from scheduler.groups.sources import kueue
from scheduler.groups.topology.placement import in_order
from scheduler.groups.topology.tree import Topology
from scheduler.objects.pod import Pod
from scheduler.state.podindex import Placed

Unit = tuple[str, ...]


def mended(problem: NodeProblem, homes: Mapping[str, Unit]) -> NodeProblem:
    """Return a problem whose fixed members break no rule, the same one if they break none.

    `homes` are the units that members to be placed belong to (see `homes`).

    Missing members of a unit count as present as far as no waiting member can complete it; members
    beyond what a unit may hold, and units beyond those that may be used, are left out and take no
    further pods.
    """
    instance = problem.instance
    leaves = _without_excess(instance)
    leaves = _with_missing(instance, leaves, Counter(homes.values()) if homes else None)
    if leaves == list(instance.leaves):
        return problem
    more = sum(leaf.fixed for leaf in leaves) - sum(leaf.fixed for leaf in instance.leaves)
    minimum = instance.minimum + more if instance.minimum else 0
    made = replace(
        instance, leaves=tuple(leaves), size=instance.size + more, minimum=max(0, minimum)
    )
    return replace(problem, instance=made)


def homes(
    spec: GroupSpec, tree: Topology, bound: Sequence[Placed], waiting: Sequence[Pod]
) -> dict[str, Unit]:
    """Return the unit of each waiting member, by uid, in which others of its slice are; by Kueue,
    slices go by rank.

    The rank is the pod's index, else its place by name when all members are known. Empty without
    slices.
    """
    rule = spec.labels
    if rule is None or not rule.slices:
        return {}
    depth = tree.levels.index(tree.aliases[rule.slices]) + 1
    ranks = kueue.ranks([*(one.pod for one in bound), *waiting])
    paths = tree.paths
    units: dict[int, set[Unit]] = defaultdict(set)
    for one in bound:
        if one.node in paths and one.pod.metadata.uid in ranks:
            path = (*paths[one.node], one.node)
            units[ranks[one.pod.metadata.uid] // rule.slice_size].add(path[:depth])
    found = {}
    for pod in waiting:
        rank = ranks.get(pod.metadata.uid)
        own = set() if rank is None else units[rank // rule.slice_size]
        if len(own) == 1:
            found[pod.metadata.uid] = next(iter(own))
    return found


def assign(
    problem: NodeProblem, counts: Sequence[int], members: Iterable[Pod], homes: Mapping[str, Unit]
) -> dict[str, str]:
    """Return the node of each member by uid: those with a home in it first, then all others in
    order.
    """
    if not homes:
        return planning.assign(problem, counts, members)
    leaves = problem.instance.leaves
    order = sorted(range(len(leaves)), key=lambda at: leaves[at].path)
    free = [at for at in order for _ in range(counts[at] - leaves[at].fixed)]
    nodes: dict[str, str] = {}
    waiting = in_order(members)
    for pod in waiting:
        home = homes.get(pod.metadata.uid)
        at = next((at for at in free if home and leaves[at].path[: len(home)] == home), None)
        if at is not None:
            free.remove(at)
            nodes[pod.metadata.uid] = problem.names[at]
    others = (pod.metadata.uid for pod in waiting if pod.metadata.uid not in nodes)
    return nodes | dict(zip(others, (problem.names[at] for at in free), strict=False))


def _without_excess(instance: Instance) -> list[Leaf]:
    """Return the leaves without fixed members that are more than rules allow."""
    leaves = list(instance.leaves)
    for depth, level in enumerate(instance.levels, 1):
        rule = level.rule
        most = 1 if rule.is_hard_spread else rule.max
        for places in _fixed_units(leaves, depth).values() if most else ():
            _hide(leaves, places, sum(leaves[at].fixed for at in places) - most)
        for places in _surplus(leaves, depth, rule) if rule.units_per_parent else ():
            _hide(leaves, places, sum(leaves[at].fixed for at in places), closes=True)
    return leaves


def _surplus(leaves: Sequence[Leaf], depth: int, rule: LevelRule) -> Iterable[list[int]]:
    """Yield the units of a level with fixed members that exceed the allowed number, those with the
    least free capacity first.
    """
    below: dict[Unit, list[list[int]]] = defaultdict(list)
    for unit, places in _fixed_units(leaves, depth).items():
        below[unit[:-1]].append(places)
    for units in below.values():
        units.sort(key=lambda places: _space(leaves, places))
        yield from units[: max(0, len(units) - rule.units_per_parent)]


def _hide(leaves: list[Leaf], places: Sequence[int], number: int, *, closes: bool = False) -> None:
    """Exclude `number` fixed members of a unit, and close the unit for new ones."""
    if number <= 0 and not closes:
        return
    for at in places:
        taken = min(max(0, number), leaves[at].fixed)
        number -= taken
        fixed = leaves[at].fixed - taken
        leaves[at] = replace(leaves[at], fixed=fixed, slots=fixed)


def _with_missing(
    instance: Instance, leaves: list[Leaf], wanted: Mapping[Unit, int] | None
) -> list[Leaf]:
    """Return the leaves with the members that units lack and that cannot be placed there.

    `wanted` is how many of the members to be placed belong to each unit, None if each may go to any
    unit.
    """
    ruled = [
        (depth, level.rule)
        for depth, level in enumerate(instance.levels, 1)
        if level.rule.factor > 1 or level.rule.min > 1
    ]
    if len(ruled) != 1 or instance.levels[-1].rule.is_hard_spread:
        return leaves  # numbers of several levels hold together or not at all
    depth, rule = ruled[0]
    most = instance.size - sum(leaf.fixed for leaf in instance.leaves)
    lacking = [
        (gap, places, most if wanted is None else wanted.get(unit, 0))
        for unit, places in _fixed_units(leaves, depth).items()
        if (gap := _gap(sum(leaves[at].fixed for at in places), rule))
    ]
    lacking.sort(key=lambda one: (one[0] > min(_space(leaves, one[1]), one[2]), one[0]))
    left, found = most, list(leaves)
    for gap, places, own in lacking:
        new = min(gap, _space(leaves, places), left, own)
        left -= new
        at = next(at for at in places if leaves[at].fixed)
        missing = gap - new
        found[at] = replace(
            found[at], fixed=found[at].fixed + missing, slots=found[at].slots + missing
        )
    return found


def _gap(fixed: int, rule: LevelRule) -> int:
    """Return how many members a unit lacks to hold its least, and a whole number of slices."""
    least = max(fixed, rule.min)
    return least + -least % rule.factor - fixed


def _space(leaves: Sequence[Leaf], places: Sequence[int]) -> int:
    return sum(leaves[at].slots - leaves[at].fixed for at in places)


def _fixed_units(leaves: Sequence[Leaf], depth: int) -> dict[Unit, list[int]]:
    """Return the leaves of each unit of a level that has fixed members."""
    units: dict[Unit, list[int]] = defaultdict(list)
    for at, leaf in enumerate(leaves):
        units[leaf.path[:depth]].append(at)
    return {
        unit: places for unit, places in units.items() if any(leaves[at].fixed for at in places)
    }
