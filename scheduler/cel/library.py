"""Functions: their overloads for the checker, and the dispatch to one of them.

Libraries declare each overload as a text, `name id signature -> result`:

    charAt string_char_at_int string.(int) -> string

The function beside it implements this overload and is guarded: arguments of other types give `no
such overload: name(types)`, as upstream. A name may also have one implementation for all its
overloads (an operator).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from scheduler.cel.checking import types
from scheduler.cel.checking.types import Type
from scheduler.cel.evaluation.values import EvaluationFault, type_name, type_of

Implementation = Callable[..., Any]

_NAMES: dict[str, Type] = {
    "any": types.ANY,
    "bool": types.BOOL,
    "bytes": types.BYTES,
    "double": types.DOUBLE,
    "duration": types.DURATION,
    "dyn": types.DYN,
    "int": types.INT,
    "null": types.NULL,
    "string": types.STRING,
    "timestamp": types.TIMESTAMP,
    "uint": types.UINT,
    "quantity": types.QUANTITY,
    "semver": types.SEMVER,
    "url": types.URL,
    "format": types.FORMAT,
    "ip": types.IP,
    "cidr": types.CIDR,
    "authorizer": Type("struct", "kubernetes.authorization.Authorizer"),
    "pathcheck": Type("struct", "kubernetes.authorization.PathCheck"),
    "groupcheck": Type("struct", "kubernetes.authorization.GroupCheck"),
    "resourcecheck": Type("struct", "kubernetes.authorization.ResourceCheck"),
    "decision": Type("struct", "kubernetes.authorization.Decision"),
}
_LINE = re.compile(r"(?P<name>\S+)\s+(?P<id>\S+)\s+(?P<rest>.+) -> (?P<result>.+)")


@dataclass(frozen=True, slots=True)
class Overload:
    """One signature of a function; for methods the first of `args` is the target."""

    id: str
    args: tuple[Type, ...]
    result: Type
    member: bool
    generic: tuple[str, ...]

    def fits(self, values: tuple[Any, ...]) -> bool:
        """Return whether the values match the signature by a quick check of their types."""
        return len(values) == len(self.args) and all(map(_has_type, values, self.args))


@dataclass(slots=True)
class Function:
    """A function with all its overloads; `whole` serves every one of them."""

    name: str
    overloads: list[Overload] = field(default_factory=list)
    whole: Implementation | None = None
    single: dict[str, Implementation] = field(default_factory=dict)
    unguarded: bool = False

    def implementation(self, overloads: tuple[Overload, ...]) -> Implementation:
        """Return the function to call if one of these overloads fits the types."""
        if self.whole is not None:
            return self.whole
        if len(overloads) != 1:
            return self._dispatch
        chosen = overloads[0]
        function = self.single.get(chosen.id)
        if function is None:
            return self._dispatch
        return function if self.unguarded else self._guarded(chosen, function)

    def _guarded(self, chosen: Overload, function: Implementation) -> Implementation:
        def call(*values: Any) -> Any:
            return function(*values) if chosen.fits(values) else self._missing(values)

        return call

    def _dispatch(self, *values: Any) -> Any:
        for overload in self.overloads:
            if self.unguarded or overload.fits(values):
                function = self.single.get(overload.id)
                if function is not None and len(values) == len(overload.args):
                    return function(*values)
        return self._missing(values)

    def _missing(self, values: tuple[Any, ...]) -> EvaluationFault:
        for value in values:
            if type(value) is EvaluationFault:
                return value
        return EvaluationFault(
            f"no such overload: {self.name}({', '.join(map(type_name, values))})"
        )


@dataclass(frozen=True)
class Library:
    """A library of functions: the implementation of each overload, by its declaration.

    `declared` are those, one a line, that the planner compiles or that are served as a `whole`.
    """

    functions: Mapping[str, Implementation] = field(default_factory=dict)
    declared: str = ""
    whole: Mapping[str, Implementation] = field(default_factory=dict)
    unguarded: frozenset[str] = frozenset()


def functions_of(libraries: Iterable[Library]) -> dict[str, Function]:
    """Return the functions of all libraries by name, overloads in the order of declaration."""
    functions: dict[str, Function] = {}
    for library in libraries:
        for line in (*library.declared.strip().splitlines(), *library.functions):
            match = _LINE.fullmatch(line.strip())
            if match is None:
                raise AssertionError(f"not a declaration: {line}")
            function = functions.setdefault(match["name"], Function(match["name"]))
            function.overloads.append(_overload(match))
            if line in library.functions:
                function.single[match["id"]] = library.functions[line]
            function.whole = function.whole or library.whole.get(match["name"])
            function.unguarded = function.unguarded or match["name"] in library.unguarded
    return functions


def _overload(match: re.Match[str]) -> Overload:
    target, _, inside = match["rest"].partition("(")
    args = _split(inside.removesuffix(")"))
    member = target.endswith(".")
    if member:
        args.insert(0, target[:-1])
    kinds = tuple(map(_type, args))
    result = _type(match["result"])
    generic = tuple(sorted({name for kind in (*kinds, result) for name in _parameters(kind)}))
    return Overload(match["id"], kinds, result, member, generic)


def _split(text: str) -> list[str]:
    """Return the parts between commas that lie in no brackets."""
    parts: list[str] = []
    depth = 0
    part = ""
    for sign in text:
        depth += (sign == "<") - (sign == ">")
        if sign == "," and not depth:
            parts.append(part)
            part = ""
        else:
            part += sign
    return [part.strip() for part in (*parts, part) if part.strip()]


def _type(text: str) -> Type:
    name, _, inside = text.strip().partition("<")
    inner = [_type(part) for part in _split(inside.removesuffix(">"))]
    if name == "list":
        return types.list_of(inner[0])
    if name == "map":
        return types.map_of(inner[0], inner[1])
    if name == "optional":
        return types.optional_of(inner[0])
    if name == "type":
        return Type("type", "type", *inner)
    return _NAMES.get(name) or types.parameter(name)


def _parameters(kind: Type) -> set[str]:
    if kind.kind == "param":
        return {kind.name}
    return {name for param in kind.params for name in _parameters(param)}


def _has_type(value: Any, kind: Type) -> bool:
    """Return whether a value has a type; of lists and maps only the first element is checked."""
    if kind.kind in ("dyn", "any", "param"):
        return True
    actual = type_of(value)
    if actual.kind != kind.kind or actual.name != kind.name:
        return False
    if kind.kind == "list" and value:
        return _has_type(value[0], kind.params[0])
    if kind.kind == "map" and value:
        key, item = next(iter(value.items()))
        key = getattr(key, "value", key)
        return _has_type(key, kind.params[0]) and _has_type(item, kind.params[1])
    return True
