"""Named formats: `format.dns1123Label().validate(name)` returns the errors in a name.

The rules and words are those of the API machinery's validation of names and labels.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from scheduler.cel.checking import types
from scheduler.cel.evaluation.timetext import read_timestamp
from scheduler.cel.evaluation.values import NONE, Opaque, Optional
from scheduler.cel.functions.network import url_problem
from scheduler.cel.library import Library

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_OLD_LABEL = "[a-z]([-a-z0-9]*[a-z0-9])?"
_KEY = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = f"({_KEY})?"
_UUID = "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$"

_LABEL_WRONG = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character"
)
_SUBDOMAIN_WRONG = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character"
)
_OLD_LABEL_WRONG = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
    "alphabetic character, and end with an alphanumeric character"
)
_KEY_WRONG = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character"
)
_VALUE_WRONG = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character"
)

_LONGEST = 1000  # far beyond every format's limit; longer texts are not looked at

Check = Callable[[str], list[str]]


class NamedFormat(NamedTuple):
    """A named string format: its check, and the regex size from which its cost is computed."""

    name: str
    check: Check
    regex_size: int


def _wrong(message: str, pattern: str, *examples: str) -> str:
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{message} (e.g. {shown}regex used for validation is '{pattern}')"


def _named(pattern: str, most: int, message: str, *examples: str) -> Check:
    expression = re.compile(pattern, re.ASCII)

    def check(text: str) -> list[str]:
        problems = [f"must be no more than {most} bytes"] if len(text.encode()) > most else []
        if len(text) > _LONGEST or not expression.fullmatch(text):
            problems.append(_wrong(message, pattern, *examples))
        return problems

    return check


def _prefix(check: Check) -> Check:
    """Return the check of name prefixes, which may end with a dash."""
    return lambda text: check(text[:-1] + "a" if len(text) > 1 and text.endswith("-") else text)


_label = _named(_LABEL, 63, _LABEL_WRONG, "my-name", "123-abc")
_subdomain = _named(_SUBDOMAIN, 253, _SUBDOMAIN_WRONG, "example.com")
_old_label = _named(_OLD_LABEL, 63, _OLD_LABEL_WRONG, "my-name", "abc-123")
_key = _named(_KEY, 63, _KEY_WRONG, "MyName", "my.name", "123-abc")


def _qualified(text: str) -> list[str]:
    prefix, slash, name = text.rpartition("/")
    problems: list[str] = []
    if "/" in prefix:
        wrong = _wrong(_KEY_WRONG, _KEY, "MyName", "my.name", "123-abc")
        return [
            (
                f"a valid label key {wrong} with an optional DNS subdomain prefix and '/' "
                "(e.g. 'example.com/MyName')"
            )
        ]
    if slash:
        found = ["must be non-empty"] if not prefix else _subdomain(prefix)
        problems += [f"prefix part {problem}" for problem in found]
    if not name:
        problems.append("name part must be non-empty")
    elif len(name) > 63:
        problems.append("name part must be no more than 63 bytes")
    if not re.fullmatch(_KEY, name, re.ASCII):
        problems.append("name part " + _key(name[:63])[-1] if _key(name[:63]) else "name part")
    return problems


def _uri(text: str) -> list[str]:
    problem = url_problem(text)
    return [problem] if problem else []


def _uuid(text: str) -> list[str]:
    return [] if re.fullmatch(_UUID.removesuffix("$"), text) else ["does not match the UUID format"]


def _byte(text: str) -> list[str]:
    try:
        base64.b64decode(text.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        return ["invalid base64"]
    return []


def _date(text: str) -> list[str]:
    whole = re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text, re.ASCII)
    return [] if whole and read_timestamp(f"{text}T00:00:00Z") is not None else ["invalid date"]


def _datetime(text: str) -> list[str]:
    return (
        []
        if read_timestamp(text.replace("t", "T").replace("z", "Z")) is not None
        else ["invalid datetime"]
    )


_DATETIME_SIZE = 71
FORMATS: dict[str, NamedFormat] = {
    "dns1123Label": NamedFormat("DNS1123Label", _label, 30),
    "dns1123Subdomain": NamedFormat("DNS1123Subdomain", _subdomain, 60),
    "dns1035Label": NamedFormat("DNS1035Label", _old_label, 30),
    "qualifiedName": NamedFormat("QualifiedName", _qualified, 60),
    "dns1123LabelPrefix": NamedFormat("DNS1123LabelPrefix", _prefix(_label), 30),
    "dns1123SubdomainPrefix": NamedFormat("DNS1123SubdomainPrefix", _prefix(_subdomain), 60),
    "dns1035LabelPrefix": NamedFormat("DNS1035LabelPrefix", _prefix(_old_label), 30),
    "labelValue": NamedFormat(
        "LabelValue", _named(_VALUE, 63, _VALUE_WRONG, "MyValue", "my_value", "12345"), 40
    ),
    "uri": NamedFormat("URI", _uri, 1103),
    "uuid": NamedFormat("uuid", _uuid, len(_UUID)),
    "byte": NamedFormat("byte", _byte, 84),
    "date": NamedFormat("date", _date, _DATETIME_SIZE),
    "datetime": NamedFormat("datetime", _datetime, _DATETIME_SIZE),
}
_VALUES = {name: Opaque(types.FORMAT, known) for name, known in FORMATS.items()}


def _validate(value: Opaque, text: str) -> Optional:
    problems = value.value.check(text)
    return Optional(problems) if problems else NONE


def _by_name(name: str) -> Optional:
    return Optional(_VALUES[name]) if name in _VALUES else NONE


def _giving(value: Any) -> Callable[[], Any]:
    return lambda: value


NAMED_FORMATS = Library(
    functions={
        "validate format-validate format.(string) -> optional<list<string>>": _validate,
        "format.named format-named (string) -> optional<format>": _by_name,
        **{
            f"format.{name} format.{name} () -> format": _giving(value)
            for name, value in _VALUES.items()
        },
    },
)
