"""The estimated use of a pod without a measurement.

The larger of request and limit times a factor, never above the limit; a small default for pods
without requests. Class and annotations of the pod determine the names of its requests.
"""

import math
from typing import Any

import msgspec

from scheduler.framework import Pod
from scheduler.objects.pod import Container
from scheduler.objects.podclass import BATCH, MID, NONE, PROD, priority_class
from scheduler.plugins.loadaware.settings import Settings, Vector
from scheduler.state.resources import Amounts, amounts, pod_requests

# The sum over as many pods as a node runs fits an int64, also a hundred times that.
LARGEST = 2**46

DEFAULT_CPU_MILLI, DEFAULT_MEMORY_BYTES = 250, 200 * 1024 * 1024
_DEFAULTS = {
    "cpu": DEFAULT_CPU_MILLI,
    "kubernetes.io/batch-cpu": DEFAULT_CPU_MILLI,
    "memory": DEFAULT_MEMORY_BYTES,
    "kubernetes.io/batch-memory": DEFAULT_MEMORY_BYTES,
}
_NAMES = {
    BATCH: {"cpu": "kubernetes.io/batch-cpu", "memory": "kubernetes.io/batch-memory"},
    MID: {"cpu": "kubernetes.io/mid-cpu", "memory": "kubernetes.io/mid-memory"},
}
_replace = msgspec.structs.replace
_factors: msgspec.json.Decoder[dict[str, int]] = msgspec.json.Decoder(dict[str, int])


def estimate(pod: Pod, settings: Settings) -> Vector:
    """Return the estimated use of `pod`, at least 0 of each resource; ObjectError on a bad
    quantity.
    """
    requests, limits = pod_requests(pod), pod_limits(pod)
    kind = priority_class(pod)
    found: Amounts = {}
    for resource, factor in scaling_factors(pod, settings).items():
        name = resource if kind in (PROD, NONE) else _NAMES.get(kind, {}).get(resource, "")
        limit = limits.get(name, 0)
        wanted = max(requests.get(name, 0), limit)
        if wanted <= 0:
            found[resource] = _DEFAULTS.get(name, 0)
            continue
        scaled = rounded(float(wanted) * float(factor) / 100)
        found[resource] = min(scaled, limit) if limit > 0 else scaled
    return settings.vector({name: max(0, min(n, LARGEST)) for name, n in found.items()})


def scaling_factors(pod: Pod, settings: Settings) -> dict[str, int]:
    """Return the percentages by resource, the pod's own ones first where they are allowed."""
    factors = dict(settings.factors)
    text = pod.metadata.annotations.load_scaling_factors
    if settings.customizable and text:
        try:
            factors |= _factors.decode(text)
        except (msgspec.MsgspecError, RecursionError):
            return factors
    return factors


def pod_limits(pod: Pod) -> Amounts:
    """Return the limits of the whole pod by the standard rule; overhead joins those that exist."""
    spec = pod.spec
    level = spec.resources
    shadow = _replace(
        pod,
        spec=_replace(
            spec,
            containers=tuple(map(_limits_as_requests, spec.containers)),
            init_containers=tuple(map(_limits_as_requests, spec.init_containers)),
            resources=None if level is None else _replace(level, requests=level.limits),
            overhead={},
        ),
    )
    limits = pod_requests(shadow)
    for name, amount in amounts(spec.overhead).items():
        if limits.get(name, 0) > 0:
            limits[name] += amount
    return limits


def rounded(value: float) -> int:
    """Round to the nearest whole number, halves away from zero."""
    if not math.isfinite(value):
        return LARGEST if value > 0 else 0
    whole = math.floor(value)
    return whole + (value - whole >= 0.5 if value >= 0 else value - whole > 0.5)


def _limits_as_requests(container: Container) -> Any:
    resources = container.resources
    return _replace(container, resources=_replace(resources, requests=resources.limits))
