"""The cost of a call at evaluation, in CEL's cost units: the figures of cel-go and kube-apiserver.

The cost depends on the arguments and the result. If it depends on the arguments alone, the planner
computes it before the call, so that a call above the limit is never run.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from scheduler.cel.checking import types
from scheduler.cel.evaluation.quantity import Quantity
from scheduler.cel.evaluation.semver import Version
from scheduler.cel.evaluation.values import Opaque, Optional, size_of, type_of
from scheduler.cel.evaluation.work import WORK_BUDGET
from scheduler.cel.functions.names import NamedFormat

COST_LIMIT = 1_000_000
TRAVERSAL = 0.1
REGEX = 0.25
LIST_COST = 10
MAP_COST = 30
MESSAGE_COST = 40
CHECK_COST = 350_000  # of authorization, which selectors do not have

Args = tuple[Any, ...]


class CallCost(NamedTuple):
    """How to reckon the cost of a call; `after` if it needs the result."""

    reckon: Callable[[Args, Any], int]
    after: bool = False


def _size(value: Any) -> int:
    """Return the size that Kubernetes' library sees: an optional has none."""
    return 1 if type(value) is Optional else size_of(value)


def _walked(size: int, factor: float = TRAVERSAL) -> int:
    return math.ceil(size * factor)


def _traversal(value: Any) -> int:
    WORK_BUDGET.spend(1)
    if type(value) is str:
        return int(len(value.encode("utf-8", "surrogatepass")) * TRAVERSAL)
    if type(value) is bytes:
        return int(len(value) * TRAVERSAL)
    if isinstance(value, list):
        return sum(map(_traversal, value))
    if isinstance(value, dict):
        return sum(_traversal(key) + _traversal(item) for key, item in value.items())
    return 1


def _of_first(factor: float) -> CallCost:
    return CallCost(lambda args, _result: _walked(_size(args[0]), factor))


def _pattern(args: Args, _result: Any) -> int:
    return math.ceil((1.0 + _size(args[0])) * TRAVERSAL) * _walked(_size(args[1]), REGEX)


def _validate(args: Args, _result: Any) -> int:
    known = args[0].value if type(args[0]) is Opaque else None
    if not isinstance(known, NamedFormat):
        return 1
    text = math.ceil((1.0 + _size(args[1])) * TRAVERSAL)
    return text * _walked(known.regex_size, REGEX)


def _contains_ip(args: Args, _result: Any) -> int:
    own = _size(args[0])
    return _walked(own + own) + (_walked(_size(args[1])) if type(args[1]) is str else 0)


def _contains_cidr(args: Args, _result: Any) -> int:
    own = _size(args[0])
    return _contains_ip(args, None) + _walked(own) + 1


def _self_compare(values: Any) -> int:
    if not isinstance(values, list):
        return 1
    factor = 2.0
    if values and type(values[0]) in (str, bytes):
        factor += TRAVERSAL
    return int(len(values) ** 2 * factor) + 1 + LIST_COST


def _flatten(args: Args, _result: Any) -> int:
    depth = args[1] if len(args) == 2 and type(args[1]) is int else 1
    return (int(size_of(args[0]) * float(depth)) + 1 + LIST_COST) % 2**64


def _sets(factor: float) -> CallCost:
    return CallCost(lambda args, _result: 1 + int(size_of(args[0]) * size_of(args[1]) * factor))


def _smaller(args: Args, _result: Any) -> int:
    return _walked(min(size_of(args[0]), size_of(args[1])))


_UNIT_EQUAL = (types.IP, types.CIDR, types.URL, types.FORMAT)


def _equals(args: Args, _result: Any) -> int:
    first = args[0]
    if type(first) in (Quantity, Version) or (
        type(first) is Opaque and type_of(first) in _UNIT_EQUAL
    ):
        return 1
    return _smaller(args, None)


ONE = CallCost(lambda _args, _result: 1)
_output = CallCost(lambda _args, result: size_of(result) + 1 + LIST_COST, after=True)

_BY_OVERLOAD: dict[str, CallCost] = {
    "list_slice": _output,
    "list_flatten": CallCost(_flatten),
    "list_flatten_int": CallCost(_flatten),
    "lists_range": _output,
    "list_reverse": _output,
    "list_distinct": CallCost(lambda args, _result: _self_compare(args[0])),
    "list_sets_contains_list": _sets(1),
    "list_sets_intersects_list": _sets(1),
    "list_sets_equivalent_list": _sets(2),
}
_BY_FUNCTION: dict[str, CallCost] = {
    **dict.fromkeys(
        ("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf", "includes"),
        CallCost(lambda args, _result: _traversal(args[0])),
    ),
    **dict.fromkeys(
        ("url", "lowerAscii", "upperAscii", "substring", "trim", "cidr", "isIP", "isCIDR"),
        _of_first(TRAVERSAL),
    ),
    **dict.fromkeys(("quantity", "isQuantity", "semver", "isSemver"), _of_first(TRAVERSAL)),
    **dict.fromkeys(("replace", "split", "ip.isCanonical"), _of_first(2 * TRAVERSAL)),
    "join": CallCost(lambda _args, result: _walked(_size(result), 2 * TRAVERSAL), after=True),
    "find": CallCost(_pattern),
    "findAll": CallCost(_pattern),
    "ip": _of_first(TRAVERSAL),
    "check": CallCost(lambda _args, _result: CHECK_COST),
    "containsIP": CallCost(_contains_ip),
    "containsCIDR": CallCost(_contains_cidr),
    "validate": CallCost(_validate),
    "_==_": CallCost(_equals),
}
_DEFAULT: dict[str, CallCost] = {
    **dict.fromkeys(
        (
            "starts_with_string",
            "ends_with_string",
            "string_to_bytes",
            "bytes_to_string",
            "strings_quote",
            "string_format",
        ),
        CallCost(lambda args, _result: _walked(size_of(args[0]))),
    ),
    "in_list": CallCost(lambda args, _result: size_of(args[1])),
    **dict.fromkeys(
        [
            f"{word}_{kind}"
            for word in ("less", "less_equals", "greater", "greater_equals")
            for kind in ("string", "bytes")
        ],
        CallCost(_smaller),
    ),
    "not_equals": CallCost(_smaller),
    **dict.fromkeys(
        ("add_string", "add_bytes"),
        CallCost(lambda args, _result: _walked(size_of(args[0]) + size_of(args[1]))),
    ),
    "matches_string": CallCost(
        lambda args, _result: (
            math.ceil((1.0 + size_of(args[0])) * TRAVERSAL) * _walked(size_of(args[1]), REGEX)
        )
    ),
    "contains_string": CallCost(
        lambda args, _result: _walked(size_of(args[0])) * _walked(size_of(args[1]))
    ),
}


def call_cost(function: str, overload: str) -> CallCost:
    """Return how a call costs; `overload` is empty where the types left several to choose from."""
    if overload in _BY_OVERLOAD:
        return _BY_OVERLOAD[overload]
    if overload.endswith("_sort"):
        return CallCost(lambda args, _result: _self_compare(args[0]))
    if overload.endswith("_sortByAssociatedKeys"):
        return CallCost(lambda args, _result: _self_compare(args[1]))
    if overload == "cidr_ip":
        return ONE
    return _BY_FUNCTION.get(function) or _DEFAULT.get(overload, ONE)
