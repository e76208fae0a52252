"""`PerShape`: what a plugin works out from a pod's spec alone, kept as long as such pods exist.

Replicas share a shape, so a plugin that parses selectors or sums requests does it once per workload.
Nothing that depends on nodes or on other pods belongs in here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

from scheduler.framework.cycle import Cycle
from scheduler.objects.pod import Pod
from scheduler.state.shapes import Shape

ValueT = TypeVar("ValueT")


class PerShape(Generic[ValueT]):
    """One value per shape, made by `make(pod)` when it is first asked for."""

    def __init__(self, make: Callable[[Pod], ValueT]) -> None:
        self._make = make
        self._values: WeakKeyDictionary[Shape, ValueT] = WeakKeyDictionary()

    def of(self, cycle: Cycle) -> ValueT:
        """Return the value for the cycle's pod."""
        shape = cycle.shape
        value = self._values.get(shape)
        if value is None:
            value = self._values[shape] = self._make(cycle.pod)
        return value
