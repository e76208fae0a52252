"""Durations as Go writes them (`15s`, `1h30m`, `500ms`): the type for structs and its reading."""

from typing import Annotated

import msgspec

from scheduler.base.text import GO_NUMBER, GO_UNIT, go_duration, go_seconds

_PART = rf"(?:{GO_NUMBER}{GO_UNIT})"
# Anchors that JSON schemas know too; the look-ahead refuses a line break at the end.
_WHOLE = rf"^(?:[-+]?(?:0|{_PART}+))?$(?![\s\S])"

# An empty text stands for "not given".
Duration = Annotated[str, msgspec.Meta(pattern=_WHOLE, title='a duration such as "15s" or "1m30s"')]


def seconds(text: str) -> float:
    """Return a duration in seconds; `text` must be a valid one, and an empty one is 0."""
    total = go_seconds(text.lstrip("-+")) or 0.0
    return -total if text.startswith("-") else total


def canonical(text: str) -> str:
    """Return a duration as Go prints it back: `90s` is `1m30s`."""
    value = seconds(text)
    return f"-{go_duration(-value)}" if value < 0 else go_duration(value)
