"""Durations in Go's format (`15s`, `1h30m`, `500ms`): the type for structs, parser and printer."""

from typing import Annotated

import msgspec

from scheduler.base.text import GO_NUMBER, GO_UNIT, go_duration, go_seconds

_PART = rf"(?:{GO_NUMBER}{GO_UNIT})"
# Only anchors that JSON schemas support; the look-ahead rejects a trailing line break.
_WHOLE = rf"^(?:[-+]?(?:0|{_PART}+))?$(?![\s\S])"

# An empty text means "not set".
Duration = Annotated[str, msgspec.Meta(pattern=_WHOLE, title='a duration such as "15s" or "1m30s"')]


def seconds(text: str) -> float:
    """Return a valid duration in seconds; an empty text is 0."""
    total = go_seconds(text.lstrip("-+")) or 0.0
    return -total if text.startswith("-") else total


def canonical(text: str) -> str:
    """Return a duration as Go prints it: `90s` becomes `1m30s`."""
    value = seconds(text)
    return f"-{go_duration(-value)}" if value < 0 else go_duration(value)
