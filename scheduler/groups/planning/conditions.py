"""Conditions of a group's plan that no placement changes: why it waits, is invalid, or may be
dissolved, and whether it may evict and which pods. Pure.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from scheduler.framework import groups
from scheduler.framework.handle import Handle
from scheduler.framework.hypothetical.disruption import Disruption
from scheduler.framework.status import Code, Status, unschedulable
from scheduler.groups.args import ClusterTopologyPlacementGroupArgs
from scheduler.groups.capacity import Lack, lack_of
from scheduler.groups.description import nesting, past, quorum
from scheduler.groups.description.describing import Descriptions
from scheduler.groups.description.members import GroupMembers
from scheduler.groups.description.spec import GroupSpec
from scheduler.groups.planning import eviction, messages, planning, shapes
from scheduler.groups.planning.task import GroupTask, awaits_capacity, leaving, undecided
from scheduler.groups.sources import configmap
from scheduler.groups.status.lifecycle import GroupRecord
from scheduler.objects.pod import Pod
from scheduler.state.podindex import Placed


def mismatch(task: GroupTask) -> str:
    """Return how members differ from the group's description or, in a homogeneous group, from one
    another.
    """
    spec, members = task.spec, task.context.members
    found = planning.misclassed(spec, members)
    if found or spec.has_classes:
        return found
    return planning.differing_requests(members, task.requests)


def obstacle(task: GroupTask) -> Status | None:
    """Return why no free capacity helps: bound members in the wrong place, or needs of the whole
    group.
    """
    spec, tree = task.spec, task.tree
    if spec.key_label and task.bound:
        where = {name: path[0] for path, name in tree.leaves}
        found = {where.get(one.node, nesting.NOWHERE) for one in task.bound}
        if len(found) > 1 or nesting.NOWHERE in found:
            # kube-scheduler reports an error and retries; here the deletion of a member or a label
            # ends it.
            return _on_hold(task, messages.apart(spec.key_label, task.bound, where))
    misplaced = "" if spec.tree is None else shapes.conflicting_domains(spec.tree, tree, task.bound)
    if misplaced:
        return _on_hold(task, misplaced)
    waiting = [task.requests[pod.metadata.uid] for pod in task.context.members]
    lacking = planning.lacking(spec, task.context, task.bound, waiting)
    if lacking:
        return unschedulable(f"the group {task.name} does not fit: {lacking}")
    if spec.classes is not None:
        lacking = spec.classes.lacking((*task.context.members, *(one.pod for one in task.bound)))
        if lacking:
            return undecided(f"the group {task.name} waits: {lacking}")
    return None


def _on_hold(task: GroupTask, text: str) -> groups.OnHoldStatus:
    return groups.OnHoldStatus(Code.ERROR, (f"the group {task.name} is on hold: {text}",))


def lack(task: GroupTask, plan: groups.Outcome, *, may_evict: bool) -> Lack | None:
    """Return the minimum capacity that a rejected group lacks; None if amounts alone cannot
    decide.
    """
    missing = task.spec.size - len(task.bound)
    is_refused = isinstance(plan, Status) and plan.is_rejected
    if not is_refused or missing < 1 or task.spec.tree is not None:
        return None
    below = task.context.priority if may_evict else None
    return lack_of(
        task.described or task.spec, missing, task.context.members, task.requests.values(), below
    )


def may_dissolve(
    key: str,
    needed: GroupSpec,
    bound: Sequence[Placed],
    members: GroupMembers,
    waiting: Sequence[Pod],
) -> bool:
    """Return whether bound members may be evicted: the objects prove that the group was never
    complete.

    Only for groups of a ConfigMap: a PodGroup's members belong to its controller.
    """
    described_by = members.described_by(key)
    is_ours = any(kind == configmap.KIND for kind, _ in described_by)
    if not bound or not is_ours or past.was_whole([one.pod for one in bound], described_by):
        return False
    since = [
        configmap.SOURCE.size_set_at(obj)
        if kind == configmap.KIND
        else obj.metadata.creation_timestamp
        for kind, obj in described_by
    ]
    return past.never_whole(members.placed(key), waiting, needed.size, since)


class GroupEvictor:
    """Chooses victims for the groups of one profile."""

    def __init__(
        self,
        args: ClusterTopologyPlacementGroupArgs,
        handle: Handle,
        described: Descriptions,
    ) -> None:
        self._args = args
        self._handle = handle
        self._described = described
        # Of the groups with pods on nodes: the priority that counts for their eviction, and how
        # many have it.
        self._priorities: dict[str, int] = {}
        self._counts: Counter[int] = Counter()
        self._mark = 0

    def may_evict(self, task: GroupTask, record: GroupRecord) -> bool:
        """Return whether members may evict now: not while the last victims are leaving."""
        still = record.awaited = frozenset(leaving(self._handle, record.awaited))
        if still or awaits_capacity(task.context, self._handle):
            return False
        return self.may_ever_evict(task.spec, task.context.members, task.bound)

    def may_ever_evict(
        self, spec: GroupSpec, members: Iterable[Pod], bound: Sequence[Placed]
    ) -> bool:
        """Return whether these members may evict, beside bound ones: not with policy Never.

        Members beyond the minimum never do: the group runs without them.
        """
        if self._args.preemption == "Disabled" or not spec.may_evict:
            return False
        if bound and (spec.is_ours or quorum.has_minimum(spec, bound)):
            return False
        return all(pod.spec.preemption_policy != "Never" for pod in members)

    def lower(self, task: GroupTask) -> list[eviction.EvictionUnit]:
        """Return the eviction units of lower priority than the group."""
        priority = task.context.priority
        if not self.any_below(priority):
            # The usual case on a full cluster, where a plan would read all pods and find no victim.
            return []
        return eviction.lower(self._handle.pods, priority, self._described, own=task.key)

    def any_below(self, priority: int) -> bool:
        """Return whether some pod, or some group as a unit, has a lower priority."""
        changes = self._handle.disruption_units(self._mark)
        self._mark = changes.mark
        if changes.is_all:
            self._priorities = {}
        for key, unit in changes.changed.items():
            self._priorities.pop(key, None)
            if unit.members:
                self._priorities[key] = unit.priority
        if changes.is_all or changes.changed:
            self._counts = Counter(self._priorities.values())
        return self._handle.pods.any_below(priority) or any(one < priority for one in self._counts)

    def disruption(self, task: GroupTask, victims: Sequence[Placed]) -> Disruption | None:
        """Return what these victims disrupt; None if they may not be evicted now: their groups may
        have changed since the solver was called.
        """
        going = {victim.pod.metadata.uid: victim.node for victim in victims}
        found = gangs = 0
        for unit in self.lower(task):
            here = sum(going.get(one.pod.metadata.uid) == one.node for one in unit.pods)
            if unit.surplus < here < len(unit.pods):
                return None  # the remaining members would be fewer than the group needs
            found += here
            gangs += bool(unit.key) and here == len(unit.pods)
        if found < len(going):
            return None
        budgets = self._handle.objects("PodDisruptionBudget").values()
        return Disruption(eviction.violations(victims, tuple(budgets)), gangs)
