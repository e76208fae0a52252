"""`Shape`: everything about a pod that scheduling reads, interned.

Replicas of one workload share a shape, and workloads whose pods differ in labels, namespace and
owner alone share what follows from the spec (effective requests, tolerated taints, matching nodes):
all of this is computed once. Ids are small integers; they never influence a decision, they only
name cache entries.
"""

from collections.abc import Mapping
from typing import Any
from weakref import WeakValueDictionary

import msgspec

from scheduler.objects.pod import ContainerPort, Pod, PodSpec
from scheduler.state.resources import (
    ASSUMED_REQUESTS,
    CPU,
    LARGEST,
    MEMORY,
    Amounts,
    counted,
    has_pod_level,
    pod_requests,
)

_encode = msgspec.msgpack.Encoder().encode
_encode_any = msgspec.json.Encoder().encode


class SpecShape:
    """The values that follow from a pod's spec and from whether the pod has a controller.

    `derived` stores values that other modules derive from it.
    """

    __slots__ = (
        "__weakref__",
        "bound_scored",
        "derived",
        "host_ports",
        "images",
        "requests",
        "scored_requests",
    )

    def __init__(self, pod: Pod) -> None:
        self.requests: Amounts = counted(pod_requests(pod))
        self.scored_requests = scored(pod, use_status=False, skip_pod_level=True)
        self.bound_scored = scored(pod, use_status=False, skip_pod_level=False)
        self.host_ports = host_ports(pod)
        self.images = images(pod)
        self.derived: dict[object, Any] = {}


class Shape:
    """All pods that differ in their names only, with values derived from their spec.

    `requests` are the effective requests of a pod that is still to be placed; `scored_requests` is
    (cpu milli, memory bytes) with the assumed amounts for containers without requests, for scoring
    the incoming pod; `bound_scored` is the same for a pod on a node. `derived` caches results of
    other modules that follow from the shape alone, each under its own key; it is dropped with the
    shape.
    """

    __slots__ = (
        "__weakref__",
        "bound_scored",
        "derived",
        "host_ports",
        "id",
        "images",
        "requests",
        "scored_requests",
        "spec",
    )

    def __init__(self, identity: int, spec: SpecShape) -> None:
        self.id = identity
        self.spec = spec
        self.requests = spec.requests
        self.scored_requests = spec.scored_requests
        self.bound_scored = spec.bound_scored
        self.host_ports = spec.host_ports
        self.images = spec.images
        self.derived: dict[object, Any] = {}


def scored(
    pod: Pod, *, use_status: bool, skip_pod_level: bool, sums_first: bool = False
) -> tuple[int, int]:
    """Return (cpu milli, memory bytes) with 100m and 200Mi for containers without requests.

    If pod-level requests count, only for resources that no part of the pod requests.
    """
    assumed: Mapping[str, int] = ASSUMED_REQUESTS
    if not skip_pod_level and has_pod_level(pod):
        named = pod_requests(pod, use_status=use_status, sums_first=sums_first)
        assumed = {name: much for name, much in ASSUMED_REQUESTS.items() if name not in named}
    requests = pod_requests(
        pod,
        use_status=use_status,
        skip_pod_level=skip_pod_level,
        non_missing=assumed,
        sums_first=sums_first,
    )
    return min(requests.get(CPU, 0), LARGEST), min(requests.get(MEMORY, 0), LARGEST)


def host_ports(pod: Pod) -> tuple[ContainerPort, ...]:
    """Return the host ports of containers and sidecars (not of ordinary init containers)."""
    spec = pod.spec
    holders = [*spec.containers]
    holders += [c for c in spec.init_containers if c.restart_policy == "Always"]
    return tuple(port for c in holders for port in c.ports if port.host_port > 0)


def images(pod: Pod) -> tuple[str, ...]:
    """Return the images the pod needs: containers, init containers and image volumes."""
    spec = pod.spec
    names = [c.image for c in (*spec.init_containers, *spec.containers)]
    names += [v.image.reference for v in spec.volumes if v.image is not None]
    return tuple(names)


class Shapes:
    """The interner: pods of equal spec, labels, group, namespace and controller share one `Shape`.

    A shape exists while it is referenced, so the table never outgrows the cluster.
    """

    def __init__(self) -> None:
        self._by_key: WeakValueDictionary[bytes, Shape] = WeakValueDictionary()
        self._specs: WeakValueDictionary[bytes, SpecShape] = WeakValueDictionary()
        self._next_id = 0
        # The last requested pod and its key: an attempt requests its pod's shape several times.
        self._last: tuple[Pod | None, bytes] = (None, b"")

    def __len__(self) -> int:
        return len(self._by_key)

    def of(self, pod: Pod) -> Shape:
        """Return the shape of `pod`; ObjectError if its spec holds a bad quantity."""
        last, key = self._last
        if pod is not last:
            key = _key(pod)
            self._last = (pod, key)
        shape = self._by_key.get(key)
        if shape is None:
            shape = Shape(self._next_id, self._spec_of(pod))
            self._next_id += 1
            self._by_key[key] = shape
        return shape

    def _spec_of(self, pod: Pod) -> SpecShape:
        key = _encoded((is_controlled(pod), _without_node(pod.spec)))
        spec = self._specs.get(key)
        if spec is None:
            spec = self._specs[key] = SpecShape(pod)
        return spec


def is_controlled(pod: Pod) -> bool:
    """Return whether a pod names a controller among its owners."""
    return any(owner.controller for owner in pod.metadata.owner_references)


def _key(pod: Pod) -> bytes:
    """Return the same bytes for pods of one shape.

    Annotations that name a pod's group distinguish pods as labels do.
    """
    meta = pod.metadata
    annotations = meta.annotations
    grouped = (
        annotations.volcano_group,
        annotations.kai_group,
        annotations.kueue_is_fast,
        pod.derived_group,
    )
    owner = next(
        ((o.api_version, o.kind, o.name) for o in meta.owner_references if o.controller), None
    )
    return _encoded((meta.namespace, meta.labels, grouped, owner, _without_node(pod.spec)))


def _without_node(spec: PodSpec) -> PodSpec:
    return msgspec.structs.replace(spec, node_name="") if spec.node_name else spec


def _encoded(value: object) -> bytes:
    try:
        return _encode(value)
    except OverflowError:
        # A quantity may be written as a number of any length; MessagePack holds 64 bits.
        return _encode_any(value)
