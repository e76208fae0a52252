"""Verdicts of CEL selectors, cached per expression and device content.

Devices repeat by the thousand, so an expression is evaluated once per distinct content. The cache
is bounded: expressions by number, the oldest is dropped first; verdicts by the number of contents.
"""

import re
from contextlib import suppress

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
    """One expression with its verdicts: True, False, or the text of the error by content.

    With `lists` attributes may be lists of values, as in kube-scheduler 1.37; without, a device
    with such an attribute is an error, as in 1.36.
    """

    __slots__ = ("_excluded", "_lists", "_program", "_verdicts", "fault", "text")

    def __init__(self, text: str, *, lists: bool = False) -> None:
        self.text = text
        self.fault = ""
        self._lists = lists
        self._program: Program | None = None
        self._verdicts: dict[int, bool | str] = {}
        self._excluded: dict[str, bool] = {}
        try:
            self._program = compile_selector(text, lists=lists)
        except CelCompileError as error:
            self.fault = f"CEL compile error: {error.message}"

    def matches(self, content: int, device: DeviceObject, driver: str) -> bool:
        """Return whether the device, whose content has this number, is selected; SelectorError."""
        found = self._verdicts.get(content)
        if found is None:
            found = self._verdicts[content] = self._evaluated(device, driver)
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

    def _evaluated(self, device: DeviceObject, driver: str) -> bool | str:
        if self._program is None:
            return self.fault
        try:
            return self._program.evaluate(as_cel(device, driver, lists=self._lists))
        except CelRuntimeError as error:
            return f"CEL runtime error: {error.message}"


class Selectors:
    """Compiled expressions by their text; `lists` as for `Selector`."""

    def __init__(self, *, lists: bool = False) -> None:
        self._known: dict[str, Selector] = {}
        self._lists = lists

    def of(self, text: str) -> Selector:
        """Return the selector of a text, compiled at first use."""
        found = self._known.get(text)
        if found is None:
            if len(self._known) >= MOST_EXPRESSIONS:
                del self._known[next(iter(self._known))]
            found = self._known[text] = Selector(text, lists=self._lists)
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


def as_cel(device: DeviceObject, driver: str, *, lists: bool = False) -> DeviceInput:
    """Return a device in the form that selectors read.

    CelRuntimeError for an attribute without a value of a known type; without `lists` these are
    single values.
    """
    attributes: dict[str, Attribute] = {}
    for name, one in device.attributes.items():
        if one.key is None or (one.list_key is not None and not lists):
            raise CelRuntimeError(f"attribute {name}: unsupported attribute value")
        with suppress(ObjectError):  # a version that no API server stores
            attributes[name] = _value(one)
    capacity: dict[str, Quantity] = {}
    for name, offered in device.capacity.items():
        try:
            capacity[name] = Quantity.parse(str(offered.value))
        except ObjectError:
            continue  # the API server rejects it
    return DeviceInput(driver, attributes, capacity, device.allow_multiple_allocations)


def _value(attribute: DeviceAttribute) -> Attribute:
    kind, value = attribute.key or ("", "")
    if kind == "version":
        return Version.parse(value)
    if kind == "versions":
        return [Version.parse(one) for one in value]
    return list(value) if type(value) is tuple else value
