"""Limits on devices chosen together: constraints on attributes, and counters of pools.

The search alone adds and removes devices.
"""

from typing import Any

from scheduler.plugins.dynamicresources.allocation.inuse import InUse
from scheduler.plugins.dynamicresources.allocation.pools import Counters, PoolView, Slot


class Values:
    """The values of a constraint's attribute with the number of devices that have them.

    Every device must have the attribute. With `is_distinct` all values differ, else all are equal.
    A list of values equals and differs from no other value: it is accepted as the first only.
    """

    __slots__ = ("_counts", "_is_distinct", "attribute")

    def __init__(self, attribute: str, *, is_distinct: bool) -> None:
        self.attribute = attribute
        self._is_distinct = is_distinct
        self._counts: dict[Any, int] = {}

    def add(self, slot: Slot) -> bool:
        """Add a device; return whether the constraint allows it."""
        value = value_of(slot, self.attribute)
        if value is None:
            return False
        count = self._counts.get(value, 0)
        if self._counts and (bool(count) == self._is_distinct or type(value[1]) is tuple):
            return False
        self._counts[value] = count + 1
        return True

    def remove(self, slot: Slot) -> None:
        """Remove a device."""
        value = value_of(slot, self.attribute)
        left = self._counts[value] - 1
        if left:
            self._counts[value] = left
        else:
            del self._counts[value]


class PoolCounters:
    """The remaining amounts of a pool's counters, after all allocated devices of this and other
    nodes.
    """

    __slots__ = ("_is_short", "_left")

    def __init__(self, view: PoolView, in_use: InUse) -> None:
        self._left = dict(view.counters)
        for slot in view.slots:
            if slot.taken is not None and in_use.has(slot.id):
                self._move(slot.taken, -1)
        for device, taken in view.elsewhere:
            if in_use.has(device):
                self._move(taken, -1)
        # A counter below zero excludes all devices that use any counter of the pool. So does a
        # device in use that its driver no longer publishes: its use of the counters is unknown.
        self._is_short = any(left < 0 for left in self._left.values()) or (
            bool(view.counters) and in_use.has_beyond(view.id, view.published)
        )

    def take(self, taken: Counters) -> bool:
        """Use counters; return whether all of them were available."""
        if self._is_short or any(self._left[key] < nanos for key, nanos in taken.items()):
            return False
        self._move(taken, -1)
        return True

    def give_back(self, taken: Counters) -> None:
        """Release counters."""
        self._move(taken, 1)

    def _move(self, taken: Counters, sign: int) -> None:
        for key, nanos in taken.items():
            self._left[key] += sign * nanos


def value_of(slot: Slot, attribute: str) -> tuple[str, Any] | None:
    """Return a device's value of a qualified attribute, with its type; None without one.

    A name in the driver's own domain may be published without the domain.
    """
    attributes = slot.device.attributes
    found = attributes.get(attribute)
    if found is None:
        domain, _, name = attribute.partition("/")
        found = attributes.get(name) if domain == slot.id[0] else None
    return None if found is None else found.key
