"""Extended resources that device classes serve: the claim for a pod's requests of them.

A node that offers the resource itself (a device plugin) serves it; on any other the pod's requests
become one claim, so the claim's requests differ from node to node. Names of requests and the
mapping of containers to them are kube-scheduler's (1.36, DRAExtendedResource). Pure functions.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from scheduler.objects.claims import (
    DeviceClaim,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaimSpec,
)
from scheduler.objects.devices import DeviceClass
from scheduler.objects.pod import Container, Pod
from scheduler.objects.quantity import quantity

IN_MEMORY_NAME = "<extended-resources>"


class RequestMapping(msgspec.Struct, frozen=True, rename="camel"):
    """The request of the claim that serves a resource of a container."""

    container_name: str
    resource_name: str
    request_name: str


class ExtendedClaim(msgspec.Struct, frozen=True):
    """The pod's claim on nodes that do not serve some resources themselves."""

    spec: ResourceClaimSpec
    mappings: tuple[RequestMapping, ...]


def class_of(classes: Mapping[str, DeviceClass]) -> dict[str, DeviceClass]:
    """Return the class that serves each extended resource: the newest, then the first by name."""
    found: dict[str, DeviceClass] = {}
    order = sorted(classes.values(), key=lambda one: one.metadata.name)
    order.sort(key=lambda one: one.metadata.creation_timestamp or "", reverse=True)
    for one in order:
        for name in one.resources:
            found.setdefault(name, one)
    return found


def extended_claim(
    pod: Pod, resources: Iterable[str], serving: Mapping[str, DeviceClass]
) -> ExtendedClaim:
    """Return the claim for these resources of a pod."""
    inits = pod.spec.init_containers
    containers = (*inits, *pod.spec.containers)
    passing = [i for i, one in enumerate(inits) if one.restart_policy != "Always"]
    requests: list[DeviceRequest] = []
    mappings: list[RequestMapping] = []
    for resource in sorted(resources):
        made, mapped = _of_resource(containers, passing, resource, serving[resource])
        requests += made
        mappings += mapped
    requests.sort(key=lambda one: one.name)
    return ExtendedClaim(ResourceClaimSpec(DeviceClaim(tuple(requests))), tuple(mappings))


def _of_resource(
    containers: Sequence[Container], passing: Collection[int], resource: str, served_by: DeviceClass
) -> tuple[list[DeviceRequest], list[RequestMapping]]:
    """Return the requests for one resource; init containers reuse those of later containers."""
    lasting: dict[int, DeviceRequest] = {}
    mappings: list[RequestMapping] = []
    for index, container in enumerate(containers):
        if index not in passing:
            made, mapped = _of_container(index, container, resource, served_by, ())
            mappings += mapped
            if made is not None:
                lasting[index] = made
    largest: DeviceRequest | None = None
    own: set[str] = set()
    of_passing: list[RequestMapping] = []
    for index in passing:
        later = [one for place, one in lasting.items() if place >= index]
        made, mapped = _of_container(index, containers[index], resource, served_by, later)
        of_passing += mapped
        if made is not None:
            own.add(made.name)
            if largest is None or _count(largest) < _count(made):
                largest = made
    if largest is None:
        return list(lasting.values()), mappings + of_passing
    # They run one after the other, so the largest request covers all of them.
    shared = [
        msgspec.structs.replace(one, request_name=largest.name) if one.request_name in own else one
        for one in of_passing
    ]
    return [largest, *lasting.values()], mappings + shared


def _of_container(
    index: int,
    container: Container,
    resource: str,
    served_by: DeviceClass,
    usable: Iterable[DeviceRequest],
) -> tuple[DeviceRequest | None, list[RequestMapping]]:
    own = container.resources.requests
    wanted = quantity(own[resource]) if resource in own else 0
    if wanted <= 0:
        return None, []
    mapped: list[RequestMapping] = []
    for one in usable:
        mapped.append(RequestMapping(container.name, resource, one.name))
        wanted -= _count(one)
        if wanted <= 0:
            return None, mapped
    name = f"container-{index}-request-{sorted(own).index(resource)}"
    mapped.append(RequestMapping(container.name, resource, name))
    requested = ExactDeviceRequest(device_class_name=served_by.metadata.name, count=wanted)
    return DeviceRequest(name, requested), mapped


def _count(request: DeviceRequest) -> int:
    return request.exactly.count if request.exactly is not None else 0
