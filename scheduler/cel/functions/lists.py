"""Lists: Kubernetes' own functions, the extension library (version 3) and sets."""

from __future__ import annotations

from collections.abc import Callable
from functools import cmp_to_key
from typing import Any

from scheduler.cel.evaluation.values import (
    NO_OVERLOAD,
    Duration,
    EvaluationFault,
    UInt,
    compare,
    equal,
    type_of,
)
from scheduler.cel.functions.arithmetic import ARITHMETIC, LARGEST, TOO_LARGE
from scheduler.cel.library import Library

_COMPARABLE = ["int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes"]
_SUMMABLE = ["int", "uint", "double", "duration"]
_ZEROS: dict[str, Any] = {"int": 0, "uint": UInt(0), "double": 0.0, "duration": Duration(0)}
# The extension library names overloads by the full names of types.
_FULL_NAMES = {"duration": "google.protobuf.Duration", "timestamp": "google.protobuf.Timestamp"}

_add = ARITHMETIC.whole["_+_"]


def _is_sorted(values: list[Any]) -> Any:
    previous: Any = None
    for index, value in enumerate(values):
        if compare(value, value) is None:
            return NO_OVERLOAD
        if index and compare(previous, value) == 1:
            return False
        previous = value
    return True


def _sum_from(zero: Any) -> Callable[[list[Any]], Any]:
    def call(values: list[Any]) -> Any:
        total = zero
        for value in values:
            total = _add(total, value)
            if type(total) is EvaluationFault:
                return total if total is not NO_OVERLOAD else NO_OVERLOAD
        return total

    return call


def _extreme(name: str, preferred: int) -> Callable[[list[Any]], Any]:
    def call(values: list[Any]) -> Any:
        if not values:
            return EvaluationFault(f"{name} called on empty list")
        best = values[0]
        for value in values:
            if compare(value, value) is None:
                return NO_OVERLOAD
            if compare(value, best) == preferred:
                best = value
        return best

    return call


def _index_of(values: list[Any], wanted: Any) -> int:
    return next((i for i, value in enumerate(values) if equal(value, wanted) is True), -1)


def _last_index_of(values: list[Any], wanted: Any) -> int:
    for index in range(len(values) - 1, -1, -1):
        if equal(values[index], wanted) is True:
            return index
    return -1


