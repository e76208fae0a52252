"""Operators: arithmetic with overflow, order, membership, size (cel-spec, "Standard
definitions").
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from scheduler.cel.evaluation.values import (
    INT64_MAX,
    INT64_MIN,
    NO_OVERLOAD,
    UINT64_MAX,
    Duration,
    EvaluationFault,
    GrowingList,
    GrowingMap,
    Optional,
    Timestamp,
    UInt,
    compare,
    elements,
    equal,
    find,
    key_of,
)
from scheduler.cel.library import Library

LARGEST = 1_000_000  # as many elements as a selector may cost; upstream has no such bound

_INT_OVERFLOW = EvaluationFault("integer overflow")
_UINT_OVERFLOW = EvaluationFault("unsigned integer overflow")
_DURATION_OVERFLOW = EvaluationFault("duration overflow")
_TIMESTAMP_OVERFLOW = EvaluationFault("timestamp overflow")
TOO_LARGE = EvaluationFault("operation cancelled: actual cost limit exceeded")
# Years 1 to 9999.
_FIRST_NANOS = -62135596800 * 10**9
_LAST_NANOS = 253402300799 * 10**9 + 999_999_999

_RECEIVERS = (str, Duration, Timestamp)


def _unsupported(function: str, value: Any) -> EvaluationFault:
    """Return upstream's error for an operator that a type does not support."""
    return (
        NO_OVERLOAD
        if type(value) in _RECEIVERS
        else EvaluationFault(f"no such overload: {function}")
    )


def integer(value: int) -> Any:
    """Return an int; a Fault beyond 64 bits."""
    return value if INT64_MIN <= value <= INT64_MAX else _INT_OVERFLOW


def unsigned(value: int) -> Any:
    """Return an unsigned int; a Fault below 0 or beyond 64 bits."""
    return UInt(value) if 0 <= value <= UINT64_MAX else _UINT_OVERFLOW


def duration(nanos: int) -> Any:
    """Return a duration; a Fault beyond 64 bits of nanoseconds."""
    return Duration(nanos) if INT64_MIN <= nanos <= INT64_MAX else _DURATION_OVERFLOW


def timestamp(nanos: int) -> Any:
    """Return a moment; a Fault outside of the years 1 to 9999."""
    return Timestamp(nanos) if _FIRST_NANOS <= nanos <= _LAST_NANOS else _TIMESTAMP_OVERFLOW


def _added(left: Any, right: Any) -> Any:
    kind = type(left)
    if kind in (Duration, Timestamp):
        return _added_times(left, right)
    if isinstance(left, list):
        return _joined(left, right)
    if kind not in (int, UInt, float, str, bytes):
        return _unsupported("_+_", left)
    if type(right) is not kind:
        return NO_OVERLOAD
    if kind is int:
        return integer(left + right)
    if kind is UInt:
        return unsigned(int(left) + int(right))
    if kind is not float and len(left) + len(right) > LARGEST:
        return TOO_LARGE
    return left + right


def _joined(left: list[Any], right: Any) -> Any:
    if not isinstance(right, list):
        return NO_OVERLOAD
    if len(left) + len(right) > LARGEST:
        return TOO_LARGE
    if type(left) is GrowingList:
        left.extend(right)
        return left
    return [*left, *right]


def _added_times(left: Any, right: Any) -> Any:
    if type(left) is Timestamp:
        return timestamp(left.nanos + right.nanos) if type(right) is Duration else NO_OVERLOAD
    if type(right) is Duration:
        return duration(left.nanos + right.nanos)
    return timestamp(left.nanos + right.nanos) if type(right) is Timestamp else NO_OVERLOAD


def _subtracted(left: Any, right: Any) -> Any:
    kind = type(left)
    if kind is Timestamp:
        if type(right) is Timestamp:
            return duration(left.nanos - right.nanos)
        return timestamp(left.nanos - right.nanos) if type(right) is Duration else NO_OVERLOAD
    if kind not in (int, UInt, float, Duration):
        return _unsupported("_-_", left)
    if type(right) is not kind:
        return NO_OVERLOAD
    if kind is Duration:
        return duration(left.nanos - right.nanos)
    if kind is float:
        return left - right
    return integer(left - right) if kind is int else unsigned(int(left) - int(right))


