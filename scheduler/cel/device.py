"""The device that a selector reads, and its conversion to CEL values.

The evaluator of selectors builds one `DeviceInput` per device and keeps it until the device
changes: the maps that CEL reads are built once, at first use. Never reads API objects itself.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from scheduler.cel.evaluation.quantity import Quantity
from scheduler.cel.evaluation.semver import Version
from scheduler.cel.evaluation.values import DomainMap, EvaluationFault

Attribute = bool | int | str | Version | Sequence[bool | int | str | Version]
_Value = TypeVar("_Value")


class DeviceInput:
    """A device for selectors: names are `id` (in the driver's domain) or `domain/id`."""

    __slots__ = ("_fields", "allow_multiple_allocations", "attributes", "capacity", "driver")

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
        self._fields: dict[str, Any] | None = None

    @property
    def fields(self) -> dict[str, Any]:
        """Return the variable `device` of selectors."""
        if self._fields is None:
            self._fields = {
                "driver": self.driver,
                "allowMultipleAllocations": bool(self.allow_multiple_allocations),
                "attributes": _by_domain(self.attributes, self.driver),
                "capacity": _by_domain(self.capacity, self.driver),
            }
        return self._fields


class UnseenDevice(DeviceInput):
    """A device with a known driver only: an expression that reads any other field fails.

    If an expression has a result for it, that result holds for every device of the driver.
    """

    __slots__ = ()

    def __init__(self, driver: str) -> None:
        super().__init__(driver, {}, {})
        unknown = EvaluationFault("not known")
        self._fields = {
            "driver": driver,
            "allowMultipleAllocations": unknown,
            "attributes": unknown,
            "capacity": unknown,
        }


def _by_domain(values: Mapping[str, _Value], driver: str) -> DomainMap:
    domains = DomainMap()
    for name, value in values.items():
        domain, slash, short = name.partition("/")
        if not slash:
            domain, short = driver, name
        domains.setdefault(domain, {})[short] = value
    return domains
