"""Types of CEL at compile time: structure, notation and assignability.

`Unifier` has the known type parameters of one text during its check. Types of a text may share
parts, so their size as a tree is bounded: otherwise a tenant could double it with every level of
nesting.
"""

from collections.abc import Sequence

from scheduler.cel.errors import CelCompileError

_LARGEST = 4000


class Type:
    """A type; `params` are the types of elements, keys and values."""

    __slots__ = ("kind", "name", "params", "size")

    def __init__(self, kind: str, name: str, *params: "Type") -> None:
        self.kind = kind
        self.name = name
        self.params = params
        size = 1
        for param in params:
            size += param.size
        self.size: int = size
        if self.size > _LARGEST:
            raise CelCompileError("compilation failed: a type nests too many types")

    def same(self, other: "Type") -> bool:
        """Return whether both are exactly the same type."""
        return self is other or (
            self.kind == other.kind
            and self.name == other.name
            and len(self.params) == len(other.params)
            and all(
                mine.same(theirs) for mine, theirs in zip(self.params, other.params, strict=True)
            )
        )

    def __repr__(self) -> str:
        return f"Type({shown(self)})"


ANY = Type("any", "google.protobuf.Any")
BOOL = Type("bool", "bool")
BYTES = Type("bytes", "bytes")
DOUBLE = Type("double", "double")
DURATION = Type("duration", "google.protobuf.Duration")
DYN = Type("dyn", "dyn")
ERROR = Type("error", "!error!")
INT = Type("int", "int")
NULL = Type("null", "null_type")
STRING = Type("string", "string")
TIMESTAMP = Type("timestamp", "google.protobuf.Timestamp")
TYPE = Type("type", "type")
UINT = Type("uint", "uint")
QUANTITY = Type("struct", "kubernetes.Quantity")
SEMVER = Type("struct", "kubernetes.Semver")
URL = Type("struct", "kubernetes.URL")
FORMAT = Type("struct", "kubernetes.NamedFormat")
IP = Type("opaque", "net.IP")
CIDR = Type("opaque", "net.CIDR")
DEVICE = Type("struct", "kubernetes.DRADevice")
LIST = Type("list", "list")
MAP = Type("map", "map")
OPTIONAL = Type("opaque", "optional_type")

# Names of types, as values in a text.
NAMED_TYPES = {
    kind.name: kind
    for kind in (
        *(BOOL, BYTES, DOUBLE, DURATION, DYN, INT, NULL, STRING, TIMESTAMP, TYPE, UINT),
        *(LIST, MAP, OPTIONAL, IP, CIDR),
    )
} | {"duration": DURATION, "timestamp": TIMESTAMP}

_BY_KIND = {
    "any": "any",
    "duration": "duration",
    "error": "!error!",
    "null": "null",
    "timestamp": "timestamp",
}


def list_of(element: Type) -> Type:
    """Return the type of lists of `element`."""
    return Type("list", "list", element)


def map_of(key: Type, value: Type) -> Type:
    """Return the type of maps from `key` to `value`."""
    return Type("map", "map", key, value)


def optional_of(value: Type) -> Type:
    """Return the type of an optional `value`."""
    return Type("opaque", "optional_type", value)


def parameter(name: str) -> Type:
    """Return a type parameter."""
    return Type("param", name)


def shown(kind: Type) -> str:
    """Return the type in the notation of error messages."""
    if kind.kind in _BY_KIND:
        return _BY_KIND[kind.kind]
    if not kind.params:
        return kind.name
    return f"{kind.name}({', '.join(map(shown, kind.params))})"


def is_dynamic(kind: Type) -> bool:
    """Return whether the type is only known at run time."""
    return kind.kind in ("dyn", "any")


def unwrapped(kind: Type) -> tuple[Type, bool]:
    """Return the type inside an optional, and whether it is one."""
    if kind.kind == "opaque" and kind.name == "optional_type" and kind.params:
        return kind.params[0], True
    return kind, False


