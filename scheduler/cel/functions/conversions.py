"""Conversions between types: `int("3")`, `string(1.5)`, `type(x)`, `dyn(x)`."""

import math
import re
from typing import Any

from scheduler.cel.evaluation import values
from scheduler.cel.evaluation.timetext import (
    duration_text,
    read_duration,
    read_timestamp,
    timestamp_text,
)
from scheduler.cel.functions.arithmetic import duration, timestamp
from scheduler.cel.library import Library

_INT = re.compile(r"[+-]?[0-9]{1,25}", re.ASCII)
_UINT = re.compile(r"[0-9]{1,25}", re.ASCII)
_FLOAT = re.compile(
    r"[+-]?(?:[0-9]+(?:_[0-9]+)*\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
    r"|[+-]?(?:inf|infinity)|nan",
    re.ASCII | re.IGNORECASE,
)
_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})


def _bad(value: str, target: str) -> values.EvaluationFault:
    del value
    return values.EvaluationFault(f"type conversion error from 'string' to '{target}'")


def _same(value: Any) -> Any:
    return value


def _bool(text: str) -> Any:
    if text in _TRUE:
        return True
    return False if text in _FALSE else _bad(text, "bool")


def _double(text: str) -> Any:
    if _FLOAT.fullmatch(text) is None:
        return _bad(text, "double")
    value = float(text.replace("_", ""))
    written_infinite = "i" in text.lower()
    return _bad(text, "double") if math.isinf(value) and not written_infinite else value


def _int(text: str) -> Any:
    if _INT.fullmatch(text) is None or not values.INT64_MIN <= int(text) <= values.INT64_MAX:
        return _bad(text, "int")
    return int(text)


def _uint(text: str) -> Any:
    if _UINT.fullmatch(text) is None or int(text) > values.UINT64_MAX:
        return _bad(text, "uint")
    return values.UInt(text)


def _double_to_int(value: float) -> Any:
    if math.isnan(value) or not float(values.INT64_MIN) < value < float(values.INT64_MAX):
        return values.EvaluationFault("integer overflow")
    return int(value)


def _double_to_uint(value: float) -> Any:
    if math.isnan(value) or not 0 <= value < float(values.UINT64_MAX):
        return values.EvaluationFault("unsigned integer overflow")
    return values.UInt(value)


def _int_to_uint(value: int) -> Any:
    return values.UInt(value) if value >= 0 else values.EvaluationFault("unsigned integer overflow")


def _uint_to_int(value: values.UInt) -> Any:
    return int(value) if value <= values.INT64_MAX else values.EvaluationFault("integer overflow")


def _bytes_to_string(value: bytes) -> Any:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return values.EvaluationFault("invalid UTF-8 in bytes, cannot convert to string")


def _string_to_duration(text: str) -> Any:
    nanos = read_duration(text)
    return _bad(text, "google.protobuf.Duration") if nanos is None else duration(nanos)


def _string_to_timestamp(text: str) -> Any:
    nanos = read_timestamp(text)
    return _bad(text, "google.protobuf.Timestamp") if nanos is None else timestamp(nanos)


def string_of(value: Any) -> str:
    """Return a scalar as `string()` writes it."""
    kind = type(value)
    if kind is bool:
        return "true" if value else "false"
    if kind is float:
        return values.double_text(value)
    if kind is values.Duration:
        return duration_text(value.nanos)
    if kind is values.Timestamp:
        return timestamp_text(value.nanos)
    return str(int(value))


CONVERSIONS = Library(
    declared="""
        type type (A) -> type<A>
        dyn to_dyn (A) -> dyn
    """,
    functions={
        "bool bool_to_bool (bool) -> bool": _same,
        "bool string_to_bool (string) -> bool": _bool,
        "bytes bytes_to_bytes (bytes) -> bytes": _same,
        "bytes string_to_bytes (string) -> bytes": lambda text: text.encode(
            "utf-8", "surrogatepass"
        ),
        "double double_to_double (double) -> double": _same,
        "double int64_to_double (int) -> double": float,
        "double string_to_double (string) -> double": _double,
        "double uint64_to_double (uint) -> double": float,
        "duration duration_to_duration (duration) -> duration": _same,
        "duration int64_to_duration (int) -> duration": lambda _value: values.EvaluationFault(
            "type conversion error from 'int' to 'google.protobuf.Duration'"
        ),
        "duration string_to_duration (string) -> duration": _string_to_duration,
        "int int64_to_int64 (int) -> int": _same,
        "int double_to_int64 (double) -> int": _double_to_int,
        "int duration_to_int64 (duration) -> int": lambda value: value.nanos,
        "int string_to_int64 (string) -> int": _int,
        "int timestamp_to_int64 (timestamp) -> int": lambda value: value.nanos // 10**9,
        "int uint64_to_int64 (uint) -> int": _uint_to_int,
        "string string_to_string (string) -> string": _same,
        "string bool_to_string (bool) -> string": string_of,
        "string bytes_to_string (bytes) -> string": _bytes_to_string,
        "string double_to_string (double) -> string": string_of,
        "string duration_to_string (duration) -> string": string_of,
        "string int64_to_string (int) -> string": string_of,
        "string timestamp_to_string (timestamp) -> string": string_of,
        "string uint64_to_string (uint) -> string": string_of,
        "timestamp timestamp_to_timestamp (timestamp) -> timestamp": _same,
        "timestamp int64_to_timestamp (int) -> timestamp": lambda value: timestamp(value * 10**9),
        "timestamp string_to_timestamp (string) -> timestamp": _string_to_timestamp,
        "uint uint64_to_uint64 (uint) -> uint": _same,
        "uint double_to_uint64 (double) -> uint": _double_to_uint,
        "uint int64_to_uint64 (int) -> uint": _int_to_uint,
        "uint string_to_uint64 (string) -> uint": _uint,
    },
    whole={"type": values.type_of, "dyn": _same},
)
