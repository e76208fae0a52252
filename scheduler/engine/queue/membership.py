"""`GroupMembership`: the unplaced members of each group, and the results of their PreEnqueue.

Plugins' PreEnqueue reads it through the handle, `Gates` stores results here, and `groups` acts on
them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from scheduler.base.sweep import Sweep
from scheduler.engine.queue.pod import QueuedPod, QueuedPods, Where
from scheduler.framework.status import Status
from scheduler.objects.pod import Pod


class GroupMembership:
    """The unplaced members of all groups by key; `answers` has the PreEnqueue results not read
    yet.
    """

    def __init__(self, queued: QueuedPods) -> None:
        self._queued = queued
        self._groups: dict[str, _Members] = {}
        self._key_of: dict[str, str] = {}
        self._sweep, self._sweep_keys = Sweep(), Sweep()
        self.answers: list[tuple[QueuedPod, Status | None]] = []

    def present(self, key: str, pod: Pod) -> Sequence[Pod]:
        """Return the members that are to be placed, in order of arrival; `pod` has just arrived."""
        members = self._groups.get(key)
        if members is None:
            self._sweep_keys.clear(self._key_of, self._queued.__contains__)
            self._sweep.clear(self._groups, lambda each: self.first(each) is not None)
            members = self._groups[key] = _Members()
        if (before := self._key_of.get(pod.metadata.uid, key)) != key:
            self.drop(before, pod.metadata.uid)  # its group has become part of another one
        self._key_of[pod.metadata.uid] = key
        if members.removals != self._queued.removals:
            members.removals = self._queued.removals
            own = pod.metadata.uid
            for uid in [uid for uid in members.pods if uid != own and uid not in self._queued]:
                members.drop(uid)
                self._key_of.pop(uid, None)
            members.leave(one.pod for uid in members.pods if (one := self._queued.get(uid)))
        if members.is_new_version(pod):
            # Most members get the same answer; renewed here, they need no update later.
            known = (self._queued.get(uid) for uid in members.pods)
            members.renew([one.pod for one in known if one is not None])
        return members.with_one(pod)

    def pending(self) -> Iterator[Pod]:
        """Yield all pods that are to be placed, members of groups or not."""
        return (queued.pod for queued in self._queued.values())

    def drop(self, key: str, uid: str) -> None:
        """Remove a member that is decided."""
        self._key_of.pop(uid, None)
        if key in self._groups:
            self._groups[key].drop(uid)

    def decided(self, uid: str) -> None:
        """Remove a member whose binding has ended; its gate adds it again if it is still to be
        placed.
        """
        if (key := self._key_of.get(uid)) is not None:
            self.drop(key, uid)

    def key_of(self, uid: str) -> str:
        """Return the group's key of a member that has run PreEnqueue, else the pod's uid."""
        return self._key_of.get(uid, uid)

    def enters(self, key: str, queue: str) -> bool:
        """Record the queue that a member enters; return whether its group was in another queue."""
        members = self._groups.get(key)
        if members is None or members.queue == queue:
            return False
        members.queue = queue
        return True

    def taken(self, key: str) -> None:
        """Note that a group left the queue for an attempt."""
        if key in self._groups:
            self._groups[key].queue = ""

    def waiting(self, key: str) -> list[Pod]:
        """Return the unplaced members that have run PreEnqueue."""
        found = self._groups.get(key)
        return [] if found is None else list(found.pods.values())

    def uids(self, key: str) -> Mapping[str, Pod]:
        """Return the uids of these members; some may be deleted already."""
        found = self._groups.get(key)
        return {} if found is None else found.pods

    def first(self, key: str) -> Pod | None:
        """Return the member that has waited longest among those that have run PreEnqueue, or
        None.
        """
        found = self._groups.get(key)
        if found is None:
            return None
        return next((pod for uid, pod in found.pods.items() if uid in self._queued), None)

    def gated(self, key: str) -> list[str]:
        """Return the members that gates hold."""
        return [one.uid for one in self._there(key) if one.where is Where.GATED]

    def tried(self, key: str) -> list[str]:
        """Return the members that no gate holds."""
        return [one.uid for one in self._there(key) if one.where is not Where.GATED]

    def _there(self, key: str) -> Iterator[QueuedPod]:
        known = (self._queued.get(uid) for uid in self.uids(key))
        return (one for one in known if one is not None)


class _Members:
    """The members of a group that are to be placed; the tuple stays the same while they do."""

    __slots__ = ("_tuple", "pods", "queue", "removals")

    def __init__(self) -> None:
        self.pods: dict[str, Pod] = {}
        self.queue = ""  # that a member entered last, by its name in metrics
        self.removals = -1
        self._tuple: tuple[Pod, ...] | None = None

    def with_one(self, pod: Pod) -> tuple[Pod, ...]:
        """Return all members, `pod` among them as it is now."""
        uid = pod.metadata.uid
        if self.pods.get(uid) is not pod:
            self.pods[uid] = pod
            self._tuple = None
        if self._tuple is None:
            self._tuple = tuple(self.pods.values())
        return self._tuple

    def is_new_version(self, pod: Pod) -> bool:
        """Return whether a member is known in another version."""
        return self.pods.get(pod.metadata.uid, pod) is not pod

    def renew(self, pods: Iterable[Pod]) -> None:
        """Take known members in as they are now."""
        self.pods.update({pod.metadata.uid: pod for pod in pods})
        self._tuple = None

    def leave(self, pods: Iterable[Pod]) -> None:
        """Record the members that are terminating: no other member waits for them."""
        leaving = [pod for pod in pods if pod.is_terminating]
        if any(self.pods[pod.metadata.uid] is not pod for pod in leaving):
            self.renew(leaving)

    def drop(self, uid: str) -> None:
        """Remove a member."""
        if self.pods.pop(uid, None) is not None:
            self._tuple = None
