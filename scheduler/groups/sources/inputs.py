"""Strict parsing of a ConfigMap's keys: errors name the key.

An unknown key or level, invalid JSON or a wrong type raises ObjectError, and the caller blocks the
group with that message. Pure; sizes are bounded, as any user may write a ConfigMap.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec

from scheduler.base.errors import ObjectError
from scheduler.base.text import did_you_mean

LONGEST_TEXT = 1 << 20
# A rule is short; any user may write a long one, in ten thousand groups.
LONGEST_RULES = 1 << 16
MOST_LEVELS = 16
LONGEST_NAMED, LONGEST_LIST = 60, 400
LARGEST_NUMBER = (1 << 31) - 1


def json_object(data: Mapping[str, str], key: str, longest: int = LONGEST_RULES) -> dict[str, Any]:
    """Return the JSON object under `key`; ObjectError names the key."""
    found = parsed(data, key, longest)
    if not isinstance(found, dict):
        raise ObjectError(f"data.{key}: a JSON object is needed, not {kind_of(found)}")
    return found


def json_names(data: Mapping[str, str], key: str) -> tuple[str, ...]:
    """Return the JSON array of distinct, non-empty texts under `key`; ObjectError names the key."""
    found = parsed(data, key)
    if not isinstance(found, list) or not all(isinstance(one, str) and one for one in found):
        raise ObjectError(f'data.{key}: a JSON array of names is needed, like ["rack", "node"]')
    if len(set(found)) < len(found):
        raise ObjectError(f"data.{key}: a name stands there twice")
    return tuple(found)


def parsed(data: Mapping[str, str], key: str, longest: int = LONGEST_RULES) -> Any:
    """Return the JSON under `key`, of `longest` characters at most; ObjectError names the key and
    the place.
    """
    text = data.get(key, "")
    if not text.strip():
        raise ObjectError(f"data.{key} is missing")
    if len(text) > longest:
        raise ObjectError(f"data.{key} is longer than {longest} characters")
    try:
        return msgspec.json.decode(text.encode("utf-8", "surrogateescape"))
    except (msgspec.DecodeError, UnicodeError) as error:
        raise ObjectError(f"data.{key} is no JSON: {error}") from error
    except RecursionError:
        raise ObjectError(f"data.{key} is nested too deeply") from None


def whole_number(data: Mapping[str, str], key: str, default: int, *, least: int) -> int:
    """Return the decimal number under `key`, `default` if it is absent or empty."""
    text = data.get(key, "").strip()
    if not text:
        return default
    digits = text[1:] if text[0] in "+-" else text
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 10):
        raise ObjectError(f'data.{key}: "{text[:40]}" is no whole number')
    number = int(text)
    check_between(number, least, LARGEST_NUMBER, f"data.{key}")
    return number


def json_number(found: Any, least: int, most: int, where: str) -> int:
    """Return a number of JSON between `least` and `most`; ObjectError names the place."""
    if isinstance(found, bool) or not isinstance(found, int):
        raise ObjectError(f"{where}: a whole number is needed, not {kind_of(found)}")
    check_between(found, least, most, where)
    return found


def check_between(number: int, least: int, most: int, where: str) -> None:
    """Check that a number is between `least` and `most`, both included; ObjectError names the
    place.
    """
    if not least <= number <= most:
        raise ObjectError(f"{where}: {number} is not between {least} and {most}")


def known(found: Iterable[str], allowed: Iterable[str], where: str) -> None:
    """Check that all names in `found` are among `allowed`; ObjectError states the first unknown
    one.
    """
    names = tuple(allowed)
    for one in found:
        if one not in names:
            listed = ", ".join(names)
            meant = did_you_mean(one, names) if len(one) <= LONGEST_NAMED else ""
            raise ObjectError(
                f'{where}: "{one:.{LONGEST_NAMED}}" is not known{meant} (known: '
                f"{listed:.{LONGEST_LIST}})"
            )


def check_count(found: Collection[Any], most: int, where: str, what: str) -> None:
    """Check that a list is not too long before its entries are read; ObjectError names the
    place.
    """
    if len(found) > most:
        raise ObjectError(f"{where}: {len(found)} {what} are more than {most}")


def kind_of(value: Any) -> str:
    """Return the JSON type of a value."""
    if value is None:
        return "null"
    for kind, name in (
        (bool, "a boolean"),
        (str, "a text"),
        (list, "an array"),
        (dict, "an object"),
    ):
        if isinstance(value, kind):
            return name
    return "a number"
