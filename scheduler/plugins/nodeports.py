"""NodePorts: a host port can be used once per node, protocol and address."""

from collections.abc import Mapping
from typing import ClassVar

from scheduler.framework import (
    SKIP,
    Change,
    ContainerPort,
    Cycle,
    NoArgs,
    Nodes,
    Plugin,
    Pod,
    Rejected,
    Status,
    host_ports,
    ports_conflict,
    reject,
)

REASON = "node(s) didn't have free ports for the requested pod ports"


class NodePorts(Plugin[NoArgs]):
    """Reject nodes on which a host port of the pod is in use."""

    reads = ("pod.deleted", "node")
    unread: ClassVar[Mapping[str, str]] = {
        "pre_filter": 'reading "PreFilterNodePorts" from cycleState: not found'
    }
    local = True

    def key(self, pod: Pod) -> tuple[ContainerPort, ...] | None:
        """Return the host ports, which determine the result; None without any."""
        return host_ports(pod) or None

    def pre_filter(self, cycle: Cycle, _nodes: Nodes) -> Status | tuple[ContainerPort, ...]:
        """Return the host ports, or Skip for a pod without."""
        return cycle.shape.host_ports or SKIP

    def filter(
        self, _cycle: Cycle, nodes: Nodes, ports: tuple[ContainerPort, ...]
    ) -> Rejected | None:
        """Reject the nodes where one of the ports is in use."""
        taken = nodes.ports_taken(ports)
        return reject(taken, REASON) if taken.any() else None

    def hint(self, change: Change, pod: Pod) -> bool:
        """Return whether a host port of the pod was released, or a node appeared."""
        if change.kind == "Node":
            return True
        freed = host_ports(change.old) if change.old is not None else ()
        wanted = host_ports(pod)
        return any(ports_conflict(own, other) for own in wanted for other in freed)
