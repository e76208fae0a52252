"""The cluster after a simulation, and its figures: use, balance, fragmentation.

Called for reports that compare two simulations of one snapshot. Amounts are CPU in milli and whole
units of everything else; shares are between 0 and 1.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec
from msgspec.structs import replace

from scheduler.engine.attempt.failure import POD_SCHEDULED
from scheduler.objects.node import Node
from scheduler.objects.pod import Pod, PodCondition
from scheduler.simulate.records import Result, Simulation
from scheduler.snapshot.snapshot import Snapshot
from scheduler.state.resources import amounts, is_extended, pod_requests

# The shapes of pods for fragmentation, the most frequent first.
MOST_SHAPES = 64

Amounts = dict[str, int]


class ResourceUse(msgspec.Struct, frozen=True):
    """One resource over all nodes that offer it.

    `balance` is the standard deviation of the nodes' utilization: 0 when all are equal.
    `fragmentation` is the share of the free amount that is on nodes where a pod of this cluster
    lacks some resource, averaged over the pods that were to be placed (Weng et al., "Beware of
    Fragmentation", USENIX ATC 2023). None if no amount is free, or no pod was to be placed.
    """

    requested: int
    allocatable: int
    balance: float
    fragmentation: float | None


class OutcomeFigures(msgspec.Struct, frozen=True, rename="camel"):
    """A simulation in figures.

    `emptyNodes` have no pod, `unproven` groups might be placed better.
    """

    placed: int
    waiting: int
    network_cost: int
    empty_nodes: int
    groups: int
    unproven: int
    resources: dict[str, ResourceUse]


def after(snapshot: Snapshot, simulation: Simulation) -> Snapshot:
    """Return `snapshot` with the pods on the nodes of its simulation, and without its victims."""
    gone = {f"{one.namespace}/{one.name}" for pod in simulation.pods for one in pod.victims}
    node_of = {
        pod.key: pod.node for pod in simulation.pods if pod.result is Result.SCHEDULED and pod.node
    }
    messages = {pod.key: pod.message for pod in simulation.pods if pod.message}
    there = [pod for pod in (*snapshot.bound, *snapshot.unbound) if pod.key not in gone]
    return replace(
        snapshot,
        bound=tuple(
            _put(pod, node_of.get(pod.key, pod.spec.node_name))
            for pod in there
            if pod.key in node_of or pod.spec.node_name
        ),
        unbound=tuple(
            _with_message(pod, messages.get(pod.key, ""))
            for pod in there
            if pod.key not in node_of and not pod.spec.node_name
        ),
    )


def figures(snapshot: Snapshot, simulation: Simulation) -> OutcomeFigures:
    """Return the figures of a simulated cluster returned by `after`."""
    pods: dict[str, list[Pod]] = {}
    for pod in snapshot.bound:
        pods.setdefault(pod.spec.node_name, []).append(pod)
    offered = {node.metadata.name: amounts(node.status.allocatable) for node in snapshot.nodes}
    requests = {name: _sum(pods.get(name, ())) for name in offered}
    keys = {pod.key for pod in simulation.pods}
    shapes = Counter(
        tuple(sorted(pod_requests(pod).items()))
        for pod in (*snapshot.bound, *snapshot.unbound)
        if pod.key in keys
    )
    wanted = dict(shapes.most_common(MOST_SHAPES))
    free = {
        name: {resource: most - requests[name].get(resource, 0) for resource, most in own.items()}
        for name, own in offered.items()
    }
    return OutcomeFigures(
        placed=simulation.summary.scheduled,
        waiting=simulation.summary.unschedulable,
        network_cost=simulation.summary.network_cost,
        empty_nodes=sum(1 for name in offered if not pods.get(name)),
        groups=len(simulation.groups),
        unproven=sum(1 for group in simulation.groups if group.objective and not group.optimal),
        resources={
            resource: _use(resource, offered, requests, free, wanted)
            for resource in _resources(snapshot.nodes)
        },
    )


def _use(
    resource: str,
    offered: Mapping[str, Amounts],
    requests: Mapping[str, Amounts],
    free: Mapping[str, Amounts],
    wanted: Mapping[tuple[tuple[str, int], ...], int],
) -> ResourceUse:
    having = [name for name, own in offered.items() if own.get(resource)]
    shares = [requests[name].get(resource, 0) / offered[name][resource] for name in having]
    mean = sum(shares) / len(shares) if shares else 0.0
    left = sum(max(0, free[name][resource]) for name in having)
    useless = 0.0
    for shape, count in wanted.items():
        blocked = (name for name in having if not _fits(shape, free[name]))
        useless += count * sum(max(0, free[name][resource]) for name in blocked)
    pods = sum(wanted.values())
    return ResourceUse(
        sum(requests[name].get(resource, 0) for name in having),
        sum(offered[name][resource] for name in having),
        math.sqrt(sum((one - mean) ** 2 for one in shares) / len(shares)) if shares else 0.0,
        useless / (left * pods) if left and pods else None,
    )


def _fits(shape: Iterable[tuple[str, int]], free: Amounts) -> bool:
    return all(free.get(resource, 0) >= amount for resource, amount in shape if amount)


def _sum(pods: Iterable[Pod]) -> Amounts:
    total: Counter[str] = Counter()
    for pod in pods:
        total.update(pod_requests(pod, use_status=True))
    return total


def _resources(nodes: Iterable[Node]) -> tuple[str, ...]:
    offered = {name for node in nodes for name in node.status.allocatable}
    return ("cpu", "memory", *sorted(name for name in offered if is_extended(name)))


def _put(pod: Pod, node: str) -> Pod:
    return (
        pod if pod.spec.node_name == node else replace(pod, spec=replace(pod.spec, node_name=node))
    )


def _with_message(pod: Pod, message: str) -> Pod:
    if not message:
        return pod
    others = tuple(one for one in pod.status.conditions if one.type != POD_SCHEDULED)
    condition = PodCondition(type=POD_SCHEDULED, status="False", message=message)
    return replace(pod, status=replace(pod.status, conditions=(*others, condition)))
