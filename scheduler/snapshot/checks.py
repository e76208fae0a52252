"""Validation of amounts and numbers that the API server would reject.

Plugins validate selectors, operators and the like themselves. Called once per object by `snapshot`;
raises ObjectError with the field.
"""

from collections.abc import Sequence
from typing import TypeAlias

from scheduler.base.errors import ObjectError
from scheduler.objects.node import Node
from scheduler.objects.pod import (
    Affinity,
    Container,
    Pod,
    PreferredSchedulingTerm,
    ResourceList,
    WeightedPodAffinityTerm,
)
from scheduler.objects.quantity import INT64_MAX, resource_amount

Weighted: TypeAlias = PreferredSchedulingTerm | WeightedPodAffinityTerm

INT32_MAX = 2**31 - 1
MAX_CONTAINERS = 10_000
MAX_PORT = 65535


def check_node(node: Node) -> None:
    """Raise ObjectError if an allocatable amount of a node is invalid."""
    _amounts("status.allocatable", node.status.allocatable)
    for index, image in enumerate(node.status.images):
        _range(f"status.images[{index}].sizeBytes", image.size_bytes, 0, 2**62)


def check_pod(pod: Pod) -> None:
    """Raise ObjectError if a pod's amounts are invalid, or numbers are out of range."""
    spec = pod.spec
    _containers("spec.containers", spec.containers)
    _containers("spec.initContainers", spec.init_containers)
    if spec.overhead:
        _amounts("spec.overhead", spec.overhead)
    if spec.resources is not None:
        _amounts("spec.resources.requests", spec.resources.requests)
        _amounts("spec.resources.limits", spec.resources.limits)
    for index, constraint in enumerate(spec.topology_spread_constraints):
        field = f"spec.topologySpreadConstraints[{index}]"
        _range(f"{field}.maxSkew", constraint.max_skew, 1, INT32_MAX)
        if constraint.min_domains is not None:
            _range(f"{field}.minDomains", constraint.min_domains, 1, INT32_MAX)
    if spec.affinity is not None:
        _weights(spec.affinity)


def _weights(affinity: Affinity) -> None:
    preferred: list[tuple[str, Sequence[Weighted]]] = []
    if affinity.node_affinity is not None:
        preferred.append(("nodeAffinity", affinity.node_affinity.preferred))
    if affinity.pod_affinity is not None:
        preferred.append(("podAffinity", affinity.pod_affinity.preferred))
    if affinity.pod_anti_affinity is not None:
        preferred.append(("podAntiAffinity", affinity.pod_anti_affinity.preferred))
    for name, terms in preferred:
        field = f"spec.affinity.{name}.preferredDuringSchedulingIgnoredDuringExecution"
        for index, term in enumerate(terms):
            _range(f"{field}[{index}].weight", term.weight, 0, 100)


def _containers(field: str, containers: tuple[Container, ...]) -> None:
    _range(f"number of {field}", len(containers), 0, MAX_CONTAINERS)
    for index, container in enumerate(containers):
        resources = container.resources
        if resources.requests:
            _amounts(f"{field}[{index}].resources.requests", resources.requests)
        if resources.limits:
            _amounts(f"{field}[{index}].resources.limits", resources.limits)
        for number, port in enumerate(container.ports):
            if port.host_port or port.container_port:
                place = f"{field}[{index}].ports[{number}]"
                _range(f"{place}.hostPort", port.host_port, 0, MAX_PORT)
                _range(f"{place}.containerPort", port.container_port, 0, MAX_PORT)


def _amounts(field: str, resources: ResourceList) -> None:
    for name, value in resources.items():
        if type(value) is int and abs(value) > INT64_MAX:
            raise ObjectError(f"{field}[{name}]: {_short(value)} is beyond {INT64_MAX}")
        try:
            amount = resource_amount(name, value)
        except ObjectError as error:
            raise ObjectError(f"{field}[{name}]: {error.message}") from error
        if amount < 0:
            raise ObjectError(f"{field}[{name}]: {value} is less than 0")


def _range(field: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise ObjectError(f"{field}: {_short(value)} is not between {low} and {high}")


def _short(value: int) -> str:
    # Thousands of digits are useless in a message, and Python does not convert them.
    return str(value) if abs(value) < 10**30 else "a number of more than 30 digits"
