"""Strings: the standard functions, the extension library (version 2) and Kubernetes' `find`."""

from typing import Any

from scheduler.cel.evaluation.formatting import formatted
from scheduler.cel.evaluation.regex import Regex, RegexError
from scheduler.cel.evaluation.values import NO_OVERLOAD, EvaluationFault, shown_value
from scheduler.cel.functions.arithmetic import LARGEST, TOO_LARGE
from scheduler.cel.library import Library

# The characters that Go's strings.TrimSpace removes.
_SPACE = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_UPPER = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}
_ESCAPES = {
    ord("\a"): "\\a",
    ord("\b"): "\\b",
    ord("\f"): "\\f",
    ord("\n"): "\\n",
    ord("\r"): "\\r",
    ord("\t"): "\\t",
    ord("\v"): "\\v",
    ord("\\"): "\\\\",
    ord('"'): '\\"',
}


def _out_of_range(index: int) -> EvaluationFault:
    return EvaluationFault(f"index out of range: {index}")


def _contains(text: Any, part: Any) -> Any:
    return part in text if type(text) is str and type(part) is str else NO_OVERLOAD


def _starts_with(text: Any, part: Any) -> Any:
    return text.startswith(part) if type(text) is str and type(part) is str else NO_OVERLOAD


def _ends_with(text: Any, part: Any) -> Any:
    return text.endswith(part) if type(text) is str and type(part) is str else NO_OVERLOAD


def _matches(text: Any, pattern: Any) -> Any:
    if type(text) is not str:
        return EvaluationFault("no such overload: matches")
    if type(pattern) is not str:
        return NO_OVERLOAD
    try:
        return Regex.compiled(pattern).matches(text)
    except RegexError as error:
        return EvaluationFault(str(error))


def _char_at(text: str, index: int) -> Any:
    if not 0 <= index <= len(text):
        return _out_of_range(index)
    return text[index : index + 1]


def _index_of(text: str, part: str, start: int = 0) -> Any:
    if not part:
        return start
    if start < 0:
        return _out_of_range(start)
    return text.find(part, start) if start < len(text) else -1


def _last_index_of(text: str, part: str) -> Any:
    if not part:
        return len(text)
    if len(text) < len(part):
        return -1
    return text.rfind(part)


def _last_from(text: str, part: str, start: int) -> Any:
    if not part:
        return start
    if start < 0:
        return _out_of_range(start)
    return -1 if start >= len(text) else text.rfind(part, 0, start + len(part))


def _replace(text: str, old: str, new: str, count: int = -1) -> Any:
    most = text.count(old) if count < 0 else min(count, text.count(old))
    if len(text) + most * max(len(new) - len(old), 0) > LARGEST:
        return TOO_LARGE
    return text.replace(old, new, max(count, -1))


def _split(text: str, separator: str, count: int = -1) -> Any:
    if count == 0:
        return []
    if not separator:
        most = len(text) if count < 0 else min(count, len(text))
        return [*text[: most - 1], text[most - 1 :]] if text else []
    return text.split(separator, -1 if count < 0 else count - 1)


def _substring(text: str, start: int) -> Any:
    return text[start:] if 0 <= start <= len(text) else _out_of_range(start)


def _substring_between(text: str, start: int, end: int) -> Any:
    if start > end:
        return EvaluationFault(f"invalid substring range. start: {start}, end: {end}")
    if not 0 <= start <= len(text):
        return _out_of_range(start)
    return text[start:end] if 0 <= end <= len(text) else _out_of_range(end)


def _join(values: list[Any], separator: str = "") -> Any:
    for value in values:
        if type(value) is not str:
            return EvaluationFault(f"join: invalid input: {shown_value(value)}")
    if sum(map(len, values)) + len(separator) * len(values) > LARGEST:
        return TOO_LARGE
    return separator.join(values)


def _find(text: str, pattern: str) -> Any:
    try:
        return Regex.compiled(pattern).find(text)
    except RegexError as error:
        return EvaluationFault(f"Illegal regex: {error}")


def _find_all(text: str, pattern: str, count: int = -1) -> Any:
    try:
        return Regex.compiled(pattern).find_all(text, count)
    except RegexError as error:
        return EvaluationFault(f"Illegal regex: {error}")


TEXTS = Library(
    declared="""
        matches matches (string, string) -> bool
        matches matches_string string.(string) -> bool
    """,
    functions={
        "contains contains_string string.(string) -> bool": _contains,
        "endsWith ends_with_string string.(string) -> bool": _ends_with,
        "startsWith starts_with_string string.(string) -> bool": _starts_with,
        "charAt string_char_at_int string.(int) -> string": _char_at,
        "indexOf string_index_of_string string.(string) -> int": _index_of,
        "indexOf string_index_of_string_int string.(string, int) -> int": _index_of,
        "lastIndexOf string_last_index_of_string string.(string) -> int": _last_index_of,
        "lastIndexOf string_last_index_of_string_int string.(string, int) -> int": _last_from,
        "lowerAscii string_lower_ascii string.() -> string": lambda text: text.translate(_LOWER),
        "replace string_replace_string_string string.(string, string) -> string": _replace,
        "replace string_replace_string_string_int string.(string, string, int) -> string": _replace,
        "split string_split_string string.(string) -> list<string>": _split,
        "split string_split_string_int string.(string, int) -> list<string>": _split,
        "substring string_substring_int string.(int) -> string": _substring,
        "substring string_substring_int_int string.(int, int) -> string": _substring_between,
        "trim string_trim string.() -> string": lambda text: text.strip(_SPACE),
        "upperAscii string_upper_ascii string.() -> string": lambda text: text.translate(_UPPER),
        "format string_format string.(list<dyn>) -> string": formatted,
        "strings.quote strings_quote (string) -> string": lambda text: (
            f'"{text.translate(_ESCAPES)}"'
        ),
        "join list_join list<string>.() -> string": _join,
        "join list_join_string list<string>.(string) -> string": _join,
    },
    whole={"matches": _matches},
    unguarded=frozenset({"contains", "startsWith", "endsWith"}),
)

KUBERNETES_REGEX = Library(
    functions={
        "find string_find_string string.(string) -> string": _find,
        "findAll string_find_all_string string.(string) -> list<string>": _find_all,
        "findAll string_find_all_string_int string.(string, int) -> list<string>": _find_all,
    },
)
