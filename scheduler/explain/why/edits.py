"""Pods with other requests, and copies of nodes, for trials. Pure functions."""

from __future__ import annotations

from msgspec.structs import replace

from scheduler.explain.why.requirements import without_request
from scheduler.objects.groups.kueue import HOSTNAME
from scheduler.objects.meta import ObjectMeta
from scheduler.objects.node import Node
from scheduler.objects.pod import Container, Pod, ResourceRequirements
from scheduler.objects.quantity import resource_text
from scheduler.state.resources import counted, pod_requests


def requesting(pod: Pod, resource: str, amount: int) -> Pod | None:
    """Return `pod` with a total request of `amount`, its overhead included; None if impossible.

    A pod-level request is set where there is one; else the first container that requests the
    resource gets the amount and the others request none.
    """
    bare = without_request(pod, resource)
    own = amount - counted(pod_requests(bare)).get(resource, 0)
    if own <= 0:
        return None
    spec, text = pod.spec, resource_text(resource, own)
    if spec.resources is not None and _names(spec.resources, resource):
        total = _with(bare.spec.resources or ResourceRequirements(), spec.resources, resource, text)
        return replace(bare, spec=replace(bare.spec, resources=total))
    containers = list(bare.spec.containers)
    for at, one in enumerate(spec.containers):
        if _names(one.resources, resource):
            containers[at] = _container(containers[at], one, resource, text)
            return replace(bare, spec=replace(bare.spec, containers=tuple(containers)))
    return None  # an init container alone requests it


def _names(one: ResourceRequirements, resource: str) -> bool:
    return resource in one.requests or resource in one.limits


def _container(bare: Container, before: Container, resource: str, text: str) -> Container:
    return replace(bare, resources=_with(bare.resources, before.resources, resource, text))


def _with(
    bare: ResourceRequirements, before: ResourceRequirements, resource: str, text: str
) -> ResourceRequirements:
    """Return requirements with a request, and with a limit where there was one."""
    requests = {**bare.requests, resource: text}
    limits = {**bare.limits, resource: text} if resource in before.limits else bare.limits
    return replace(bare, requests=requests, limits=limits)


def node_like(model: Node, number: int) -> Node:
    """Return another node with the labels and the capacity of `model`."""
    name = f"{model.key}-copy-{number}"
    labels = {**model.metadata.labels}
    if HOSTNAME in labels:
        labels[HOSTNAME] = name
    meta: ObjectMeta = replace(
        model.metadata, name=name, uid=f"{model.metadata.uid}-{number}", labels=labels
    )
    return replace(model, metadata=meta)
