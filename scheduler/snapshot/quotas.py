"""ResourceQuotas and LimitRanges that new pods violate.

The API server rejects such pods, a simulation does not.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any

from scheduler.base.errors import ObjectError
from scheduler.controlplane.objects import Object
from scheduler.controlplane.quantities import canonical, value
from scheduler.objects.pod import Container, Pod
from scheduler.objects.quantity import resource_amount, resource_text

_PODS = ("pods", "count/pods")


def exceeded_quotas(quotas: Iterable[Object], pods: Iterable[Pod]) -> Iterator[str]:
    """Yield a sentence for each amount of a quota that the pods would exceed, with the values."""
    new = list(pods)
    for quota in quotas:
        spec, meta = quota.get("spec") or {}, quota["metadata"]
        own = [pod for pod in new if pod.metadata.namespace == meta["namespace"]]
        own = [pod for pod in own if _is_in_scope(pod, spec)]
        used = (quota.get("status") or {}).get("used") or {}
        for name, hard in (spec.get("hard") or {}).items():
            requested = sum((_requested(pod, name) for pod in own), Decimal(0))
            total = requested + _number(used.get(name, 0), quota)
            if requested and total > _number(hard, quota):
                yield (
                    f"the ResourceQuota {meta['namespace']}/{meta['name']} would refuse pods: "
                    f"{name} would be {canonical(f'{total:f}')}, the limit is {hard}"
                )


def _is_in_scope(pod: Pod, spec: Object) -> bool:
    """Return whether a quota counts a pod; an unknown scope counts none."""
    terms = [{"scopeName": one, "operator": "Exists"} for one in spec.get("scopes") or ()]
    terms += (spec.get("scopeSelector") or {}).get("matchExpressions") or ()
    return all(_matches(pod, term) for term in terms)


def _matches(pod: Pod, term: Object) -> bool:
    scope, operator = term.get("scopeName"), term.get("operator")
    if scope == "PriorityClass":
        name = pod.spec.priority_class_name
        is_listed = name in (term.get("values") or ())
        return {
            "In": is_listed,
            "NotIn": not is_listed,
            "Exists": bool(name),
            "DoesNotExist": not name,
        }.get(str(operator), False)
    every = (*pod.spec.containers, *pod.spec.init_containers)
    is_best_effort = not any(one.resources.requests or one.resources.limits for one in every)
    is_terminating = pod.spec.active_deadline_seconds is not None
    return {
        "BestEffort": is_best_effort,
        "NotBestEffort": not is_best_effort,
        "Terminating": is_terminating,
        "NotTerminating": not is_terminating,
        "CrossNamespacePodAffinity": _selects_other_namespaces(pod),
    }.get(str(scope), False)


def _selects_other_namespaces(pod: Pod) -> bool:
    """Return whether a term of the pod's affinity names or selects namespaces."""
    affinity = pod.spec.affinity
    if affinity is None:
        return False
    kinds = [one for one in (affinity.pod_affinity, affinity.pod_anti_affinity) if one is not None]
    terms = [term for one in kinds for term in one.required]
    terms += [weighted.pod_affinity_term for one in kinds for weighted in one.preferred]
    return any(term.namespaces or term.namespace_selector is not None for term in terms)


def violated_ranges(ranges: Iterable[Object], pods: Iterable[Pod]) -> Iterator[str]:
    """Yield a sentence for each bound of a LimitRange that a container or a pod violates."""
    new = list(pods)
    for one in ranges:
        meta = one["metadata"]
        own = [pod for pod in new if pod.metadata.namespace == meta["namespace"]]
        for limit in (one.get("spec") or {}).get("limits") or ():
            found = (text for pod in own for text in _violations(limit, pod, one))
            for text in dict.fromkeys(found):
                yield f"the LimitRange {meta['namespace']}/{meta['name']} would refuse {text}"


def _violations(limit: Object, pod: Pod, of: Object) -> Iterator[str]:
    """Yield the bounds that the pod or its containers violate, depending on the type of the
    limit.
    """
    if limit.get("type") == "Pod":
        yield from _outside(limit, pod.key, _total(pod, "requests"), _total(pod, "limits"), of)
    elif limit.get("type") == "Container":
        for one in (*pod.spec.containers, *pod.spec.init_containers):
            where = f"{pod.key}, container {one.name}"
            requested, most = one.resources.requests, one.resources.limits
            yield from _outside(limit, where, requested, most, of)


def _outside(
    limit: Object, where: str, requested: Mapping[str, Any], most: Mapping[str, Any], of: Object
) -> Iterator[str]:
    """Yield the amounts that are outside of `min`, `max` and the ratio.

    As kube-apiserver does, it compares requests with the minimum and limits with the maximum.
    """
    for name, least in (limit.get("min") or {}).items():
        if name not in requested or _number(requested[name], of) < _number(least, of):
            own = requested.get(name, "none")
            yield f"{where}: {name} requests {own}, the minimum is {least}"
    for name, highest in (limit.get("max") or {}).items():
        if name not in most or _number(most[name], of) > _number(highest, of):
            own = most.get(name, "none")
            yield f"{where}: {name} limit is {own}, the maximum is {highest}"
    for name, ratio in (limit.get("maxLimitRequestRatio") or {}).items():
        if name not in requested or name not in most or not _number(requested[name], of):
            yield f"{where}: {name} needs a request and a limit, for the ratio {ratio}"
        elif _number(most[name], of) > _number(ratio, of) * _number(requested[name], of):
            yield f"{where}: {name} limit is more than {ratio} times the request"


def _total(pod: Pod, part: str) -> dict[str, str]:
    """Return the maximum that a pod's containers use at one time; sidecars run beside the
    others.
    """
    running: Counter[str] = Counter()
    sidecars: Counter[str] = Counter()
    most: Counter[str] = Counter()
    for one in pod.spec.containers:
        running.update(_amounts(one, part))
    for one in pod.spec.init_containers:
        most |= sidecars + _amounts(one, part)
        if one.restart_policy == "Always":
            sidecars.update(_amounts(one, part))
    most |= running + sidecars
    return {name: resource_text(name, amount) for name, amount in most.items()}


def _amounts(container: Container, part: str) -> Counter[str]:
    amounts: Mapping[str, Any] = getattr(container.resources, part)
    return Counter({name: resource_amount(name, one) for name, one in amounts.items()})


def _requested(pod: Pod, name: str) -> Decimal:
    """Return a pod's use of a quota's amount, without the sums of init containers."""
    if name in _PODS:
        return Decimal(1)
    part, _, resource = name.rpartition(".")
    part = part or "requests"
    if part not in ("requests", "limits"):
        return Decimal(0)
    found = (getattr(one.resources, part) for one in pod.spec.containers)
    return sum((value(one[resource]) for one in found if resource in one), Decimal(0))


def _number(amount: object, quota: Object) -> Decimal:
    try:
        return value(amount)
    except ValueError as error:
        name = f"ResourceQuota {quota['metadata']['namespace']}/{quota['metadata']['name']}"
        raise ObjectError(str(error), where=name) from error
