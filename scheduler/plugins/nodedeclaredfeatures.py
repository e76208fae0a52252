"""NodeDeclaredFeatures: a pod that needs a new kubelet feature runs on nodes that declare it.

Features are inferred from the pod's spec. The table has the features that kube-scheduler 1.36
infers for scheduling; it omits those that concern changes of running pods.
"""

from collections.abc import Mapping
from typing import ClassVar

from scheduler.framework import (
    SKIP,
    Change,
    Cycle,
    Handle,
    NoArgs,
    Node,
    Nodes,
    PerSpec,
    Plugin,
    Pod,
    Rejected,
    Status,
    reject,
)

REASON = "node(s) didn't match Pod's required features"


class NodeDeclaredFeatures(Plugin[NoArgs]):
    """Reject nodes that do not declare the features that the pod's spec needs."""

    reads = ("node.features",)
    local = True
    unread: ClassVar[Mapping[str, str]] = {
        "pre_filter": 'error reading "PreFilterNodeDeclaredFeatures" from cycle-state: not found'
    }

    def __init__(self, args: NoArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._features = PerSpec(required_features)

    def key(self, pod: Pod) -> frozenset[str] | None:
        """Return the features that the pod needs: pods with the same needs are equivalent."""
        return required_features(pod) or None

    def pre_filter(self, cycle: Cycle, _nodes: Nodes) -> Status | frozenset[str]:
        """Return the features that the pod needs; Skip if it needs none."""
        return self._features.of(cycle) or SKIP

    def filter(self, _cycle: Cycle, nodes: Nodes, features: frozenset[str]) -> Rejected | None:
        """Reject the nodes that lack one of the features."""
        lacking = ~nodes.declares(features)
        return reject(lacking, REASON, final=True) if lacking.any() else None

    def hint(self, change: Change, pod: Pod) -> bool:
        """Return whether a node declares all needed features and did not before."""
        features = required_features(pod)
        before: Node | None = change.old
        return features.issubset(change.node.status.declared_features) and (
            before is None or not features.issubset(before.status.declared_features)
        )


def required_features(pod: Pod) -> frozenset[str]:
    """Return the names of the features that a pod's spec needs."""
    return frozenset(name for name, needs in _NEEDS.items() if needs(pod))


def _restarts_all_containers(pod: Pod) -> bool:
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    return any(
        rule.action == "RestartAllContainers"
        for container in containers
        for rule in container.restart_policy_rules
    )


def _is_user_in_host_network(pod: Pod) -> bool:
    return pod.spec.host_network and pod.spec.host_users is False


_NEEDS = {
    "RestartAllContainersOnContainerExits": _restarts_all_containers,
    "UserNamespacesHostNetworkSupport": _is_user_in_host_network,
}
