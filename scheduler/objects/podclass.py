"""The priority class of a pod as defined by Koordinator.

The label decides, then the range of spec.priority, then the quality of service. It determines
whether a pod counts as production and which resource names its requests use.
"""

from scheduler.objects.pod import Container, Pod, ResourceRequirements
from scheduler.objects.quantity import resource_amount

PROD, MID, BATCH, FREE, NONE = "koord-prod", "koord-mid", "koord-batch", "koord-free", ""

PRIORITY_LABEL = "koordinator.sh/priority-class"
QOS_LABEL = "koordinator.sh/qosClass"

_RANGES = ((9000, 9999, PROD), (7000, 7999, MID), (5000, 5999, BATCH), (3000, 3999, FREE))
_BY_QOS = {"SYSTEM": PROD, "LSE": PROD, "LSR": PROD, "LS": PROD, "BE": BATCH}


def priority_class(pod: Pod) -> str:
    """Return koord-prod, -mid, -batch or -free."""
    return _named_class(pod) or _BY_QOS[koordinator_qos(pod)]


def koordinator_qos(pod: Pod) -> str:
    """Return LSE, LSR, LS, BE or SYSTEM: by label, else from Kubernetes' quality of service."""
    named = pod.metadata.labels.get(QOS_LABEL, "")
    if named in _BY_QOS:
        return named
    given = pod.status.qos_class
    if given == "Guaranteed":
        return "LSR"
    return "BE" if given == "BestEffort" or (not given and _is_best_effort(pod)) else "LS"


def _named_class(pod: Pod) -> str:
    label = pod.metadata.labels.get(PRIORITY_LABEL)
    if label is not None:
        return label if label in (PROD, MID, BATCH, FREE) else NONE
    priority = pod.priority
    return next((name for low, high, name in _RANGES if low <= priority <= high), NONE)


def _is_best_effort(pod: Pod) -> bool:
    """Return whether no container requests cpu or memory (Kubernetes: quality of service)."""
    spec = pod.spec
    containers: tuple[Container, ...] = (*spec.containers, *spec.init_containers)
    wants = [container.resources for container in containers]
    if spec.resources is not None:
        wants.append(spec.resources)
    return not any(_has_requests(one) for one in wants)


def _has_requests(resources: ResourceRequirements) -> bool:
    return any(
        amounts.get(name) is not None and resource_amount(name, amounts[name]) > 0
        for amounts in (resources.requests, resources.limits)
        for name in ("cpu", "memory")
    )
