"""ResourceQuotas that new pods would exceed: the API server rejects such pods, a simulation does
not.
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
        if spec.get("scopes") or spec.get("scopeSelector"):
            continue
        own = [pod for pod in new if pod.metadata.namespace == meta["namespace"]]
        used = (quota.get("status") or {}).get("used") or {}
        for name, hard in (spec.get("hard") or {}).items():
            asked = sum((_asked(pod, name) for pod in own), Decimal(0))
            total = asked + _number(used.get(name, 0), quota)
            if asked and total > _number(hard, quota):
                yield (
                    f"the ResourceQuota {meta['namespace']}/{meta['name']} would refuse pods: "
                    f"{name} would be {canonical(f'{total:f}')}, the limit is {hard}"
                )


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
