"""Verdicts of CEL selectors, cached per expression and device content.

Devices repeat by the thousand, so an expression is evaluated once per distinct content. The cache
is bounded: expressions by number, the oldest is dropped first; verdicts by the number of contents.
"""

import re

from scheduler.base.errors import ObjectError
from scheduler.cel import (
    Attribute,
    CelCompileError,
    CelRuntimeError,
    DeviceInput,
    Program,
    Quantity,
    UnseenDevice,
    Version,
    compile_selector,
)
from scheduler.objects.devices import Device as DeviceObject
from scheduler.objects.devices import DeviceAttribute

MOST_EXPRESSIONS = 1024


class SelectorError(Exception):
    """A selector that does not compile or fails on a device; the text is upstream's."""


class Selector:
    """One expression with its verdicts: True, False, or the text of the error by content."""

    __slots__ = ("_excluded", "_program", "_verdicts", "fault", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.fault = ""
        self._program: Program | None = None
        self._verdicts: dict[int, bool | str] = {}
        self._excluded: dict[str, bool] = {}
        try:
            self._program = compile_selector(text)
        except CelCompileError as error:
            self.fault = f"CEL compile error: {error.message}"

    def matches(self, content: int, device: DeviceObject, driver: str) -> bool:
        """Return whether the device, whose content has this number, is selected; SelectorError."""
        found = self._verdicts.get(content)
        if found is None:
            found = self._verdicts[content] = self._asked(device, driver)
        if isinstance(found, str):
            raise SelectorError(found)
        return found

    def excludes(self, driver: str) -> bool:
        """Return whether the selector rejects every device of a driver, for any attributes."""
        found = self._excluded.get(driver)
        if found is None:
            found = self._excluded[driver] = self._rejects_all(driver)
        return found

    def _rejects_all(self, driver: str) -> bool:
        try:
            return self._program is not None and not self._program.evaluate(UnseenDevice(driver))
        except CelRuntimeError:
            return False

    def forget_verdicts(self) -> None:
        """Drop the verdicts."""
        self._verdicts.clear()

    def _asked(self, device: DeviceObject, driver: str) -> bool | str:
        if self._program is None:
            return self.fault
        try:
            return self._program.evaluate(as_cel(device, driver))
        except CelRuntimeError as error:
            return f"CEL runtime error: {error.message}"


class Selectors:
    """Compiled expressions by their text."""

    def __init__(self) -> None:
        self._known: dict[str, Selector] = {}

    def of(self, text: str) -> Selector:
        """Return the selector of a text, compiled at first use."""
        found = self._known.get(text)
        if found is None:
            if len(self._known) >= MOST_EXPRESSIONS:
                del self._known[next(iter(self._known))]
            found = self._known[text] = Selector(text)
        return found

    def forget_verdicts(self) -> None:
        """Drop the verdicts of all expressions after contents were renumbered."""
        for selector in self._known.values():
            selector.forget_verdicts()


# An attribute by its name, as `domain` and `id`, or a test for it; the id is in one of the groups.
_NAMED = re.compile(
    r"""attributes\s*
    (?: \.\??\s*\w+ | \[\s*\??\s*(?:"[^"]*"|'[^']*')\s*\] )\s*
    (?: \.\??\s*(\w+)\b(?!\s*\() | \[\s*\??\s*(?:"([^"]*)"|'([^']*)')\s*\] )""",
    re.VERBOSE,
)
_SOUGHT = re.compile(
    r"""(?:"(\w+)"|'(\w+)')\s+in\s+device\s*\.\s*attributes\s*
    \[\s*(?:"[^"]*"|'[^']*')\s*\](?!\s*[.\[])""",
    re.VERBOSE,
)


def attributes_named(text: str) -> frozenset[str] | None:
    """Return the ids of the attributes that an expression reads; None if it may read any."""
    if "\\" in text:
        return None
    found = [*_NAMED.finditer(text), *_SOUGHT.finditer(text)]
    if len(found) != text.count("attributes"):
        return None
    return frozenset(next(group for group in one.groups() if group is not None) for one in found)


def as_cel(device: DeviceObject, driver: str) -> DeviceInput:
    """Return a device in the form that selectors read."""
    attributes = {
        name: value for name, one in device.attributes.items() if (value := _value(one)) is not None
    }
    capacity: dict[str, Quantity] = {}
    for name, offered in device.capacity.items():
        try:
            capacity[name] = Quantity.parse(str(offered.value))
        except ObjectError:
            continue  # the API server rejects it
    return DeviceInput(driver, attributes, capacity, device.allow_multiple_allocations)


def _value(attribute: DeviceAttribute) -> Attribute | None:
    if attribute.version is not None:
        try:
            return Version.parse(attribute.version)
        except ObjectError:
            return None
    if attribute.string is not None:
        return attribute.string
    return attribute.integer if attribute.integer is not None else attribute.boolean
