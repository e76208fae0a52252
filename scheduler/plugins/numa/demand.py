"""A pod's requests on NUMA zones: its class, and the requests of the pod and its containers.

Computed from the spec alone and cached per shape. All amounts are thousandths of a unit, clamped to
`LIMIT`: zones are always smaller, so a larger request fits nowhere, and sums over 64 zones fit an
int64.
"""

from collections.abc import Container as Names
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

import msgspec

from scheduler.framework import Pod
from scheduler.objects.pod import ResourceList, ResourceRequirements
from scheduler.objects.quantity import milli_quantity, resource_amount
from scheduler.state.resources import CPU, EPHEMERAL, MEMORY, PODS, amounts, pod_requests

LIMIT = 2**56
GUARANTEED, BURSTABLE, BEST_EFFORT = "Guaranteed", "Burstable", "BestEffort"

# Kinds of containers, as named in reasons.
INIT, SIDECAR, APP = "init container", "sidecar container", "container"

# Resources that every node is assumed to offer, at least with an amount of 0.
ALWAYS_OFFERED = frozenset((CPU, MEMORY, EPHEMERAL, PODS))

# resource → thousandths, in the order of the spec; amounts of 0 are kept for LeastNUMANodes.
Needs = tuple[tuple[str, int], ...]


class ContainerPart(msgspec.Struct, frozen=True):
    """One container; `kind` is its name in reasons."""

    needs: Needs
    kind: str = APP

    @property
    def stays(self) -> bool:
        """Return whether the container's amounts stay allocated while later containers run."""
        return self.kind != INIT


class ZoneDemand(msgspec.Struct, frozen=True):
    """The requests of a pod; `parts` are its containers in the order in which they start."""

    qos: str
    whole: Needs
    parts: tuple[ContainerPart, ...]
    requests_devices: bool
    # The whole pod's requests above 0.
    taken: Needs = ()
    # The pod-level requests beside its containers (`spec.resources`).
    pod_level: Needs = ()
    # Resources requested above 0, by the pod or a container; and those that not all nodes offer.
    names: tuple[str, ...] = ()
    rare: tuple[str, ...] = ()

    @property
    def is_guaranteed(self) -> bool:
        """Return whether the kubelet assigns the pod exclusive CPUs and memory."""
        return self.qos == GUARANTEED

    @property
    def is_aligned(self) -> bool:
        """Return whether the kubelet assigns the pod anything from a zone."""
        return self.is_guaranteed or self.requests_devices

    @property
    def needs_nothing(self) -> bool:
        """Return whether zones do not affect the pod."""
        return self.qos == BEST_EFFORT and not self.requests_devices

    @property
    def assigned(self) -> Needs:
        """Return the part of the pod's requests that the kubelet assigns.

        That is without overhead, and without the CPUs of containers that request a fraction of one,
        which share the unassigned CPUs.
        """
        return _assigned(self.parts)


def demand_of(pod: Pod) -> ZoneDemand:
    """Return the requests of a pod; ObjectError on an invalid quantity."""
    spec = pod.spec
    parts = []
    for container in spec.init_containers:
        kind = SIDECAR if container.restart_policy == "Always" else INIT
        parts.append(ContainerPart(_needs(amounts(container.resources.requests)), kind))
    parts += [ContainerPart(_needs(amounts(c.resources.requests)), APP) for c in spec.containers]
    is_one = len(parts) == 1 and not spec.overhead and spec.resources is None
    whole = parts[0].needs if is_one else _needs(pod_requests(pod))
    everything = whole if is_one else sum((part.needs for part in parts), whole)
    names: dict[str, None] = {}
    rare: dict[str, None] = {}
    requests_devices = False
    for name, amount in everything:
        is_rare = name not in ALWAYS_OFFERED
        requests_devices = requests_devices or (is_rare and not is_native(name))
        if amount:
            names[name] = None
            if is_rare:
                rare[name] = None
    return ZoneDemand(
        qos=qos_of(pod),
        whole=whole,
        parts=tuple(parts),
        requests_devices=requests_devices,
        taken=tuple([need for need in whole if need[1]]),
        pod_level=() if spec.resources is None else _needs(amounts(spec.resources.requests)),
        names=tuple(names),
        rare=tuple(rare),
    )


def qos_of(pod: Pod) -> str:
    """Return a pod's quality-of-service class: from its status, else by the API's rule."""
    if pod.status.qos_class:
        return pod.status.qos_class
    if pod.spec.resources is not None and _counted(pod.spec.resources.requests):
        return _class_of([pod.spec.resources])
    return _class_of(c.resources for c in (*pod.spec.containers, *pod.spec.init_containers))


def _class_of(all_resources: Iterable[ResourceRequirements]) -> str:
    is_guaranteed, has_requests = True, False
    for resources in all_resources:
        if resources.requests == resources.limits:
            number = _number_counted(resources.limits)
            is_guaranteed, has_requests = is_guaranteed and number == 2, has_requests or number > 0
            continue
        requests, limits = _counted(resources.requests), _counted(resources.limits)
        has_requests = has_requests or bool(requests or limits)
        if len(limits) < 2 or {**limits, **requests} != limits:
            is_guaranteed = False
    if not has_requests:
        return BEST_EFFORT
    return GUARANTEED if is_guaranteed else BURSTABLE


