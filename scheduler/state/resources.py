"""Effective resource requests of a pod, and the columns of resources.

Rules of kube-scheduler (component-helpers `PodRequests`): containers are summed, sidecars stay on
top of later init containers, pod-level requests replace, overhead is added; pods on a node count
what the kubelet allocated during an in-place resize, by the rules of 1.36 or of 1.37.
"""

from collections.abc import Callable, Iterable, Mapping

from scheduler.objects.pod import Container, ContainerStatus, Pod, ResourceList
from scheduler.objects.quantity import resource_amount

Amounts = dict[str, int]

CPU, MEMORY, EPHEMERAL, PODS = "cpu", "memory", "ephemeral-storage", "pods"
FIRST_COLUMNS = (CPU, MEMORY, EPHEMERAL, PODS)

# The amounts that scoring assumes for a container without a request: 100m and 200Mi.
ASSUMED_REQUESTS: Mapping[str, int] = {CPU: 100, MEMORY: 200 * 1024 * 1024}

# The largest amount that one pod counts for: the sum over all pods of a node fits an int64, and no
# node offers as much (64 PiB, 7e13 CPUs). A client may bind a pod that requests more.
LARGEST = 2**56

_NAMED = frozenset((CPU, MEMORY, EPHEMERAL))


def is_counted(name: str) -> bool:
    """Return whether a resource takes part in scheduling besides cpu, memory and
    ephemeral-storage.
    """
    return (
        name.startswith(("hugepages-", "attachable-volumes-"))
        or "kubernetes.io/" in name
        or is_extended(name)
    )


def is_extended(name: str) -> bool:
    """Return whether a resource is an extended one: vendor-prefixed, not Kubernetes' own."""
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


def is_pod_level(name: str) -> bool:
    """Return whether `spec.resources` of a pod may name the resource."""
    return name in (CPU, MEMORY) or name.startswith("hugepages-")


def has_pod_level(pod: Pod) -> bool:
    """Return whether a pod has pod-level requests."""
    resources = pod.spec.resources
    return resources is not None and any(is_pod_level(name) for name in resources.requests)


def amounts(resources: ResourceList) -> Amounts:
    """Read a resource list: CPU in milli, everything else in whole units."""
    return {name: resource_amount(name, value) for name, value in resources.items()}


def pod_requests(
    pod: Pod,
    *,
    use_status: bool = False,
    skip_pod_level: bool = False,
    pod_level_in_place: bool = True,
    non_missing: Mapping[str, int] | None = None,
    sums_first: bool = False,
) -> Amounts:
    """Return what the pod requests, per resource.

    `use_status` counts the amounts that the kubelet reports of a pod on a node; `skip_pod_level`
    leaves out `spec.resources`; `pod_level_in_place` lets the pod-level status count; `non_missing`
    gives the amount assumed for a container that does not name a resource; `sums_first` compares
    spec and status by sums over the containers, as Kubernetes does since 1.37. Amounts end at
    `LARGEST`. ObjectError on a bad quantity.
    """
    if use_status and sums_first:
        total = _largest_sum(pod, non_missing or {}, pod_level_in_place=pod_level_in_place)
    else:
        total = _containers(pod, use_status=use_status, non_missing=non_missing or {})
    spec = pod.spec
    if not skip_pod_level and spec.resources is not None:
        total.update(_pod_level(pod, use_status=use_status and pod_level_in_place))
    if spec.overhead:
        _add(total, amounts(spec.overhead))
    for amount in total.values():  # no generator: a page reads the requests of 20,000 pods at once
        if not -LARGEST <= amount <= LARGEST:
            return {name: max(-LARGEST, min(one, LARGEST)) for name, one in total.items()}
    return total


def _largest_sum(pod: Pod, non_missing: Mapping[str, int], *, pod_level_in_place: bool) -> Amounts:
    """Return per resource the largest of three sums: requested, allocated and in use.

    With an infeasible resize the requested sum is left out.
    """
    infeasible = _resize_is_infeasible(pod)
    seen = _by_name((*pod.status.container_statuses, *pod.status.init_container_statuses))

    def allocated(container: Container) -> Amounts:
        status = seen.get(container.name)
        if status is not None and status.allocated_resources is not None:
            return amounts(status.allocated_resources)
        return {} if infeasible else _requested(container)

    def used(container: Container) -> Amounts:
        status = seen.get(container.name)
        if status is not None and status.resources is not None and status.resources.requests:
            return amounts(status.resources.requests)
        return allocated(container)

    found = [_summed(pod, own, non_missing) for own in (allocated, used)]
    status = pod.status
    if (
        pod_level_in_place
        and status.resources is not None
        and status.resources.requests
        and status.allocated_resources is not None
    ):
        found = [amounts(status.allocated_resources), amounts(status.resources.requests)]
    total = {} if infeasible else _summed(pod, _requested, non_missing)
    for one in found:
        _raise(total, one)
    return total


