"""The device as selectors see it, and how it is handed in.

Whoever evaluates selectors builds one `Device` per device and keeps it as long as the device does not
change: the maps that CEL looks into are built once, at first use. Never reads API objects itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from scheduler.cel.quantity import Quantity
from scheduler.cel.semver import Version

Attribute = bool | int | str | Version
_Value = TypeVar("_Value")


class Device:
    """A device for selectors: names are `id` (in the driver's domain) or `domain/id`."""

    __slots__ = (
        "_attributes_by_domain",
        "_capacity_by_domain",
        "allow_multiple_allocations",
        "attributes",
        "capacity",
        "driver",
    )

    def __init__(
        self,
        driver: str,
        attributes: Mapping[str, Attribute],
        capacity: Mapping[str, Quantity],
        allow_multiple_allocations: bool | None = None,
    ) -> None:
        self.driver = driver
        self.attributes = attributes
        self.capacity = capacity
        self.allow_multiple_allocations = allow_multiple_allocations
        self._attributes_by_domain: dict[str, dict[str, Attribute]] | None = None
        self._capacity_by_domain: dict[str, dict[str, Quantity]] | None = None

    @property
    def attributes_by_domain(self) -> dict[str, dict[str, Attribute]]:
        """Return domain -> id -> value."""
        if self._attributes_by_domain is None:
            self._attributes_by_domain = _by_domain(self.attributes, self.driver)
        return self._attributes_by_domain

    @property
    def capacity_by_domain(self) -> dict[str, dict[str, Quantity]]:
        """Return domain -> id -> quantity."""
        if self._capacity_by_domain is None:
            self._capacity_by_domain = _by_domain(self.capacity, self.driver)
        return self._capacity_by_domain


def _by_domain(values: Mapping[str, _Value], driver: str) -> dict[str, dict[str, _Value]]:
    domains: dict[str, dict[str, _Value]] = {}
    for name, value in values.items():
        domain, slash, short = name.partition("/")
        if not slash:
            domain, short = driver, name
        domains.setdefault(domain, {})[short] = value
    return domains
