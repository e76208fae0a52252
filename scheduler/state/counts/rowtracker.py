"""`RowTracker`: the half of a tracker that maps pods to rows.

For trackers that count something of placed pods: subclasses define what a pod adds to a row and
removes again. Pods on unknown nodes count from the moment their node appears until it is deleted.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from scheduler.state.change import Change
from scheduler.state.podindex import Placed

if TYPE_CHECKING:
    from scheduler.state.cluster import Cluster


class RowTracker:
    """Follows changes and calls `hold` and `release`; subclasses define those and `clear`."""

    kinds: tuple[str, ...] = ()

    def __init__(self) -> None:
        self._cluster: Cluster | None = None
        self._rows: dict[str, int] = {}

    def hold(self, placed: Placed, row: int) -> None:
        """Count a pod on a row."""
        raise NotImplementedError

    def release(self, placed: Placed, row: int) -> None:
        """Stop counting a pod on a row."""
        raise NotImplementedError

    def clear(self) -> None:
        """Drop all rows and values."""
        raise NotImplementedError

    def columns(self) -> Mapping[str, Any]:
        """Return the columns by name."""
        raise NotImplementedError

    def is_same(self, before: Placed, after: Placed) -> bool:
        """Return whether two records of a pod on one node count the same."""
        return before.shape is after.shape and before.pod.is_terminating == after.pod.is_terminating

    def rebuild(self, cluster: "Cluster") -> None:
        """Rebuild all state from `cluster`."""
        self.clear()
        self._cluster = cluster
        self._rows = dict(cluster.table.rows)
        for name in self._rows:
            self._node(name, appears=True)

    def apply(self, change: Change) -> None:
        """Apply one change."""
        if change.kind == "Pod":
            self._pod(change.before, change.after)
        elif change.kind == "Node" and change.verb == "add" and self._cluster is not None:
            name = change.node.metadata.name
            self._rows[name] = self._cluster.table.rows[name]
            self._node(name, appears=True)
        elif change.kind == "Node" and change.verb == "delete":
            name = change.node.metadata.name
            self._node(name, appears=False)
            del self._rows[name]

    def _pod(self, before: Placed | None, after: Placed | None) -> None:
        if (
            before is not None
            and after is not None
            and before.node == after.node
            and self.is_same(before, after)
        ):
            return
        if before is not None and before.node in self._rows:
            self.release(before, self._rows[before.node])
        if after is not None and after.node in self._rows:
            self.hold(after, self._rows[after.node])

    def _node(self, name: str, *, appears: bool) -> None:
        if self._cluster is None:
            return
        move = self.hold if appears else self.release
        for placed in self._cluster.pods.on(name).values():
            move(placed, self._rows[name])
