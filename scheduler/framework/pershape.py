"""`PerShape` and `PerPod`: caches of values that a plugin computes from a pod's spec alone.

Replicas share a shape, so a plugin that parses selectors or sums requests does it once per
workload. Queueing hints run for waiting pods without a cycle and are cached by pod. Values that
depend on nodes or on other pods must not be cached here.
"""

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from scheduler.objects.pod import Pod
from scheduler.state.shapes import Shape

ValueT = TypeVar("ValueT")

_MOST_PODS = 16384
_NOTHING: Any = object()


class Shaped(Protocol):
    """A cycle or a placed pod."""

    @property
    def pod(self) -> Pod: ...
    @property
    def shape(self) -> Shape: ...


class PerShape(Generic[ValueT]):
    """One value per shape, computed by `make(pod)` on first use."""

    def __init__(self, make: Callable[[Pod], ValueT]) -> None:
        self._make = make
        # The values are stored in the shapes, under a key that holds no reference to a pod.
        self._key = object()

    def of(self, shaped: Shaped) -> ValueT:
        """Return the value for the pod of a cycle, or for a placed pod."""
        derived = shaped.shape.derived
        value: ValueT = derived.get(self._key, _NOTHING)
        if value is _NOTHING:
            value = derived[self._key] = self._make(shaped.pod)
        return value


class PerSpec(PerShape[ValueT]):
    """One value per spec: `make(pod)` reads only the spec, not labels."""

    def of(self, shaped: Shaped) -> ValueT:
        """Return the value for the pod of a cycle, or for a placed pod."""
        derived = shaped.shape.spec.derived
        value: ValueT = derived.get(self._key, _NOTHING)
        if value is _NOTHING:
            value = derived[self._key] = self._make(shaped.pod)
        return value


class PerPod(Generic[ValueT]):
    """One value per pod object; recomputed for a new version of a pod."""

    def __init__(self, make: Callable[[Pod], ValueT]) -> None:
        self._make = make
        self._values: dict[str, tuple[Pod, ValueT]] = {}

    def of(self, pod: Pod) -> ValueT:
        """Return the value for a pod."""
        uid = pod.metadata.uid
        known = self._values.get(uid)
        if known is None or known[0] is not pod:
            if len(self._values) >= _MOST_PODS:
                self._values.clear()
            known = self._values[uid] = (pod, self._make(pod))
        return known[1]
