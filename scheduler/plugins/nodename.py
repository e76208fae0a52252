"""NodeName: a pod with spec.nodeName fits that node only."""

from scheduler.framework import Change, Cycle, NoArgs, Nodes, Plugin, Pod, Rejected, reject

REASON = "node(s) didn't match the requested node name"


class NodeName(Plugin[NoArgs]):
    """Reject all nodes except spec.nodeName, if it is set."""

    reads = ("node",)
    local = True

    def key(self, pod: Pod) -> str:
        """Return the name: all pods without one are equivalent."""
        return pod.spec.node_name

    def filter(self, cycle: Cycle, nodes: Nodes) -> Rejected | None:
        """Reject the other nodes."""
        name = cycle.pod.spec.node_name
        return reject(~nodes.rows_named((name,)), REASON, final=True) if name else None

    def hint(self, change: Change, pod: Pod) -> bool:
        """Return whether the node that the pod names has appeared."""
        return change.node.metadata.name == pod.spec.node_name
