"""Short constructors of nodes and pods for tests, as the plain manifests that `evaluate` takes."""

from collections.abc import Iterable, Mapping
from typing import Any

Manifest = dict[str, Any]


def node(
    name: str,
    *,
    cpu: str = "4",
    memory: str = "16Gi",
    pods: str = "110",
    allocatable: Mapping[str, Any] | None = None,
    labels: Mapping[str, str] | None = None,
    taints: Iterable[Mapping[str, str]] = (),
    images: Iterable[Mapping[str, Any]] = (),
    unschedulable: bool = False,
) -> Manifest:
    """Return a Node; `allocatable` adds to cpu, memory and pods or replaces them."""
    offers = {"cpu": cpu, "memory": memory, "pods": pods} | dict(allocatable or {})
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": dict(labels or {})},
        "spec": {"unschedulable": unschedulable, "taints": [dict(t) for t in taints]},
        "status": {"allocatable": offers, "images": [dict(i) for i in images]},
    }


def pod(
    name: str = "p",
    *,
    namespace: str = "default",
    node_name: str = "",
    labels: Mapping[str, str] | None = None,
    requests: Mapping[str, Any] | None = None,
    host_ports: Iterable[int] = (),
    image: str = "registry.example/app:1",
    spec: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
) -> Manifest:
    """Return a Pod of one container with these requests; `spec` adds any further fields."""
    container = {
        "name": "main",
        "image": image,
        "resources": {"requests": dict(requests or {})},
        "ports": [{"containerPort": port, "hostPort": port} for port in host_ports],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels or {})},
        "spec": {"containers": [container], "nodeName": node_name, **(spec or {})},
        "status": dict(status or {}),
    }