def _slice(values: list[Any], start: int, end: int) -> Any:
    if start < 0 or end < 0:
        return EvaluationFault(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        return EvaluationFault(
            f"cannot slice({start}, {end}), start index must be less than or equal to end index"
        )
    if len(values) < end:
        return EvaluationFault(f"cannot slice({start}, {end}), list is length {len(values)}")
    return values[start:end]


def _flatten(values: list[Any], depth: int = 1) -> Any:
    """Return the elements of lists within, `depth` levels down."""
    if depth < 0:
        return EvaluationFault("level must be non-negative")
    flat = list(values)
    while depth > 0 and any(isinstance(value, list) for value in flat):
        if sum(len(v) if isinstance(v, list) else 1 for v in flat) > LARGEST:
            return TOO_LARGE
        flat = [e for value in flat for e in (value if isinstance(value, list) else (value,))]
        depth -= 1
    return flat


def _sort_by_keys(values: list[Any], keys: list[Any]) -> Any:
    if len(values) != len(keys):
        return EvaluationFault(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, "
            f"but got {len(values)} and {len(keys)} elements respectively"
        )
    if not values:
        return values
    if compare(keys[0], keys[0]) is None:
        return EvaluationFault("list elements must be comparable")
    first = type_of(keys[0])
    if len(keys) > 1 and any(type_of(key) is not first for key in keys):
        return EvaluationFault("list elements must have the same type")
    pairs = zip(keys, values, strict=True)
    by_key = cmp_to_key(_order_of_pairs)
    in_order = sorted(pairs, key=by_key)
    return [value for _key, value in in_order]


def _flatten_any(values: Any, depth: Any = 1) -> Any:
    if isinstance(values, list) and type(depth) is int:
        return _flatten(values, depth)
    return EvaluationFault(f"no such overload: {type_of(values).name}.flatten()")


def _order_of_pairs(first: tuple[Any, Any], second: tuple[Any, Any]) -> int:
    return _order(first[0], second[0])


def _order(first: Any, second: Any) -> int:
    order = compare(first, second)
    return order if type(order) is int else 0


def _sort(values: Any) -> Any:
    return _sort_by_keys(values, values) if isinstance(values, list) else _unsortable("sort")


def _sort_associated(values: Any, keys: Any) -> Any:
    if not isinstance(values, list) or not isinstance(keys, list):
        return _unsortable("@sortByAssociatedKeys")
    return _sort_by_keys(values, keys)


def _unsortable(name: str) -> EvaluationFault:
    return EvaluationFault(f"no such overload: {name}")


def _range(count: int) -> Any:
    return list(range(max(count, 0))) if count <= LARGEST else TOO_LARGE


def _distinct(values: list[Any]) -> list[Any]:
    unique: list[Any] = []
    for value in values:
        if not any(equal(value, other) is True for other in unique):
            unique.append(value)
    return unique


def _contains(values: list[Any], wanted: list[Any]) -> bool:
    return all(any(equal(w, value) is True for value in values) for w in wanted)


def _includes(values: Any, wanted: Any) -> bool:
    """Return whether a list contains a value, or a single value equals it."""
    candidates = values if isinstance(values, list) else [values]
    return any(equal(value, wanted) is True for value in candidates)


def _equivalent(first: list[Any], second: list[Any]) -> bool:
    return _contains(first, second) and _contains(second, first)


def _intersects(first: list[Any], second: list[Any]) -> bool:
    return any(equal(a, b) is True for a in first for b in second)


def _kubernetes() -> dict[str, Callable[..., Any]]:
    found: dict[str, Callable[..., Any]] = {}
    for kind in _COMPARABLE:
        found[f"isSorted list_{kind}_is_sorted_bool list<{kind}>.() -> bool"] = _is_sorted
        for name, preferred in (("max", 1), ("min", -1)):
            line = f"{name} list_{kind}_{name}_{kind} list<{kind}>.() -> {kind}"
            found[line] = _extreme(name, preferred)
    for kind in _SUMMABLE:
        found[f"sum list_{kind}_sum_{kind} list<{kind}>.() -> {kind}"] = _sum_from(_ZEROS[kind])
    found["indexOf list_a_index_of_int list<A>.(A) -> int"] = _index_of
    found["lastIndexOf list_a_last_index_of_int list<A>.(A) -> int"] = _last_index_of
    found["includes list_includes_dyn_dyn dyn.(dyn) -> bool"] = _includes
    return found


def _sorts() -> str:
    return "\n".join(
        f"sort list_{_FULL_NAMES.get(t, t)}_sort list<{t}>.() -> list<{t}>\n"
        f"@sortByAssociatedKeys list_{_FULL_NAMES.get(t, t)}_sortByAssociatedKeys "
        f"list<T>.(list<{t}>) -> list<T>"
        for t in _COMPARABLE
    )


KUBERNETES_LISTS = Library(_kubernetes())

EXTENDED_LISTS = Library(
    declared=_sorts(),
    functions={
        "slice list_slice list<T>.(int, int) -> list<T>": _slice,
        "flatten list_flatten list<list<T>>.() -> list<T>": _flatten_any,
        "flatten list_flatten_int list<dyn>.(int) -> list<dyn>": _flatten_any,
        "lists.range lists_range (int) -> list<int>": _range,
        "reverse list_reverse list<T>.() -> list<T>": lambda values: values[::-1],
        "distinct list_distinct list<T>.() -> list<T>": _distinct,
        "sets.contains list_sets_contains_list (list<T>, list<T>) -> bool": _contains,
        "sets.equivalent list_sets_equivalent_list (list<T>, list<T>) -> bool": _equivalent,
        "sets.intersects list_sets_intersects_list (list<T>, list<T>) -> bool": _intersects,
    },
    whole={"sort": _sort, "@sortByAssociatedKeys": _sort_associated},
    unguarded=frozenset({"flatten"}),
)
