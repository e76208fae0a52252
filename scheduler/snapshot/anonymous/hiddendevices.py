"""Replace the names in a snapshot's device objects: slices, classes, claims and templates.

Kept are words of drivers that scheduling compares: drivers, classes, attribute names, requests,
counters, versions and numbers. Replaced are names of nodes, pools, devices and pods, and the texts
of attributes, in selectors too: equal texts stay equal. A selector on parts of a text
(`startsWith`, `matches`) may give another result afterwards. Called by `anonymize.py` only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final, Protocol

from scheduler.base.errors import InputError
from scheduler.cel import CelCompileError, compile_selector, replace_texts
from scheduler.snapshot.export import Object

KINDS: Final = frozenset({"DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"})
_WORDS: Final = {
    "device": "device",
    "nodeName": "node",
    "pool": "node",
    "shareID": "share",
    "uid": "uid",
}
_KEPT: Final = re.compile(r"[-+]?[0-9.]*([numkMGTPE]|[KMGTPE]i)?|v?\d+(\.\d+){0,2}([-+].*)?|%.*")


class Names(Protocol):
    """The interface of the table of names."""

    def alias(self, text: str, word: str) -> str:
        """Return the alias of a name."""

    def generic(self, value: Any, field: str, kind: str = "") -> Any:
        """Return a part outside devices with aliases, as in other kinds."""


class DeviceWords:
    """The drivers' words that are kept: names of drivers, domains and attributes."""

    def __init__(self) -> None:
        self._words: set[str] = set()

    def learn(self, objects: Iterable[Object]) -> list[str]:
        """Store the words of all slices; return the slices' names, whose order must stay."""
        slices: list[str] = []
        for obj in objects:
            if obj["kind"] != "ResourceSlice":
                continue
            slices.append(str(obj["metadata"].get("name", "")))
            spec = obj.get("spec") or {}
            self._words.add(spec.get("driver", ""))
            for device in spec.get("devices") or ():
                for name in (*(device.get("attributes") or ()), *(device.get("capacity") or ())):
                    self._words.update(name.split("/"))
        return sorted(slices)

    def hidden(self, obj: Object, names: Names) -> Object:
        """Return an object of one of `KINDS` with aliases for its names."""
        result: Object = {}
        for part, value in obj.items():
            if part == "metadata":
                kind = obj["kind"]
                kept = {"name": value["name"]} if kind == "DeviceClass" and "name" in value else {}
                result[part] = names.generic(value, "metadata", kind) | kept
            else:
                result[part] = self._value(value, part, "", names)
        return result

    def _value(self, value: Any, field: str, within: str, names: Names) -> Any:
        if isinstance(value, list):
            return [self._value(item, field, field, names) for item in value]
        if isinstance(value, dict):
            return self._fields(value, field, within, names)
        if not isinstance(value, str):
            return value
        if field == "name":
            word = {"devices": "device", "pool": "node", "reservedFor": "pod"}.get(within)
            return names.alias(value, word) if word else value
        return names.alias(value, _WORDS[field]) if field in _WORDS else value

    def _fields(self, fields: Object, field: str, within: str, names: Names) -> Object:
        if field in ("nodeSelector", "taints", "tolerations", "metadata"):
            hidden: Object = names.generic(fields, field)
            return hidden
        if field == "opaque":
            return {"driver": fields.get("driver", ""), "parameters": {}}
        if field == "attributes":
            return {name: _attribute(value, names) for name, value in fields.items()}
        if field == "cel":
            return {**fields, "expression": self._selector(fields.get("expression", ""), names)}
        inner = field if field == "pool" else within
        return {name: self._value(value, name, inner, names) for name, value in fields.items()}

    def _selector(self, text: str, names: Names) -> str:
        def other(literal: str) -> str:
            if literal in self._words or _KEPT.fullmatch(literal):
                return literal
            return names.alias(literal, "value")

        try:
            compile_selector(text, lists=True)  # as stored ones are compiled
            return replace_texts(text, other)
        except (CelCompileError, InputError):
            # An invalid text stays invalid, with its content hidden.
            return names.alias(text, "selector")


def _attribute(value: Object, names: Names) -> Object:
    hidden = dict(value)
    if (text := value.get("string")) is not None:
        hidden["string"] = names.alias(text, "value")
    if texts := value.get("strings"):
        hidden["strings"] = [names.alias(one, "value") for one in texts]
    return hidden
