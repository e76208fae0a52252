"""Validation of label values and qualified names, with Kubernetes' messages.

The texts are the API machinery's, since users search for them.
"""

import re

_NAME = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_DNS = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_name = re.compile(_NAME)
_subdomain = re.compile(_DNS)

_BAD_VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or "
    f"'12345', regex used for validation is '({_NAME})?')"
)
_BAD_NAME = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    f"validation is '{_NAME}')"
)
_BAD_PREFIX = (
    "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric "
    "characters, '-' or '.', and must start and end with an alphanumeric character "
    rf"(e.g. 'example.com', regex used for validation is '{_DNS}')"
)


def label_value_problem(text: str) -> str:
    """Return the fault of a label value, or ''."""
    if len(text) > 63:
        return "must be no more than 63 bytes"
    return "" if not text or _name.fullmatch(text) else _BAD_VALUE


def qualified_name_problem(text: str) -> str:
    """Return the fault of a label key or resource name, or ''."""
    prefix, slash, name = text.rpartition("/")
    if slash and not prefix:
        return "prefix part must be non-empty"
    if slash and (len(prefix) > 253 or not _subdomain.fullmatch(prefix)):
        return _BAD_PREFIX
    if not name:
        return "name part must be non-empty"
    if len(name) > 63:
        return "name part must be no more than 63 bytes"
    return "" if _name.fullmatch(name) else _BAD_NAME
