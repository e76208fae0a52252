"""A shape without a manifest: amounts of one pod, and how many of them start together. Pure."""

from typing import Any

import msgspec

from scheduler.base.errors import InputError
from scheduler.groups.topology.tree import PRESETS
from scheduler.snapshot.documents import Item, items_of_objects
from scheduler.snapshot.snapshot import Snapshot
from scheduler.state.resources import is_extended

NAME = "shape"
DEFAULT_GPU = "nvidia.com/gpu"
MOST_MEMBERS = 10_000


class RequestedShape(msgspec.Struct, frozen=True):
    """Requests of one pod as quantities, '' and None for none; `gang` pods start together."""

    cpu: str = ""
    memory: str = ""
    gpu: int | None = None
    gang: int | None = None
    rack: bool = False

    def __str__(self) -> str:
        amounts = {"cpu": self.cpu, "memory": self.memory, "gpu": str(self.gpu or "")}
        return ", ".join(f"{text} {name}" for name, text in amounts.items() if text)


def shape_items(shape: RequestedShape, snapshot: Snapshot) -> list[Item]:
    """Return the manifests of a shape; its GPUs are the resource `.../gpu` that the nodes offer.

    InputError if no amount is requested, or if a rack is requested and no node has a rack label.
    """
    if shape.rack and shape.gang is None:
        raise InputError(
            "is a rule for a group: --gang N is the number of its pods", where="--rack"
        )
    if shape.gang is not None and shape.gang > MOST_MEMBERS:
        raise InputError(f"{shape.gang} pods; the most is {MOST_MEMBERS}", where="--gang")
    requests = {"cpu": shape.cpu, "memory": shape.memory}
    requests = {name: text for name, text in requests.items() if text}
    gpu = gpu_resource(snapshot)
    if shape.gpu:
        requests[gpu] = str(shape.gpu)
    if not requests:
        raise InputError("a shape needs --cpu, --memory or --gpu")
    objects = [_pod(requests, gpu, number, shape) for number in range(shape.gang or 1)]
    if shape.gang is not None:
        objects.append(_group(shape, snapshot))
    return list(items_of_objects(objects, "shape"))


def gpu_resource(snapshot: Snapshot) -> str:
    """Return the extended resource that most nodes offer as GPUs, NVIDIA's if no node has any."""
    counts: dict[str, int] = {}
    for node in snapshot.nodes:
        for name in node.status.allocatable:
            if is_extended(name) and name.endswith("/gpu"):
                counts[name] = counts.get(name, 0) + 1
    return max(sorted(counts), key=lambda name: counts[name], default=DEFAULT_GPU)


def _pod(requests: dict[str, str], gpu: str, number: int, shape: RequestedShape) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "schedulerName": "trellis",
        "containers": [{"name": "main", "resources": {"requests": requests}}],
    }
    if gpu in requests:
        # As the admission plugin ExtendedResourceToleration adds it if GPU nodes are tainted.
        spec["tolerations"] = [{"key": gpu, "operator": "Exists"}]
        spec["containers"][0]["resources"]["limits"] = {gpu: requests[gpu]}
    if shape.gang is not None:
        spec["schedulingGroup"] = {"podGroupName": NAME}
    name = NAME if shape.gang is None else f"{NAME}-{number}"
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def _group(shape: RequestedShape, snapshot: Snapshot) -> dict[str, Any]:
    spec: dict[str, Any] = {"schedulingPolicy": {"gang": {"minCount": shape.gang}}}
    if shape.rack:
        carried = {label for node in snapshot.nodes for label in node.metadata.labels}
        label = next((one for one in PRESETS["rack"] if one in carried), None)
        if label is None:
            text = f"no node carries a label of racks: {', '.join(PRESETS['rack'])}"
            raise InputError(text, where="--rack")
        spec["schedulingConstraints"] = {"topology": [{"key": label}]}
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": NAME},
        "spec": spec,
    }
