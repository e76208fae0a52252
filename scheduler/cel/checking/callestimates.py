"""The worst-case cost of calls, and the largest size of their results: figures of cel-go and
kube-apiserver.

An estimator receives the known sizes of target and arguments and returns (cost, size of the result
or None), without the cost of the arguments themselves; None if it has no figure of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from scheduler.cel.checking import types
from scheduler.cel.checking.ranges import MOST, UNKNOWN, Range, fixed
from scheduler.cel.checking.types import Type
from scheduler.cel.evaluation.costs import CHECK_COST, LIST_COST, REGEX, TRAVERSAL
from scheduler.cel.parsing.syntax import Literal, SyntaxNode

Estimate = tuple[Range, Range | None]
_ONE = fixed(1)
_LONGEST_FORMAT = 64
_LARGEST_FORMAT_REGEX = 128


class Argument:
    """A target or an argument: its node, its type, and how large it may be."""

    __slots__ = ("items", "known", "node", "type")

    def __init__(self, node: SyntaxNode, known: Range | None, items: Range | None) -> None:
        self.node = node
        self.type = node.type
        self.known = known
        self.items = items

    @property
    def size(self) -> Range:
        """Return the size, an unknown one if there is no estimate."""
        return UNKNOWN if self.known is None else self.known


Estimator = Callable[[Argument | None, list[Argument]], Estimate | None]


def _int_literal(argument: Argument, default: int) -> int:
    node = argument.node
    if type(node) is Literal and type(node.value) is int:
        return max(node.value, 0)
    return default


def _allocating(factor: float, size: Range) -> Estimate:
    return size.scaled(factor).plus(_ONE).plus(fixed(LIST_COST)), size


def _slice(target: Argument | None, args: list[Argument]) -> Estimate | None:
    if target is None or len(args) != 2:
        return None
    start = _int_literal(args[0], 0)
    end = _int_literal(args[1], target.size.most)
    return _allocating(1, fixed((end - start) % 2**64))


def _range(target: Argument | None, args: list[Argument]) -> Estimate | None:
    if target is not None or len(args) != 1:
        return None
    return _allocating(1, fixed(_int_literal(args[0], MOST)))


def _reverse(target: Argument | None, _args: list[Argument]) -> Estimate | None:
    return None if target is None else _allocating(1, target.size)


def _flatten(target: Argument | None, args: list[Argument]) -> Estimate | None:
    if target is None:
        return None
    return _allocating(float(_int_literal(args[0], MOST)) if args else 1.0, target.size)


def _distinct(target: Argument | None, _args: list[Argument]) -> Estimate | None:
    return None if target is None else _allocating(2.0, target.size.times(target.size))


def _sorting(name: str, *, by_keys: bool) -> Estimator:
    factor = 2.0 + (TRAVERSAL if name in ("string", "bytes") else 0.0)

    def estimate(target: Argument | None, args: list[Argument]) -> Estimate | None:
        if target is None:
            return None
        size = (args[0] if by_keys else target).size
        return _allocating(factor, size.times(size))

    return estimate


def _sets(factor: float) -> Estimator:
    def estimate(_target: Argument | None, args: list[Argument]) -> Estimate | None:
        return args[0].size.times(args[1].size).scaled(factor).plus(_ONE), None

    return estimate


_BY_OVERLOAD: dict[str, Estimator] = {
    "list_slice": _slice,
    "list_flatten": _flatten,
    "list_flatten_int": _flatten,
    "lists_range": _range,
    "list_reverse": _reverse,
    "list_distinct": _distinct,
    "list_sets_contains_list": _sets(1),
    "list_sets_intersects_list": _sets(1),
    "list_sets_equivalent_list": _sets(2),
}


def _unit(_target: Argument | None, _args: list[Argument]) -> Estimate:
    return _ONE, None


def _aggregate(target: Argument | None, _args: list[Argument]) -> Estimate | None:
    if target is None:
        return None
    if not target.type.params:  # a string, for indexOf and lastIndexOf
        return target.size.scaled(TRAVERSAL), None
    each = _ONE
    if target.type.params[0].kind in ("string", "bytes"):
        each = each.plus((target.items or UNKNOWN).scaled(TRAVERSAL))
    return target.size.times(each), None


def _includes(target: Argument | None, args: list[Argument]) -> Estimate | None:
    if target is None or target.type.kind == "list":
        return _aggregate(target, args)
    return target.size, None  # at run time it may be a list


def _same_size(target: Argument | None, _args: list[Argument]) -> Estimate | None:
    if target is None:
        return None
    return target.size.scaled(TRAVERSAL), target.size


def _url(_target: Argument | None, args: list[Argument]) -> Estimate | None:
    return (args[0].size.scaled(TRAVERSAL), args[0].size) if len(args) == 1 else None


def _read_text(factor: float) -> Estimator:
    def estimate(_target: Argument | None, args: list[Argument]) -> Estimate | None:
        return (args[0].size.scaled(factor), None) if args else None

    return estimate


def _replace(target: Argument | None, args: list[Argument]) -> Estimate | None:
    if target is None or len(args) < 2:
        return None
    size, old, new = target.size, args[0].size, args[1].size
    most_count = most_kept = least_count = least_kept = 0
    if old.least == 0:
        most_count, most_kept = min(size.most + 1, MOST), size.most
    elif new.most <= old.least:
        most_kept = size.most
    else:
        most_count = math.ceil(float(size.most) / float(old.least))
    if old.most == 0:
        least_count, least_kept = min(size.least + 1, MOST), size.least
    elif old.most <= new.least:
        least_kept = size.least
    else:
        least_count = math.ceil(float(size.least) / float(old.most))
    counts = Range(least_count, min(most_count, MOST))
    result = counts.times(new).plus(Range(least_kept, most_kept))
    return size.scaled(2 * TRAVERSAL), result


def _split(target: Argument | None, args: list[Argument]) -> Estimate | None:
    if target is None:
        return None
    most = target.size.most
    if len(args) > 1:
        node = args[1].node
        if type(node) is Literal and type(node.value) is int:
            most = node.value % 2**64
    return target.size.scaled(2 * TRAVERSAL), Range(0, most)


def _join(target: Argument | None, args: list[Argument]) -> Estimate | None:
    if target is None:
        return None
    size = Range(0, 0)
    if target.type.params:
        size = target.size.times(target.items or UNKNOWN)
    if args:
        between = Range(max(target.size.least - 1, 0), max(target.size.most - 1, 0))
        size = size.plus(args[0].size.times(between))
    return size.scaled(TRAVERSAL), size


def _find(target: Argument | None, args: list[Argument]) -> Estimate | None:
    if target is None or not args:
        return None
    text = target.size.plus(_ONE).scaled(TRAVERSAL)
    return text.times(args[0].size.scaled(REGEX)), Range(0, target.size.most)


def _validate(_target: Argument | None, args: list[Argument]) -> Estimate | None:
    if not args:
        return None
    return args[0].size.scaled(TRAVERSAL).scaled(_LARGEST_FORMAT_REGEX * REGEX), None


def _contains_ip(_target: Argument | None, args: list[Argument]) -> Estimate | None:
    cost = Range(8, 32).scaled(TRAVERSAL)
    return (cost.plus(args[0].size.scaled(TRAVERSAL)) if _is_text(args) else cost), None


def _contains_cidr(_target: Argument | None, args: list[Argument]) -> Estimate | None:
    cost = Range(8, 32).scaled(TRAVERSAL).plus(Range(4, 16).scaled(TRAVERSAL)).plus(_ONE)
    return (cost.plus(args[0].size.scaled(TRAVERSAL)) if _is_text(args) else cost), None


def _is_text(args: list[Argument]) -> bool:
    return bool(args) and args[0].type.kind == "string"


_UNITS = (types.QUANTITY, types.SEMVER, types.IP, types.CIDR)


def _equals(_target: Argument | None, args: list[Argument]) -> Estimate | None:
    first, second = args
    if first.type.name != second.type.name:
        return None
    name = first.type.name
    if any(name == kind.name for kind in _UNITS):
        return _ONE, None
    if name == types.FORMAT.name:
        return Range(1, _LONGEST_FORMAT).scaled(TRAVERSAL), None
    if name == types.URL.name:
        most = second.known.most if second.known is not None else 1
        return Range(1, most).scaled(TRAVERSAL), None
    return None


_BY_FUNCTION: dict[str, Estimator] = {
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _aggregate),
    "includes": _includes,
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _same_size),
    **dict.fromkeys(("cidr", "isIP", "isCIDR", "ip"), _read_text(TRAVERSAL)),
    **dict.fromkeys(("quantity", "isQuantity", "semver", "isSemver"), _read_text(TRAVERSAL)),
    **dict.fromkeys(
        (
            *("masked", "prefixLength", "family", "isUnspecified", "isLoopback"),
            *("isLinkLocalMulticast", "isLinkLocalUnicast", "isGlobalUnicast", "format.named"),
            *("sign", "asInteger", "isInteger", "asApproximateFloat", "isGreaterThan"),
            *("isLessThan", "compareTo", "add", "sub", "major", "minor", "patch"),
            *("getScheme", "getHostname", "getHost", "getPort", "getEscapedPath", "getQuery"),
        ),
        _unit,
    ),
    "check": lambda _target, _args: (fixed(CHECK_COST), None),
    "ip.isCanonical": _read_text(2 * TRAVERSAL),
    "url": _url,
    "replace": _replace,
    "split": _split,
    "join": _join,
    "find": _find,
    "findAll": _find,
    "validate": _validate,
    "containsIP": _contains_ip,
    "containsCIDR": _contains_cidr,
    "_==_": _equals,
}


def _format(target: Argument | None, _args: list[Argument]) -> Estimate | None:
    return None if target is None else (target.size.scaled(TRAVERSAL), None)


def _to_bytes(_target: Argument | None, args: list[Argument]) -> Estimate:
    size = args[0].size
    return size.scaled(TRAVERSAL), Range(size.least, size.most * 4 % 2**64)


def _to_string(_target: Argument | None, args: list[Argument]) -> Estimate:
    size = args[0].size
    return size.scaled(TRAVERSAL), Range(size.least // 4, size.most)


def _quote(_target: Argument | None, args: list[Argument]) -> Estimate:
    size = args[0].size
    return size.scaled(TRAVERSAL), Range((size.least + 2) % 2**64, (size.most * 2 + 2) % 2**64)


def _matches(target: Argument | None, args: list[Argument]) -> Estimate | None:
    if target is None or len(args) != 1:
        return None
    text = target.size.plus(_ONE).scaled(TRAVERSAL)
    return text.times(args[0].size.scaled(REGEX)), None


def _contains(target: Argument | None, args: list[Argument]) -> Estimate | None:
    if target is None or len(args) != 1:
        return None
    return target.size.scaled(TRAVERSAL).times(args[0].size.scaled(TRAVERSAL)), None


def _smaller(_target: Argument | None, args: list[Argument]) -> Estimate:
    most = min(args[0].size.most, args[1].size.most)
    return Range(min(most, 1), most).scaled(TRAVERSAL), None


_BUILT_IN: dict[str, Estimator] = {
    "string_format": _format,
    "string_to_bytes": _to_bytes,
    "bytes_to_string": _to_string,
    "strings_quote": _quote,
    "starts_with_string": _read_text(TRAVERSAL),
    "ends_with_string": _read_text(TRAVERSAL),
    "in_list": lambda _target, args: (args[1].size.scaled(1), None),
    "matches_string": _matches,
    "contains_string": _contains,
    **dict.fromkeys(
        [
            f"{word}_{kind}"
            for word in ("less", "less_equals", "greater", "greater_equals")
            for kind in ("string", "bytes")
        ],
        _smaller,
    ),
    "equals": _smaller,
    "not_equals": _smaller,
}


def estimator(function: str, overload: str) -> Estimator:
    """Return how a call is estimated if this overload serves it."""
    if overload in _BY_OVERLOAD:
        return _BY_OVERLOAD[overload]
    if overload == "cidr_ip":
        return _unit
    for ending, by_keys in (("_sort", False), ("_sortByAssociatedKeys", True)):
        if overload.endswith(ending):
            return _sorting(overload.split("_")[1], by_keys=by_keys)
    first = _BY_FUNCTION.get(function)
    second = _BUILT_IN.get(overload, _unit)

    def estimate(target: Argument | None, args: list[Argument]) -> Estimate:
        found: Any = first(target, args) if first is not None else None
        return found or second(target, args) or (_ONE, None)

    return estimate


def result_type(kind: Type) -> Range | None:
    """Return the size of values of a type that all have the same."""
    if kind.kind in ("bool", "double", "duration", "int", "timestamp", "uint"):
        return _ONE
    inner, is_optional = types.unwrapped(kind)
    return result_type(inner) if is_optional else None