def _number_counted(resources: ResourceList) -> int:
    """Return how many of cpu and memory are named and not 0."""
    # Rounded up as for requests, and parsed for these already.
    named = [resource_amount(name, resources[name]) for name in (CPU, MEMORY) if name in resources]
    return len(named) - named.count(0)


def _counted(resources: ResourceList) -> dict[str, int]:
    """Return the amounts of cpu and memory that are named and not 0."""
    found = {name: milli_quantity(resources[name]) for name in (CPU, MEMORY) if name in resources}
    return {name: amount for name, amount in found.items() if amount}


# Classes of resources.


@lru_cache(maxsize=4096)
def is_native(name: str) -> bool:
    """Return whether a resource is Kubernetes' own: no vendor's prefix."""
    return "/" not in name or "kubernetes.io/" in name


@lru_cache(maxsize=4096)
def is_affine(name: str) -> bool:
    """Return whether a resource is always in NUMA zones."""
    return name in (CPU, MEMORY) or name.startswith("hugepages-")


@lru_cache(maxsize=4096)
def may_be_host_level(name: str) -> bool:
    """Return whether a resource that no zone lists belongs to the node as a whole."""
    return name in (EPHEMERAL, "storage") or not is_native(name)


def exclusive_needs(needs: Needs, qos: str, listed: Names[str]) -> Needs:
    """Return the exclusive part of a container's requests: listed devices, pinned CPUs, memory."""
    found = []
    for name, amount in needs:
        if amount <= 0:
            continue
        if not is_native(name):
            is_own = name in listed
        else:
            is_own = qos == GUARANTEED and is_affine(name)
            is_own = is_own and (name != CPU or amount % 1000 == 0)
        if is_own:
            found.append((name, amount))
    return tuple(found)


def exclusive_by_container(demand: ZoneDemand, listed: frozenset[str]) -> tuple[Needs, ...]:
    """Return the exclusive amounts of each container of a running pod, in the order of `parts`.

    Sidecars run as long as the others; init containers that ended have nothing.
    """
    return tuple(
        _own_needs(part.needs, demand.qos, listed) if part.stays else () for part in demand.parts
    )


def shared_rest(demand: ZoneDemand, used: Iterable[Needs], listed: frozenset[str]) -> Needs:
    """Return the pod-level amounts of a pod beside those of its containers."""
    if not demand.pod_level:
        return ()
    left = dict(_own_needs(demand.pod_level, demand.qos, listed))
    for needs in used:
        for name, amount in needs:
            left[name] = left.get(name, 0) - amount
    return tuple((name, amount) for name, amount in left.items() if amount > 0)


def holds_exclusive(demand: ZoneDemand, listed: frozenset[str]) -> bool:
    """Return whether a running pod has exclusive amounts."""
    used = exclusive_by_container(demand, listed)
    return any(used) or bool(shared_rest(demand, used, listed))


@lru_cache(maxsize=4096)
def _own_needs(needs: Needs, qos: str, listed: frozenset[str]) -> Needs:
    # Nodes list the same resources, and replicas have the same requests.
    return exclusive_needs(needs, qos, listed)


def zone_usage(demand: ZoneDemand, needs: Needs) -> Iterator[tuple[str, int]]:
    """Yield a started container's use of its zone: only devices if it shares CPUs."""
    for name, amount in needs:
        if amount > 0 and (demand.is_guaranteed or not is_affine(name)):
            yield name, amount


def assigned_needs(needs: Needs) -> Needs:
    """Return a container's requests without a fraction of a CPU."""
    return tuple((name, amount) for name, amount in needs if name != CPU or amount % 1000 == 0)


def _assigned(parts: Iterable[ContainerPart]) -> Needs:
    """Return the sum over concurrent containers, or an init container's step if that is more."""
    running: dict[str, int] = {}
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for part in parts:
        for name, amount in assigned_needs(part.needs):
            if part.stays:
                running[name] = running.get(name, 0) + amount
            if part.kind == SIDECAR:
                sidecars[name] = sidecars.get(name, 0) + amount
            elif not part.stays:
                peak[name] = max(peak.get(name, 0), amount + sidecars.get(name, 0))
    names = {**running, **peak}
    return tuple((n, min(max(running.get(n, 0), peak.get(n, 0)), LIMIT)) for n in names)


def _needs(requests: Mapping[str, int]) -> Needs:
    found = []
    for name, amount in requests.items():
        thousandths = amount if name == CPU else amount * 1000
        found.append((name, thousandths if 0 <= thousandths <= LIMIT else _clamped(thousandths)))
    return tuple(found)


def _clamped(thousandths: int) -> int:
    return max(0, min(thousandths, LIMIT))
