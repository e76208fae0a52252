"""Values at run time: the types of CEL that Python lacks, and operations on all values.

int, str, float, bytes, bool, None, list and dict are themselves; a dict holds bools as `BoolKey`,
since in Python `True` and `1` are one key. A failure is a value too (`EvaluationFault`): `||` may
still be true.
"""

import math
from collections.abc import Iterator
from typing import Any, Final

from scheduler.cel.checking import types
from scheduler.cel.checking.types import Type
from scheduler.cel.evaluation.quantity import Quantity
from scheduler.cel.evaluation.semver import Version
from scheduler.cel.evaluation.work import WORK_BUDGET

INT64_MAX: Final = 2**63 - 1
INT64_MIN: Final = -(2**63)
UINT64_MAX: Final = 2**64 - 1


class EvaluationFault:
    """A value that could not be found out, with the reason."""

    __slots__ = ("message",)

    def __init__(self, message: str) -> None:
        self.message = message


NO_OVERLOAD: Final = EvaluationFault("no such overload")


class UInt(int):
    """An unsigned integer of 64 bits."""

    __slots__ = ()


class Duration:
    """A length of time in nanoseconds."""

    __slots__ = ("nanos",)

    def __init__(self, nanos: int) -> None:
        self.nanos = nanos

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Duration) and self.nanos == other.nanos

    def __hash__(self) -> int:
        return hash((Duration, self.nanos))


class Timestamp:
    """A moment, in nanoseconds since 1970 (UTC)."""

    __slots__ = ("nanos",)

    def __init__(self, nanos: int) -> None:
        self.nanos = nanos

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Timestamp) and self.nanos == other.nanos

    def __hash__(self) -> int:
        return hash((Timestamp, self.nanos))


class Optional:
    """A value that may be absent; `present` is whether it exists."""

    __slots__ = ("present", "value")

    def __init__(self, value: Any, *, present: bool = True) -> None:
        self.value = value
        self.present = present


NONE: Final = Optional(None, present=False)


class Opaque:
    """A value of Kubernetes' extensions: an address, a network, a URL, a format."""

    __slots__ = ("kind", "size", "value")

    def __init__(self, kind: Type, value: Any, size: int | None = None) -> None:
        self.kind = kind
        self.value = value
        self.size = size


class BoolKey:
    """A bool as key of a map."""

    __slots__ = ("value",)

    def __init__(self, *, value: bool) -> None:
        self.value = value


_BOOL_KEYS = {True: BoolKey(value=True), False: BoolKey(value=False)}


class DomainMap(dict[Any, Any]):
    """Attributes or capacity by domain: looking up an unknown domain finds an empty map."""

    __slots__ = ()


class GrowingList(list[Any]):
    """The list that a loop builds; appending mutates it, because it has no other reference."""

    __slots__ = ()


class GrowingMap(dict[Any, Any]):
    """The map that a loop builds."""

    __slots__ = ()


EMPTY: Final[dict[Any, Any]] = {}
_ABSENT: Final = EvaluationFault("absent")


def key_of(value: Any) -> Any:
    """Return a value as a key of a map; a Fault if it cannot be one."""
    kind = type(value)
    if kind is bool:
        return _BOOL_KEYS[value]
    if kind in (list, dict, DomainMap, GrowingList, GrowingMap):
        return EvaluationFault(f"unsupported key type: {type_name(value)}")
    return value


def find(mapping: dict[Any, Any], key: Any) -> tuple[Any, bool]:
    """Return the value of a key and whether it is present; for attributes, an unknown domain counts
    as present.
    """
    if type(key) is bool:
        key = _BOOL_KEYS[key]
    try:
        value = mapping.get(key, _ABSENT)
    except TypeError:  # a list or a map
        return None, False
    if value is not _ABSENT:
        return value, True
    return (EMPTY, True) if type(mapping) is DomainMap else (None, False)


def elements(value: Any) -> Iterator[Any] | None:
    """Return the elements of a list or the keys of a map, for a loop; None for other values."""
    if isinstance(value, list):
        return iter(value)
    if isinstance(value, dict):
        return (key.value if type(key) is BoolKey else key for key in value)
    return None


