"""Durations as Go writes them (`15s`, `1h30m`, `500ms`): the type for structs and its reading."""

import re
from typing import Annotated

import msgspec

from scheduler.base.text import go_duration

_UNITS_S = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "μs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
}
_PART = r"(?:[0-9]{1,18}(?:\.[0-9]{0,18})?|\.[0-9]{1,18})(?:ns|us|µs|μs|ms|s|m|h)"
# Anchors that JSON schemas know too; the look-ahead refuses a line break at the end.
_WHOLE = rf"^(?:[-+]?(?:0|(?:{_PART})+))?$(?![\s\S])"

# An empty text stands for "not given".
Duration = Annotated[str, msgspec.Meta(pattern=_WHOLE, title='a duration such as "15s" or "1m30s"')]


def seconds(text: str) -> float:
    """Return a duration in seconds; `text` must be a valid one, and an empty one is 0."""
    sign = -1.0 if text.startswith("-") else 1.0
    total = 0.0
    for number, unit in re.findall(r"([0-9.]+)([a-zµμ]+)", text):
        total += float(number) * _UNITS_S[unit]
    return sign * total


def canonical(text: str) -> str:
    """Return a duration as Go prints it back: `90s` is `1m30s`."""
    value = seconds(text)
    return f"-{go_duration(-value)}" if value < 0 else go_duration(value)
