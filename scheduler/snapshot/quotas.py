"""ResourceQuotas and LimitRanges that new pods violate.

The API server rejects such pods, a simulation does not.
"""

from collections.abc import Iterable, Iterator
from decimal import Decimal

from scheduler.base.errors import ObjectError
from scheduler.controlplane.objects import Object
from scheduler.controlplane.quantities import canonical, value
from scheduler.objects.pod import Pod

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
            asked = sum((_asked(pod, name) for pod in own), Decimal(0))
            total = asked + _number(used.get(name, 0), quota)
            if asked and total > _number(hard, quota):
                yield (
                    f"the ResourceQuota {meta['namespace']}/{meta['name']} would refuse pods: "
                    f"{name} would be {canonical(f'{total:f}')}, the limit is {hard}"
                )


def _is_in_scope(pod: Pod, spec: Object) -> bool:
    """Return whether a quota counts a pod; scopes of fields that are not read count none."""
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
    if scope == "BestEffort":
        return is_best_effort
    return scope == "NotBestEffort" and not is_best_effort


def violated_ranges(ranges: Iterable[Object], pods: Iterable[Pod]) -> Iterator[str]:
    """Yield a sentence for each bound of a LimitRange that a container violates."""
    new = list(pods)
    for one in ranges:
        meta = one["metadata"]
        own = [pod for pod in new if pod.metadata.namespace == meta["namespace"]]
        for limit in (one.get("spec") or {}).get("limits") or ():
            if limit.get("type") != "Container":
                continue
            for text in dict.fromkeys(_violations(limit, own, one)):
                yield f"the LimitRange {meta['namespace']}/{meta['name']} would refuse {text}"


def _violations(limit: Object, pods: Iterable[Pod], of: Object) -> Iterator[str]:
    """Yield the containers whose amounts are outside of `min`, `max` and the ratio.

    As kube-apiserver does, it compares requests with the minimum and limits with the maximum.
    """
    for pod in pods:
        for one in pod.spec.containers:
            asked, most = one.resources.requests, one.resources.limits
            where = f"{pod.key}, container {one.name}"
            for name, least in (limit.get("min") or {}).items():
                if name not in asked or _number(asked[name], of) < _number(least, of):
                    own = asked.get(name, "none")
                    yield f"{where}: {name} requests {own}, the minimum is {least}"
            for name, highest in (limit.get("max") or {}).items():
                if name not in most or _number(most[name], of) > _number(highest, of):
                    own = most.get(name, "none")
                    yield f"{where}: {name} limit is {own}, the maximum is {highest}"
            for name, ratio in (limit.get("maxLimitRequestRatio") or {}).items():
                if name not in asked or name not in most or not _number(asked[name], of):
                    yield f"{where}: {name} needs a request and a limit, for the ratio {ratio}"
                elif _number(most[name], of) > _number(ratio, of) * _number(asked[name], of):
                    yield f"{where}: {name} limit is more than {ratio} times the request"


def _asked(pod: Pod, name: str) -> Decimal:
    """Return a pod's use of a quota's amount; sums of init containers are left out."""
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