def _less_specific(first: Type, second: Type) -> bool:
    """Return whether `first` is equal to or more general than `second`."""
    if is_dynamic(first) or first.kind == "param":
        return True
    if is_dynamic(second) or second.kind == "param" or first.kind != second.kind:
        return False
    if first.kind in ("opaque", "list", "map"):
        return (
            first.name == second.name
            and len(first.params) == len(second.params)
            and all(map(_less_specific, first.params, second.params))
        )
    return first.kind == "type" or first.same(second)


def _more_general(first: Type, second: Type) -> Type:
    return first if _less_specific(first, second) else second


_NULLABLE = ("opaque", "struct", "any", "duration", "timestamp", "null")


class Unifier:
    """The types inferred for the type parameters of one expression."""

    def __init__(self) -> None:
        self._known: dict[str, Type] = {}
        self._assigned: list[tuple[str, Type | None]] = []
        self._fresh = 0

    def fresh(self) -> Type:
        """Return a new type parameter without any constraint."""
        self._fresh += 1
        return parameter(f"_var{self._fresh - 1}")

    def join(self, previous: Type, current: Type) -> Type | None:
        """Return the more general of two types, None if they do not agree."""
        return _more_general(previous, current) if self.assignable(previous, current) else None

    def assignable(self, first: Type, second: Type) -> bool:
        """Return whether a value of type `first` is assignable to `second`.

        Binds type parameters that this determines.
        """
        return self.all_assignable((first,), (second,))

    def all_assignable(self, first: Sequence[Type], second: Sequence[Type]) -> bool:
        """Return whether each type of `first` is assignable to that of `second` in the same
        position.

        Type parameters are bound for all of them or, if one is not assignable, for none.
        """
        start = len(self._assigned)
        if self._all(first, second):
            return True
        while len(self._assigned) > start:
            name, before = self._assigned.pop()
            if before is None:
                del self._known[name]
            else:
                self._known[name] = before
        return False

    def substitute(self, kind: Type, *, free_is_dynamic: bool = False) -> Type:
        """Return the type with its parameters replaced by their known types."""
        while kind.kind == "param" and kind.name in self._known:
            kind = self._known[kind.name]
        if kind.kind == "param":
            return DYN if free_is_dynamic else kind
        if not kind.params:
            return kind
        params = [self.substitute(p, free_is_dynamic=free_is_dynamic) for p in kind.params]
        if all(map(_is, params, kind.params)):
            return kind
        return Type(kind.kind, kind.name, *params)

    def _learn(self, name: str, kind: Type) -> None:
        self._assigned.append((name, self._known.get(name)))
        self._known[name] = kind

    def _all(self, first: Sequence[Type], second: Sequence[Type]) -> bool:
        return len(first) == len(second) and all(map(self._fits, first, second))

    def _fits(self, first: Type, second: Type) -> bool:
        if second.kind == "param":
            valid, known = self._stands_for(first, second)
            if valid or known:
                return valid
        if first.kind == "param":
            return self._stands_for(second, first)[0]
        if _is_wild(first) or _is_wild(second):
            return True
        if first.kind == "null":
            return second.kind in _NULLABLE
        if second.kind == "null":
            return first.kind in _NULLABLE
        if first.kind != second.kind:
            return False
        if first.kind == "type":
            return True
        return first.name == second.name and self._all(first.params, second.params)

    def _stands_for(self, kind: Type, param: Type) -> tuple[bool, bool]:
        """Return (whether `kind` is assignable to the type parameter `param`, whether `param` was
        bound before).
        """
        if kind.same(param):
            return True, True
        known = self._known.get(param.name)
        if known is not None:
            if kind.same(known):
                return True, True
            if not self._fits(kind, known):
                return False, True
            general = _more_general(kind, known)
            if self._absent(param, general):
                self._learn(param.name, general)
            return True, True
        if self._absent(param, kind):
            self._learn(param.name, kind)
            return True, False
        return False, False

    def _absent(self, param: Type, within: Type) -> bool:
        """Return whether `param` does not occur in the type `within`."""
        while within.kind == "param":
            if within.name == param.name:
                return False
            known = self._known.get(within.name)
            if known is None:
                return True
            within = known
        return all(self._absent(param, inner) for inner in within.params)


def _is(first: object, second: object) -> bool:
    return first is second


def _is_wild(kind: Type) -> bool:
    return kind.kind in ("dyn", "any", "error")
