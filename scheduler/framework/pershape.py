"""`PerShape` and `PerPod`: what a plugin works out from a pod's spec alone, kept for the next question.

Replicas share a shape, so a plugin that parses selectors or sums requests does it once per workload.
Hints are asked about waiting pods without a cycle and go by pod. Nothing that depends on nodes or on
other pods belongs in here.
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
    """One value per shape, made by `make(pod)` when it is first asked for."""

    def __init__(self, make: Callable[[Pod], ValueT]) -> None:
        self._make = make
        # The values live in the shapes, under a key that keeps nobody alive.
        self._key = object()

    def of(self, shaped: Shaped) -> ValueT:
        """Return the value for the pod of a cycle, or for a placed one."""
        kept = shaped.shape.kept
        value: ValueT = kept.get(self._key, _NOTHING)
        if value is _NOTHING:
            value = kept[self._key] = self._make(shaped.pod)
        return value


class PerSpec(PerShape[ValueT]):
    """One value per spec: `make(pod)` looks at nothing else, not even at labels."""

    def of(self, shaped: Shaped) -> ValueT:
        """Return the value for the pod of a cycle, or for a placed one."""
        kept = shaped.shape.spec.kept
        value: ValueT = kept.get(self._key, _NOTHING)
        if value is _NOTHING:
            value = kept[self._key] = self._make(shaped.pod)
        return value


class PerPod(Generic[ValueT]):
    """One value per pod object; a new version of a pod is worked out anew."""

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
