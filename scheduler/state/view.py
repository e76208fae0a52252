"""`ClusterView`: the read-only view of the cluster's memory.

Operators read it, so that kopf does not have to watch pods or nodes. They are notified that a kind
changed, without the change itself, and read it again.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from scheduler.objects.node import Node
from scheduler.state.change import Change
from scheduler.state.cluster import Cluster
from scheduler.state.podindex import Placed


class ClusterView(Protocol):
    """Nodes, placed pods and other objects, and notifications of their changes."""

    def node_count(self) -> int:
        """Return the number of nodes."""

    def nodes(self) -> Iterator[Node]:
        """Yield all nodes."""

    def pods(self) -> Iterator[Placed]:
        """Yield all pods on nodes, assumed ones included."""

    def objects(self, kind: str) -> Mapping[str, Any]:
        """Return the objects of a kind without columns by `namespace/name` or `name`."""

    def changes(self, kinds: tuple[str, ...], wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake` after changes of these kinds (once per batch); return how to stop that."""


class LiveView:
    """The `ClusterView` over the live cluster; the daemon feeds it the changes."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._wakers: dict[int, tuple[frozenset[str], Callable[[], None]]] = {}
        self._next = 0
        self._dirty: set[str] = set()

    def node_count(self) -> int:
        """Return the number of nodes."""
        return len(self._cluster.table)

    def nodes(self) -> Iterator[Node]:
        """Yield all nodes."""
        return (node for node in self._cluster.table.nodes if node is not None)

    def pods(self) -> Iterator[Placed]:
        """Yield all pods on nodes, assumed ones included."""
        return iter(self._cluster.pods)

    def objects(self, kind: str) -> Mapping[str, Any]:
        """Return the objects of a kind without columns by `namespace/name` or `name`."""
        return self._cluster.store.of(kind)

    def changes(self, kinds: tuple[str, ...], wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake` after changes of these kinds (once per batch); return how to stop that."""
        ticket, self._next = self._next, self._next + 1
        self._wakers[ticket] = (frozenset(kinds), wake)
        return lambda: self._wakers.pop(ticket, None) and None

    def note(self, change: Change) -> None:
        """Record that an object of the change's kind changed."""
        self._dirty.add(change.kind)

    def flush(self) -> None:
        """Wake subscribers of the kinds that changed since the last flush."""
        if not self._dirty:
            return
        dirty, self._dirty = self._dirty, set()
        for kinds, wake in list(self._wakers.values()):
            if kinds & dirty:
                wake()
