"""One node of a snapshot as the page shows it: labels, taints, devices, pods with requests."""

from collections.abc import Iterator
from typing import Any

from scheduler.base.errors import InputError
from scheduler.base.text import NameKey, natural
from scheduler.objects.claims import ResourceClaim
from scheduler.objects.devices import Device, ResourceSlice
from scheduler.objects.node import Node
from scheduler.objects.pod import Pod
from scheduler.snapshot.snapshot import Snapshot
from scheduler.snapshot.tree import group_name
from scheduler.state.resources import pod_requests


def node_view(snapshot: Snapshot, name: str) -> dict[str, Any]:
    """Return the details of a node; InputError if the snapshot has no node of this name."""
    node = next((one for one in snapshot.nodes if one.metadata.name == name), None)
    if node is None:
        raise InputError("there is no such node", where=f"Node {name}")
    pods = sorted((one for one in snapshot.bound if one.spec.node_name == name), key=_order)
    return {
        "name": name,
        "labels": dict(sorted(node.metadata.labels.items())),
        "taints": list(_taints(node)),
        "devices": list(_devices(snapshot, name)),
        "pods": [_pod(one) for one in pods],
    }


def _order(pod: Pod) -> tuple[int, NameKey]:
    return -(pod.spec.priority or 0), natural(pod.key)


def _pod(pod: Pod) -> dict[str, Any]:
    return {
        "key": pod.key,
        "group": group_name(pod) or "",
        "priority": pod.spec.priority or 0,
        "asks": dict(pod_requests(pod)),
    }


def _taints(node: Node) -> Iterator[str]:
    """Yield taints as kubectl writes them: `key=value:effect`."""
    if node.spec.unschedulable:
        yield "unschedulable"
    for taint in node.spec.taints:
        yield f"{taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect}"


def _devices(snapshot: Snapshot, name: str) -> Iterator[dict[str, Any]]:
    """Yield the devices of the node's ResourceSlices with the claims that use them."""
    users = _users(snapshot)
    for _, obj in snapshot.objects:
        if not isinstance(obj, ResourceSlice):
            continue
        for device in obj.spec.devices:
            if name in (obj.spec.node_name, device.node_name):
                place = (obj.spec.driver, obj.spec.pool.name, device.name)
                yield {
                    "driver": obj.spec.driver,
                    "pool": obj.spec.pool.name,
                    "name": device.name,
                    "is": _attributes(device),
                    "claims": users.get(place, []),
                }


def _attributes(device: Device) -> str:
    """Return the values of a device's text attributes, which name its model."""
    return ", ".join(one.string for one in device.attributes.values() if one.string)


def _users(snapshot: Snapshot) -> dict[tuple[str, str, str], list[str]]:
    """Return the claims that have each device, by driver, pool and device."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for _, obj in snapshot.objects:
        if isinstance(obj, ResourceClaim) and obj.status.allocation is not None:
            for one in obj.status.allocation.devices.results:
                found.setdefault((one.driver, one.pool, one.device), []).append(obj.key)
    return found
