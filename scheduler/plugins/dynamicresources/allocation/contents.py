"""The properties of devices apart from their names, as numbers.

Devices with the same content are interchangeable for every claim. An attribute with distinct values
on nearly all devices (a serial number) is excluded until a selector or constraint names it; then
contents are renumbered, and `version` changes.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from scheduler.objects.devices import CounterConsumption, Device, DeviceCapacity

# An attribute with more values than these counts only when it is named.
MOST_VALUES: Final = 64


class Contents:
    """Numbers of contents; `content_of` assigns them."""

    def __init__(self) -> None:
        self.version = 0
        self._numbers: dict[Any, int] = {}
        self._values: dict[str, set[Any]] = {}
        self._named: set[str] = set()
        self._all_named = False

    def names(self, attributes: Iterable[str] | None) -> bool:
        """Include attributes (their ids without domain; None: all).

        Return whether numbers change.
        """
        if self._all_named:
            return False
        more = set(attributes) - self._named if attributes is not None else set(self._values)
        self._all_named = attributes is None
        self._named |= more
        if not any(len(self._values.get(name, ())) > MOST_VALUES for name in more):
            return False
        self.version += 1
        self._numbers.clear()
        return True

    def content_of(self, driver: str, device: Device) -> int:
        """Return the number of a device's content."""
        counting = [
            (name, value.key)
            for name, value in device.attributes.items()
            if self._counts(name.rpartition("/")[2], value.key)
        ]
        counting.sort()
        key = (
            driver,
            tuple(counting),
            _capacity(device.capacity) if device.capacity else (),
            device.allow_multiple_allocations,
            device.taints,
            _consumption(device.consumes_counters) if device.consumes_counters else (),
        )
        return self._numbers.setdefault(key, len(self._numbers))

    def _counts(self, name: str, value: Any) -> bool:
        if self._all_named or name in self._named:
            return True
        known = self._values.setdefault(name, set())
        if len(known) <= MOST_VALUES:
            known.add(value)
        return len(known) <= MOST_VALUES


def _capacity(capacity: Mapping[str, DeviceCapacity]) -> tuple[Any, ...]:
    return tuple(
        sorted((n, str(one.value), str(one.request_policy)) for n, one in capacity.items())
    )


def _consumption(consumed: Iterable[CounterConsumption]) -> tuple[Any, ...]:
    return tuple(
        (one.counter_set, tuple(sorted((n, str(c.value)) for n, c in one.counters.items())))
        for one in consumed
    )
