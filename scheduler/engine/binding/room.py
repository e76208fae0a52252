"""Whether the room that a pod was given is still there when its bind is about to be sent.

Binds wait: for their turn, for an API server that is busy, for the answer to the one before. A node may have
gone or become smaller meanwhile, or others may have taken its room.
"""

from scheduler.engine.binding.inflight import InFlight
from scheduler.state.cluster import Cluster


class Room:
    """Reads the cluster, and changes nothing."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def short(self, pod: InFlight) -> frozenset[str]:
        """Return of which resources that it asks for an assumed pod's node has promised too much."""
        placed = self._cluster.pods.get(pod.uid)
        row = self._cluster.table.rows.get(pod.node)
        if placed is None or row is None:
            return frozenset()
        return self._cluster.table.short(row, placed.requests)

    def objection(self, pod: InFlight) -> str:
        """Return why a pod must not be bound to its node any more, or an empty text.

        What was too much already when the node was chosen is not asked about: then no plugin does.
        """
        if pod.node not in self._cluster.table.rows:
            return f"node {pod.node} has gone since it was chosen"
        short = sorted(self.short(pod) - pod.short)
        if not short:
            return ""
        return f"node {pod.node} has no room any more since it was chosen: {', '.join(short)}"