def _multiplied(left: Any, right: Any) -> Any:
    kind = type(left)
    if kind not in (int, UInt, float):
        return _unsupported("_*_", left)
    if type(right) is not kind:
        return NO_OVERLOAD
    if kind is float:
        return left * right
    return integer(left * right) if kind is int else unsigned(int(left) * int(right))


def _divided(left: Any, right: Any) -> Any:
    kind = type(left)
    if kind not in (int, UInt, float):
        return _unsupported("_/_", left)
    if type(right) is not kind:
        return NO_OVERLOAD
    if kind is float:
        return _quotient(left, right)
    if right == 0:
        return EvaluationFault("division by zero")
    quotient = abs(int(left)) // abs(int(right))
    if kind is UInt:
        return UInt(quotient)
    return integer(quotient if (left < 0) == (right < 0) else -quotient)


def _quotient(left: float, right: float) -> float:
    if right:
        return left / right
    if not left or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


def _remainder(left: Any, right: Any) -> Any:
    kind = type(left)
    if kind not in (int, UInt):
        return _unsupported("_%_", left)
    if type(right) is not kind:
        return NO_OVERLOAD
    if right == 0:
        return EvaluationFault("modulus by zero")
    rest = abs(int(left)) % abs(int(right))
    if kind is UInt:
        return UInt(rest)
    if left == INT64_MIN and right == -1:
        return _INT_OVERFLOW
    return -rest if left < 0 else rest


def _negated(value: Any) -> Any:
    kind = type(value)
    if kind is int:
        return integer(-value)
    if kind is float:
        return -value
    if kind is Duration:
        return duration(-value.nanos)
    return NO_OVERLOAD if kind is bool else _unsupported("-_", value)


def _not(value: Any) -> Any:
    return not value if type(value) is bool else NO_OVERLOAD


def _not_strictly_false(value: Any) -> bool:
    return value is not False


def _ordered(function: str, holds: Callable[[int], bool]) -> Callable[[Any, Any], Any]:
    def call(left: Any, right: Any) -> Any:
        order = compare(left, right)
        if order is None:
            return _unsupported(function, left)
        return holds(order) if type(order) is int else order

    return call


def contained(value: Any, container: Any) -> Any:
    """Return whether a list holds a value, or a map a key."""
    if isinstance(container, dict):
        key = key_of(value)
        return type(key) is not EvaluationFault and _hashable(key) and key in container
    if isinstance(container, list):
        return any(equal(value, element) is True for element in container)
    return NO_OVERLOAD


def _hashable(key: Any) -> bool:
    return type(key) is not Optional


def _size(value: Any) -> Any:
    if isinstance(value, (str, bytes, list, dict)):
        return len(value)
    return _unsupported("size", value)


def _insert(mapping: dict[Any, Any], key: Any, value: Any) -> Any:
    if find(dict(mapping) if type(mapping) not in (dict, GrowingMap) else mapping, key)[1]:
        return EvaluationFault(f"insert failed: key {key} already exists")
    stored = key_of(key)
    if type(stored) is EvaluationFault:
        return stored
    result = mapping if type(mapping) is GrowingMap else dict(mapping)
    if len(result) >= LARGEST:
        return TOO_LARGE
    result[stored] = value
    return result


def _insert_all(mapping: dict[Any, Any], update: dict[Any, Any]) -> Any:
    result: Any = mapping
    for key in elements(update) or ():
        result = _insert(result, key, find(update, key)[0])
        if type(result) is EvaluationFault:
            return result
    return result


