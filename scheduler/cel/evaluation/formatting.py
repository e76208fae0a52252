"""`format`: text with clauses such as `%s`, `%d`, `%.2f`, filled from a list."""

import math
from collections.abc import Callable, Iterator
from typing import Any

from scheduler.cel.checking.types import Type
from scheduler.cel.evaluation.gotext import quoted
from scheduler.cel.evaluation.timetext import duration_text, timestamp_text
from scheduler.cel.evaluation.values import (
    Duration,
    EvaluationFault,
    Timestamp,
    UInt,
    double_text,
    elements,
    find,
    type_name,
)
from scheduler.cel.functions.arithmetic import LARGEST, TOO_LARGE

_PRECISION = 6
_SUPERSCRIPT = dict(
    zip("-0123456789", "\u207b\u2070\xb9\xb2\xb3\u2074\u2075\u2076\u2077\u2078\u2079", strict=True)
)
_MOST_PRECISION = 1000

STRING_WRONG = (
    "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, "
    "durations, and timestamps, was given "
)
WRONG = {
    "s": STRING_WRONG,
    "d": "decimal clause can only be used on integers, was given ",
    "f": "fixed-point clause can only be used on doubles, was given ",
    "e": "scientific clause can only be used on doubles, was given ",
    "b": "only integers and bools can be formatted as binary, was given ",
    "x": "only integers, byte buffers, and strings can be formatted as hex, was given ",
    "X": "only integers, byte buffers, and strings can be formatted as hex, was given ",
    "o": "octal clause can only be used on integers, was given ",
}


class FormatError(ValueError):
    """An invalid clause of a format string, or a value that a clause cannot format."""


def formatted(template: str, values: list[Any]) -> Any:
    """Return the template with its clauses replaced by values, or a Fault if one cannot be
    formatted.
    """
    parts: list[str] = []
    try:
        for number, (literal, clause, precision) in enumerate(clauses(template, len(values))):
            parts.append(literal)
            if clause:
                parts.append(_shown(clause, precision, values[number]))
            if sum(map(len, parts)) > LARGEST:
                return TOO_LARGE
    except FormatError as error:
        return EvaluationFault(str(error))
    return "".join(parts)


def clauses(template: str, count: int) -> Iterator[tuple[str, str, int | None]]:
    """Yield the parts of a template: text, the clause after it, its precision; FormatError."""
    found = at = 0
    literal = ""
    while at < len(template):
        sign = template[at]
        at += 1
        if sign != "%":
            literal += sign
            continue
        if template[at : at + 1] == "%":
            literal += "%"
            at += 1
            continue
        if found >= count:
            raise FormatError(f"index {found} out of range")
        if at >= len(template):
            raise FormatError("unexpected end of string")
        precision, at = _precision(template, at)
        letter = template[at : at + 1]
        if letter not in WRONG or not letter:
            raise FormatError(
                f'could not parse formatting clause: unrecognized formatting clause "{letter}"'
            )
        yield literal, letter, precision
        found += 1
        literal = ""
        at += 1
    yield literal, "", None


def _precision(template: str, at: int) -> tuple[int | None, int]:
    if template[at] != ".":
        return None, at
    end = at + 1
    while end < len(template) and "0" <= template[end] <= "9":
        end += 1
    head = "could not parse formatting clause: error while parsing precision: "
    if end >= len(template):
        raise FormatError(head + "could not find end of precision specifier")
    digits = template[at + 1 : end]
    if not digits:
        raise FormatError(
            head + 'error while converting precision to integer: strconv.Atoi: parsing "": '
            "invalid syntax"
        )
    return min(int(digits[:6]), _MOST_PRECISION), end


def _shown(clause: str, precision: int | None, value: Any) -> str:
    text = _CLAUSES[clause](value, _PRECISION if precision is None else precision)
    if text is None:
        raise FormatError(f"error during formatting: {WRONG[clause]}{type_name(value)}")
    return text


