"""Optional values; `or` and `orValue` choose lazily and are compiled by the planner."""

from typing import Any

from scheduler.cel.evaluation.values import (
    NONE,
    EvaluationFault,
    Optional,
    Timestamp,
    double_text,
    type_name,
)
from scheduler.cel.library import Library

_NO_VALUE = EvaluationFault("optional.none() dereference")


def _value(value: Optional) -> Any:
    return value.value if value.present else _NO_VALUE


def _non_zero(value: Any) -> Optional:
    zero = value is None or (type(value) in (bool, int, float, str, bytes) and not value)
    if isinstance(value, (list, dict)) or type_name(value) == "uint":
        zero = not value
    elif type_name(value) == "google.protobuf.Duration":
        zero = value.nanos == 0
    elif type(value) is Timestamp:
        zero = value.nanos == -62135596800 * 10**9
    return NONE if zero else Optional(value)


def _last(values: list[Any]) -> Optional:
    return Optional(values[-1]) if values else NONE


def _first(values: list[Any]) -> Optional:
    return Optional(values[0]) if values else NONE


def _unwrapped(values: list[Any]) -> Any:
    for value in values:
        if type(value) is not Optional:
            shown = double_text(value) if type(value) is float else value
            return EvaluationFault(f"value {shown} is not optional")
    return [value.value for value in values if value.present]


OPTIONALS = Library(
    declared="""
        or optional_or_optional optional<V>.(optional<V>) -> optional<V>
        orValue optional_orValue_value optional<V>.(V) -> V
        _[?_] list_optindex_optional_int (list<V>, int) -> optional<V>
        _[?_] optional_list_optindex_optional_int (optional<list<V>>, int) -> optional<V>
        _[?_] map_optindex_optional_value (map<K, V>, K) -> optional<V>
        _[?_] optional_map_optindex_optional_value (optional<map<K, V>>, K) -> optional<V>
        _[_] optional_list_index_int (optional<list<V>>, int) -> optional<V>
        _[_] optional_map_index_value (optional<map<K, V>>, K) -> optional<V>
    """,
    functions={
        "optional.of optional_of (V) -> optional<V>": Optional,
        "optional.ofNonZeroValue optional_ofNonZeroValue (V) -> optional<V>": _non_zero,
        "optional.none optional_none () -> optional<V>": lambda: NONE,
        "value optional_value optional<V>.() -> V": _value,
        "hasValue optional_hasValue optional<V>.() -> bool": lambda value: value.present,
        "last list_last list<V>.() -> optional<V>": _last,
        "first list_first list<V>.() -> optional<V>": _first,
        "optional.unwrap optional_unwrap (list<optional<V>>) -> list<V>": _unwrapped,
        "unwrapOpt optional_unwrapOpt list<optional<V>>.() -> list<V>": _unwrapped,
    },
)
