"""`GroupMembership`: who of a group is there and still to be placed; kept by `groups`, read by plugins' gates."""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.objects.pod import Pod


class GroupMembership:
    """The members of a group that are to be placed; the tuple stays the same while they do."""

    __slots__ = ("_tuple", "pods", "removals")

    def __init__(self) -> None:
        self.pods: dict[str, Pod] = {}
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
        """Whether a member is known, but not as it is now."""
        return self.pods.get(pod.metadata.uid, pod) is not pod

    def renew(self, pods: Iterable[Pod]) -> None:
        """Take known members in as they are now."""
        self.pods.update({pod.metadata.uid: pod for pod in pods})
        self._tuple = None

    def drop(self, uid: str) -> None:
        """Forget a member."""
        if self.pods.pop(uid, None) is not None:
            self._tuple = None
