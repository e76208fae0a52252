"""Nominated pods: the node reserved for each preemptor while its victims terminate.

A nomination counts against pods of lower or equal priority (framework.hypothetical.dryrun adds them
to the node while filtering). It comes from preemption, or from status.nominatedNodeName at a
restart. Members count with the priority of their group, by which the group evicts and, once bound,
is evicted. Otherwise pods with a priority between the two would take the capacity freed for the
group.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from scheduler.objects.pod import Pod


class GroupPriority(Protocol):
    """Which group a pod is of, and how important its members are."""

    def group_of(self, pod: Pod) -> str:
        """Return the key of a pod's group, or an empty text for a pod on its own."""

    def group_priority(self, key: str, pods: Sequence[Pod]) -> int:
        """Return the priority that counts for these waiting members of a group."""

    def group_may_evict(self, key: str, pods: Sequence[Pod]) -> bool:
        """Return whether pods may be evicted for these waiting members of a group."""


class Nominations(dict[str, str]):
    """The nominated node of pending pods, by uid; `put` and `drop` alone change it."""

    def __init__(self, groups: GroupPriority | None = None) -> None:
        super().__init__()
        self._groups = groups
        self._pods: dict[str, dict[str, Pod]] = {}
        # The nodes whose nominations changed since the last read.
        self.changed: set[str] = set()
        # Nominated members by the key of their group and by uid, and the results computed from
        # them. A group may become part of another one: its members stay under the old key.
        self._members: dict[str, dict[str, Pod]] = {}
        self._key_of: dict[str, str] = {}
        self._priorities: dict[str, int] = {}
        # Set by `Reservations`: the keys of reserved nominations by the uid of the pod that may
        # take one of them, and the block in which these nominations do not count.
        self.has_reserved = False
        self.reserved: Callable[[Sequence[Pod]], Mapping[str, tuple[str, ...]]] = lambda _: {}
        self.lifted: Callable[[Sequence[Pod]], AbstractContextManager[None]] = lambda _: (
            nullcontext()
        )

    def node_of(self, uid: str) -> str:
        """Return the node a pod is nominated to, or an empty text."""
        return self.get(uid, "")

    def on(self, node: str) -> Mapping[str, Pod]:
        """Return the pods nominated to a node by uid."""
        return self._pods.get(node, {})

    def nodes(self) -> Iterator[str]:
        """Yield the nodes that pods are nominated to."""
        return iter(self._pods)

    def members_of(self, key: str) -> tuple[str, ...]:
        """Return the uids of the members of a group that are nominated, wherever that is."""
        return tuple(self._members.get(key, ()))

    def group_of(self, pod: Pod) -> str:
        """Return the key of a pod's group, or an empty text."""
        return self._group_of(pod)

    def key_of(self, uid: str) -> str:
        """Return the key of the group that a nominated pod is a member of, or an empty text."""
        return self._key_of.get(uid, "")

    @property
    def has_members(self) -> bool:
        """Return whether any member of a group is nominated."""
        return bool(self._members)

    def members(self) -> Iterator[Pod]:
        """Yield the nominated members of all groups."""
        for pods in self._members.values():
            yield from pods.values()

    def is_any_below(self, priority: int) -> bool:
        """Return whether a pod of lower priority is nominated."""
        pods = (pod for on_node in self._pods.values() for pod in on_node.values())
        return any(self.priority_of(pod) < priority for pod in pods)

    def put(self, pod: Pod, node: str) -> None:
        """Nominate a pod to a node, or replace its nomination; an empty node takes it away."""
        self.drop(pod.metadata.uid)
        if node:
            self[pod.metadata.uid] = node
            self._pods.setdefault(node, {})[pod.metadata.uid] = pod
            self.changed.add(node)
            if key := self._group_of(pod):
                self.regrouped((key,))
                self._members.setdefault(key, {})[pod.metadata.uid] = pod
                self._key_of[pod.metadata.uid] = key

    def drop(self, uid: str) -> str:
        """Take a nomination away; return the node it was for, or an empty text."""
        node = self.pop(uid, "")
        if node:
            self.changed.add(node)
            del self._pods[node][uid]
            if key := self._key_of.pop(uid, ""):
                del self._members[key][uid]
                self.regrouped((key,))
                if not self._members[key]:
                    del self._members[key]
            if not self._pods[node]:
                del self._pods[node]
        return node

    def priority_of(self, pod: Pod) -> int:
        """Return the priority with which a pod keeps its nomination and competes for nodes."""
        key = self._key_of.get(pod.metadata.uid, "")
        if not key:
            return self.priority_among((pod,))
        found = self._priorities.get(key)
        if found is None:
            found = self.priority_among(tuple(self._members[key].values()))
            self._priorities[key] = found
        return found

    def priority_among(self, pods: Sequence[Pod]) -> int:
        """Return the priority with which one pod, or waiting members of one group, compete for
        nodes.
        """
        key = self._group_of(pods[0])
        if self._groups is None or not key:
            return pods[0].priority
        return self._groups.group_priority(key, pods)

    def is_grouped(self, pod: Pod) -> bool:
        """Return whether a pod is a member of a group."""
        return bool(self._group_of(pod))

    def may_evict(self, pods: Sequence[Pod]) -> bool:
        """Return whether pods may be evicted for one pod, or for waiting members of one group."""
        key = self._group_of(pods[0])
        if self._groups is None or not key:
            return pods[0].spec.preemption_policy != "Never"
        return self._groups.group_may_evict(key, pods)

    def regrouped(self, keys: Iterable[str]) -> None:
        """Update nominations of groups whose members or description changed."""
        for key in keys:
            if self._priorities.pop(key, None) is not None:
                self.changed.update(self[uid] for uid in self._members[key])

    def take_changed(self) -> set[str]:
        """Return the nodes whose nominations changed since the previous call."""
        changed, self.changed = self.changed, set()
        return changed

    def _group_of(self, pod: Pod) -> str:
        return "" if self._groups is None else self._groups.group_of(pod)
