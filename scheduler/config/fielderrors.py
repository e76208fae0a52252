"""Texts of field errors, in the format of Kubernetes' components."""

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

_NAME: Final = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_NAME_RULE: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    f"validation is '{_NAME}')"
)
_PREFIX_RULE: Final = (
    "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric "
    "characters, '-' or '.', and must start and end with an alphanumeric character (e.g. "
    f"'example.com', regex used for validation is '{_SUBDOMAIN}')"
)


def invalid(path: str, value: Any, detail: str) -> str:
    """Return the error for a field whose value breaks a rule."""
    return f"{path}: Invalid value: {_shown(value)}: {detail}"


def required(path: str, detail: str = "") -> str:
    """Return the error for a missing field."""
    return f"{path}: Required value" + (f": {detail}" if detail else "")


def duplicate(path: str, value: Any) -> str:
    """Return the error for a duplicate value."""
    return f"{path}: Duplicate value: {_shown(value)}"


def _shown(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def qualified_name_faults(name: str) -> Iterator[str]:
    """Yield the faults of `[prefix/]name` as a Kubernetes qualified name."""
    prefix, slash, rest = name.rpartition("/")
    if "/" in prefix:
        yield (
            f"a valid label key {_NAME_RULE} with an optional DNS subdomain prefix and '/' "
            "(e.g. 'example.com/MyName')"
        )
        return
    if slash and not prefix:
        yield "prefix part must be non-empty"
    elif slash:
        if len(prefix) > 253:
            yield "prefix part must be no more than 253 bytes"
        if not re.fullmatch(_SUBDOMAIN, prefix):
            yield _PREFIX_RULE
    if not rest:
        yield "name part must be non-empty"
    elif len(rest) > 63:
        yield "name part must be no more than 63 bytes"
    if not re.fullmatch(_NAME, rest):
        yield f"name part {_NAME_RULE}"


def is_extended_resource(name: str) -> bool:
    """Return whether `name` can be an extended resource: its domain is not Kubernetes' own."""
    if "/" not in name or "kubernetes.io/" in name or name.startswith("requests."):
        return False
    return not list(qualified_name_faults(f"requests.{name}"))
