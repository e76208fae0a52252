"""Which groups of a tree can take part in a placement: those with enough existing pods or
subgroups.

A group of pods needs its minimum of pods, a group of groups its minimum of groups that can take
part. A group with bound pods has begun: groups in it are added one by one. Pure; called at the
gate.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from scheduler.framework.status import Status, unschedulable
from scheduler.groups.description.nesting import NOWHERE
from scheduler.groups.description.spec import LARGEST_GROUP, GroupNode, GroupSpec
from scheduler.groups.sources import registry as sources
from scheduler.objects.pod import Pod
from scheduler.state.podindex import Placed


def wanted(
    spec: GroupSpec, tree: GroupNode, able: Sequence[Pod], bound: Sequence[Placed]
) -> tuple[str, ...] | Status:
    """Return the members that can take part in a placement of a tree, or which group
    lacks members.
    """
    bound_counts = Counter(sources.group_of(one.pod) for one in bound)
    by_group: dict[str, list[str]] = {}
    for pod in able:
        by_group.setdefault(sources.group_of(pod), []).append(pod.metadata.uid)
    there = bound_counts + Counter({key: len(uids) for key, uids in by_group.items()})
    taken: list[str] = []
    for key in taking_part(tree, there, bound_counts):
        own = by_group.get(key, ())
        if len(taken) + len(own) <= LARGEST_GROUP:
            taken += own
    if taken:
        return tuple(taken)
    text = f"the group {spec.key} is not complete: {lacking(tree, there)}"
    return unschedulable(text)


def taking_part(node: GroupNode, there: Mapping[str, int], bound: Mapping[str, int]) -> list[str]:
    """Return the keys of the leaf groups that can take part; `there` counts waiting and bound
    pods.
    """
    if not node.is_composite:
        return [node.key] if there.get(node.key, 0) >= node.least else []
    own = [(taking_part(one, there, bound), _has_bound_pod(one, bound)) for one in node.groups]
    many = sum(bool(keys) or bound_counts for keys, bound_counts in own)
    if many < node.least and not any(bound_counts for _, bound_counts in own):
        return []
    return [key for keys, _ in own for key in keys]


def short(spec: GroupSpec, own: str, there: Sequence[Placed], bound: Sequence[Placed]) -> str:
    """Return why the first bind of a group must not start with the members in `there`, '' if it may
    or if a pod is bound.

    In a tree, the groups above `own` and `own` itself are checked.
    """
    if spec.tree is None:
        pods = [one.pod for one in there]
        lacks = "" if spec.classes is None else spec.classes.lacking(pods)
        if len(pods) < spec.size:
            lacks = f"it needs {spec.size} members by now, {len(pods)} have a place"
        return f"the group {spec.key} must not begin: {lacks}" if lacks else ""
    have = Counter(sources.group_of(one.pod) for one in there)
    stand = Counter(sources.group_of(one.pod) for one in bound)
    for node in _above(spec.tree, own):
        if not _has_bound_pod(node, stand) and not is_in(node, have):
            return f"the group {spec.key} must not begin: {lacking(node, have)}"
    return ""


def conflicting_domains(
    tree: GroupNode,
    own: str,
    there: Sequence[Placed],
    labels_of: Callable[[str], Mapping[str, str]],
) -> str:
    """Return the first group, of those above `own` and itself, that would be in several domains of
    its topology key.

    That happens if another group has been added to the tree since it was planned.
    """
    for node in _above(tree, own):
        inside = {leaf.key for leaf in node.leaves()} if node.key_label else ()
        on = {one.node for one in there if sources.group_of(one.pod) in inside}
        if len({labels_of(name).get(node.key_label, NOWHERE) for name in on}) > 1:
            return f"{node.name} would be in several places by {node.key_label}"
    return ""


def _above(node: GroupNode, own: str) -> list[GroupNode]:
    """Return the groups on the path from a node down to the group of pods `own`, none if it is not
    in the tree.
    """
    if node.key == own:
        return [node]
    chains = (_above(one, own) for one in node.groups)
    chain = next(filter(None, chains), [])
    return [node, *chain] if chain else []


def lacking(node: GroupNode, there: Mapping[str, int]) -> str:
    """Return a sentence on the first incomplete group, from the top down."""
    if not node.is_composite:
        return f"{node.name} has {there.get(node.key, 0)} of the {node.least} pods it needs"
    good = [bool(taking_part(one, there, {})) for one in node.groups]
    text = f"{node.name} has {sum(good)} of the {node.least} groups it needs"
    first = next((one for one, is_good in zip(node.groups, good, strict=True) if not is_good), None)
    return text if first is None else f"{text}: {lacking(first, there)}"


def has_minimum(spec: GroupSpec, bound: Sequence[Placed]) -> bool:
    """Return whether the bound members reach the group's minimum."""
    if spec.tree is None:
        return len(bound) >= spec.size
    return is_in(spec.tree, Counter(sources.group_of(one.pod) for one in bound))


def is_in(node: GroupNode, bound: Mapping[str, int]) -> bool:
    """Return whether the bound members satisfy a group of the tree."""
    if not node.is_composite:
        return bound.get(node.key, 0) >= node.least
    return sum(is_in(one, bound) for one in node.groups) >= node.least


def _has_bound_pod(node: GroupNode, bound: Mapping[str, int]) -> bool:
    return any(bound.get(one.key) for one in node.leaves())
