"""Objects for tests of the core, as the structs that the watch would decode: short to write."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from scheduler.objects.node import ContainerImage, Node, NodeMeta, NodeSpec, NodeStatus, Taint
from scheduler.objects.pod import (
    Container,
    ContainerPort,
    Pod,
    PodMeta,
    PodSpec,
    PodStatus,
    ResourceRequirements,
    SchedulingGate,
)

SCHEDULER = "trellis"
_Object = TypeVar("_Object", bound=msgspec.Struct)


def make_node(
    name: str,
    *,
    cpu: int = 4,
    pods: int = 110,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Taint] = (),
    unschedulable: bool = False,
    images: Sequence[ContainerImage] = (),
    allocatable: Mapping[str, Any] | None = None,
) -> Node:
    """Return a node; `cpu` in whole CPUs."""
    offers: dict[str, Any] = {"cpu": cpu, "memory": "64Gi", "pods": pods} | dict(allocatable or {})
    return Node(
        NodeMeta(name=name, uid=f"node-{name}", labels=dict(labels or {})),
        NodeSpec(unschedulable, tuple(taints)),
        NodeStatus(offers, tuple(images)),
    )


def make_pod(
    name: str,
    *,
    uid: str = "",
    cpu: int | str = 1,
    node: str = "",
    priority: int = 0,
    labels: Mapping[str, str] | None = None,
    gates: Sequence[str] = (),
    host_port: int = 0,
    nominated: str = "",
    scheduler: str = SCHEDULER,
    requests: Mapping[str, Any] | None = None,
    status: PodStatus | None = None,
    **spec: Any,
) -> Pod:
    """Return a pod of one container in namespace `default`; `cpu` in whole CPUs."""
    ports = (ContainerPort(host_port=host_port),) if host_port else ()
    wants: dict[str, Any] = {"cpu": cpu} | dict(requests or {})
    container = Container("main", "app:1", "", ResourceRequirements(wants), ports)
    return Pod(
        PodMeta(
            name=name,
            namespace="default",
            uid=uid or f"uid-{name}",
            resource_version="1",
            generation=1,
            labels=dict(labels or {}),
        ),
        PodSpec(
            node_name=node,
            scheduler_name=scheduler,
            priority=priority,
            containers=(container,),
            scheduling_gates=tuple(SchedulingGate(gate) for gate in gates),
            **spec,
        ),
        status if status is not None else PodStatus(nominated_node_name=nominated),
    )


def with_spec(pod: Pod, **changes: Any) -> Pod:
    """Return the pod with other spec fields."""
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, **changes))


def with_status(pod: Pod, **changes: Any) -> Pod:
    """Return the pod with other status fields."""
    return msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, **changes))


def with_meta(obj: _Object, **changes: Any) -> _Object:
    """Return an object with other metadata."""
    plain: Any = obj
    meta = msgspec.structs.replace(plain.metadata, **changes)
    changed: _Object = msgspec.structs.replace(plain, metadata=meta)
    return changed


def node_with(node: Node, **status: Any) -> Node:
    """Return the node with other status fields."""
    return msgspec.structs.replace(node, status=msgspec.structs.replace(node.status, **status))


def relabelled(node: Node, labels: Mapping[str, str]) -> Node:
    """Return the node with other labels."""
    meta = msgspec.structs.replace(node.metadata, labels=dict(labels))
    return msgspec.structs.replace(node, metadata=meta)
