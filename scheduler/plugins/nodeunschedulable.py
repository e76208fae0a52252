"""NodeUnschedulable: exclude cordoned nodes."""

import numpy as np

from scheduler.framework import (
    Change,
    Cycle,
    NoArgs,
    Nodes,
    Plugin,
    Pod,
    Rejected,
    Taint,
    is_tolerated,
    reject,
)

REASON = "node(s) were unschedulable"
CORDON = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


class NodeUnschedulable(Plugin[NoArgs]):
    """Reject nodes with spec.unschedulable unless the pod tolerates the corresponding taint."""

    reads = ("node.taints", "self.tolerations")
    local = True

    def key(self, pod: Pod) -> bool:
        """Return whether the pod tolerates the cordon, which determines the result."""
        return is_tolerated(pod.spec.tolerations, CORDON)

    def filter(self, cycle: Cycle, nodes: Nodes) -> Rejected | None:
        """Reject the cordoned nodes."""
        cordoned = nodes.unschedulable
        if not np.count_nonzero(cordoned) or is_tolerated(cycle.pod.spec.tolerations, CORDON):
            return None
        return reject(cordoned.copy(), REASON, final=True)  # the column itself stays in the table

    def hint(self, change: Change, pod: Pod) -> bool:
        """Return whether a node has become schedulable for the pod."""
        if change.kind == "Pod" or is_tolerated(pod.spec.tolerations, CORDON):
            return is_tolerated(pod.spec.tolerations, CORDON)
        if change.node.spec.unschedulable:
            return False
        return change.old is None or change.old.spec.unschedulable