def _string(value: Any, _precision: int = 0) -> str | None:
    if isinstance(value, list):
        return f"[{', '.join(map(_inner, value))}]"
    if isinstance(value, dict):
        pairs = sorted(
            (_inner_key(key), _inner(find(value, key)[0])) for key in elements(value) or ()
        )
        return "{" + ", ".join(f"{key}:{item}" for key, item in pairs) + "}"
    kind = type(value)
    if kind is str:
        return str(value)
    if value is None:
        return "null"
    if kind is bytes:
        return _utf8(value)
    return _scalar(value)


def _utf8(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise FormatError(
            "error during formatting: could not convert argument "
            '"invalid UTF-8 in bytes, cannot convert to string" to string'
        ) from None


def _scalar(value: Any) -> str | None:
    kind = type(value)
    if kind is bool:
        return "true" if value else "false"
    if kind in (int, UInt):
        return str(int(value))
    if kind is float:
        return double_text(value)
    if kind is Duration:
        return duration_text(value.nanos)
    if kind is Timestamp:
        return timestamp_text(value.nanos)
    return value.name if kind is Type else None


def _inner(value: Any) -> str:
    """Return an element of a list or a value of a map as CEL would write it."""
    kind = type(value)
    if kind is str:
        return quoted(value)
    if kind is bytes:
        return "b" + quoted(_utf8(value))
    if kind is Duration:
        return f"duration({quoted(duration_text(value.nanos))})"
    if kind is Timestamp:
        return f"timestamp({quoted(timestamp_text(value.nanos))})"
    if kind is float:
        shown = _fixed_text(value, _PRECISION)
        return quoted(shown) if not math.isfinite(value) else shown
    text = _string(value)
    if text is None:
        raise FormatError(f"error during formatting: no formatting function for {type_name(value)}")
    return text


def _inner_key(key: Any) -> str:
    if type(key) not in (str, bool, int, UInt):
        raise FormatError(
            f"error during formatting: no formatting function for map key of type {type_name(key)}"
        )
    return _inner(key)


def _decimal(value: Any, _precision: int) -> str | None:
    return str(int(value)) if type(value) in (int, UInt) else None


def _float_of(value: Any) -> float | None:
    if type(value) is float:
        return value
    if value in ("NaN", "Infinity", "-Infinity") and type(value) is str:
        return float(value)
    return None


def _fixed_text(value: float, precision: int) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return f"{value:.{precision}f}"


def _fixed(value: Any, precision: int) -> str | None:
    number = _float_of(value)
    if number is None:
        return None
    if not math.isfinite(number):
        return "NaN" if math.isnan(number) else "\u221e" if number > 0 else "-\u221e"
    return f"{number:,.{precision}f}"


def _scientific(value: Any, width: int) -> str | None:
    """Return a number in powers of ten; the precision is the width, as upstream."""
    number = _float_of(value)
    if number is None:
        return None
    if not math.isfinite(number):
        return "NaN" if math.isnan(number) else f"{'' if number > 0 else '-'}\u221e\xd710\u2070"
    mantissa, _, exponent = f"{number:.{_PRECISION}e}".partition("e")
    raised = "".join(_SUPERSCRIPT[sign] for sign in exponent.lstrip("+"))
    return f"{mantissa}\xd710{raised}".rjust(width)


def _binary(value: Any, _precision: int) -> str | None:
    return f"{value:b}" if type(value) in (int, UInt, bool) else None


def _octal(value: Any, _precision: int) -> str | None:
    return f"{value:o}" if type(value) in (int, UInt) else None


def _hex(value: Any, _precision: int) -> str | None:
    if type(value) in (int, UInt):
        return f"{value:x}"
    if type(value) is str:
        return value.encode("utf-8", "surrogatepass").hex()
    return value.hex() if type(value) is bytes else None


def _upper_hex(value: Any, precision: int) -> str | None:
    shown = _hex(value, precision)
    return None if shown is None else shown.upper()


_CLAUSES: dict[str, Callable[[Any, int], str | None]] = {
    "s": _string,
    "d": _decimal,
    "f": _fixed,
    "e": _scientific,
    "b": _binary,
    "x": _hex,
    "X": _upper_hex,
    "o": _octal,
}
