"""Measured load of nodes and pods from NodeMetric objects, in thousandths of the node's
allocatable.
"""

from __future__ import annotations

from scheduler.moves.goals import LoadGoal
from scheduler.objects.nodemetric import NodeMetric
from scheduler.objects.quantity import resource_amount
from scheduler.snapshot.snapshot import Snapshot


def loads(snapshot: Snapshot, goal: LoadGoal) -> tuple[dict[str, int], dict[str, int]]:
    """Return the load of each pod by key, and threshold minus load of each node by name.

    A node without a measurement is neither above its threshold nor a destination.
    """
    pods: dict[str, int] = {}
    headroom: dict[str, int] = {}
    offered = {node.metadata.name: node.status.allocatable for node in snapshot.nodes}
    for _, metric in snapshot.objects:
        if not isinstance(metric, NodeMetric) or metric.status.node_metric is None:
            continue
        name, resource = metric.metadata.name, goal.resource
        usage = metric.status.node_metric.node_usage.resources
        if name not in offered or resource not in usage or resource not in offered[name]:
            continue
        capacity = resource_amount(resource, offered[name][resource])
        headroom[name] = capacity * goal.percent // 100 - resource_amount(resource, usage[resource])
        for one in metric.status.pods_metric:
            if resource in one.pod_usage.resources:
                amount = resource_amount(resource, one.pod_usage.resources[resource])
                pods[f"{one.namespace}/{one.name}"] = max(0, amount)
    return pods, headroom
