"""CompositePodGroups of scheduling.k8s.io (v1alpha3, since 1.37): groups of PodGroups, and of one
another.

They name no pods: the groups in them name them as their parent. `tree` combines the specifications
of all groups of a tree. It rejects, by name, layouts that are invalid for kube-scheduler, and rules
that cannot be placed exactly here.
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from scheduler.base.errors import ObjectError
from scheduler.framework.groups import COMPOSITE_PREFIX
from scheduler.groups.description.rules import LevelConstraint
from scheduler.groups.description.spec import LARGEST_GROUP, GroupNode, GroupSpec, TreeMembership
from scheduler.groups.sources import annotated
from scheduler.groups.sources.inputs import check_between
from scheduler.groups.sources.workload import (
    ALL,
    WorkloadGroups,
    mode,
    workload,
)
from scheduler.objects.groups.podgroup import CompositePodGroup
from scheduler.objects.kinds import COMPOSITE_GROUP

KIND = COMPOSITE_GROUP.kind
CONDITION = "CompositePodGroupInitiallyScheduled"
DEEPEST = 4  # groups of pods included
MOST_GROUPS = 1_000  # in one tree
TOO_MANY = f"more than {MOST_GROUPS} groups are in it"


class CompositeGroups(WorkloadGroups):
    """The source of CompositePodGroups."""

    served_as = "CompositePodGroup"
    label = "CompositePodGroup.scheduling.k8s.io"
    prefix = COMPOSITE_PREFIX

    def __init__(self) -> None:
        super().__init__(COMPOSITE_GROUP)
        self.condition = CONDITION

    def read(self, obj: CompositePodGroup) -> GroupSpec:  # type: ignore[override]
        """Return the group that the object describes, its size in groups; ObjectError names the
        invalid field.
        """
        meta, spec = obj.metadata, obj.spec
        policy = spec.scheduling_policy
        if (policy.gang is None) == (policy.basic is None):
            raise ObjectError("spec.schedulingPolicy: exactly one of basic and gang is needed")
        least = 1 if policy.gang is None else policy.gang.min_group_count
        check_between(least, 1, MOST_GROUPS, "spec.schedulingPolicy.gang.minGroupCount")
        return GroupSpec(
            meta.namespace,
            meta.name,
            least,
            spec.priority or 0,
            annotated.rules(meta.annotations),
            f"CompositePodGroup {meta.namespace}/{meta.name}",
            is_minimum=True,
            counts_alone=True,
            key_label=self.key_of(obj),
            topology=annotated.topology(meta.annotations),
            may_evict=spec.preemption_policy != "Never",
            is_evicted_together=mode(spec.disruption_mode) in ALL,
            has_classes=True,
            within=TreeMembership(
                self.parent(obj), workload(spec.workload_ref), policy.gang is None, _alone(obj)
            ),
        )


def _alone(obj: CompositePodGroup) -> str:
    named = annotated.TOPOLOGY_ANNOTATION
    return f"the annotation {named}" if named in obj.metadata.annotations else ""


SOURCE = CompositeGroups()


def tree(
    key: str, specs: Mapping[str, GroupSpec], inside: Mapping[str, Sequence[str]]
) -> GroupSpec:
    """Return the specification of the root `key` with all groups in it, by key; ObjectError states
    the error.

    `specs` are the specifications of the single groups, `inside` the keys of the groups that name
    each as their parent.
    """
    root = specs[key]
    if len(specs) > MOST_GROUPS:
        raise ObjectError(TOO_MANY)
    if root.within is not None and root.within.parent:
        raise ObjectError("the groups above it form a circle, or are too many")
    made = _node(key, specs, inside, 1)
    for one, around in _pairs(key, specs, inside):
        _check_pair(one, around, root)
    if root.constraints and any(one.key_label for one in made.every()):
        text = (
            f"the annotation {annotated.CONSTRAINTS_ANNOTATION} and topology keys exclude "
            "each other"
        )
        raise ObjectError(text)
    size = _least(made)
    if size > LARGEST_GROUP:
        raise ObjectError(f"its groups need {size} pods, {LARGEST_GROUP} are the most")
    rules: Mapping[str, LevelConstraint] = root.constraints
    if root.key_label:
        rules = {root.key_label: LevelConstraint("pack", hard=True)}
    return msgspec.structs.replace(root, size=size, constraints=rules, key_label="", tree=made)


def _pairs(
    key: str, specs: Mapping[str, GroupSpec], inside: Mapping[str, Sequence[str]]
) -> Iterator[tuple[GroupSpec, GroupSpec]]:
    for each in inside.get(key, ()):
        yield specs[each], specs[key]
        yield from _pairs(each, specs, inside)


def _check_pair(one: GroupSpec, around: GroupSpec, root: GroupSpec) -> None:
    """Check a group against the group around it; ObjectError names both."""
    within, above = one.within or TreeMembership(), around.within or TreeMembership()
    where = f"{one.source} in {around.source}"
    if one.priority != root.priority:
        raise ObjectError(
            f"{where}: its priority is {one.priority}, that of the root {root.priority}"
        )
    if one.may_evict != root.may_evict:
        raise ObjectError(f"{where}: its preemptionPolicy is not that of the root")
    if within.workload != above.workload:
        names = " and ".join(repr(name) for name in (within.workload, above.workload))
        raise ObjectError(f"{where}: they are made from the Workloads {names}")
    if within.is_basic and not above.is_basic:
        raise ObjectError(f"{where}: a basic group in a gang")
    if around.is_evicted_together and not one.is_evicted_together:
        raise ObjectError(f'{where}: disruptionMode "single" in "all"')
    if within.alone:
        raise ObjectError(f"{where}: {within.alone} is for groups that are in no other")
    if any(rule.for_s for rule in one.constraints.values()):
        raise ObjectError(f"{where}: only a rule of the root becomes a wish after a time (for)")


def _node(
    key: str, specs: Mapping[str, GroupSpec], inside: Mapping[str, Sequence[str]], depth: int
) -> GroupNode:
    one = specs[key]
    if depth > DEEPEST:
        raise ObjectError(f"{one.source}: the tree is deeper than {DEEPEST} groups")
    below = tuple(_node(each, specs, inside, depth + 1) for each in inside.get(key, ()))
    is_composite = key.startswith(COMPOSITE_PREFIX)
    own = {} if depth == 1 or one.key_label else one.constraints
    return GroupNode(key, one.name, one.size, one.key_label, is_composite, below, own)


def _least(node: GroupNode) -> int:
    """Return the minimum number of pods of a group: that of its smallest subgroups."""
    if not node.is_composite:
        return node.least
    return max(1, sum(sorted(_least(one) for one in node.groups)[: node.least]))
