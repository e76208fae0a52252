"""`GroupEvictor`: whether a group may evict, and which pods. Called by the group's plan; pure."""

from collections.abc import Collection, Iterable, Sequence

from scheduler.framework.handle import Handle
from scheduler.groups.args import ClusterTopologyPlacementGroupArgs
from scheduler.groups.description import quorum
from scheduler.groups.description.describing import Descriptions
from scheduler.groups.description.spec import GroupSpec
from scheduler.groups.planning import eviction
from scheduler.groups.planning.task import GroupTask, awaits_room, leaving
from scheduler.groups.status.lifecycle import GroupRecord
from scheduler.objects.pod import Pod
from scheduler.state.podindex import Placed


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

    def may_evict(self, task: GroupTask, record: GroupRecord) -> bool:
        """Return whether members may evict now: not while the last victims are leaving."""
        still = record.awaited = leaving(self._handle, record.awaited)
        if still or awaits_room(task.context, self._handle):
            return False
        return self.may_ever_evict(task.spec, task.context.members, task.standing)

    def may_ever_evict(
        self, spec: GroupSpec, members: Iterable[Pod], standing: Sequence[Placed]
    ) -> bool:
        """Return whether these members may evict, beside bound ones: not with policy Never.

        Members beyond the minimum never do: the group runs without them.
        """
        if self._args.preemption == "Disabled" or not spec.may_evict:
            return False
        if standing and (spec.is_ours or quorum.has_minimum(spec, standing)):
            return False
        return all(pod.spec.preemption_policy != "Never" for pod in members)

    def lower(self, task: GroupTask) -> list[eviction.EvictionUnit]:
        """Return the units that may be evicted for a group."""
        priority = task.context.priority
        return eviction.lower(self._handle.pods, priority, self._described, own=task.key)

    def may_go(self, task: GroupTask, victims: Collection[Placed]) -> bool:
        """Return whether these pods may be evicted now: their groups may have changed since the
        question.
        """
        going = {victim.pod.metadata.uid: victim.node for victim in victims}
        found = 0
        for unit in self.lower(task):
            here = sum(going.get(one.pod.metadata.uid) == one.node for one in unit.pods)
            if unit.spare < here < len(unit.pods):
                return False  # what is left of the group would be less than it needs
            found += here
        return found == len(going)
