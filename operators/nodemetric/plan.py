"""The NodeMetrics to create, or to give another policy: the rules, without I/O."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from operators.nodemetric.policy import Policies
from scheduler.objects.node import Node
from scheduler.objects.nodemetric import NodeMetric, NodeMetricCollectPolicy

API_VERSION = "slo.koordinator.sh/v1alpha1"


class Create(msgspec.Struct, frozen=True):
    """A node has no object yet."""

    node: Node
    policy: NodeMetricCollectPolicy

    @property
    def name(self) -> str:
        """Return the name of the object."""
        return self.node.metadata.name

    def document(self) -> dict[str, Any]:
        """Return the object; the node owns it, so it is deleted with the node."""
        meta = self.node.metadata
        owner = {"apiVersion": "v1", "kind": "Node", "name": meta.name, "uid": meta.uid}
        return {
            "apiVersion": API_VERSION,
            "kind": "NodeMetric",
            "metadata": {"name": meta.name, "ownerReferences": [owner] if meta.uid else []},
            "spec": {"metricCollectPolicy": policy_document(self.policy)},
        }


class SetPolicy(msgspec.Struct, frozen=True):
    """A NodeMetric whose policy differs from its node's."""

    name: str
    policy: NodeMetricCollectPolicy


class Delete(msgspec.Struct, frozen=True):
    """An object has no node any more."""

    name: str


Step = Create | SetPolicy | Delete


def steps(
    nodes: Iterable[Node], metrics: Mapping[str, NodeMetric], policies: Policies | None
) -> list[Step]:
    """Return the steps for these nodes; none without policies (none was ever readable)."""
    found: list[Step] = []
    if policies is None:
        return found
    for node in nodes:
        name = node.metadata.name
        policy = policies.of(node.metadata.labels)
        metric = metrics.get(name)
        if metric is None:
            found.append(Create(node, policy))
        elif metric.spec.metric_collect_policy != policy:
            found.append(SetPolicy(name, policy))
    return found


def policy_document(policy: NodeMetricCollectPolicy) -> dict[str, Any]:
    """Return a policy in the form of the object's spec."""
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(policy))
    return found
