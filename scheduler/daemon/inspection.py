"""The engine as the debug pages show it: records made on request, bounded, without secrets."""

from collections.abc import Iterator, Mapping
from typing import Any

from scheduler.engine.engine import Engine
from scheduler.engine.queue.pod import Where
from scheduler.engine.view import QueuedView
from scheduler.objects.pod import Pod
from scheduler.serve.sources import PodResources
from scheduler.state.resources import amounts

_PLACES = tuple(where for where in Where if where is not Where.GONE)


def state(engine: Engine, most: int) -> dict[str, Any]:
    """Return up to `most` nodes with allocatable and used amounts, and the number of the others."""
    view = engine.view
    bindings = view.bindings()
    nodes = {
        one.name: {
            "allocatable": dict(one.allocatable),
            "requested": dict(one.requested),
            "pods": list(one.pods),
            "nominated": list(one.nominated),
        }
        for one in view.node_views(most)
    }
    return {
        "nodeCount": view.node_count,
        "podCount": len(view.placed),
        "assumedPods": sum(placed.assumed for placed in view.placed),
        "inFlight": bindings.in_flight,
        "waitingAtPermit": bindings.at_permit,
        "leading": engine.is_leading,
        "nodes": nodes,
    }


def queues(engine: Engine, most: int) -> dict[str, Any]:
    """Return the pods that are to be placed by queue, at most `most` per queue."""
    found: dict[str, list[dict[str, Any]]] = {where.value: [] for where in _PLACES}
    for queued in engine.view.queue():
        entries = found[queued.where.value]
        if len(entries) < most:
            entries.append(_queued(queued))
    return {
        where.value: {"count": engine.view.count(where), "pods": found[where.value]}
        for where in _PLACES
    }


def pod_resources(engine: Engine) -> Iterator[PodResources]:
    """Yield the requests and limits of all unfinished pods; nothing while this process does not
    lead.
    """
    if not engine.is_leading:
        return iter(())
    placed = [(one.pod, one.node) for one in engine.view.placed]
    waiting = [
        (queued.pod, "") for queued in engine.view.queue() if queued.where is not Where.IN_FLIGHT
    ]
    return (_resources(pod, node) for pod, node in placed + waiting)


def _queued(queued: QueuedView) -> dict[str, Any]:
    return {
        "pod": queued.pod.key,
        "profile": queued.profile,
        "priority": queued.pod.priority,
        "attempts": queued.attempts,
        "queuedAt": queued.queued_at,
        "rejectedBy": list(queued.rejected_by),
        "gatedBy": queued.gated_by,
    }


def _resources(pod: Pod, node: str) -> PodResources:
    requests: dict[str, int] = {}
    limits: dict[str, int] = {}
    for container in pod.spec.containers:
        for total, listed in (
            (requests, container.resources.requests),
            (limits, container.resources.limits),
        ):
            for name, amount in amounts(listed).items():
                total[name] = total.get(name, 0) + amount
    priority = pod.spec.priority
    return PodResources(
        pod.metadata.namespace,
        pod.metadata.name,
        node,
        pod.spec.scheduler_name,
        "" if priority is None else str(priority),
        _base_units(requests),
        _base_units(limits),
    )


def _base_units(found: Mapping[str, int]) -> dict[str, float]:
    return {name: amount / 1000 if name == "cpu" else amount for name, amount in found.items()}
