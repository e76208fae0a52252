"""The API server's rejections of pods that result from defaults and admission in this package."""

from collections.abc import Iterator
from typing import NamedTuple

from scheduler.controlplane.objects import Object
from scheduler.controlplane.poddefaults import total_of_containers
from scheduler.controlplane.quantities import canonical, value


class FieldFault(NamedTuple):
    """A field with a value that the API server refuses, and the reason."""

    field: str
    value: str
    detail: str


def request_faults(spec: Object) -> Iterator[FieldFault]:
    """Yield the requests of containers that are above their limits.

    A LimitRange may have set either.
    """
    for part in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(part) or ()):
            resources = container.get("resources") or {}
            limits = resources.get("limits") or {}
            for name, requested in (resources.get("requests") or {}).items():
                if name in limits and value(requested) > value(limits[name]):
                    yield FieldFault(
                        f"spec.{part}[{index}].resources.requests",
                        canonical(requested),
                        f"must be less than or equal to {name} limit of {canonical(limits[name])}",
                    )


def pod_level_faults(spec: Object) -> Iterator[FieldFault]:
    """Yield pod-level amounts that the containers exceed: a LimitRange adds to those alone."""
    resources = spec.get("resources") or {}
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    total = total_of_containers(spec, "requests") if requests else {}
    for name, requested in requests.items():
        if name in total and value(requested) < value(total[name]):
            yield FieldFault(
                f"spec.resources.requests[{name}]",
                canonical(requested),
                f"must be greater than or equal to aggregate container requests of {total[name]}",
            )
    for index, container in enumerate(spec.get("containers") or ()):
        for name, limit in (container["resources"].get("limits") or {}).items():
            if name in limits and value(limit) > value(limits[name]):
                yield FieldFault(
                    f"spec.resources.containers[{index}][{name}].limits",
                    canonical(limit),
                    f"must be less than or equal to pod limits of {canonical(limits[name])}",
                )
