"""Nominated pods: who is promised room on which node while its victims leave.

A nomination counts against pods of lower or equal priority (framework.dryrun adds them to the node
while filtering). It comes from preemption, or from status.nominatedNodeName at a restart. A member counts
with the priority by which its group evicts: else pods between the two would take the room made for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from scheduler.objects.pod import Pod

# Of a pod: its group's key, or an empty text; and the priority that counts for it.
Ranked = Callable[[Pod], tuple[str, int]]


class Nominations:
    """Pending pods by the node they are promised."""

    def __init__(self, ranked: Ranked = lambda pod: ("", pod.priority)) -> None:
        self._ranked = ranked
        self._node_of: dict[str, str] = {}
        self._pods: dict[str, dict[str, Pod]] = {}
        self._changed: set[str] = set()
        # Nominated members by the key of their group.
        self._members: dict[str, set[str]] = {}

    def __len__(self) -> int:
        return len(self._node_of)

    def node_of(self, uid: str) -> str:
        """Return the node a pod is nominated to, or an empty text."""
        return self._node_of.get(uid, "")

    def on(self, node: str) -> Mapping[str, Pod]:
        """Return the pods nominated to a node by uid."""
        return self._pods.get(node, {})

    def nodes(self) -> Iterator[str]:
        """Yield the nodes that pods are nominated to."""
        return iter(self._pods)

    def put(self, pod: Pod, node: str) -> None:
        """Nominate a pod to a node, or replace its nomination; an empty node takes it away."""
        self.drop(pod.metadata.uid)
        if node:
            self._node_of[pod.metadata.uid] = node
            self._pods.setdefault(node, {})[pod.metadata.uid] = pod
            self._changed.add(node)
            key, _ = self._ranked(pod)
            if key:
                self._members.setdefault(key, set()).add(pod.metadata.uid)

    def drop(self, uid: str) -> str:
        """Take a nomination away; return the node it was for, or an empty text."""
        node = self._node_of.pop(uid, "")
        if node:
            self._changed.add(node)
            key, _ = self._ranked(self._pods[node].pop(uid))
            if key:
                self._members[key].remove(uid)
                if not self._members[key]:
                    del self._members[key]
            if not self._pods[node]:
                del self._pods[node]
        return node

    def priority_of(self, pod: Pod) -> int:
        """Return the priority with which a pod asks for room, and keeps what it is promised."""
        return self._ranked(pod)[1]

    def regrouped(self, keys: Iterable[str]) -> None:
        """Hear of groups whose members or description changed: their nominations may count otherwise."""
        for key in keys:
            self._changed.update(self._node_of[uid] for uid in self._members.get(key, ()))

    def take_changed(self) -> set[str]:
        """Return the nodes whose nominations changed since this was last asked."""
        changed, self._changed = self._changed, set()
        return changed
