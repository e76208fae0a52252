"""Nominated pods: who is promised room on which node while its victims leave.

A nomination counts against pods of lower or equal priority (framework.dryrun adds them to the node
while filtering). It comes from preemption, or from status.nominatedNodeName at a restart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from scheduler.objects.pod import Pod


class Nominations:
    """Pending pods by the node they are promised."""

    def __init__(self) -> None:
        self._node_of: dict[str, str] = {}
        self._pods: dict[str, dict[str, Pod]] = {}
        self._changed: set[str] = set()

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

    def drop(self, uid: str) -> str:
        """Take a nomination away; return the node it was for, or an empty text."""
        node = self._node_of.pop(uid, "")
        if node:
            self._changed.add(node)
            del self._pods[node][uid]
            if not self._pods[node]:
                del self._pods[node]
        return node

    def take_changed(self) -> set[str]:
        """Return the nodes whose nominations changed since this was last asked."""
        changed, self._changed = self._changed, set()
        return changed
