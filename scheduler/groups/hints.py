"""`Hints`: which waiting members a change may help.

A member is gated until its group is complete. A complete group may have been rejected: it does not
fit, or its victims are terminating. A tenant may create ten thousand groups that are never
complete, so the members that a change may help are found by an index.
"""

from collections.abc import Collection

from scheduler.framework.handle import Handle
from scheduler.groups.capacity import FreeSlots
from scheduler.groups.description.describing import Descriptions
from scheduler.groups.description.members import GroupMembers
from scheduler.groups.planning.conditions import GroupEvictor
from scheduler.groups.planning.task import leaving
from scheduler.groups.sources import registry as sources
from scheduler.groups.sources.appgroup import KIND as APP_GROUP
from scheduler.groups.status.lifecycle import GroupRecord
from scheduler.groups.status.records import RecordStore
from scheduler.groups.topology import trees
from scheduler.objects.claims import ResourceClaim
from scheduler.objects.pod import Pod
from scheduler.state.change import Change
from scheduler.state.facts import WAITING_DELETED

CLAIM, NETWORK = "ResourceClaim", "NetworkTopology"


class Hints:
    """Hints for the members of all groups, from the records of their plans."""

    def __init__(
        self,
        handle: Handle,
        members: GroupMembers,
        described: Descriptions,
        records: RecordStore,
        evictor: GroupEvictor,
    ) -> None:
        self._handle = handle
        self._evictor = evictor
        self._members = members
        self._described = described
        self._records = records
        self._slots = handle.tracker(FreeSlots)
        # The groups that were planned and may have members that do not fit.
        self._planned: set[str] = set()

    def planned(self, key: str) -> None:
        """Note that a group is being planned."""
        self._planned.add(key)

    def hint(self, change: Change, pod: Pod) -> bool:
        """Return whether a change can help a member's group."""
        key = self._members.group_of(pod)
        if change.kind == APP_GROUP:
            # Several groups may claim a pod; a change of an AppGroup can move any pod of its
            # namespace.
            return bool(self._described_by(change)) and any(
                obj is not None and obj.metadata.namespace == pod.metadata.namespace
                for obj in (change.old, change.new)
            )
        if change.kind in sources.BY_KIND:
            named = self._described_by(change)
            return key in named or sources.group_of(pod) in named
        if (
            change.kind == "Pod"
            and change.old is not None
            and self._members.group_of(change.old) == key
        ):
            return True
        if WAITING_DELETED in change.facts:
            return False  # it used no capacity
        if change.kind == CLAIM and not (_is_freed(change) or _is_used(change.new, pod)):
            return False
        if change.kind in trees.KINDS:
            return True
        if change.kind == NETWORK and not sources.is_by_object(key):
            return False
        record = self._records.get(key)
        if record is None or record.awaited:
            return record is not None and not self._awaits(record)
        # A rejected member waits for capacity, a gated one for other members of the group.
        return pod.metadata.uid in record.refused and not self.lacks(key)

    def lacks(self, key: str) -> bool | None:
        """Return whether all nodes together have fewer places than a rejected group needs; None if
        its rejection states no such need.
        """
        record = self._records.get(key)
        if record is None or record.lack is None or record.awaited:
            return None
        if record.lack.group != self._described.spec_of(key):
            return None  # edited since: it may need fewer members or evict others
        below = record.lack.evicts_below
        if below is not None and self._evictor.any_below(below):
            return False
        return not self._slots.may_suffice(record.lack)

    def hinted(self, change: Change) -> Collection[str] | None:
        """Return the uids of the only members for which `hint` may return True; None if all may be.

        Gated members are checked by the caller of `group_changed`, at a limited rate, when an
        object changes.
        """
        if change.kind in trees.KINDS or change.kind == APP_GROUP:
            return None
        keys: set[str] = set()
        found: list[str] = []
        if change.kind in sources.BY_KIND:
            found += [u for k in self._described_by(change) for u in self._handle.group_tried(k)]
        elif change.kind == "Pod" and change.old is not None:
            keys.add(self._members.group_of(change.old))
        if change.kind not in sources.BY_KIND and WAITING_DELETED not in change.facts:
            self._planned = {key for key in self._planned if self._lacks_capacity(key)}
            keys |= {
                key
                for key in self._planned
                if not self._awaits(self._records.get(key)) and not self.lacks(key)
            }
        return found + [uid for key in keys for uid in self._handle.group_waiting(key)]

    def _described_by(self, change: Change) -> set[str]:
        """Return the groups whose description an object changes, with those around them.

        Writes about a group's progress are ignored: they must not wake waiting groups.
        """
        kind, objects = change.kind, (change.old, change.new)
        keys = sources.described_by(kind, *objects)
        if not keys or not sources.changes_description(kind, *objects):
            return set()
        above = {sources.parent(kind, obj) for obj in objects if obj is not None}
        keys |= above - {""}
        return keys | {self._members.root(key) for key in keys}

    def _awaits(self, record: GroupRecord | None) -> bool:
        """Return whether victims of a group's last plan are still on their nodes, and will leave.

        The gate rejects the group's members until then. If each of 2,000 victims woke 250 members,
        their gates would run half a million times; only the last one that leaves wakes them.
        """
        return record is not None and any(leaving(self._handle, record.awaited))

    def _lacks_capacity(self, key: str) -> bool:
        """Return whether members of a group were rejected, or wait for evicted pods to leave."""
        record = self._records.get(key)
        return record is not None and bool(record.awaited or record.refused)


def _is_freed(change: Change) -> bool:
    """Return whether a claim releases its devices, so that other pods may use them."""
    had = change.old is not None and change.old.status.allocation is not None
    return had and (change.new is None or change.new.status.allocation is None)


def _is_used(claim: ResourceClaim | None, pod: Pod) -> bool:
    """Return whether a pod names a claim; a change of a shared claim concerns it, too."""
    if claim is None or claim.metadata.namespace != pod.metadata.namespace:
        return False
    named = {one.resource_claim_name for one in pod.spec.resource_claims}
    named |= {one.resource_claim_name for one in pod.status.resource_claim_statuses}
    group = pod.spec.scheduling_group
    return claim.metadata.name in named or (
        group is not None
        and any(
            owner.kind == "PodGroup" and owner.name == group.pod_group_name
            for owner in claim.metadata.owner_references
        )
    )