_TYPES: dict[type, Type] = {
    bool: types.BOOL,
    int: types.INT,
    UInt: types.UINT,
    float: types.DOUBLE,
    str: types.STRING,
    bytes: types.BYTES,
    type(None): types.NULL,
    list: types.LIST,
    GrowingList: types.LIST,
    dict: types.MAP,
    DomainMap: types.MAP,
    GrowingMap: types.MAP,
    Duration: types.DURATION,
    Timestamp: types.TIMESTAMP,
    Optional: types.OPTIONAL,
    Quantity: types.QUANTITY,
    Version: types.SEMVER,
    Type: types.TYPE,
    EvaluationFault: types.ERROR,
}


def type_of(value: Any) -> Type:
    """Return the type of a value, without that of its elements."""
    return value.kind if type(value) is Opaque else _TYPES[type(value)]


def type_name(value: Any) -> str:
    """Return the name of a value's type, as messages write it."""
    return type_of(value).name


def size_of(value: Any) -> int:
    """Return the size of a value for costs: 1 for values without a length."""
    kind = type(value)
    if kind is str or kind is bytes or isinstance(value, (list, dict)):
        return len(value)
    if kind is Optional:
        return size_of(value.value) if value.present else 1
    if kind is Opaque:
        return 1 if value.size is None else value.size
    return 1


_NUMBERS = (int, UInt, float)


def equal(left: Any, right: Any) -> Any:
    """Return whether two values are equal; a Fault where their types cannot be compared."""
    if left is None or right is None:
        return left is right
    kind = type(left)
    if kind in _NUMBERS:
        return type(right) in _NUMBERS and left == right
    if kind in (str, bool, bytes):
        return type(right) is kind and left == right
    if kind is Quantity or kind is Version:
        if type(right) is not kind or (kind is Quantity and right.derived):
            return right if type(right) is EvaluationFault else NO_OVERLOAD
        return left == right
    if kind is Opaque:
        if type(right) is not Opaque or right.kind is not left.kind:
            return right if type(right) is EvaluationFault else NO_OVERLOAD
        return left.value == right.value
    return _equal_composed(left, right)


def _equal_composed(left: Any, right: Any) -> Any:
    WORK_BUDGET.spend(size_of(left))
    if isinstance(left, list):
        return (
            isinstance(right, list)
            and len(left) == len(right)
            and all(
                equal(mine, theirs) is not False for mine, theirs in zip(left, right, strict=True)
            )
        )
    if isinstance(left, dict):
        if not isinstance(right, dict) or len(left) != len(right):
            return False
        for key, mine in left.items():
            theirs, found = find(right, key)
            if not found or equal(mine, theirs) is False:
                return False
        return True
    if type(left) is Optional:
        if type(right) is not Optional or left.present != right.present:
            return False
        return equal(left.value, right.value) if left.present else True
    if type(left) is Type:
        return type(right) is Type and left.name == right.name
    return left == right


def compare(left: Any, right: Any) -> Any:
    """Return -1, 0 or 1; a Fault where the values have no order."""
    kind = type(left)
    if kind in _NUMBERS:
        if type(right) not in _NUMBERS:
            return NO_OVERLOAD
        if math.isnan(left) or math.isnan(right):
            return EvaluationFault("NaN values cannot be ordered")
    elif kind in (str, bytes, bool):
        if type(right) is not kind:
            return NO_OVERLOAD
    elif kind in (Duration, Timestamp):
        if type(right) is not kind:
            return NO_OVERLOAD
        left, right = left.nanos, right.nanos
    else:
        return None
    return (left > right) - (left < right)


def double_text(value: float) -> str:
    """Return a double in Go's `%g` format, with the shortest exact digits."""
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if math.isnan(value):
        return "NaN"
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    mantissa, _, power = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    if not digits:
        return f"{sign}0"
    lost = len(whole + fraction) - len(digits)
    exponent = int(power or 0) + len(whole) - 1 - lost
    digits = digits.rstrip("0")
    if exponent < -4 or exponent >= 6:
        rest = f".{digits[1:]}" if digits[1:] else ""
        return f"{sign}{digits[0]}{rest}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"
    if exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
    whole = digits[: exponent + 1].ljust(exponent + 1, "0")
    rest = digits[exponent + 1 :]
    return f"{sign}{whole}.{rest}" if rest else f"{sign}{whole}"


def shown_value(value: Any) -> str:
    """Return a value as `%v` shows it in upstream's messages."""
    if type(value) is bool:
        return "true" if value else "false"
    if type(value) is float:
        return double_text(value)
    if isinstance(value, (int, str)):
        return str(value)
    return type_name(value)
