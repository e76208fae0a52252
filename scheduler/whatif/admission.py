"""What the API server would have added to an object before a scheduler sees it.

A snapshot of a cluster has it all; manifests as people write them do not. An object without a uid has
never been through an API server: its requests follow from limits, host ports from the host network. A
missing priority follows from the priority classes in any case.
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from scheduler.base.errors import ObjectError
from scheduler.base.text import did_you_mean
from scheduler.objects.meta import Int32, Object, ObjectMeta
from scheduler.objects.pod import Container, Pod, PodSpec, ResourceList, ResourceRequirements
from scheduler.objects.podgroup import WorkloadGroup
from scheduler.objects.workloads import Namespace

PRIORITY_CLASS_GROUP = "scheduling.k8s.io"
NAMESPACE_NAME = "kubernetes.io/metadata.name"
Prioritized = TypeVar("Prioritized", Pod, WorkloadGroup)


class PriorityClass(Object, frozen=True):
    """A priority class."""

    metadata: ObjectMeta = ObjectMeta()
    value: Int32 = 0
    global_default: bool = False
    preemption_policy: str = ""


SYSTEM_CLASSES = (
    PriorityClass(ObjectMeta(name="system-cluster-critical"), 2_000_000_000),
    PriorityClass(ObjectMeta(name="system-node-critical"), 2_000_001_000),
)


class _ClassSpec(msgspec.Struct, frozen=True, rename="camel"):
    priority_class_name: str | None = None
    preemption_policy: str | None = None


class _ClassOf(msgspec.Struct, frozen=True):
    spec: _ClassSpec = _ClassSpec()


class _Capacity(msgspec.Struct, frozen=True):
    capacity: ResourceList | None = None


class _CapacityOf(msgspec.Struct, frozen=True):
    status: _Capacity = _Capacity()


_class_of = msgspec.json.Decoder(_ClassOf)
_capacity_of = msgspec.json.Decoder(_CapacityOf)


def capacity_of(raw: Any) -> ResourceList:
    """Return a node's capacity, which stands for what it does not call allocatable."""
    status = _part(raw, _capacity_of, _CapacityOf).status
    return status.capacity or {}


def class_of(raw: Any) -> tuple[str, bool]:
    """Return a pod's priority class name, and whether it says itself if it preempts."""
    spec = _part(raw, _class_of, _ClassOf).spec
    return spec.priority_class_name or "", spec.preemption_policy is not None


def with_defaults(pod: Pod) -> Pod:
    """Return a pod that was never in an API server as it would come out of one."""
    spec = pod.spec
    return replace(
        pod,
        spec=replace(
            spec,
            containers=tuple(_container(c, spec) for c in spec.containers),
            init_containers=tuple(_container(c, spec) for c in spec.init_containers),
            resources=None if spec.resources is None else _resources(spec.resources),
        ),
    )


def namespaces(found: Iterable[Namespace], pods: Iterable[Pod]) -> list[Namespace]:
    """Return the namespaces found and those of the pods, each with the label of its name.

    An API server sets that label, and has no pod without its namespace; namespace selectors match
    Namespace objects alone.
    """
    by_name = {pod.metadata.namespace: Namespace() for pod in pods}
    by_name |= {one.metadata.name: one for one in found}
    return [_named(one, name) for name, one in by_name.items()]


def _named(one: Namespace, name: str) -> Namespace:
    labels = {**one.metadata.labels, NAMESPACE_NAME: name}
    return replace(one, metadata=replace(one.metadata, name=name, labels=labels))


def with_priority(
    obj: Prioritized, name: str, classes: Mapping[str, PriorityClass], *, has_policy: bool
) -> Prioritized:
    """Return a pod or a PodGroup without a priority with that of its class, or of the default class.

    `has_policy` says that the class does not decide on its preemption policy. ObjectError when the
    class does not exist.
    """
    found = classes.get(name)
    if found is None and name:
        hint = did_you_mean(name, classes)
        raise ObjectError(f'spec.priorityClassName: no PriorityClass "{name}" is given{hint}')
    if found is None:
        defaults = [one for one in classes.values() if one.global_default]
        if not defaults:
            return obj
        # As the API server does when several claim to be the default: the lowest.
        found = min(defaults, key=lambda one: (one.value, one.metadata.name))
    policy = obj.spec.preemption_policy
    if found.preemption_policy and not has_policy:
        policy = found.preemption_policy
    return replace(obj, spec=replace(obj.spec, priority=found.value, preemption_policy=policy))


def _container(container: Container, spec: PodSpec) -> Container:
    ports = container.ports
    if spec.host_network:
        ports = tuple(replace(p, host_port=p.host_port or p.container_port) for p in ports)
    return replace(container, resources=_resources(container.resources), ports=ports)


def _resources(resources: ResourceRequirements) -> ResourceRequirements:
    missing = {k: v for k, v in resources.limits.items() if k not in resources.requests}
    return replace(resources, requests=resources.requests | missing) if missing else resources


def _part(raw: Any, decoder: Any, into: Any) -> Any:
    """Read a part of an object; nothing when it is not there or odd (its struct was read before)."""
    try:
        if isinstance(raw, bytes):
            return decoder.decode(raw)
        return msgspec.convert(raw, into)
    except msgspec.MsgspecError:
        return into()