def _summed(
    pod: Pod, own: Callable[[Container], Amounts], non_missing: Mapping[str, int]
) -> Amounts:
    """Return the sum over containers and sidecars, or the peak of the init containers.

    `own` returns a new record at each call.
    """
    spec = pod.spec
    if len(spec.containers) == 1 and not (spec.init_containers or non_missing):
        return own(spec.containers[0])

    def of(container: Container) -> Amounts:
        return {**non_missing, **own(container)}

    total: Amounts = {}
    for container in spec.containers:
        _add(total, of(container))
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.init_containers:
        needs = of(container)
        if container.restart_policy == "Always":
            _add(total, needs)
            _add(sidecars, needs)
            needs = dict(sidecars)
        else:
            _add(needs, sidecars)
        _raise(peak, needs)
    _raise(total, peak)
    return total


def _requested(container: Container) -> Amounts:
    return amounts(container.resources.requests)


def _containers(pod: Pod, *, use_status: bool, non_missing: Mapping[str, int]) -> Amounts:
    """Return the sum over containers of the requested, allocated or used amounts."""
    seen = _reported(pod.status.container_statuses) if use_status else {}
    if use_status and pod.spec.init_containers:
        sidecars = {c.name for c in pod.spec.init_containers if c.restart_policy == "Always"}
        statuses = pod.status.init_container_statuses
        seen |= _reported(status for status in statuses if status.name in sidecars)
    if not seen:
        return _summed(pod, _requested, non_missing)
    infeasible = _resize_is_infeasible(pod)

    def own(container: Container) -> Amounts:
        floor = seen.get(container.name)
        if floor is None:
            return _requested(container)
        needs = {} if infeasible else _requested(container)
        _raise(needs, floor)
        return needs

    return _summed(pod, own, non_missing)


def _reported(statuses: Iterable[ContainerStatus]) -> dict[str, Amounts]:
    """Return by container the larger of the used and the allocated amounts."""
    found: dict[str, Amounts] = {}
    for status in statuses:
        # kube-scheduler 1.36: allocatedResources counts only if status.resources is present as
        # well.
        if status.resources is not None:
            found[status.name] = amounts(status.resources.requests)
            _raise(found[status.name], amounts(status.allocated_resources or {}))
    return found


def _pod_level(pod: Pod, *, use_status: bool) -> Amounts:
    spec, status = pod.spec.resources, pod.status
    own = amounts(spec.requests) if spec is not None else {}
    if use_status and status.resources is not None:
        if _resize_is_infeasible(pod):
            own = {}
        _raise(own, amounts(status.resources.requests))
        _raise(own, amounts(status.allocated_resources or {}))
    return {name: amount for name, amount in own.items() if is_pod_level(name)}


def has_resize_status(pod: Pod) -> bool:
    """Return whether the kubelet's view of a pod's resources may differ from its spec."""
    status = pod.status
    if status.resources is not None or _resize_is_infeasible(pod):
        return True
    # Pods that have not started have none of these; this avoids creating a generator for them.
    statuses = status.container_statuses + status.init_container_statuses
    return bool(statuses) and any(
        one.resources is not None or one.allocated_resources is not None for one in statuses
    )


def _resize_is_infeasible(pod: Pod) -> bool:
    condition = pod.condition("PodResizePending")
    return condition is not None and condition.reason == "Infeasible"


def _by_name(statuses: Iterable[ContainerStatus]) -> dict[str, ContainerStatus]:
    return {status.name: status for status in statuses}


def _add(total: Amounts, more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise(total: Amounts, floor: Mapping[str, int]) -> None:
    for name, amount in floor.items():
        total[name] = max(amount, total.get(name, amount))


def counted(requests: Mapping[str, int]) -> Amounts:
    """Keep the resources that scheduling counts, without those of amount 0, at most `LARGEST`."""
    return {
        name: max(-LARGEST, min(amount, LARGEST))
        for name, amount in requests.items()
        if amount and (name in _NAMED or is_counted(name))
    }


class ResourceIndex(dict[str, int]):
    """Resource name → column, in column order; columns are never taken back."""

    def __init__(self) -> None:
        super().__init__((name, i) for i, name in enumerate(FIRST_COLUMNS))

    def column(self, name: str) -> int:
        """Return the column of a resource, creating it if it is new."""
        return self.setdefault(name, len(self))
