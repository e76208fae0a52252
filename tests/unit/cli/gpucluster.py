"""A GPU cluster for tests of tables and of the page: racks of 16 nodes of 8 GPUs, gangs, pods."""

from typing import Any

from scheduler.testing import node, pod

GPU, RACK = "nvidia.com/gpu", "topology.trellis.dev/rack"
Json = dict[str, Any]
# A gang of eight for each 12 nodes; every fourth waits.
PER_GANG = 12


def cluster(nodes: int) -> list[Json]:
    """Return racks of 16 nodes with 8 GPUs, gangs in half of them, and infeasible pods."""
    found = [
        node(
            f"gpu-{at:04}",
            cpu="192",
            memory="2Ti",
            labels={RACK: f"rack-{at // 16}"},
            allocatable={GPU: "8"},
        )
        for at in range(nodes)
    ]
    for at in range(nodes // PER_GANG):
        found += gang(f"train-{at:03}", 8, on=None if at % 4 == 3 else 8 * at)
    found += gang("huge", 24)
    found += [one_pod(f"serve-{at}", gpus=1) for at in range(90)]
    found.append(one_pod("debug-shell", nodeSelector={"disk": "ssd"}))
    found.append(one_pod("too-many-gpu", gpus=16))
    found.append(one_pod("orphan", gpus=1, schedulingGroup={"podGroupName": "gone"}))
    return found


def one_pod(name: str, gpus: int = 0, node_name: str = "", **spec: Any) -> Json:
    """A pod of 4 CPUs."""
    asks = {"cpu": "4", "memory": "8Gi"} | ({GPU: str(gpus)} if gpus else {})
    made = pod(name, namespace="research", requests=asks, node_name=node_name)
    made["spec"] |= {"schedulerName": "trellis", **spec}
    return made


def gang(name: str, size: int, on: int | None = None) -> list[Json]:
    """Return a gang of whole nodes in one rack, on nodes from number `on`."""
    group = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "research"},
        "spec": {
            "schedulingPolicy": {"gang": {"minCount": size}},
            "schedulingConstraints": {"topology": [{"key": RACK}]},
        },
    }
    where = ["" if on is None else f"gpu-{on + at:04}" for at in range(size)]
    own = {"schedulingGroup": {"podGroupName": name}}
    return [group, *(one_pod(f"{name}-{at}", 8, one, **own) for at, one in enumerate(where))]
