"""The shape of a simulated cluster: its nodes, read from a YAML file.

`read_shape` decodes strictly (unknown fields and wrong types are errors with the file's name),
`nodes_of` turns a shape into Node objects. `trellis sandbox up` calls both; without a file
`plain_shape` distributes N equal nodes over zones and racks. docs/examples/sandbox/ has a commented
file.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from scheduler.base.errors import InputError
from scheduler.controlplane.quantities import canonical
from scheduler.sandbox.api.status import Object
from scheduler.sandbox.nodes.shapedevices import Devices, slices_of

RACK_LABEL: Final = "topology.trellis.dev/rack"
ZONE_LABEL: Final = "topology.kubernetes.io/zone"
REGION_LABEL: Final = "topology.kubernetes.io/region"
KUBELET_VERSION: Final = "v1.36.3"


class Image(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A container image that the nodes of a group hold."""

    names: list[str]
    size_bytes: int


class ShapeTaint(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A taint as in `spec.taints`."""

    key: str
    effect: str
    value: str = ""


class NodeGroup(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Equal nodes; texts may contain {index}, {zone}, {rack} and {region}.

    Racks are assigned to zones in turn; `nodes_per_rack` consecutive nodes share a rack.
    """

    count: int = 1
    name: str = "node-{index}"
    first_index: int = 0
    cpu: str | int | float = "8"
    memory: str | int = "32Gi"
    pods: int = 110
    ephemeral_storage: str | int = "100Gi"
    resources: dict[str, str | int] = {}
    allocatable: dict[str, str | int] = {}
    region: str = "region-1"
    zones: tuple[str, ...] = ("zone-a",)
    nodes_per_rack: int = 16
    rack: str = "rack-{rack}"
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    taints: list[ShapeTaint] = []
    images: list[Image] = []
    devices: list[Devices] = []
    unschedulable: bool = False


class ClusterShape(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A whole cluster: groups of nodes, in order."""

    nodes: list[NodeGroup]
    api_version: str = "trellis.dev/v1alpha1"
    kind: str = "ClusterShape"

    @property
    def count(self) -> int:
        """Return the number of nodes."""
        return sum(group.count for group in self.nodes)


def plain_shape(count: int) -> ClusterShape:
    """Return `count` equal nodes in three zones, in racks of at most 16, small enough for one per
    zone.
    """
    zones = ("zone-a", "zone-b", "zone-c")
    nodes_per_rack = max(1, min(16, -(-count // len(zones))))
    width = len(str(max(count - 1, 0)))
    name = f"node-{{index:0{width}}}"
    return ClusterShape(
        nodes=[NodeGroup(count=count, name=name, zones=zones, nodes_per_rack=nodes_per_rack)]
    )


def read_shape(path: Path) -> ClusterShape:
    """Decode a shape file; `InputError` with the file's name if it is invalid."""
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as fault:
        raise InputError(fault.strerror or str(fault), where=str(path)) from fault
    except yaml.YAMLError as fault:
        mark = getattr(fault, "problem_mark", None)
        where = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
        raise InputError(getattr(fault, "problem", None) or str(fault), where=where) from fault
    return shape_of(raw, where=str(path))


def shape_of(raw: Any, *, where: str = "") -> ClusterShape:
    """Return the shape of YAML data; `InputError` names an invalid field."""
    try:
        shape = msgspec.convert(raw, ClusterShape)
    except msgspec.ValidationError as fault:
        raise InputError(str(fault), where=where) from fault
    for number, group in enumerate(shape.nodes):
        _check(group, f"nodes[{number}]", where)
    return shape


def nodes_of(shape: ClusterShape, now: str) -> Iterator[Object]:
    """Yield the Node objects of a shape, ready at `now` (RFC 3339).

    `InputError` for a name used twice.
    """
    seen: set[str] = set()
    number = 0
    for group in shape.nodes:
        for position in range(group.count):
            node = _node(group, position, number, now)
            name = node["metadata"]["name"]
            if name in seen:
                raise InputError(f'two nodes are named "{name}": put {{index}} into the name')
            seen.add(name)
            number += 1
            yield node


def device_slices(shape: ClusterShape) -> Iterator[tuple[str, Object]]:
    """Yield the ResourceSlices of a shape's devices, each with the name of its node."""
    for group in shape.nodes:
        if not group.devices:
            continue
        for position in range(group.count):
            words = _words(group, position)
            name = group.name.format(**words)
            for devices in group.devices:
                for made in slices_of(devices, name, words):
                    yield name, made


def ready_conditions(now: str) -> list[Object]:
    """Return the conditions of a healthy node, as its kubelet reports them."""
    return [
        _condition("MemoryPressure", "False", "KubeletHasSufficientMemory", now,
                   "kubelet has sufficient memory available"),
        _condition("DiskPressure", "False", "KubeletHasNoDiskPressure", now,
                   "kubelet has no disk pressure"),
        _condition("PIDPressure", "False", "KubeletHasSufficientPID", now,
                   "kubelet has sufficient PID available"),
        _condition("Ready", "True", "KubeletReady", now, "kubelet is posting ready status"),
    ]  # fmt: skip


def node_address(number: int) -> str:
    """Return the internal address of the node with this number (0 … 2^20 - 1)."""
    return f"172.{16 + (number >> 16) % 16}.{number >> 8 & 255}.{number & 255}"


def _check(group: NodeGroup, path: str, where: str) -> None:
    for name, found in (("count", group.count), ("pods", group.pods)):
        if found < 0:
            raise InputError(f"must not be negative: {found} - at `$.{path}.{name}`", where=where)
    if group.nodes_per_rack < 1 or not group.zones:
        raise InputError(f"nodesPerRack and zones need at least one - at `$.{path}`", where=where)
    amounts = {
        "cpu": group.cpu,
        "memory": group.memory,
        "ephemeralStorage": group.ephemeral_storage,
    }
    for name, amount in (amounts | group.resources | group.allocatable).items():
        try:
            canonical(amount)
        except ValueError as fault:
            raise InputError(f"{fault} - at `$.{path}.{name}`", where=where) from fault
    _check_devices(group, path, where)
    words = {"index": 0, "zone": "", "rack": 0, "region": ""}
    for text in (group.name, group.rack, *group.labels.values(), *group.annotations.values()):
        try:
            text.format(**words)
        except (KeyError, IndexError, ValueError) as fault:
            known = ", ".join(words)
            message = f'"{text}" cannot be filled in ({fault}); known words: {known}'
            raise InputError(f"{message} - at `$.{path}`", where=where) from fault


def _check_devices(group: NodeGroup, path: str, where: str) -> None:
    """Check the devices of the group's first node as the API server would."""
    for number, devices in enumerate(group.devices):
        try:
            list(slices_of(devices, "node", _words(group, 0)))
        except (InputError, KeyError, IndexError, ValueError) as fault:
            raise InputError(f"{fault} - at `$.{path}.devices[{number}]`", where=where) from fault


def _words(group: NodeGroup, position: int) -> dict[str, Any]:
    """Return the words that texts of a group may contain, for one of its nodes."""
    rack = position // group.nodes_per_rack
    return {
        "index": group.first_index + position,
        "zone": group.zones[rack % len(group.zones)],
        "rack": rack,
        "region": group.region,
    }


def _node(group: NodeGroup, position: int, number: int, now: str) -> Object:
    words = _words(group, position)
    name = group.name.format(**words)
    labels = {
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        REGION_LABEL: group.region,
        ZONE_LABEL: words["zone"],
        RACK_LABEL: group.rack.format(**words),
    }
    labels |= {key: text.format(**words) for key, text in group.labels.items()}
    meta: Object = {"name": name, "labels": labels}
    if group.annotations:
        meta["annotations"] = {key: text.format(**words) for key, text in group.annotations.items()}
    spec: Object = {"providerID": f"trellis://{name}"}
    if group.taints:
        spec["taints"] = [_taint(taint) for taint in group.taints]
    if group.unschedulable:
        spec["unschedulable"] = True
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": meta,
        "spec": spec,
        "status": _status(group, name, number, now),
    }


def _status(group: NodeGroup, name: str, number: int, now: str) -> Object:
    capacity = {
        "cpu": canonical(group.cpu),
        "ephemeral-storage": canonical(group.ephemeral_storage),
        "memory": canonical(group.memory),
        "pods": str(group.pods),
    }
    capacity |= {key: canonical(amount) for key, amount in group.resources.items()}
    allocatable = capacity | {key: canonical(text) for key, text in group.allocatable.items()}
    return {
        "capacity": capacity,
        "allocatable": allocatable,
        "conditions": ready_conditions(now),
        "addresses": [
            {"type": "InternalIP", "address": node_address(number)},
            {"type": "Hostname", "address": name},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": _node_info(number),
        "images": [
            {"names": list(image.names), "sizeBytes": image.size_bytes} for image in group.images
        ],
    }


def _node_info(number: int) -> Object:
    machine = f"{number:032x}"
    return {
        "architecture": "amd64",
        "bootID": f"{machine[:8]}-{machine[8:12]}-{machine[12:16]}-{machine[16:20]}-{machine[20:]}",
        "containerRuntimeVersion": "containerd://2.1.0",
        "kernelVersion": "6.12.0",
        "kubeProxyVersion": "",
        "kubeletVersion": KUBELET_VERSION,
        "machineID": machine,
        "operatingSystem": "linux",
        "osImage": "Simulated Linux",
        "systemUUID": machine,
    }


def _taint(taint: ShapeTaint) -> Object:
    found = {"key": taint.key, "effect": taint.effect}
    return {**found, "value": taint.value} if taint.value else found


def _condition(kind: str, status: str, reason: str, now: str, message: str) -> Object:
    return {
        "type": kind,
        "status": status,
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    }
