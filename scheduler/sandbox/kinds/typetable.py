"""The field table of the built-in kinds: names, types and merge keys, read once from
objects/types.json.

Decoding (unknown fields, wrong types, canonical quantities), strategic merge patch, apply and the
OpenAPI documents all read it. It is data about Kubernetes' wire format; nothing here reads an
object.
"""

from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Final, NamedTuple

import msgspec

from scheduler.sandbox.kinds.kinds import Resource

PRIMITIVES: Final = frozenset(
    {
        "any",
        "bool",
        "bytes",
        "int32",
        "int64",
        "intstr",
        "microtime",
        "number",
        "quantity",
        "string",
        "time",
    }
)

_FILES: Final = ("types.json", "types-1.37.json")

# Kinds that every group and version has.
_EVERYWHERE: Final = {"DeleteOptions": "meta.v1.DeleteOptions"}


@dataclass(slots=True)
class TypeShape:
    """A value's type: a primitive, a struct (`fields`), a list or a map (`inner`)."""

    name: str
    fields: "dict[str, TypeField] | None" = None
    inner: "TypeShape | None" = None
    is_list: bool = False


@dataclass(slots=True)
class TypeField:
    """One field of a struct and how lists and maps in it merge."""

    shape: TypeShape
    required: bool = False
    patch: tuple[str, ...] = ()
    merge_key: str = ""
    list_type: str = ""
    map_keys: tuple[str, ...] = ()
    atomic_map: bool = False


class WireField(NamedTuple):
    """A field in protobuf: its JSON name, or the struct (`inlined`) whose fields stand in its
    place.
    """

    name: str
    keeps_zero: bool
    inlined: str


class _Raw(msgspec.Struct, frozen=True):
    kinds: dict[str, str]
    types: dict[str, dict[str, str]]
    wire: dict[str, str]
    gated: dict[str, frozenset[str]] = {}


class TypeTable:
    """All types by name, linked on first use.

    `gated` are, by type, fields of a pod that an API server of 1.37 knows and drops, because their
    gates are off.
    """

    def __init__(self, *contents: bytes) -> None:
        self.kinds: dict[str, str] = {}
        self.raw: dict[str, dict[str, str]] = {}
        self.gated: dict[str, frozenset[str]] = {}
        self._raw_wire: dict[str, str] = {}
        for content in contents:
            raw = msgspec.json.decode(content, type=_Raw)
            self.kinds |= raw.kinds
            self.raw |= raw.types
            self._raw_wire |= raw.wire
            self.gated |= raw.gated
        self._shapes: dict[str, TypeShape] = {}
        self._wire: dict[str, dict[int, WireField]] = {}

    def of_resource(self, resource: Resource) -> TypeShape | None:
        """Return the type of a resource's objects, None for custom resources."""
        if resource.typed_as:
            return self.shape(self.kinds[resource.typed_as])
        return self.of_kind(resource.group, resource.version, resource.kind)

    def of_kind(self, group: str, version: str, kind: str) -> TypeShape | None:
        """Return the type of a kind, None when the table has none."""
        name = self.kinds.get(f"{group}/{version}/{kind}") or _EVERYWHERE.get(kind)
        return self.shape(name) if name else None

    def shape(self, code: str) -> TypeShape:
        """Return the type behind a code such as `[]core.v1.Container`."""
        found = self._shapes.get(code)
        if found is not None:
            return found
        if code.startswith("[]"):
            found = self._shapes[code] = TypeShape(code, is_list=True)
            found.inner = self.shape(code[2:])
        elif code.startswith("{}"):
            found = self._shapes[code] = TypeShape(code)
            found.inner = self.shape(code[2:])
        elif code in PRIMITIVES:
            found = self._shapes[code] = TypeShape(code)
        else:
            found = self._shapes[code] = TypeShape(code)
            found.fields = {name: self._field(text) for name, text in self.raw[code].items()}
        return found

    def wire(self, name: str) -> dict[int, WireField]:
        """Return the protobuf fields of a struct by number; empty for an unknown one."""
        found = self._wire.get(name)
        if found is None:
            found = {}
            for entry in self._raw_wire.get(name, "").split():
                number, _, what = entry.partition("=")
                inlined = what[1:] if what.startswith("+") else ""
                found[int(number)] = WireField(what.lstrip("*+"), what.startswith("*"), inlined)
            self._wire[name] = found
        return found

    def names(self) -> list[str]:
        """Return the names of all struct types, sorted."""
        return sorted(self.raw)

    def _field(self, text: str) -> TypeField:
        required = text.endswith("!")
        code, *notes = text.rstrip("!").split(" ")
        notes_by_key = dict(note.split("=", 1) for note in notes)
        return TypeField(
            shape=self.shape(code),
            required=required,
            patch=tuple(notes_by_key.get("patch", "").split(","))
            if "patch" in notes_by_key
            else (),
            merge_key=notes_by_key.get("key", ""),
            list_type=notes_by_key.get("list", ""),
            map_keys=tuple(notes_by_key["keys"].split(",")) if "keys" in notes_by_key else (),
            atomic_map=notes_by_key.get("map") == "atomic",
        )


@cache
def type_table() -> TypeTable:
    """Return the table that ships with the package, with the next release's additions."""
    folder = resources.files("scheduler.objects")
    return TypeTable(*(folder.joinpath(name).read_bytes() for name in _FILES))
