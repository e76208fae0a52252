"""A load that fills a cluster to the last slot, so that a leak or an overcommitment cannot be
missed.
"""

from collections.abc import Iterable
from typing import Any

from tests.perf.workload import POD as STANDARD_POD
from tests.perf.workload import CreateNodes, Manifest, encoded, laid_over
from tests.real.api import Api

NAMESPACE = "default"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
NODE_CPU_MILLI = 4000
POD_CPU_MILLI = 100
PODS_PER_NODE = NODE_CPU_MILLI // POD_CPU_MILLI
TINY: dict[str, Any] = {
    "containers": [
        {
            "name": "pause",
            "image": "registry.k8s.io/pause:3.10",
            "resources": {"requests": {"cpu": f"{POD_CPU_MILLI}m"}},
        }
    ]
}


async def create_nodes(api: Api, count: int) -> dict[str, int]:
    """Create nodes; return the allocatable amount of each, in thousandths of a CPU."""
    nodes = list(CreateNodes(count=count).manifests())
    await api.create_all("/api/v1/nodes", encoded(iter(nodes)))
    return {node["metadata"]["name"]: NODE_CPU_MILLI for node in nodes}


async def create_pods(api: Api, numbers: Iterable[int], scheduler_name: str) -> None:
    """Create tiny pods with these numbers."""
    await api.create_all(PODS, encoded(iter([pod(n, scheduler_name) for n in numbers])))


def pod(number: int, scheduler_name: str) -> Manifest:
    """Return a pod that takes one slot."""
    spec = {"schedulerName": scheduler_name, **TINY}
    return laid_over(STANDARD_POD, {"metadata": {"name": f"pod-{number:05d}"}, "spec": spec})