_ORDERED = ["bool", "int", "uint", "double", "string", "bytes", "timestamp", "duration"]
_CROSSED = (
    ("int", "double"),
    ("int", "uint"),
    ("uint", "double"),
    ("uint", "int"),
    ("double", "int"),
    ("double", "uint"),
)
_IDS = {"int": "int64", "uint": "uint64"}
_RELATIONS = {
    "_<_": "less",
    "_<=_": "less_equals",
    "_>_": "greater",
    "_>=_": "greater_equals",
}


def _relations() -> str:
    lines = []
    for sign, word in _RELATIONS.items():
        lines += [f"{sign} {word}_{_IDS.get(t, t)} ({t}, {t}) -> bool" for t in _ORDERED]
        lines += [
            f"{sign} {word}_{_IDS.get(a, a)}_{_IDS.get(b, b)} ({a}, {b}) -> bool"
            for a, b in _CROSSED
        ]
    return "\n".join(lines)


ARITHMETIC = Library(
    declared="""
        _?_:_ conditional (bool, A, A) -> A
        _&&_ logical_and (bool, bool) -> bool
        _||_ logical_or (bool, bool) -> bool
        !_ logical_not (bool) -> bool
        @not_strictly_false not_strictly_false (bool) -> bool
        _==_ equals (A, A) -> bool
        _!=_ not_equals (A, A) -> bool
        _+_ add_bytes (bytes, bytes) -> bytes
        _+_ add_double (double, double) -> double
        _+_ add_duration_duration (duration, duration) -> duration
        _+_ add_duration_timestamp (duration, timestamp) -> timestamp
        _+_ add_timestamp_duration (timestamp, duration) -> timestamp
        _+_ add_int64 (int, int) -> int
        _+_ add_list (list<A>, list<A>) -> list<A>
        _+_ add_string (string, string) -> string
        _+_ add_uint64 (uint, uint) -> uint
        _/_ divide_double (double, double) -> double
        _/_ divide_int64 (int, int) -> int
        _/_ divide_uint64 (uint, uint) -> uint
        _%_ modulo_int64 (int, int) -> int
        _%_ modulo_uint64 (uint, uint) -> uint
        _*_ multiply_double (double, double) -> double
        _*_ multiply_int64 (int, int) -> int
        _*_ multiply_uint64 (uint, uint) -> uint
        -_ negate_double (double) -> double
        -_ negate_int64 (int) -> int
        _-_ subtract_double (double, double) -> double
        _-_ subtract_duration_duration (duration, duration) -> duration
        _-_ subtract_int64 (int, int) -> int
        _-_ subtract_timestamp_duration (timestamp, duration) -> timestamp
        _-_ subtract_timestamp_timestamp (timestamp, timestamp) -> duration
        _-_ subtract_uint64 (uint, uint) -> uint
        _[_] index_list (list<A>, int) -> A
        _[_] index_map (map<A, B>, A) -> B
        @in in_list (A, list<A>) -> bool
        @in in_map (A, map<A, B>) -> bool
        size size_bytes (bytes) -> int
        size bytes_size bytes.() -> int
        size size_list (list<A>) -> int
        size list_size list<A>.() -> int
        size size_map (map<A, B>) -> int
        size map_size map<A, B>.() -> int
        size size_string (string) -> int
        size string_size string.() -> int
    """
    + _relations(),
    functions={
        "cel.@mapInsert @mapInsert_map_key_value (map<K, V>, K, V) -> map<K, V>": _insert,
        "cel.@mapInsert @mapInsert_map_map (map<K, V>, map<K, V>) -> map<K, V>": _insert_all,
    },
    whole={
        "_+_": _added,
        "_-_": _subtracted,
        "_*_": _multiplied,
        "_/_": _divided,
        "_%_": _remainder,
        "-_": _negated,
        "!_": _not,
        "@not_strictly_false": _not_strictly_false,
        "_<_": _ordered("_<_", lambda order: order < 0),
        "_<=_": _ordered("_<=_", lambda order: order <= 0),
        "_>_": _ordered("_>_", lambda order: order > 0),
        "_>=_": _ordered("_>=_", lambda order: order >= 0),
        "@in": contained,
        "size": _size,
    },
)
